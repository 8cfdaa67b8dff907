"""Fetches of records that are not in the page cache: who waits, for what, and what may happen meanwhile."""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from highwater.broker.handlers.fetch import MOST_DISK_READS
from highwater.broker.log.files import FilePiece
from highwater.broker.log.partition_log import PartitionLog
from highwater.kafka.records.batch import headers
from tests.broker.handlers.harness import NodeHarness, Pending, one_batch
from tests.broker.log.building import ROOT
from tests.broker.log.simulated_files import SimulatedFiles
from tests.broker.replica.replicating import ReplicaHarness

DISK_IS_BROKEN = OSError(errno.EIO, "Input/output error")


class Disk:
    """A disk whose page cache loses files when it is told to, and which reads when it is told to."""

    def __init__(self, harness: NodeHarness, files: SimulatedFiles) -> None:
        self.asked: list[tuple[Sequence[FilePiece], Callable[[OSError | None], None]]] = []
        self.holds_on = True
        """Whether the page cache keeps what is read."""
        self._harness = harness
        self._cold: set[Path] = set()
        files.is_in_cache = lambda piece: piece.path not in self._cold
        harness.replace(storage=replace(harness.node.storage, bring_into_cache=self._bring))

    def _bring(self, pieces: Sequence[FilePiece], done: Callable[[OSError | None], None]) -> None:
        self.asked.append((pieces, done))

    def forget(self, *partitions: int, suffix: str = ".log") -> None:
        for index in partitions or (0,):
            log = self.log(index)
            self._cold.update(log.directory / f"{base:020d}{suffix}" for base in log.segment_base_offsets)

    def log(self, index: int) -> PartitionLog:
        partition = self._harness.node.partitions.find("t", index)
        assert partition is not None
        return partition.log

    def read(self, failure: OSError | None = None) -> None:
        """Read what is asked for at this moment, or fail to."""
        asked, self.asked = self.asked, []
        for pieces, done in asked:
            if failure is None and self.holds_on:
                self._cold.difference_update(piece.path for piece in pieces)
            done(failure)


@pytest.fixture
def files() -> SimulatedFiles:
    return SimulatedFiles()


@pytest.fixture
def node(files: SimulatedFiles) -> Iterator[NodeHarness]:
    harness = NodeHarness(ROOT, (), files, log_segment_bytes="1000", log_index_interval_bytes="100")
    yield harness
    harness.close(clean=False)


@pytest.fixture
def disk(node: NodeHarness, files: SimulatedFiles) -> Disk:
    node.create_topic("t", 3)
    for index in range(3):
        for number in range(3):
            node.produce("t", b"%d" % number, partition=index)
    return Disk(node, files)


def fetch_all(node: NodeHarness, **fields: Any) -> Any:
    """All three partitions from their start."""
    wanted = [{"partition": index, "fetch_offset": 0, "partition_max_bytes": 1 << 20} for index in range(3)]
    defaults = {"replica_id": -1, "max_wait": 0, "min_bytes": 1, "max_bytes": 1 << 26, "session_epoch": -1}
    return node.ask("fetch", 11, **(defaults | fields), topics=[{"topic": "t", "partitions": wanted}])


def the_partition(fetched: Any) -> Any:
    if isinstance(fetched, Pending):
        assert fetched.answer is not None
        fetched = fetched.answer
    return fetched.responses[0].partitions[0]


def offsets(partition: Any) -> list[int]:
    return [header.base_offset for _, header in headers(partition.records)]


def record_counts(fetched: Any) -> list[int]:
    return [len(offsets(partition)) for partition in fetched.responses[0].partitions]


def waiting(fetched: Any) -> Pending:
    assert isinstance(fetched, Pending)
    assert fetched.waits
    return fetched


def test_what_is_in_the_cache_is_answered_at_once(node: NodeHarness, disk: Disk) -> None:
    assert record_counts(fetch_all(node)) == [3, 3, 3]
    assert disk.asked == []


@pytest.mark.parametrize("max_wait", [0, 500])
@pytest.mark.parametrize("isolation_level", [0, 1])
def test_a_fetch_waits_for_the_disk_and_the_event_loop_does_not(
    node: NodeHarness, disk: Disk, files: SimulatedFiles, max_wait: int, isolation_level: int
) -> None:
    disk.forget()
    fetched = waiting(node.fetch("t", 1, max_wait=max_wait, isolation_level=isolation_level))
    assert node.produce("t", b"of another client").error_code is ErrorCode.none
    node.scheduler.run(max_wait * 2)
    waiting(fetched)
    disk.read()
    assert offsets(the_partition(fetched)) == [1, 2, 3]
    assert disk.asked == []
    assert node.node.counters.fetches_from_disk == 1


