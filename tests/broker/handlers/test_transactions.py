"""The APIs of transactional producers and their administration, through the dispatcher, on a node without sockets."""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from kio.schema.errors import ErrorCode

from highwater.broker.log.files import RealFiles
from highwater.broker.topics.internal_topic import OFFSETS_TOPIC, TRANSACTIONS_TOPIC, partition_of
from highwater.broker.txn.transaction import Producer
from highwater.kafka.records.record import Record, encode_batch
from tests.broker.handlers.harness import Pending, request_frame, versions
from tests.broker.txn.asking import T0, T1, TransactionHarness

NONE = ErrorCode.none
DISK_IS_FULL = patch.object(RealFiles, "pwrite", side_effect=OSError(errno.ENOSPC, "No space left on device"))


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Callable[..., TransactionHarness]]:
    """Each call takes up the same directory, after the one before was killed."""
    made: list[TransactionHarness] = []

    def make(**properties: str) -> TransactionHarness:
        if made:
            made.pop().close(clean=False)
        made.append(TransactionHarness(tmp_path / "log", **properties))
        return made[-1]

    yield make
    for node in made:
        node.close(clean=False)


@pytest.fixture
def node(make: Callable[..., TransactionHarness]) -> TransactionHarness:
    harness = make()
    harness.find()
    return harness


class TestFindingTheCoordinator:
    @pytest.mark.parametrize("version", versions("find_coordinator")[1:])
    def test_it_is_this_broker_and_its_topic_is_there(
        self, make: Callable[..., TransactionHarness], version: int
    ) -> None:
        node = make(transaction_state_log_segment_bytes="12345")
        place = node.find(version)
        assert (place.error_code, place.node_id, place.host, place.port) == (NONE, 0, "broker.example", 9092)
        topic = node.node.partitions.topic(TRANSACTIONS_TOPIC)
        assert topic is not None
        assert topic.config.overrides == {
            "cleanup.policy": "compact",
            "compression.type": "uncompressed",
            "min.insync.replicas": "1",
            "segment.bytes": "12345",
        }
        assert topic.partition_count == 2

    def test_nobody_coordinates_before_anybody_looked_for_a_coordinator(
        self, make: Callable[..., TransactionHarness]
    ) -> None:
        node = make()
        producer = Producer(0, 0)
        error = ErrorCode.not_coordinator
        assert node.init() == error
        assert node.add(producer, T0) == {T0: error}
        assert node.end(producer) == error
        assert node.state() == error.name
        assert node.list() == {}


class TestInitProducerId:
    def test_the_id_stays_and_the_epoch_rises(self, node: TransactionHarness) -> None:
        first = node.init()
        assert first.epoch == 0
        assert [node.init(version=version) for version in versions("init_producer_id")] == [
            first._replace(epoch=epoch + 1) for epoch in versions("init_producer_id")
        ]

    def test_ids_are_of_their_own(self, node: TransactionHarness) -> None:
        producers = [node.init("x"), node.init("y"), node.init(None), node.init(None)]
        assert len({producer.producer_id for producer in producers}) == 4
        assert {producer.epoch for producer in producers} == {0}

    @pytest.mark.parametrize("timeout", [0, -1, 900_001])
    def test_the_time_out_has_its_limits(self, node: TransactionHarness, timeout: int) -> None:
        assert node.init(timeout=timeout) == ErrorCode.invalid_transaction_timeout
        assert node.state() == ErrorCode.transactional_id_not_found.name

    @pytest.mark.parametrize("name", ["", "x" * 32_001])
    def test_ids_that_cannot_be(self, node: TransactionHarness, name: str) -> None:
        assert node.init(name) == ErrorCode.invalid_request

    @pytest.mark.parametrize("own", [Producer(-1, 0), Producer(0, -1)])
    def test_half_a_producer(self, node: TransactionHarness, own: Producer) -> None:
        assert node.init(own=own) == ErrorCode.invalid_request

    def test_the_present_producer_goes_on_and_a_former_one_is_fenced(self, node: TransactionHarness) -> None:
        first = node.init()
        assert node.init(own=first) == first._replace(epoch=1)
        node.init()
        assert node.init(own=first, version=3) == ErrorCode.invalid_producer_epoch
        assert node.init(own=first, version=4) == ErrorCode.producer_fenced

    def test_an_open_transaction_is_aborted_first(self, node: TransactionHarness) -> None:
        first = node.init()
        node.add(first, T0)
        assert node.init() == ErrorCode.concurrent_transactions
        assert node.state() == "CompleteAbort"
        assert node.init() == first._replace(epoch=2)
        assert node.end(first) == ErrorCode.producer_fenced

    def test_no_producer_ids_are_to_be_had(self, node: TransactionHarness) -> None:
        with patch.object(node.store, "next_producer_id_block", side_effect=OSError(errno.EIO, "Input/output error")):
            assert node.init() == ErrorCode.kafka_storage_error
        assert isinstance(node.init(), Producer)


