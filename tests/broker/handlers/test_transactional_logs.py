"""Transactions as partitions and groups see them: who may write, what readers of committed records get, markers.

The coordinator is not asked here (transaction.partition.verification.enable), and its markers come by WriteTxnMarkers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from highwater.broker.metrics.page import page
from highwater.broker.replica.partition import Partition
from highwater.kafka.records.batch import headers
from tests.broker.handlers.harness import NodeHarness, Pending, one_batch, request_frame
from tests.broker.log.reading import visible_to_committed

UNVERIFIED = {"transaction_partition_verification_enable": "false"}


class Producers:
    """Transactional producers of one node, each with its own sequence numbers."""

    def __init__(self, node: NodeHarness) -> None:
        self.node = node
        self.sequences: dict[tuple[int, int], int] = {}

    def produce(self, producer_id: int, *values: bytes, epoch: int = 0, topic: str = "t", **fields: Any) -> Any:
        key = producer_id, epoch
        sequence = fields.pop("sequence", self.sequences.get(key, 0))
        records = one_batch(
            *values,
            producer_id=producer_id,
            producer_epoch=epoch,
            base_sequence=sequence,
            is_transactional=fields.pop("is_transactional", True),
        )
        version = fields.pop("version", 9)
        answer = self.node.ask(
            "produce",
            version,
            transactional_id=fields.pop("transactional_id", "x"),
            acks=-1,
            timeout=30_000,
            topic_data=[
                self.node.topic_key(topic, is_by_id=version >= 13)
                | {"partition_data": [{"index": 0, "records": records}]}
            ],
        )
        if isinstance(answer, Pending):
            self.sequences[key] = sequence + len(values)
            return answer
        (response,) = answer.responses[0].partition_responses
        if not response.error_code:
            self.sequences[key] = sequence + len(values)
        return response

    def end(
        self,
        producer_id: int,
        is_commit: bool,
        *,
        epoch: int = 0,
        coordinator_epoch: int = 0,
        topic: str = "t",
        transaction_version: int = 0,
    ) -> Any:
        answer = self.node.ask(
            "write_txn_markers",
            2 if transaction_version else 1,
            markers=[
                {
                    "producer_id": producer_id,
                    "producer_epoch": epoch,
                    "transaction_result": is_commit,
                    "topics": [{"name": topic, "partition_indexes": [0]}],
                    "coordinator_epoch": coordinator_epoch,
                    "transaction_version": transaction_version,
                }
            ],
        )
        return answer if isinstance(answer, Pending) else _outcome(answer)


def _outcome(answer: Any) -> ErrorCode:
    error: ErrorCode = answer.markers[0].topics[0].partitions[0].error_code
    return error


def committed(node: NodeHarness, offset: int = 0, **fields: Any) -> tuple[list[bytes | None], list[tuple[int, int]]]:
    """What a reader of committed records gets from `offset` on, and the aborted transactions it is told of."""
    answer = node.fetch("t", offset, isolation_level=1, **fields)
    (partition,) = answer.responses[0].partitions
    assert partition.error_code == ErrorCode.none
    aborted = [(entry.producer_id, entry.first_offset) for entry in partition.aborted_transactions]
    values, _ = visible_to_committed(bytes(partition.records), aborted, offset)
    return list(values.values()), aborted


def latest(node: NodeHarness, *, read_committed: bool) -> int:
    answer = node.ask(
        "list_offsets",
        7,
        replica_id=-1,
        isolation_level=int(read_committed),
        topics=[{"name": "t", "partitions": [{"partition_index": 0, "timestamp": -1, "current_leader_epoch": -1}]}],
    )
    offset: int = answer.topics[0].partitions[0].offset
    return offset


@pytest.fixture
def node(make_node: Callable[..., NodeHarness]) -> NodeHarness:
    node = make_node(**UNVERIFIED)
    node.create_topic("t")
    return node


def the_partition(node: NodeHarness) -> Partition:
    partition = node.node.partitions.find("t", 0)
    assert partition is not None
    return partition


def test_readers_of_committed_records_wait_for_the_marker(node: NodeHarness) -> None:
    producers = Producers(node)
    node.produce("t", b"before")
    assert producers.produce(1, b"in").error_code == ErrorCode.none
    node.produce("t", b"after")
    assert (committed(node), latest(node, read_committed=True)) == (([b"before"], []), 1)
    assert latest(node, read_committed=False) == 3
    assert producers.end(1, True) == ErrorCode.none
    assert (committed(node), latest(node, read_committed=True)) == (([b"before", b"in", b"after"], []), 4)


def test_a_late_marker_of_version_2_does_not_end_the_next_transaction(node: NodeHarness) -> None:
    producers = Producers(node)
    producers.produce(1, b"first")
    assert producers.end(1, True, epoch=1, transaction_version=2) == ErrorCode.none
    assert producers.end(1, True, epoch=1, transaction_version=2) == ErrorCode.none
    producers.produce(1, b"second", epoch=1)
    assert producers.end(1, False, epoch=1, transaction_version=2) == ErrorCode.invalid_producer_epoch
    assert producers.end(1, True, epoch=2, transaction_version=2) == ErrorCode.none
    assert committed(node) == ([b"first", b"second"], [])


def test_readers_are_told_which_transactions_were_aborted(node: NodeHarness) -> None:
    producers = Producers(node)
    producers.produce(1, b"bad")
    producers.produce(2, b"good")
    producers.produce(1, b"bad too")
    assert producers.end(1, False) == ErrorCode.none
    assert committed(node) == ([], [(1, 0)])
    assert producers.end(2, True) == ErrorCode.none
    assert committed(node) == ([b"good"], [(1, 0)])
    assert committed(node, 3) == ([], [(1, 0)])
    assert committed(node, 4) == ([], [])
    uncommitted = node.fetch("t", 0).responses[0].partitions[0]
    assert uncommitted.aborted_transactions is None
    assert len(list(headers(bytes(uncommitted.records)))) == 5


def test_a_fetch_of_committed_records_wakes_when_they_are_decided_and_not_before(node: NodeHarness) -> None:
    producers = Producers(node)
    wanted = {"max_wait": 500, "min_bytes": 100}
    producers.produce(1, b"x" * 100)
    waiting, dirty = node.fetch("t", 0, isolation_level=1, **wanted), node.fetch("t", 1, **wanted)
    assert isinstance(waiting, Pending)
    assert isinstance(dirty, Pending)
    node.produce("t", b"x" * 100)
    node.scheduler.run()
    assert (waiting.waits, dirty.waits) == (True, False)
    producers.end(1, True)
    node.scheduler.run()
    assert (waiting.waits, dirty.waits) == (False, False)
    assert committed(node)[0] == [b"x" * 100] * 2


def test_a_fetch_counts_the_bytes_below_the_last_stable_offset_only(node: NodeHarness) -> None:
    producers = Producers(node)
    for producer_id in (1, 2):
        producers.produce(producer_id, b"x" * 1000)
    size = len(node.fetch("t", 0).responses[0].partitions[0].records)
    first, second = (
        node.fetch("t", 0, isolation_level=1, max_wait=500, min_bytes=wanted) for wanted in (size // 2, size // 2 + 1)
    )
    assert isinstance(first, Pending)
    assert isinstance(second, Pending)
    producers.end(1, True)
    node.scheduler.run()
    assert (first.waits, second.waits) == (False, True)
    producers.end(2, True)
    node.scheduler.run()
    assert (first.waits, second.waits) == (False, False)


def test_a_decision_counts_when_it_is_flushed(make_node: Callable[..., NodeHarness]) -> None:
    node = make_node(**UNVERIFIED)
    node.create_topic("t", flush_messages="1")
    producers = Producers(node)
    producers.produce(1, b"x")
    node.flush()
    marked = producers.end(1, True)
    assert isinstance(marked, Pending)
    assert marked.waits
    assert the_partition(node).last_stable_offset == 0
    node.flush()
    node.scheduler.run()
    assert _outcome(marked.answer) == ErrorCode.none
    assert the_partition(node).last_stable_offset == 2


def test_what_a_transactional_producer_may_write(node: NodeHarness) -> None:
    producers = Producers(node)
    missing = ErrorCode.transactional_id_authorization_failed
    assert producers.produce(1, b"x", transactional_id=None).error_code == missing
    assert producers.produce(1, b"x").error_code == ErrorCode.none
    assert producers.produce(1, b"x", transactional_id=None).error_code == missing
    assert producers.produce(1, b"x", is_transactional=False).error_code == ErrorCode.invalid_txn_state
    assert producers.produce(1, b"x", sequence=5).error_code == ErrorCode.out_of_order_sequence_number
    assert producers.end(1, True, epoch=3) == ErrorCode.none
    assert producers.produce(1, b"x", epoch=2).error_code == ErrorCode.invalid_producer_epoch
    assert producers.produce(1, b"x", epoch=3, sequence=1).error_code == ErrorCode.out_of_order_sequence_number
    assert producers.produce(1, b"x", epoch=3).error_code == ErrorCode.none


def test_markers_of_yesterday_are_refused_and_those_that_end_nothing_fence(node: NodeHarness) -> None:
    producers = Producers(node)
    assert producers.end(1, False, epoch=2, coordinator_epoch=7) == ErrorCode.none
    assert producers.produce(1, b"x", epoch=1).error_code == ErrorCode.invalid_producer_epoch
    assert producers.end(1, False, epoch=1, coordinator_epoch=7) == ErrorCode.invalid_producer_epoch
    assert producers.end(1, False, epoch=2, coordinator_epoch=6) == ErrorCode.transaction_coordinator_fenced
    assert producers.end(1, False, topic="no") == ErrorCode.unknown_topic_or_partition
    assert committed(node) == ([], [])
    assert latest(node, read_committed=True) == 1


@pytest.mark.parametrize("version", [9, 12, 13])
def test_a_batch_that_its_coordinator_does_not_know_is_refused_and_so_are_those_behind_it(
    make_node: Callable[..., NodeHarness], version: int
) -> None:
    """Or else the second of two batches in flight would go in first, at a sequence that nobody can check."""
    node = make_node()
    node.create_topic("t")
    producers = Producers(node)
    assert producers.produce(1, b"x", version=version).error_code in (
        ErrorCode.not_enough_replicas,
        ErrorCode.invalid_producer_id_mapping,
    )
    partition = the_partition(node)
    late = bytearray(one_batch(b"y", producer_id=1, producer_epoch=0, base_sequence=1, is_transactional=True))
    appended = partition.append(memoryview(late), -1, 0, verify=lambda *_: ErrorCode.none)
    assert appended is ErrorCode.out_of_order_sequence_number
    first = bytearray(one_batch(b"x", producer_id=1, producer_epoch=0, base_sequence=0, is_transactional=True))
    assert not isinstance(partition.append(memoryview(first), -1, 0, verify=lambda *_: ErrorCode.none), ErrorCode)
    assert not isinstance(partition.append(memoryview(late), -1, 0, verify=lambda *_: ErrorCode.none), ErrorCode)


def test_what_partitions_remember_of_producers(node: NodeHarness) -> None:
    producers = Producers(node)
    producers.produce(1, b"a", b"b")
    producers.produce(2, b"c", epoch=4)
    producers.end(2, True, epoch=4, coordinator_epoch=9)
    answer = node.ask(
        "describe_producers",
        0,
        topics=[{"name": name, "partition_indexes": [0, 1]} for name in ("t", "no/name")],
    )
    (known, unknown), invalid = answer.topics[0].partitions, answer.topics[1].partitions[0]
    assert [
        (p.producer_id, p.producer_epoch, p.last_sequence, p.coordinator_epoch, p.current_txn_start_offset)
        for p in known.active_producers
    ] == [(1, 0, 1, -1, 0), (2, 4, 0, 9, -1)]
    assert known.active_producers[1].last_timestamp == node.clock.now_ms()
    assert unknown.error_code == ErrorCode.unknown_topic_or_partition
    assert invalid.error_code == ErrorCode.invalid_topic_exception


def test_deleting_records_of_an_open_transaction_leaves_it_open(node: NodeHarness) -> None:
    producers = Producers(node)
    producers.produce(1, b"a", b"b")
    node.produce("t", b"c")
    node.ask(
        "delete_records",
        1,
        timeout=1000,
        topics=[{"name": "t", "partitions": [{"partition_index": 0, "offset": 1}]}],
    )
    assert latest(node, read_committed=True) == 1
    producers.end(1, False)
    assert committed(node, 1) == ([b"c"], [(1, 0)])


@pytest.mark.parametrize("is_clean", [True, False])
def test_open_transactions_and_aborted_ones_outlive_a_restart(
    make_node: Callable[..., NodeHarness], tmp_path: Any, is_clean: bool
) -> None:
    node = NodeHarness(tmp_path / "log", **UNVERIFIED)
    node.create_topic("t")
    producers = Producers(node)
    producers.produce(1, b"bad")
    producers.end(1, False)
    producers.produce(2, b"open")
    node.produce("t", b"behind")
    node.close(clean=is_clean)
    node = producers.node = NodeHarness(tmp_path / "log", **UNVERIFIED)
    assert committed(node) == ([], [(1, 0)])
    assert latest(node, read_committed=True) == 2
    waiting = node.fetch("t", 2, isolation_level=1, max_wait=500)
    assert isinstance(waiting, Pending)
    node.produce("t", b"more")
    node.scheduler.run()
    woken = [waiting.waits]
    producers.end(2, False)
    node.scheduler.run()
    assert [*woken, waiting.waits] == [True, False]
    assert committed(node) == ([b"behind", b"more"], [(1, 0), (2, 2)])
    node.close(clean=False)


def test_a_request_without_markers_is_answered(node: NodeHarness) -> None:
    assert node.send(request_frame("write_txn_markers", 0, markers=[])) is not None


def test_metrics_tell_what_readers_wait_for_and_of_transactions_that_hang(node: NodeHarness) -> None:
    def told(name: str) -> float:
        lines = "".join(page(node.node)).splitlines()
        (value,) = [line.rsplit(" ", 1)[1] for line in lines if line.startswith(name)]
        return float(value)

    late = "kafka_server_replicamanager_partitionswithlatetransactionscount"
    lag = "kafka_cluster_partition_laststableoffsetlag"
    producers = Producers(node)
    producers.produce(1, b"a", b"b")
    written_ms = 1_700_000_000_000
    node.clock.advance_ms(written_ms - node.clock.now_ms() + 900_000 + 300_000)
    assert (told(lag), told("kafka_server_replicamanager_produceridcount"), told(late)) == (2, 1, 0)
    node.clock.advance_ms(1)
    assert told(late) == 1
    producers.end(1, False)
    assert (told(lag), told(late)) == (0, 0)