def test_the_disk_is_asked_at_once_for_all_that_the_fetch_may_take(node: NodeHarness, disk: Disk) -> None:
    disk.forget()
    node.fetch("t", 0, partition_max_bytes=300_000)
    ((piece,),) = [pieces for pieces, _ in disk.asked]
    log = disk.log(0)
    assert piece == FilePiece(log.directory / "00000000000000000000.log", 0, log.size_bytes)


def test_the_disk_is_asked_for_no_more_than_the_fetch_may_take(node: NodeHarness, disk: Disk) -> None:
    disk.forget(0, 1, 2)
    fetched = waiting(fetch_all(node, max_bytes=1000))
    assert [piece.path.parent.name for pieces, _ in disk.asked for piece in pieces] == ["t-0"]
    disk.read()
    assert record_counts(fetched.answer) == [3, 0, 0]
    # The answer had room for more, so the disk reads for the next fetch.
    disk.read()
    assert record_counts(fetch_all(node, max_bytes=1000)) == [3, 3, 0]


def test_partitions_that_are_in_the_cache_do_not_wait_for_one_that_is_not(node: NodeHarness, disk: Disk) -> None:
    disk.forget(1)
    assert record_counts(fetch_all(node)) == [3, 0, 3]
    disk.read()
    assert record_counts(fetch_all(node)) == [3, 3, 3]


def test_too_little_in_the_cache_waits_for_the_disk(node: NodeHarness, disk: Disk) -> None:
    disk.forget(1)
    fetched = waiting(fetch_all(node, min_bytes=10_000))
    disk.read()
    assert record_counts(fetched.answer) == [3, 3, 3]


def test_too_little_on_the_disk_waits_for_more_but_no_longer_than_was_asked(node: NodeHarness, disk: Disk) -> None:
    disk.forget()
    fetched = waiting(node.fetch("t", 0, min_bytes=10_000, max_wait=500))
    node.clock.advance_ms(300)
    disk.read()
    waiting(fetched)
    node.scheduler.run(150)
    waiting(fetched)
    node.scheduler.run(51)
    assert offsets(the_partition(fetched)) == [0, 1, 2]
    assert node.scheduler.pending_timers == 0


def test_a_parked_fetch_may_wait_for_the_disk_too(node: NodeHarness, disk: Disk) -> None:
    fetched = waiting(node.fetch("t", 3, max_wait=500))
    node.produce("t", b"new")
    disk.forget()
    node.scheduler.run()
    waiting(fetched)
    disk.read()
    assert offsets(the_partition(fetched)) == [3]


def test_indexes_of_a_segment_that_was_long_unused_come_from_the_disk_too(node: NodeHarness, disk: Disk) -> None:
    for number in range(20):
        node.produce("t", b"%d" % number * 100)
    partition = node.node.partitions.find("t", 0)
    assert partition is not None
    partition.log._segments.release()
    for suffix in (".log", ".index", ".timeindex"):
        disk.forget(suffix=suffix)
    fetched = waiting(node.fetch("t", 0))
    assert {piece.path.suffix for pieces, _ in disk.asked for piece in pieces} == {".log", ".index", ".timeindex"}
    disk.read()
    assert offsets(the_partition(fetched))[:3] == [0, 1, 2]


# What may happen meanwhile


def test_the_topic_is_deleted(node: NodeHarness, disk: Disk) -> None:
    disk.forget()
    fetched = waiting(node.fetch("t", 0))
    node.ask("delete_topics", 1, topic_names=["t"], timeout=1000)
    disk.read()
    assert the_partition(fetched).error_code is ErrorCode.unknown_topic_or_partition


def test_the_topic_is_deleted_and_made_again(node: NodeHarness, disk: Disk) -> None:
    disk.forget()
    fetched = waiting(node.fetch("t", 0))
    node.ask("delete_topics", 1, topic_names=["t"], timeout=1000)
    node.create_topic("t")
    node.produce("t", b"of the new topic")
    disk.read()
    assert b"of the new topic" in the_partition(fetched).records


def test_the_log_is_truncated(node: NodeHarness, disk: Disk) -> None:
    disk.forget()
    fetched = waiting(node.fetch("t", 2))
    partition = node.node.partitions.find("t", 0)
    assert partition is not None
    partition.truncate_to(1)
    disk.read()
    assert the_partition(fetched).error_code is ErrorCode.offset_out_of_range


def test_the_log_is_truncated_and_written_again(node: NodeHarness, disk: Disk) -> None:
    disk.forget()
    fetched = waiting(node.fetch("t", 1))
    partition = node.node.partitions.find("t", 0)
    assert partition is not None
    partition.truncate_to(1)
    node.produce("t", b"written since")
    disk.read()
    assert offsets(the_partition(fetched)) == [1]
    assert b"written since" in the_partition(fetched).records