class TestAddPartitions:
    @pytest.mark.parametrize("version", range(4))
    def test_all_or_none(self, node: TransactionHarness, version: int) -> None:
        producer = node.init()
        assert node.add(producer, T0, ("t", 2), ("nowhere", 0), version=version) == {
            T0: ErrorCode.operation_not_attempted,
            ("t", 2): ErrorCode.unknown_topic_or_partition,
            ("nowhere", 0): ErrorCode.unknown_topic_or_partition,
        }
        assert node.state() == "Empty"
        assert node.add(producer, T0, T1, version=version) == {T0: NONE, T1: NONE}
        assert node.state() == "Ongoing"

    def test_whoever_is_not_the_present_producer_is_told(self, node: TransactionHarness) -> None:
        first = node.init()
        assert node.add(first, T0, name="y") == {T0: ErrorCode.invalid_producer_id_mapping}
        assert node.add(Producer(99, 0), T0) == {T0: ErrorCode.invalid_producer_id_mapping}
        node.init()
        assert node.add(first, T0, version=1) == {T0: ErrorCode.invalid_producer_epoch}
        assert node.add(first, T0, version=2) == {T0: ErrorCode.producer_fenced}
        assert node.add(first, T0, name="") == {T0: ErrorCode.invalid_request}

    @pytest.mark.parametrize("version", [4, 5])
    def test_brokers_add_and_verify_in_batches(self, node: TransactionHarness, version: int) -> None:
        x, y = node.init("x"), node.init("y")
        assert node.add_batch(("x", x, (T0,), False), ("y", y, (T0, T1), False), version=version) == {
            "x": {T0: NONE},
            "y": {T0: NONE, T1: NONE},
        }
        outside = ErrorCode.transaction_abortable
        assert node.add_batch(
            ("x", x, (T0, T1), True),
            ("y", y._replace(epoch=1), (T0,), True),
            ("z", y, (T0, ("t", 2)), True),
            ("q", y, (T0,), True),
            version=version,
        ) == {
            "x": {T0: NONE, T1: outside},
            "y": {T0: ErrorCode.producer_fenced},
            "z": {T0: ErrorCode.operation_not_attempted, ("t", 2): ErrorCode.unknown_topic_or_partition},
            "q": {T0: ErrorCode.invalid_producer_id_mapping},
        }
        assert node.add_batch(version=version) == {}

    def test_offsets_of_a_group(self, node: TransactionHarness) -> None:
        producer = node.init()
        assert node.add_offsets(producer) == NONE
        (topic,) = node.describe().topics
        assert (topic.topic, topic.partitions) == (OFFSETS_TOPIC, (partition_of("g", 2),))
        node.init()
        node.init()
        assert node.add_offsets(producer, version=1) == ErrorCode.invalid_producer_epoch
        assert node.add_offsets(producer, version=2) == ErrorCode.producer_fenced


class TestTxnOffsetCommit:
    def test_a_fenced_producer_does_not_undo_what_its_successor_commits(self, node: TransactionHarness) -> None:
        zombie = node.init()
        successor = node.init()
        node.find(key_type=0)
        for producer, offset, expected in (
            (successor, 1, NONE),
            (zombie, 2, ErrorCode.invalid_producer_epoch),
        ):
            node.add_offsets(producer)
            answer = node.ask(
                "txn_offset_commit",
                3,
                transactional_id="x",
                group_id="g",
                producer_id=producer.producer_id,
                producer_epoch=producer.epoch,
                topics=[{"name": "t", "partitions": [{"partition_index": 0, "committed_offset": offset}]}],
            )
            assert answer.topics[0].partitions[0].error_code == expected
        assert node.end(successor) == NONE
        wanted = [{"name": "t", "partition_indexes": [0]}]
        answer = node.ask("offset_fetch", 7, group_id="g", topics=wanted, require_stable=True)
        assert answer.topics[0].partitions[0].committed_offset == 1


