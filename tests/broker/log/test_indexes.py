"""The offset index and the time index: lookups against a linear search, files to the byte, files that are none."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from highwater.broker.log.errors import CorruptIndex
from highwater.broker.log.offset_index import OffsetIndex
from highwater.broker.log.time_index import TimeIndex

BASE = 5_000_000_000
RISING = st.lists(st.integers(0, 2**31 - 2), unique=True, max_size=30).map(sorted)


@given(RISING, RISING, st.integers(-5, 2**31 + 5))
def test_offset_lookup(offsets: list[int], positions: list[int], target: int) -> None:
    entries = [(BASE + offset, position) for offset, position in zip(offsets, positions, strict=False)]
    index = OffsetIndex(BASE)
    for entry in entries:
        index.append(*entry)
    assert index.lookup(BASE + target) == max((e for e in entries if e[0] <= BASE + target), default=(BASE, 0))
    after = next((position for offset, position in entries if offset > BASE + target), 0)
    assert index.lookup_between(BASE + target) == (*index.lookup(BASE + target), after)
    assert index.lookup_position(target) == max((e for e in entries if e[1] <= target), default=(BASE, 0))
    assert index.last_entry == (entries[-1] if entries else (BASE, 0))
    again = OffsetIndex.decode(index.unwritten(), BASE, 2**31)
    assert again.entries == entries
    assert (again.written_entries, again.unwritten()) == (len(entries), b"")


def test_an_offset_far_past_the_segment_finds_its_last_entry() -> None:
    index = OffsetIndex(BASE)
    index.append(BASE + 7, 100)
    assert index.lookup(2**63 - 1) == (BASE + 7, 100)


@given(RISING, st.lists(st.integers(0, 1000), max_size=30).map(sorted), st.integers(-5, 2**31 + 5))
def test_timestamp_lookup(timestamps: list[int], offsets: list[int], target: int) -> None:
    entries = [(timestamp, BASE + offset) for timestamp, offset in zip(timestamps, offsets, strict=False)]
    index = TimeIndex(BASE)
    for entry in entries:
        index.append_if_later(*entry)
        index.append_if_later(entry[0], entry[1] + 1)
    assert index.lookup(target) == max((e for e in entries if e[0] <= target), default=(-1, BASE))
    assert TimeIndex.decode(index.unwritten(), BASE).entries == entries


def test_the_files_to_the_byte() -> None:
    index = OffsetIndex(BASE)
    index.append(BASE + 3, 4200)
    index.append(BASE + 9, 8400)
    assert index.unwritten() == struct.pack(">4i", 3, 4200, 9, 8400)
    index.written_entries = 1
    assert index.unwritten() == struct.pack(">2i", 9, 8400)
    time_index = TimeIndex(BASE)
    time_index.append_if_later(1_700_000_000_000, BASE + 3)
    assert time_index.unwritten() == struct.pack(">qi", 1_700_000_000_000, 3)


def test_fullness() -> None:
    index, time_index = OffsetIndex(0), TimeIndex(0)
    for i in range(1, 3):
        assert not index.is_full(16)
        assert not time_index.is_full(36)
        index.append(i, i)
        time_index.append_if_later(i, i)
    assert index.is_full(16)
    assert time_index.is_full(36)  # One entry is kept for the end of the segment.


@pytest.mark.parametrize(
    "data",
    [
        b"1234567",
        struct.pack(">4i", 5, 100, 5, 200),
        struct.pack(">4i", 5, 100, 6, 100),
        struct.pack(">2i", -1, 0),
        struct.pack(">2i", 5, 1000),
        bytes(16),
    ],
)
def test_what_cannot_be_an_offset_index_is_refused(data: bytes) -> None:
    with pytest.raises(CorruptIndex):
        OffsetIndex.decode(data, BASE, 1000)


@pytest.mark.parametrize(
    "data",
    [
        b"x" * 13,
        struct.pack(">qiqi", 5, 1, 5, 2),
        struct.pack(">qiqi", 5, 2, 6, 1),
        struct.pack(">qi", -9, 1),
        bytes(24),
    ],
)
def test_what_cannot_be_a_time_index_is_refused(data: bytes) -> None:
    with pytest.raises(CorruptIndex):
        TimeIndex.decode(data, BASE)