def test_the_segment_is_deleted_by_retention(node: NodeHarness, disk: Disk) -> None:
    for number in range(20):
        node.produce("t", b"%d" % number * 100)
    disk.forget()
    fetched = waiting(node.fetch("t", 0))
    partition = node.node.partitions.find("t", 0)
    assert partition is not None
    partition.log.advance_log_start_offset(partition.log.log_end_offset)
    assert partition.log.delete_expired(partition.high_watermark, node.clock.now_ms()) > 0
    disk.read()
    assert the_partition(fetched).error_code is ErrorCode.offset_out_of_range


def test_the_log_directory_fails(node: NodeHarness, disk: Disk) -> None:
    disk.forget()
    fetched = waiting(node.fetch("t", 0))
    node.node.partitions.fail_directory(node.log_directory)
    disk.read()
    assert the_partition(fetched).error_code is ErrorCode.kafka_storage_error


def test_the_client_leaves(node: NodeHarness, disk: Disk) -> None:
    disk.forget()
    fetched = waiting(node.fetch("t", 0))
    fetched.cancel()
    disk.read()
    waiting(fetched)


def test_a_cache_that_keeps_nothing_does_not_keep_the_fetch_from_its_records(node: NodeHarness, disk: Disk) -> None:
    disk.forget()
    disk.holds_on = False
    fetched = waiting(node.fetch("t", 0))
    for _ in range(MOST_DISK_READS - 1):
        disk.read()
        waiting(fetched)
    disk.read()
    assert offsets(the_partition(fetched)) == [0, 1, 2]


# What the disk says


def test_a_disk_error_is_answered_as_one_of_the_event_loop_is(
    node: NodeHarness, disk: Disk, caplog: pytest.LogCaptureFixture
) -> None:
    disk.forget()
    fetched = waiting(node.fetch("t", 1, max_wait=500))
    disk.read(DISK_IS_BROKEN)
    answer = the_partition(fetched)
    assert (answer.error_code, answer.records) == (ErrorCode.kafka_storage_error, b"")
    assert "t-0 cannot be read at offset 1: [Errno 5] Input/output error" in caplog.text
    assert disk.asked == []
    again = waiting(node.fetch("t", 1))
    disk.read()
    assert offsets(the_partition(again)) == [1, 2]


def test_a_disk_error_of_one_partition_leaves_the_others_their_records(node: NodeHarness, disk: Disk) -> None:
    disk.forget(0, 1)
    fetched = waiting(fetch_all(node, min_bytes=10_000))
    (_, first_done), (pieces, second_done) = disk.asked
    disk._cold.difference_update(piece.path for piece in pieces)
    second_done(None)
    first_done(DISK_IS_BROKEN)
    assert record_counts(fetched.answer) == [0, 3, 3]
    errors = [partition.error_code for partition in fetched.answer.responses[0].partitions]
    assert errors == [ErrorCode.kafka_storage_error, ErrorCode.none, ErrorCode.none]


def test_a_disk_error_for_which_no_fetch_waited_is_told_to_the_next(node: NodeHarness, disk: Disk) -> None:
    disk.forget(1)
    assert record_counts(fetch_all(node)) == [3, 0, 3]
    disk.read(DISK_IS_BROKEN)
    answer = fetch_all(node)
    assert answer.responses[0].partitions[1].error_code is ErrorCode.kafka_storage_error
    assert record_counts(answer) == [3, 0, 3]


def test_a_disk_error_elsewhere_in_the_partition_is_not_told(node: NodeHarness, disk: Disk) -> None:
    for number in range(20):
        node.produce("t", b"%d" % number * 100)
    disk.forget()
    gone = waiting(node.fetch("t", 0))
    gone.cancel()
    disk.read(DISK_IS_BROKEN)
    fetched = waiting(node.fetch("t", 22))
    disk.read()
    assert offsets(the_partition(fetched)) == [22]


def test_without_threads_fetches_read_from_the_disk_themselves(node: NodeHarness, disk: Disk) -> None:
    disk.forget()
    node.replace(storage=replace(node.node.storage, bring_into_cache=None))
    assert offsets(the_partition(node.fetch("t", 0))) == [0, 1, 2]


# Followers


def test_a_follower_waits_for_the_disk_and_its_place_is_noted_before(files: SimulatedFiles) -> None:
    leader = ReplicaHarness(ROOT, (), files)
    try:
        leader.tell(leader=0, leader_epoch=0, is_new=True, replicas=[0, 1], in_sync=[0, 1])
        for number in range(3):
            leader.produce_records("t", one_batch(b"%d" % number))
        disk = Disk(leader, files)
        disk.forget()
        fetched = waiting(leader.fetch_as(1, 1))
        assert leader.replica().high_watermark == 1
        disk.read()
        assert offsets(the_partition(fetched)) == [1, 2]
    finally:
        leader.close(clean=False)
