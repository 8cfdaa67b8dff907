"""A log on its way to another log directory: written meanwhile, cut off at any operation, and there once afterwards."""

from __future__ import annotations

import contextlib
import errno
from pathlib import Path

import pytest

from highwater.broker.log import moving
from highwater.broker.log.errors import LogDirectoryError
from highwater.broker.log.files import FileOperations
from highwater.broker.log.log_directories import LogDirectories
from highwater.broker.log.log_directory import MOVED, LogDirectory
from highwater.broker.log.moving import Move
from highwater.broker.log.partition_log import PartitionLog
from tests.broker.log.building import NOW_MS, SMALL, TOPIC_ID, append, batch, flush, read_all
from tests.broker.log.simulated_files import Killed, SimulatedFiles
from tests.broker.manual_clock import ManualClock

A, B = Path("/a"), Path("/b")
KEY = ("t", 0)


def open_both(files: FileOperations) -> LogDirectories:
    clock = ManualClock(NOW_MS)
    cluster_id = "vPeOCWypqUOSepEvx0cbog"
    directories = LogDirectories(
        [LogDirectory(files, path, SMALL, broker_id=1, cluster_id=cluster_id, clock=clock) for path in (A, B)]
    )
    directories.load(lambda topic: SMALL, lambda done, total: None)
    return directories


def value(offset: int) -> bytes:
    return b"value %d " % offset * (offset % 9 + 1)


def write(log: PartitionLog, count: int) -> None:
    for _ in range(count):
        offset = log.log_end_offset
        append(log, batch(value(offset), producer_id=7, producer_epoch=0, base_sequence=offset))


def start_move(directories: LogDirectories) -> Move:
    first, second = directories.all
    source, destination = (first, second) if KEY in first.logs else (second, first)
    move = Move(source.logs[KEY], source, destination)
    move.begin()
    return move


def do_round(move: Move) -> None:
    copying = move.next_round()
    copying.copy()
    move.completed(copying)


def finish(move: Move) -> None:
    high_watermarks = {key: log.log_end_offset for key, log in move.destination.logs.items()}
    assert move.finish(high_watermarks | {KEY: move.log.log_end_offset}) is None


def whole_move(directories: LogDirectories) -> None:
    move = start_move(directories)
    do_round(move)
    write(move.log, 5)
    do_round(move)
    write(move.log, 5)
    finish(move)


def check(log: PartitionLog, end: int) -> None:
    assert log.log_end_offset == end
    assert read_all(log) == [(offset, value(offset)) for offset in range(log.log_start_offset, end)]


def purge(directories: LogDirectories) -> None:
    for directory in directories.all:
        directory.purge_deleted()


@pytest.fixture
def files() -> SimulatedFiles:
    return SimulatedFiles()


def test_a_log_is_written_while_it_moves_and_goes_on_where_it_came(files: SimulatedFiles) -> None:
    directories = open_both(files)
    log = directories.create_partition(*KEY, TOPIC_ID, SMALL)
    write(log, 30)
    log.advance_log_start_offset(3)
    whole_move(directories)
    assert directories.all[1].logs == {KEY: log}
    assert directories.all[0].logs == {}
    assert log.directory == B / "t-0"
    assert not files.exists(A / "t-0")
    check(log, 40)
    assert log.producer_states.get(7) is not None
    write(log, 30)
    flush(log)
    directories.close()
    directories = open_both(files.restarted())
    check(directories.all[1].logs[KEY], 70)
    assert directories.all[1].logs[KEY].log_start_offset == 3
    whole_move(directories)
    check(directories.all[0].logs[KEY], 80)
    purge(directories)
    directories.close()
    assert files.open_descriptors == 0


def test_all_is_in_its_new_place_before_it_counts(files: SimulatedFiles) -> None:
    """A power cut right after the move takes what was not flushed before it, and nothing else."""
    for seed in range(20):
        files = SimulatedFiles()
        directories = open_both(files)
        log = directories.create_partition(*KEY, TOPIC_ID, SMALL)
        write(log, 30)
        log.advance_log_start_offset(3)
        flush(log)
        whole_move(directories)
        after = open_both(files.after_power_cut(seed))
        check(after.all[1].logs[KEY], 40)
        assert after.all[1].logs[KEY].log_start_offset == 3


