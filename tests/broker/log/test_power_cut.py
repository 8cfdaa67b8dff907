"""Power cuts: whatever was flushed is there afterwards, and what is there is what was written last, in order."""

from __future__ import annotations

import random

import pytest

from tests.broker.log.building import (
    NOW_MS,
    append,
    batch,
    flush,
    log_after_power_cut,
    new_log,
    open_directory,
    read_all,
)
from tests.broker.log.simulated_files import Killed, SimulatedFiles

# Those past the range each find a fault that was here once: an emptied segment dropped, a removed one that comes back,
# indexes trusted but not synced.
SEEDS = [*range(150), 154, 189, 531]


@pytest.mark.parametrize("seed", SEEDS)
def test_what_was_flushed_survives_a_power_cut_at_any_moment(seed: int) -> None:
    rng = random.Random(seed)
    files = SimulatedFiles()
    directory, log = new_log(files)
    written: list[bytes] = []
    flushed = 0
    for life in range(rng.randint(1, 3)):  # cuts in a row, so that the writes of a recovery are cut as well
        files.kill_at = files.changes_made + rng.randint(0, 120)
        try:
            while True:
                offset = len(written)
                # Of the same size in every life, so that what a cut brings back would fit in unnoticed.
                written.append(b"life %d value %d " % (life, offset) * (offset % 9 + 1))
                append(log, batch(written[-1], timestamp_ms=NOW_MS + offset), leader_epoch=offset // 7)
                if rng.random() < 0.1:
                    flush(log)
                    flushed = len(written)
                if rng.random() < 0.05:
                    directory.checkpoint()
                if rng.random() < 0.02:
                    directory.close()
                    flushed = len(written)
                    directory = open_directory(files)
                    log = directory.logs["t", 0]
        except Killed:
            pass
        files = files.after_power_cut(rng.randrange(2**32))
        directory = open_directory(files)
        log = log_after_power_cut(directory)
        end = log.log_end_offset
        assert flushed <= end <= len(written)
        assert read_all(log) == list(enumerate(written[:end]))
        for offset in range(end):
            assert log.offset_for_timestamp(NOW_MS + offset, 10**6) == (NOW_MS + offset, offset)
        assert log.leader_epochs.entries == [(epoch, 7 * epoch) for epoch in range((end + 6) // 7)]
        del written[end:]
    directory.close()
    assert files.open_descriptors == 0


@pytest.mark.parametrize("seed", range(40))
def test_appended_records_survive_a_kill_at_any_operation(seed: int) -> None:
    files = SimulatedFiles()
    directory, log = new_log(files)
    written: list[bytes] = []
    for life in range(3):
        files.kill_at = files.changes_made + seed * 3 + life
        try:
            while True:
                written.append(b"life %d value %d " % (life, len(written)) * (len(written) % 9 + 1))
                append(log, batch(written[-1]))
                if len(written) % 11 == 0:
                    flush(log)
                    directory.checkpoint()
        except Killed:
            pass
        files = files.restarted()
        directory = open_directory(files)
        log = directory.logs["t", 0]
        assert len(written) - 1 <= log.log_end_offset <= len(written)
        del written[log.log_end_offset :]
        assert read_all(log) == list(enumerate(written))
    directory.close()
