"""Leader epochs, case by case as Apache Kafka's LeaderEpochFileCacheTest has them, and against a simple model."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from highwater.broker.log.leader_epochs import LeaderEpochs

ENTRIES = [(2, 10), (4, 20), (7, 35)]


def test_end_offsets() -> None:
    epochs = LeaderEpochs(ENTRIES)
    assert epochs.end_offset_of(7, 50) == (7, 50)  # the latest ends where the log ends
    assert epochs.end_offset_of(4, 50) == (4, 35)
    assert epochs.end_offset_of(5, 50) == (4, 35)  # not known: the one below it
    assert epochs.end_offset_of(1, 50) == (1, 10)  # before all: its records are gone
    assert epochs.end_offset_of(8, 50) == (-1, -1)  # ahead of this replica
    assert epochs.end_offset_of(-1, 50) == (-1, -1)
    assert LeaderEpochs().end_offset_of(0, 50) == (-1, -1)
    assert LeaderEpochs().end_offset_of(-70, 50) == (-1, -1)


def test_epoch_at_an_offset() -> None:
    epochs = LeaderEpochs(ENTRIES)
    assert [epochs.epoch_at(offset) for offset in (9, 10, 19, 20, 35, 1000)] == [-1, 2, 2, 4, 7, 7]


def test_assigning() -> None:
    epochs = LeaderEpochs(ENTRIES)
    epochs.assign(7, 40)
    assert epochs.entries == ENTRIES
    assert not epochs.is_dirty
    epochs.assign(8, 40)
    assert (epochs.entries, epochs.latest, epochs.is_dirty) == ([*ENTRIES, (8, 40)], 8, True)


def test_an_entry_replaces_those_of_a_diverged_log() -> None:
    for entry, expected in [
        ((8, 35), [(2, 10), (4, 20), (8, 35)]),
        ((8, 15), [(2, 10), (8, 15)]),
        ((3, 30), [(2, 10), (3, 30)]),
        ((7, 30), [(2, 10), (4, 20), (7, 30)]),
    ]:
        epochs = LeaderEpochs(ENTRIES)
        epochs.assign(*entry)
        assert epochs.entries == expected


def test_truncation() -> None:
    for end_offset, count in [(36, 3), (35, 2), (20, 1), (11, 1), (10, 0), (0, 0)]:
        epochs = LeaderEpochs(ENTRIES)
        epochs.truncate_from_end(end_offset)
        assert epochs.entries == ENTRIES[:count]
        assert epochs.is_dirty == (count < 3)
    for start_offset, expected in [
        (9, ENTRIES),
        (10, ENTRIES),
        (11, [(2, 11), (4, 20), (7, 35)]),
        (20, [(4, 20), (7, 35)]),
        (99, [(7, 99)]),
    ]:
        epochs = LeaderEpochs(ENTRIES)
        epochs.truncate_from_start(start_offset)
        assert epochs.entries == expected
        assert epochs.is_dirty == (expected != ENTRIES)


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 30)), max_size=12))
def test_entries_always_rise(assigned: list[tuple[int, int]]) -> None:
    epochs = LeaderEpochs(assigned)
    for column in zip(*epochs.entries, strict=True):
        assert list(column) == sorted(set(column))
    if assigned:
        assert epochs.latest == assigned[-1][0]