@pytest.mark.parametrize("cut", [None, 1, 2, 3], ids=["kill", "power-1", "power-2", "power-3"])
def test_a_crash_at_any_operation(cut: int | None) -> None:
    for operation in range(10_000):
        files = SimulatedFiles()
        directories = open_both(files)
        log = directories.create_partition(*KEY, TOPIC_ID, SMALL)
        write(log, 25)
        flush(log)
        files.kill_at = files.changes_made + operation
        try:
            whole_move(directories)
            break
        except Killed:
            end = log.log_end_offset
        files = files.restarted() if cut is None else files.after_power_cut(cut * 1000 + operation)
        directories = open_both(files)
        (holder,) = (directory for directory in directories.all if KEY in directory.logs)
        log = holder.logs[KEY]
        assert 25 <= log.log_end_offset <= end
        if cut is None:
            assert log.log_end_offset >= end - 1
        write(log, 9)
        end = log.log_end_offset
        check(log, end)
        flush(log)
        purge(directories)
        # What the crash left of the other folder must not come back.
        directories = open_both(files.restarted())
        (holder,) = (directory for directory in directories.all if KEY in directory.logs)
        check(holder.logs[KEY], end)
        assert not files.exists(holder.path / "t-0" / MOVED)
        assert all("-future" not in entry.name for path in (A, B) for entry in files.list(path))
        whole_move(directories)
        check(directories.get(KEY), end + 10)  # type: ignore[arg-type]
    assert operation > 50


def test_an_error_at_any_operation_leaves_a_log_that_goes_on(files: SimulatedFiles) -> None:
    for operation in range(10_000):
        files = SimulatedFiles()
        directories = open_both(files)
        log = directories.create_partition(*KEY, TOPIC_ID, SMALL)
        write(log, 40)
        move = Move(log, *directories.all)
        files.fail_at = {files.changes_made + operation: errno.EIO}
        try:
            move.begin()
            do_round(move)
            failed = move.finish({KEY: 40})
        except OSError:
            assert log.directory == A / "t-0"
            move.give_up()
        else:
            assert log.directory == B / "t-0"
            if failed is None:
                break
        write(log, 10)
        check(log, 50)
        flush(log)
        with contextlib.suppress(LogDirectoryError):
            check(open_both(files.restarted()).get(KEY), 50)  # type: ignore[arg-type]
    assert operation > 20


def test_a_move_that_a_restart_interrupts_is_known_and_its_copy_goes(files: SimulatedFiles) -> None:
    directories = open_both(files)
    write(directories.create_partition(*KEY, TOPIC_ID, SMALL), 30)
    do_round(start_move(directories))
    directories.close()
    directories = open_both(files.restarted())
    assert directories.interrupted_moves == [(KEY, directories.all[1])]
    check(directories.all[0].logs[KEY], 30)
    purge(directories)
    assert not any(entry.name.startswith("t-0") for entry in files.list(B))


def test_folders_of_one_name_without_a_mark_stop_the_start(files: SimulatedFiles) -> None:
    directories = open_both(files)
    directories.create_partition(*KEY, TOPIC_ID, SMALL)
    directories.all[1].create_partition(*KEY, TOPIC_ID, SMALL)
    with pytest.raises(LogDirectoryError, match="both hold t-0"):
        open_both(files.restarted())


def test_rounds_have_a_bound(files: SimulatedFiles, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(moving, "ROUND_BYTES", 1500)
    directories = open_both(files)
    log = directories.create_partition(*KEY, TOPIC_ID, SMALL)
    write(log, 100)
    move = start_move(directories)
    rounds = 0
    while move.left_bytes:
        before = move.copied_bytes
        do_round(move)
        assert 0 < move.copied_bytes - before <= 1500
        rounds += 1
    assert rounds > 3
    assert move.copied_to_offset == 100
    finish(move)
    check(log, 100)


def test_a_log_in_use_is_not_moved_under_its_users(files: SimulatedFiles) -> None:
    directories = open_both(files)
    log = directories.create_partition(*KEY, TOPIC_ID, SMALL)
    write(log, 3)
    move = start_move(directories)
    do_round(move)
    ticket = log.begin_flush()
    assert ticket is not None
    assert not move.can_finish
    ticket.sync()
    log.complete_flush(ticket)
    assert move.can_finish
