"""Work that ends half-way, by a full disk or a crash, and what the next start makes of it: nothing is lost."""

from __future__ import annotations

import errno
from dataclasses import replace

import pytest

from highwater.broker.slices import run
from tests.broker.log.building import (
    NOW_MS,
    ROOT,
    SMALL,
    TOPIC_ID,
    append,
    batch,
    flush,
    new_log,
    open_directory,
    read_all,
    try_append,
)
from tests.broker.log.simulated_files import SimulatedFiles


@pytest.mark.parametrize("preallocate", [False, True])
def test_a_roll_that_failed_leaves_nothing_that_a_later_recovery_stumbles_over(preallocate: bool) -> None:
    config = replace(SMALL, preallocate=preallocate)
    for failing in range(30):
        files = SimulatedFiles()
        directory, log = new_log(files, config)
        for _ in range(4):
            append(log, batch(b"x" * 150))
        end_offset = log.log_end_offset
        files.fail_at = {files.changes_made + failing: errno.ENOSPC}
        try:
            append(log, batch(b"x" * 500))
            rolled_at_once = True
        except OSError:
            rolled_at_once = False
            assert log.log_end_offset == end_offset
        files.fail_at = {}
        append(log, batch(b"y"))  # fits into the old segment
        flush(log)
        append(log, batch(b"x" * 900))
        start_offset = log.segment_base_offsets[-1]
        log.advance_log_start_offset(start_offset)
        assert log.delete_expired(log.log_end_offset, NOW_MS) > 0
        directory.checkpoint()
        append(log, batch(b"last"))
        expected = read_all(log)
        assert expected[-1][1] == b"last"

        recovered = open_directory(files.restarted(), config=config).logs["t", 0]
        assert (recovered.log_start_offset, read_all(recovered)) == (start_offset, expected), f"operation {failing}"
        directory.close(clean=False)
        if rolled_at_once:
            return
    raise AssertionError("no roll had its operations all tried")


def test_gaps_below_the_recovery_point_were_made_by_compaction_and_cost_nothing() -> None:
    """Also where the topic is not compacted any more."""
    files = SimulatedFiles()
    directory, log = new_log(files)
    while len(log.segment_base_offsets) < 3:
        flush(log)
        append(log, batch(b"x" * 200))
    directory.checkpoint()
    bases = log.segment_base_offsets
    assert log.recovery_point == bases[-1]
    # What a cleaner leaves of the last sealed segment: its first batch.
    path = log.directory / f"{bases[-2]:020d}.log"
    content = files.read(path)
    files.overwrite(path, content[: 12 + int.from_bytes(content[8:12], "big")])
    files.overwrite(path.with_suffix(".index"), b"")
    append(log, batch(b"last"))
    last = log.log_end_offset - 1

    recovered = open_directory(files.restarted()).logs["t", 0]
    assert (last, b"last") in read_all(recovered)
    assert recovered.log_end_offset == log.log_end_offset


def test_a_topic_made_anew_does_not_inherit_the_checkpoints_of_the_deleted_one() -> None:
    files = SimulatedFiles()
    directory, log = new_log(files)
    for _ in range(20):
        append(log, batch(b"old" * 50))
    flush(log)
    log.advance_log_start_offset(19)
    directory.checkpoint()
    directory.delete_partition("t", 0)
    log = directory.create_partition("t", 0, TOPIC_ID)
    for _ in range(3):
        append(log, batch(b"new"))

    recovered = open_directory(files.restarted()).logs["t", 0]
    assert recovered.log_start_offset == 0
    assert read_all(recovered) == [(0, b"new"), (1, b"new"), (2, b"new")]


