"""Power cuts: whatever was flushed is there afterwards, and what is there is what was written, in order."""

from __future__ import annotations

import random

import pytest

from tests.broker.log.building import NOW_MS, append, batch, flush, new_log, open_directory, read_all
from tests.broker.log.simulated_files import Killed, SimulatedFiles


def value(i: int) -> bytes:
    return b"value %d " % i * (i % 9 + 1)


@pytest.mark.parametrize("seed", range(150))
def test_what_was_flushed_survives_a_power_cut_at_any_moment(seed: int) -> None:
    rng = random.Random(seed)
    files = SimulatedFiles()
    directory, log = new_log(files)
    flushed = written = 0
    for _ in range(rng.randint(1, 3)):  # power cuts in a row, so that recovery's own writes are cut as well
        files.kill_at = files.changes_made + rng.randint(0, 120)
        try:
            while True:
                records = batch(value(written), timestamp_ms=NOW_MS + written)
                append(log, records, leader_epoch=written // 7)
                written += 1
                if rng.random() < 0.1:
                    flush(log)
                    flushed = written
                if rng.random() < 0.05:
                    directory.checkpoint()
                if rng.random() < 0.02:
                    directory.close()
                    flushed = written
                    directory = open_directory(files)
                    log = directory.logs["t", 0]
        except Killed:
            pass
        files = files.after_power_cut(rng.randrange(2**32))
        directory = open_directory(files)
        log = directory.logs["t", 0]
        # A batch may have been written when the kill came before the append returned.
        assert flushed <= log.log_end_offset <= written + 1
        found = read_all(log)
        assert found == [(i, value(i)) for i in range(log.log_end_offset)]
        for i in range(log.log_end_offset):
            assert log.offset_for_timestamp(NOW_MS + i, 10**6) == (NOW_MS + i, i)
        assert log.leader_epochs.entries == [(e, 7 * e) for e in range((log.log_end_offset + 6) // 7)]
        written = log.log_end_offset
        flushed = min(flushed, written)
    directory.close()
    assert files.open_descriptors == 0


@pytest.mark.parametrize("seed", range(40))
def test_acknowledged_records_survive_a_kill_at_any_operation(seed: int) -> None:
    files = SimulatedFiles()
    directory, log = new_log(files)
    written = 0
    for round_ in range(3):
        files.kill_at = files.changes_made + seed * 3 + round_
        try:
            while True:
                append(log, batch(value(written)))
                written += 1
                if written % 11 == 0:
                    flush(log)
                    directory.checkpoint()
        except Killed:
            pass
        files = files.restarted()
        directory = open_directory(files)
        log = directory.logs["t", 0]
        assert written <= log.log_end_offset <= written + 1
        assert read_all(log) == [(i, value(i)) for i in range(log.log_end_offset)]
        written = log.log_end_offset
    directory.close()