class TestEndTxn:
    @pytest.mark.parametrize("version", versions("end_txn"))
    @pytest.mark.parametrize(("commit", "state"), [(True, "CompleteCommit"), (False, "CompleteAbort")])
    def test_repeated_it_is_answered_as_before(
        self, node: TransactionHarness, version: int, commit: bool, state: str
    ) -> None:
        producer = node.init()
        node.add(producer, T0, T1)
        for _ in range(2):
            assert node.end(producer, commit=commit, version=version) == NONE
            assert node.state() == state
        assert node.end(producer, commit=not commit, version=version) == ErrorCode.invalid_txn_state

    def test_nothing_to_end(self, node: TransactionHarness) -> None:
        producer = node.init()
        assert node.end(producer) == ErrorCode.invalid_txn_state
        assert node.end(producer, name="y") == ErrorCode.invalid_producer_id_mapping
        assert node.end(producer, name="") == ErrorCode.invalid_request
        assert node.end(producer._replace(epoch=1), version=1) == ErrorCode.invalid_producer_epoch
        assert node.end(producer._replace(epoch=1), version=2) == ErrorCode.producer_fenced

    def test_every_partition_gets_its_marker(self, node: TransactionHarness) -> None:
        producer = node.init()
        node.add(producer, T0, T1)
        node.end(producer)
        assert [node.end_offset("t", partition) for partition in range(2)] == [1, 1]

    def test_answered_when_the_decision_is_safe_and_markers_follow(
        self, make: Callable[..., TransactionHarness]
    ) -> None:
        """flush.messages=1: nothing counts before the disk has it."""
        node = make(log_flush_interval_messages="1")
        node.find()
        waiting = node.init()
        assert waiting.waits
        node.flush()
        producer = Producer(waiting.answer.producer_id, waiting.answer.producer_epoch)
        adding = node.add(producer, T0)
        assert node.add(producer, T1) == {T1: ErrorCode.concurrent_transactions}
        assert node.verify(producer, T0) == {T0: ErrorCode.transaction_abortable}
        node.flush()
        assert adding.answer.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code == NONE
        ending = node.end(producer)
        assert isinstance(ending, Pending)
        node.flush()
        assert ending.answer.error_code == NONE
        assert (node.state(), node.end_offset("t", 0)) == ("PrepareCommit", 0)
        node.flush()
        assert (node.state(), node.end_offset("t", 0)) == ("PrepareCommit", 1)
        node.flush()
        assert node.state() == "CompleteCommit"


