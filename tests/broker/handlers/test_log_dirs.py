"""Several log directories: where partitions go, and what is left when one of the disks breaks."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from pathlib import Path

import pytest
from kio.schema.errors import ErrorCode

from highwater.broker.log.errors import LogDirectoryError
from highwater.broker.log.files import RealFiles
from highwater.broker.replica.partition import REPORT_FAILURES_MS
from highwater.broker.topics.administration import NewTopic
from highwater.kafka.protocol.problem import Problem
from highwater.kafka.records.batch import ReadableBuffer
from highwater.kafka.records.record import TransactionMarker, decode_batch
from tests.broker.handlers.harness import NodeHarness, Pending


class BreakingFiles(RealFiles):
    """A disk, and another one that can break: then neither writes nor syncs of what is on it succeed."""

    __slots__ = ("broken", "paths")

    def __init__(self) -> None:
        self.broken: Path | None = None
        self.paths: dict[int, Path] = {}

    def open(self, path: Path, *, create: bool = False, empty: bool = False, is_private: bool = False) -> int:
        descriptor = super().open(path, create=create, empty=empty, is_private=is_private)
        self.paths[descriptor] = path
        return descriptor

    def pwrite(self, descriptor: int, data: ReadableBuffer, position: int) -> None:
        self._check(descriptor)
        super().pwrite(descriptor, data, position)

    def sync(self, descriptor: int) -> None:
        self._check(descriptor)
        super().sync(descriptor)

    def _check(self, descriptor: int) -> None:
        if self.broken is not None and self.broken in self.paths[descriptor].parents:
            raise OSError(errno.EIO, "Input/output error")


@pytest.fixture
def files() -> BreakingFiles:
    return BreakingFiles()


@pytest.fixture
def node(tmp_path: Path, files: BreakingFiles) -> Iterator[NodeHarness]:
    node = NodeHarness(tmp_path / "a", [tmp_path / "b"], files)
    yield node
    files.broken = None
    node.close(clean=False)


def partitions_of(node: NodeHarness) -> dict[str, tuple[ErrorCode, set[str]]]:
    results = node.ask("describe_log_dirs", 4, topics=None).results
    return {
        Path(result.log_dir).name: (
            result.error_code,
            {f"{topic.name}-{entry.partition_index}" for topic in result.topics for entry in topic.partitions},
        )
        for result in results
    }


def test_new_partitions_go_where_the_fewest_are(node: NodeHarness, tmp_path: Path) -> None:
    node.create_topic("t", 3)
    node.create_topic("u", 3)
    told = partitions_of(node)
    assert {name: len(partitions) for name, (_, partitions) in told.items()} == {"a": 3, "b": 3}
    assert told["b"][1] == {path.name for path in (tmp_path / "b").iterdir() if path.is_dir()}
    node.produce("t", b"x", partition=1)
    node.close()
    again = NodeHarness(tmp_path / "a", [tmp_path / "b"])
    assert partitions_of(again) == told
    assert again.node.partitions.find("t", 1).log.log_end_offset == 1  # type: ignore[union-attr]
    again.close()


def test_one_that_was_left_out_at_the_start_is_described_as_failed(node: NodeHarness, tmp_path: Path) -> None:
    node.log_directories.lacking.append(tmp_path / "c")
    told = partitions_of(node)
    assert {name: error for name, (error, _) in told.items()} == {
        "a": ErrorCode.none,
        "b": ErrorCode.none,
        "c": ErrorCode.kafka_storage_error,
    }


def test_a_disk_that_breaks_takes_only_its_partitions_along(
    node: NodeHarness, files: BreakingFiles, tmp_path: Path
) -> None:
    node.create_topic("t", 2)
    for partition in (0, 1):
        assert node.produce("t", b"before", partition=partition).error_code is ErrorCode.none
    files.broken = tmp_path / "b"
    assert node.produce("t", b"lost", partition=1).error_code is ErrorCode.kafka_storage_error
    files.broken = None  # it does not come back by itself
    assert node.produce("t", b"lost", partition=1).error_code is ErrorCode.kafka_storage_error
    assert node.fetch("t", 0, partition=1).responses[0].partitions[0].error_code is ErrorCode.kafka_storage_error
    assert node.produce("t", b"after", partition=0).base_offset == 1
    fetched = node.fetch("t", 1, partition=0).responses[0].partitions[0]
    assert [record.value for record in decode_batch(fetched.records)] == [b"after"]
    (topic,) = node.ask("metadata", 9, topics=[{"name": "t"}]).topics
    assert [(p.error_code, p.leader_id, p.offline_replicas) for p in topic.partitions] == [
        (ErrorCode.none, 0, ()),
        (ErrorCode.leader_not_available, -1, (0,)),
    ]
    assert partitions_of(node) == {"a": (ErrorCode.none, {"t-0"}), "b": (ErrorCode.kafka_storage_error, set())}
    # What is new goes where it can be written, and a start with the disk in order brings all back.
    node.create_topic("u", 2)
    assert partitions_of(node)["a"][1] == {"t-0", "u-0", "u-1"}
    node.close()
    assert not (tmp_path / "b" / ".kafka_cleanshutdown").exists()
    again = NodeHarness(tmp_path / "a", [tmp_path / "b"])
    fetched = again.fetch("t", 0, partition=1).responses[0].partitions[0]
    assert [record.value for record in decode_batch(fetched.records)] == [b"before"]
    again.close()


def test_a_topic_deleted_while_a_disk_is_broken_goes_from_it_with_the_next_start(
    node: NodeHarness, files: BreakingFiles, tmp_path: Path
) -> None:
    """Or else that start would not know whose partitions the mended disk has, and refuse."""
    node.create_topic("t", 2)
    node.produce("t", b"before", partition=0)
    node.produce("t", b"before", partition=1)
    node.node.partitions.fail_directory(node.log_directories.all[1])
    assert node.topics.delete("t") is None
    assert node.node.partitions.topic("t") is None
    again = node.topics.create(NewTopic("t", 1))
    assert isinstance(again, Problem)
    assert again.message == "Topic 't' is marked for deletion."
    node.close()
    mended = NodeHarness(tmp_path / "a", [tmp_path / "b"])
    assert partitions_of(mended) == {"a": (ErrorCode.none, set()), "b": (ErrorCode.none, set())}
    assert mended.create_topic("t").partitions[0].log.log_end_offset == 0
    mended.close()


def test_those_who_wait_for_a_broken_disk_are_told(node: NodeHarness, files: BreakingFiles, tmp_path: Path) -> None:
    node.create_topic("t", 2, flush_messages="1")
    waiting = node.produce("t", b"unflushed", partition=1, acks=-1)
    reader = node.fetch("t", 0, partition=1, max_wait=10_000)
    assert isinstance(waiting, Pending)
    assert isinstance(reader, Pending)
    files.broken = tmp_path / "b"
    with pytest.raises(OSError, match="Input/output error"):
        node.flush()
    partition = node.node.partitions.find("t", 1)
    assert partition is not None
    assert node.node.partitions.fail_directory(node.log_directories.of(partition.log)) == 1
    node.scheduler.run()
    assert waiting.answer.responses[0].partition_responses[0].error_code is ErrorCode.kafka_storage_error
    assert reader.answer.responses[0].partitions[0].error_code is ErrorCode.kafka_storage_error
    assert [entry.index for entry in node.node.partitions.live() if entry.topic == "t"] == [0]


def test_a_full_disk_is_no_broken_one_and_told_once(
    node: NodeHarness, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    node.create_topic("t", 2)

    def no_space(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(BreakingFiles, "pwrite", no_space)
        for _ in range(100):
            assert node.produce("t", b"x", partition=1).error_code is ErrorCode.kafka_storage_error
        node.clock.advance_ms(REPORT_FAILURES_MS)
        assert node.produce("t", b"x", partition=1).error_code is ErrorCode.kafka_storage_error
    assert [record.message for record in caplog.records if record.levelname == "ERROR"] == [
        "cannot append to t-1: No space left on device (times: 1)",
        "cannot append to t-1: No space left on device (times: 100)",
    ]
    assert node.produce("t", b"x", partition=1).base_offset == 0


def test_what_the_broker_itself_cannot_write_is_told_once_too(
    node: NodeHarness, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    node.create_topic("t")
    marker = TransactionMarker(producer_id=7, producer_epoch=0, coordinator_epoch=1, is_commit=True)
    outcomes: list[ErrorCode] = []

    def no_space(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(BreakingFiles, "pwrite", no_space)
    for _ in range(100):
        node.node.markers.write_one("t", 0, marker, outcomes.append)
    assert outcomes == [ErrorCode.kafka_storage_error] * 100
    told = [record.message for record in caplog.records if record.levelname == "ERROR"]
    assert told == ["cannot append to t-0: No space left on device (times: 1)"]


def test_a_partition_that_is_in_two_directories_stops_the_start(node: NodeHarness, tmp_path: Path) -> None:
    node.create_topic("t", 1)
    node.close()
    (tmp_path / "b" / "t-0").mkdir()
    with pytest.raises(LogDirectoryError, match="both hold t-0; move one of the folders away"):
        NodeHarness(tmp_path / "a", [tmp_path / "b"])
    (tmp_path / "b" / "t-0" / f"{0:020d}.log").unlink(missing_ok=True)
