"""Reads the segments of a log: batches, sizes, aborted transactions, offsets by timestamp.

All functions raise CorruptBatch, CorruptIndex or OSError when a segment cannot be read.
"""

from __future__ import annotations

from highwater.broker.log.segment_list import SegmentList
from highwater.kafka.records.batch import CREDIBLE_MS, NO_TIMESTAMP
from highwater.kafka.records.record_times import HeaderBudget


def read(
    segments: SegmentList,
    offset: int,
    max_bytes: int,
    end_offset: int,
    log_end_offset: int,
    *,
    at_least_one_batch: bool,
    only_cached: bool,
) -> bytes | bytearray:
    """Whole batches from the one that holds `offset` on, all below `end_offset`, at most `max_bytes`.

    With `only_cached` NotCached where it would wait for the disk.
    """
    base_offsets, all_segments = segments.base_offsets, segments.all
    # If a segment ends with a gap in its offsets, the next one has the first batch after `offset`.
    for slot in range(segments.slot_of(offset), len(base_offsets)):
        if base_offsets[slot] >= end_offset:
            break
        segment = all_segments[slot]
        reaches_end = end_offset >= segments.end_offset_of(slot, log_end_offset)
        end_position = segment.size_bytes if reaches_end else segment.position_of(end_offset, only_cached=only_cached)
        data = segment.read(
            offset,
            max_bytes,
            end_position=end_position,
            next_offset=-1 if reaches_end and slot + 1 < len(base_offsets) else end_offset,
            at_least_one_batch=at_least_one_batch,
            only_cached=only_cached,
        )
        if data is not None:
            return data
    return b""


def readable_bytes(segments: SegmentList, offset: int, end_offset: int, log_end_offset: int) -> int | None:
    """The bytes from the batch that holds `offset` up to `end_offset`; None when a segment ends in between."""
    slot = segments.slot_of(offset)
    segment, segment_end_offset = segments.all[slot], segments.end_offset_of(slot, log_end_offset)
    if end_offset > segment_end_offset:
        return None
    found = segment.find(offset)
    end_position = segment.size_bytes if end_offset == segment_end_offset else segment.position_of(end_offset)
    return 0 if found is None else max(0, end_position - found[0])


def aborted_transactions(
    segments: SegmentList, offset: int, size_bytes: int, end_offset: int, log_end_offset: int
) -> list[tuple[int, int]]:
    """(producer id, first offset) of aborted transactions with records in `size_bytes` from `offset` on.

    Transactions that begin later, but before `end_offset`, may be among them.
    """
    found: list[tuple[int, int]] = []
    first = segments.slot_of(offset)
    is_bounded = False
    # For nearly all logs this list is empty: no transaction was aborted.
    for segment in [segment for segment in segments.all[first:] if segment.indexes.has_aborted]:
        for aborted in segment.transaction_index.entries(offset):
            if not is_bounded:
                end_offset = min(end_offset, _end_of_read(segments, first, offset, size_bytes, log_end_offset))
                is_bounded = True
            if aborted.first_offset < end_offset:
                found.append((aborted.producer_id, aborted.first_offset))
            if aborted.last_stable_offset >= end_offset:
                return found
    return found


def _end_of_read(segments: SegmentList, slot: int, offset: int, size_bytes: int, log_end_offset: int) -> int:
    """An offset that a read of so many bytes does not reach; a read stays in one segment."""
    for at in range(slot, len(segments.all)):
        segment = segments.all[at]
        if segment.find(offset) is not None:
            end_offset = segment.end_of(offset, size_bytes)
            return segments.end_offset_of(at, log_end_offset) if end_offset is None else end_offset
    return log_end_offset


def offset_for_timestamp(
    segments: SegmentList, timestamp_ms: int, start_offset: int, end_offset: int
) -> tuple[int, int] | None:
    """(timestamp, offset) of the first record from `start_offset` on that is not before `timestamp_ms`.

    None if there is none below `end_offset`.
    """
    allowance = HeaderBudget()
    for segment in segments.all:
        if segment.largest_timestamp[0] < timestamp_ms - CREDIBLE_MS:
            continue
        found = segment.find_timestamp(timestamp_ms, start_offset, allowance)
        if found is not None:
            return found if found[1] < end_offset else None
    return None


def max_timestamp(segments: SegmentList, start_offset: int) -> tuple[int, int]:
    """(timestamp, offset) of the first record that has the largest timestamp; (NO_TIMESTAMP, −1) without one."""
    segment = max(segments.all, key=lambda segment: segment.largest_timestamp[0])
    timestamp_ms, last_offset = segment.largest_timestamp
    if timestamp_ms == NO_TIMESTAMP or last_offset < start_offset:
        return NO_TIMESTAMP, -1
    found = segment.find_timestamp(timestamp_ms, start_offset, HeaderBudget())
    return found if found is not None else (timestamp_ms, last_offset)