class TestTime:
    def test_a_transaction_that_takes_too_long_is_aborted(self, node: TransactionHarness) -> None:
        producer = node.init(timeout=15_000)
        node.add(producer, T0)
        node.advance(10_000)
        assert node.state() == "Ongoing"
        node.advance(10_000)
        assert node.state() == "CompleteAbort"
        assert node.end(producer) == ErrorCode.producer_fenced
        assert node.end_offset("t", 0) == 1

    def test_nothing_wakes_the_broker_for_transactions_that_are_not_open(self, node: TransactionHarness) -> None:
        producer = node.init()
        node.add(producer, T0)
        node.end(producer)
        node.advance(10_000)
        # What is left is to forget ids that are not used.
        assert node.scheduler.pending_timers == 1

    def test_one_that_was_open_when_the_broker_stopped(
        self, node: TransactionHarness, make: Callable[..., TransactionHarness]
    ) -> None:
        node.add(node.init(timeout=15_000), T0)
        again = make()
        again.advance(10_000)
        assert again.state() == "Ongoing"
        again.advance(10_000)
        assert again.state() == "CompleteAbort"

    def test_ids_that_nobody_uses_are_forgotten(self, make: Callable[..., TransactionHarness]) -> None:
        hour_ms = 3_600_000
        node = make(transactional_id_expiration_ms=str(2 * hour_ms))
        node.find()
        producer = node.init(timeout=900_000)
        node.init("empty")
        node.advance(hour_ms)
        node.add(producer, T0)
        node.end(producer)
        node.advance(hour_ms)
        assert node.list() == {"x": "CompleteCommit"}
        node.advance(hour_ms)
        assert node.add(producer, T0) == {T0: ErrorCode.invalid_producer_id_mapping}
        assert make().list() == {}

    def test_many_are_forgotten_a_few_at_once(self, node: TransactionHarness, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("highwater.broker.txn.coordinator._EXPIRED_AT_ONCE", 2)
        for number in range(5):
            node.init(f"x{number}")
        node.advance(604_800_000)
        remaining = [len(node.list())]
        for _ in range(2):
            node.advance(10)
            remaining.append(len(node.list()))
        assert remaining == [3, 1, 0]


class TestAdministration:
    def test_describe(self, node: TransactionHarness) -> None:
        producer = node.init(timeout=12_345)
        started = datetime.fromtimestamp(node.clock.now_ms() / 1000, UTC)
        node.add(producer, T0, T1)
        node.advance(5000)
        described = node.describe()
        assert (described.error_code, described.transactional_id) == (NONE, "x")
        assert described.transaction_state == "Ongoing"
        assert (described.producer_id, described.producer_epoch) == producer
        assert described.transaction_timeout.total_seconds() == 12.345
        assert described.transaction_start_time == started
        assert [(topic.topic, topic.partitions) for topic in described.topics] == [("t", (0, 1))]

    def test_no_transaction_was_begun_yet(self, node: TransactionHarness) -> None:
        """The start is -1, which kio's reader refuses."""
        producer = node.init()
        answer = node.send(request_frame("describe_transactions", 0, transactional_ids=["x"]))
        assert isinstance(answer, list)
        expected = b"\6Empty\0\0\xea\x60" + b"\xff" * 8 + producer.producer_id.to_bytes(8, "big")
        assert expected in b"".join(map(bytes, answer))

    def test_what_nobody_knows(self, node: TransactionHarness) -> None:
        assert node.state("y") == ErrorCode.transactional_id_not_found.name
        assert node.state("") == ErrorCode.invalid_request.name

    def test_list_and_its_filters(self, node: TransactionHarness) -> None:
        x, _ = node.init("x"), node.init("y")
        node.add(x, T0)
        both = {"x": "Ongoing", "y": "Empty"}
        assert node.list(version=0) == node.list(duration_filter=-1) == both
        assert node.list(state_filters=["Ongoing"]) == {"x": "Ongoing"}
        assert node.list(state_filters=["Ongoing", "Empty", "ongoing"]) == both
        assert node.list(state_filters=["Nonsense"]) == {}
        assert node.list(producer_id_filters=[x.producer_id]) == {"x": "Ongoing"}
        node.advance(1000)
        assert node.list(state_filters=["Ongoing"], duration_filter=1000) == {}
        assert node.list(state_filters=["Ongoing"], duration_filter=999) == {"x": "Ongoing"}

    def test_list_by_a_pattern_of_ids(self, node: TransactionHarness) -> None:
        """KIP-1152: the whole id has to match, in RE2's syntax; an empty pattern is none."""
        for name in ("orders-1", "orders-22", "payments"):
            node.init(name)

        def listed(pattern: str | None) -> Any:
            return node.list(version=2, transactional_id_pattern=pattern)

        assert set(listed(None)) == set(listed("")) == {"orders-1", "orders-22", "payments"}
        assert set(listed("orders-[0-9]+")) == {"orders-1", "orders-22"}
        assert listed("orders") == {}
        assert listed("(?!orders).*") == listed("(") == ErrorCode.invalid_regular_expression

    def test_states_that_do_not_exist_are_told_back(self, node: TransactionHarness) -> None:
        answer = node.ask("list_transactions", 0, state_filters=["Empty", "Nonsense"], producer_id_filters=[])
        assert answer.unknown_state_filters == ("Nonsense",)


class TestComingBack:
    def test_until_they_are_read_transactions_are_loading(
        self, node: TransactionHarness, make: Callable[..., TransactionHarness], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        producer = node.init()
        with monkeypatch.context() as context:
            context.setattr("tests.broker.handlers.harness.ManualScheduler.run", lambda *_: None)
            again = make()
        loading = ErrorCode.coordinator_load_in_progress
        assert again.init() == loading
        assert again.add(producer, T0) == {T0: loading}
        assert again.verify(producer, T0) == {T0: loading}
        assert again.end(producer) == loading
        assert again.state() == loading.name
        assert again.list() == loading
        again.scheduler.run()
        assert again.init() == producer._replace(epoch=1)

    def test_a_decision_is_carried_out_after_a_crash(
        self, node: TransactionHarness, make: Callable[..., TransactionHarness]
    ) -> None:
        producer = node.init()
        node.add(producer, T0, T1)
        with patch.object(node.node.markers, "write_one"):
            assert node.end(producer) == NONE
        assert (node.state(), node.end_offset("t", 0)) == ("PrepareCommit", 0)
        again = make()
        assert (again.state(), again.end_offset("t", 0), again.end_offset("t", 1)) == ("CompleteCommit", 1, 1)
        assert again.end(producer) == NONE
        assert again.init() == producer._replace(epoch=1)

    def test_what_cannot_be_read_is_not_served(
        self, node: TransactionHarness, make: Callable[..., TransactionHarness]
    ) -> None:
        node.init("x")
        other = next(name for name in "yzabc" if partition_of(name, 2) != partition_of("x", 2))
        producer = node.init(other)
        partition = node.node.partitions.find(TRANSACTIONS_TOPIC, partition_of("x", 2))
        assert partition is not None
        partition.append(memoryview(encode_batch([Record(b"\x00\x63", b"\x00\x00\x00\x01x", 0)])), -1, 0)
        again = make()
        assert again.init() == ErrorCode.coordinator_not_available
        assert again.init(other) == producer._replace(epoch=1)

    def test_records_of_newer_kinds_are_left_alone(
        self, node: TransactionHarness, make: Callable[..., TransactionHarness]
    ) -> None:
        producer = node.init()
        partition = node.node.partitions.find(TRANSACTIONS_TOPIC, partition_of("x", 2))
        assert partition is not None
        partition.append(memoryview(encode_batch([Record(b"\x00\x00", b"\x00\x01\x00\x01x", 0)])), -1, 0)
        assert make().init() == producer._replace(epoch=1)

    def test_without_its_topic_there_are_no_transactions(self, node: TransactionHarness) -> None:
        producer = node.init()
        node.add(producer, T0)
        node.ask("delete_topics", 5, topic_names=[TRANSACTIONS_TOPIC], timeout=1000)
        assert node.end(producer) == ErrorCode.not_coordinator
        assert node.list() == {}
        node.find()
        assert node.end(producer) == ErrorCode.invalid_producer_id_mapping
        node.advance(604_800_000)

    def test_a_broker_that_stops_refuses(self, node: TransactionHarness) -> None:
        producer = node.init()
        node.add(producer, T0)
        node.node.transactions.close()
        assert node.end(producer) == node.init() == node.list() == ErrorCode.coordinator_not_available
        assert node.scheduler.pending_timers == 0


class TestFailing:
    def test_a_full_disk_refuses_and_loses_nothing(self, node: TransactionHarness) -> None:
        producer = node.init()
        with DISK_IS_FULL:
            assert node.add(producer, T0) == {T0: ErrorCode.not_coordinator}
            assert node.init("y") == ErrorCode.not_coordinator
        assert node.list() == {"x": "Empty"}
        assert node.add(producer, T0) == {T0: NONE}
        with DISK_IS_FULL:
            assert node.end(producer) == ErrorCode.not_coordinator
        assert node.end(producer) == NONE
        assert node.state() == "CompleteCommit"

    def test_markers_are_tried_until_they_are_written(self, node: TransactionHarness) -> None:
        producer = node.init()
        node.add(producer, T0, T1)
        write = node.node.markers.write_one
        with patch.object(node.node.markers, "write_one") as writing:
            writing.side_effect = lambda topic, index, marker, then: (
                then(ErrorCode.kafka_storage_error) if index else write(topic, index, marker, then)
            )
            assert node.end(producer) == NONE
            node.advance(100)
        assert writing.call_count == 3
        assert node.state() == "PrepareCommit"
        assert [(topic.topic, topic.partitions) for topic in node.describe().topics] == [("t", (1,))]
        assert node.init() == ErrorCode.concurrent_transactions
        node.advance(199)
        assert node.state() == "PrepareCommit"
        node.advance(1)
        assert node.state() == "CompleteCommit"
        assert [node.end_offset("t", partition) for partition in range(2)] == [1, 1]

    def test_a_topic_that_was_deleted_meanwhile_is_passed_over(self, node: TransactionHarness) -> None:
        node.create_topic("gone")
        producer = node.init()
        node.add(producer, T0, ("gone", 0))
        node.ask("delete_topics", 5, topic_names=["gone"], timeout=1000)
        assert node.end(producer) == NONE
        assert node.state() == "CompleteCommit"

    def test_the_topic_of_transactions_goes_while_markers_are_tried(self, node: TransactionHarness) -> None:
        producer = node.init()
        node.add(producer, T0)
        with patch.object(node.node.markers, "write_one") as writing:
            writing.side_effect = lambda topic, index, marker, then: then(ErrorCode.kafka_storage_error)
            node.end(producer)
        node.ask("delete_topics", 5, topic_names=[TRANSACTIONS_TOPIC], timeout=1000)
        node.find()
        node.advance(100)
        assert node.list() == {}
