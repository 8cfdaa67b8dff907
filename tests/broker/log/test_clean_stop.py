"""What a clean stop tells the next start of each log, and when the start looks at the files all the same."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from highwater.broker.log.clean_stop import WholeLog, decode_mark, encode_mark
from highwater.broker.log.files import Entry
from highwater.broker.log.log_directory import LogDirectory
from highwater.broker.log.partition_log import PartitionLog
from tests.broker.log.building import (
    NOW_MS,
    ROOT,
    append,
    batch,
    flush,
    new_log,
    open_directory,
    read_all,
)
from tests.broker.log.simulated_files import SimulatedFiles

PARTITION = ROOT / "t-0"
MARK = ROOT / ".kafka_cleanshutdown"
ACTIVE = PARTITION / "00000000000000000000.log"


class WatchedFiles(SimulatedFiles):
    """Notes which files of the partition a start opens, and whether it lists the folder."""

    opened: list[str]

    @classmethod
    def of(cls, files: SimulatedFiles) -> WatchedFiles:
        watched = cls(files._root)
        watched.opened = []
        return watched

    def list(self, path: Path) -> list[Entry]:
        if path == PARTITION:
            self.opened.append("")
        return super().list(path)

    def read(self, path: Path) -> bytes:
        if path.parent == PARTITION:
            self.opened.append(path.name)
        return super().read(path)

    def open(self, path: Path, **options: bool) -> int:
        if path.parent == PARTITION:
            self.opened.append(path.name)
        return super().open(path, **options)


def test_a_mark_is_read_as_it_was_written() -> None:
    # Compiled modules refuse the lists that JSON has in the place of tuples.
    logs = {"t-0": WholeLog([1, 2, 3, 4], "AAAAAAAAAAAAAAAAAAAAAQ", [(0, 10), (5, 20)], 9, [(0, 0), (3, 5)], True)}
    assert decode_mark(encode_mark(logs)) == logs


def stopped(batches: int, *, has_producer: bool = False) -> SimulatedFiles:
    files = SimulatedFiles()
    directory, log = new_log(files)
    fill(log, batches, has_producer=has_producer)
    directory.close()
    return files


def fill(log: PartitionLog, batches: int, *, has_producer: bool = False) -> None:
    for i in range(batches):
        producer_id, epoch, sequence = (9, 0, i) if has_producer else (-1, -1, -1)
        records = batch(
            b"value %d" % i,
            timestamp_ms=NOW_MS + i,
            producer_id=producer_id,
            producer_epoch=epoch,
            base_sequence=sequence,
        )
        append(log, records, leader_epoch=i // 3)


def seen(directory: LogDirectory) -> tuple[object, ...]:
    log = directory.logs["t", 0]
    return (
        log.topic_id,
        log.log_start_offset,
        log.log_end_offset,
        log.recovery_point,
        log.segment_sizes,
        # Of an empty log, a load from the files may have forgotten the last epoch.
        [entry for entry in log.leader_epochs.entries if entry[1] < log.log_end_offset],
        [(producer, state.epoch, list(state.batches)) for producer, state in log.producer_states],
        log.unflushed_messages,
        read_all(log),
    )


@pytest.mark.parametrize("batches", [1, 2, 40])
def test_a_start_opens_no_file_of_a_log(batches: int) -> None:
    files = WatchedFiles.of(stopped(batches))
    directory = open_directory(files)
    assert files.opened == []
    assert [value for _, value in read_all(directory.logs["t", 0])] == [b"value %d" % i for i in range(batches)]


def test_of_a_log_that_nothing_was_written_to_it_reads_the_topic_id() -> None:
    """Nothing of such a log was flushed, so that a power cut after the stop may tear its files."""
    files = WatchedFiles.of(stopped(0))
    open_directory(files)
    assert files.opened == ["partition.metadata"]


def test_of_a_log_with_producers_it_reads_their_snapshot() -> None:
    files = WatchedFiles.of(stopped(3, has_producer=True))
    open_directory(files)
    assert files.opened == ["00000000000000000003.snapshot"]


@given(
    st.integers(0, 30),
    st.integers(0, 30),
    st.booleans(),
    st.integers(0, 30),
    st.lists(st.sampled_from(["append", "flush", "restart"]), max_size=6),
)
def test_it_finds_what_the_files_have(
    first: int, more: int, has_producer: bool, start_offset: int, steps: list[str]
) -> None:
    files = stopped(first, has_producer=has_producer).restarted()
    for step in steps:
        directory = open_directory(files)
        log = directory.logs["t", 0]
        if step == "append":
            fill(log, more)
            log.advance_log_start_offset(start_offset)
        elif step == "flush":
            flush(log)
        directory.close()
        files = files.restarted()
    by_mark = seen(open_directory(files))
    files = files.restarted()
    files.overwrite(MARK, b'{"version":0,"brokerEpoch":-1}')
    assert seen(open_directory(files)) == by_mark


def damage_the_mark(files: SimulatedFiles) -> None:
    files.overwrite(MARK, files.read(MARK).replace(b"false", b"true "))


def let_kafka_write_the_mark(files: SimulatedFiles) -> None:
    files.overwrite(MARK, b'{"version":0,"brokerEpoch":24}')


def write_the_active_segment_anew(files: SimulatedFiles) -> None:
    files.overwrite(ACTIVE, files.read(ACTIVE))


def remove_a_file(files: SimulatedFiles) -> None:
    files.remove(PARTITION / "00000000000000000000.timeindex")


def leave_a_file(files: SimulatedFiles) -> None:
    files.overwrite(PARTITION / "00000000000000000009.log.deleted", b"")


@pytest.mark.parametrize(
    "change",
    [damage_the_mark, let_kafka_write_the_mark, write_the_active_segment_anew, remove_a_file, leave_a_file],
)
def test_it_looks_at_the_files_after_a_change(change: Callable[[SimulatedFiles], None]) -> None:
    stop = stopped(3).restarted()
    change(stop)
    files = WatchedFiles.of(stop)
    directory = open_directory(files)
    assert "" in files.opened
    assert len(read_all(directory.logs["t", 0])) == 3
    assert not files.exists(PARTITION / "00000000000000000009.log.deleted")


def test_a_file_that_waited_for_its_removal_is_removed_at_the_next_start() -> None:
    files = SimulatedFiles()
    directory, log = new_log(files)
    fill(log, 3)
    leave_a_file(files)
    directory.close()
    files = files.restarted()
    open_directory(files)
    assert not files.exists(PARTITION / "00000000000000000009.log.deleted")


def test_snapshots_do_not_pile_up() -> None:
    files = stopped(1).restarted()
    for _ in range(3):
        directory = open_directory(files)
        append(directory.logs["t", 0], batch(b"more"))
        directory.close()
        files = files.restarted()
    names = [entry.name for entry in files.list(PARTITION) if entry.name.endswith(".snapshot")]
    assert names == ["00000000000000000004.snapshot"]