def test_a_checkpoint_begun_before_a_deletion_does_not_bring_its_offsets_back() -> None:
    files = SimulatedFiles()
    directory, log = new_log(files)
    for _ in range(20):
        append(log, batch(b"old" * 50))
    log.advance_log_start_offset(19)
    directory.checkpoint()
    begun = directory.begin_checkpoint()
    directory.delete_partition("t", 0)
    log = directory.create_partition("t", 0, TOPIC_ID)
    append(log, batch(b"new"))
    begun.write()

    assert read_all(open_directory(files.restarted()).logs["t", 0]) == [(0, b"new")]


@pytest.mark.parametrize("steps", [0, 1, 2])
def test_a_deletion_in_the_middle_of_a_checkpoint_keeps_its_offsets_away(steps: int) -> None:
    files = SimulatedFiles()
    directory, log = new_log(files)
    other = directory.create_partition("u", 0, TOPIC_ID)
    for _ in range(20):
        append(log, batch(b"old" * 50))
    append(other, batch(b"stays"))
    flush(other)
    log.advance_log_start_offset(19)
    begun = directory.checkpoint_steps(None)
    for _ in range(steps):
        next(begun)
    directory.delete_partition("t", 0)
    is_made_anew = steps > 0
    if is_made_anew:
        append(directory.create_partition("t", 0, TOPIC_ID), batch(b"new"))
    run(begun).write()

    logs = open_directory(files.restarted()).logs
    assert read_all(logs["u", 0]) == [(0, b"stays")]
    assert ("t", 0) in logs if is_made_anew else ("t", 0) not in logs
    if is_made_anew:
        assert read_all(logs["t", 0]) == [(0, b"new")]


def test_a_partition_that_could_not_be_made_is_not_in_the_way() -> None:
    for failing in range(40):
        files = SimulatedFiles()
        directory = open_directory(files)
        files.fail_at = {files.changes_made + failing: errno.ENOSPC}
        try:
            directory.create_partition("t", 0, TOPIC_ID)
            return
        except OSError:
            pass
        files.fail_at = {}
        assert open_directory(files.restarted()).logs == {}, f"operation {failing} failed"
        log = directory.create_partition("t", 0, TOPIC_ID)
        append(log, batch(b"here"))
        assert read_all(log) == [(0, b"here")]
    raise AssertionError("no partition had its operations all tried")


def test_a_flush_that_outlives_its_log_leaves_the_next_log_of_that_name_alone() -> None:
    files = SimulatedFiles()
    directory, log = new_log(files)
    append(log, batch(b"x"), leader_epoch=3)
    ticket = log.begin_flush()
    assert ticket is not None
    directory.delete_partition("t", 0)
    directory.create_partition("t", 0, TOPIC_ID)
    ticket.sync()
    log.complete_flush(ticket)
    assert log.begin_flush() is None
    assert not files.exists(ROOT / "t-0" / "leader-epoch-checkpoint")
    assert try_append(log, batch(b"y"))


def test_a_disk_too_full_for_the_leader_epochs_postpones_the_flush() -> None:
    files = SimulatedFiles()
    _, log = new_log(files)
    append(log, batch(b"x"), leader_epoch=1)
    flush(log)
    append(log, batch(b"y"), leader_epoch=2)
    files.full_during = range(files.changes_made, 10_000)
    flush(log)
    assert log.recovery_point == 1
    files.full_during = range(0)
    flush(log)
    assert log.recovery_point == 2


def test_a_stop_on_a_full_disk_is_no_clean_one() -> None:
    for before in range(80):
        files = SimulatedFiles()
        directory, log = new_log(files)
        append(log, batch(b"x"), leader_epoch=1)
        flush(log)
        append(log, batch(b"y"), leader_epoch=2)
        files.full_during = range(files.changes_made + before, 10_000)
        is_clean = True
        try:
            directory.close()
        except OSError:
            is_clean = False
        assert files.exists(ROOT / ".kafka_cleanshutdown") == is_clean
        recovered = open_directory(files.restarted()).logs["t", 0]
        assert recovered.leader_epochs.entries == [(1, 0), (2, 1)], before
        if is_clean:
            return
    raise AssertionError("not all operations were tried")
