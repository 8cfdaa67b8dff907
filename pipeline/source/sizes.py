"""Knows how many bytes of a log lie between two offsets, from samples of it: limits and splits. Pure."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from highwater.common.topic_partition import TopicPartition
from highwater.pipeline.kafka.reader import OffsetRange


class Sample(NamedTuple):
    """Batches that follow each other: start_offset <= offset < end_offset, and their size in the log."""

    start_offset: int
    end_offset: int
    size_bytes: int


class Sizes:
    """The sizes of the offsets of one partition from `start_offset` to `end_offset`.

    Exact where a sample was taken. Between two samples, offsets have the mean size of both; without samples, no size.
    """

    def __init__(self, start_offset: int, end_offset: int, samples: Iterable[Sample]) -> None:
        self._offsets: list[int] = [start_offset]
        self._bytes: list[float] = [0.0]
        apart = _apart(start_offset, end_offset, samples)
        for before, each in zip([None, *apart], apart, strict=False):
            self._go_to(each.start_offset, _bytes_per_offset(before, each))
            self._go_to(each.end_offset, _bytes_per_offset(each))
        self._go_to(end_offset, _bytes_per_offset(apart[-1]) if apart else 0.0)

    def _go_to(self, offset: int, bytes_per_offset: float) -> None:
        if offset > self._offsets[-1]:
            self._bytes.append(self._bytes[-1] + (offset - self._offsets[-1]) * bytes_per_offset)
            self._offsets.append(offset)

    @property
    def total_bytes(self) -> float:
        return self._bytes[-1]

    def bytes_before(self, offset: int) -> float:
        """The bytes from the start to `offset`."""
        return _interpolated(offset, self._offsets, self._bytes)

    def offset_after(self, size_bytes: float) -> int:
        """The offset up to which so many bytes reach, or a little less."""
        return math.floor(_interpolated(size_bytes, self._bytes, self._offsets))


def _interpolated(at: float, known: Sequence[float], values: Sequence[float]) -> float:
    index = min(bisect_right(known, at), len(known) - 1)
    if index == 0 or at >= known[-1]:
        return values[index]
    low, high = known[index - 1], known[index]
    return values[index - 1] + (values[index] - values[index - 1]) * (at - low) / (high - low)


def _apart(start_offset: int, end_offset: int, samples: Iterable[Sample]) -> list[Sample]:
    """The samples in order, without overlaps and within the range; what is cut off takes its share of the bytes."""
    found: list[Sample] = []
    for each in sorted(samples):
        first = max(each.start_offset, found[-1].end_offset if found else start_offset)
        end = min(each.end_offset, end_offset)
        if first < end:
            found.append(Sample(first, end, round((end - first) * _bytes_per_offset(each))))
    return found


def _bytes_per_offset(*samples: Sample | None) -> float:
    there = [each for each in samples if each is not None]
    return sum(each.size_bytes for each in there) / sum(each.end_offset - each.start_offset for each in there)


def bytes_before(ends: Mapping[TopicPartition, int], sizes: Mapping[TopicPartition, Sizes]) -> float:
    """The bytes from where `sizes` begins to `ends`, of all partitions that it has."""
    return sum(each.bytes_before(ends[of]) for of, each in sizes.items())


def at_most_bytes(
    limit_bytes: int,
    starts: Mapping[TopicPartition, int],
    ends: Mapping[TopicPartition, int],
    sizes: Mapping[TopicPartition, Sizes],
) -> dict[TopicPartition, int]:
    """The ends of a batch of about `limit_bytes`, which partitions share in proportion to the bytes that are new.

    A partition with something new gets one offset at least. `starts` has every partition of `ends`, and `sizes` begins
    at `starts`; partitions that are not in `sizes` have nothing new.
    """
    total_bytes = bytes_before(ends, sizes)
    if total_bytes <= limit_bytes:
        return dict(ends)
    limited = dict(ends)
    for of, each in sizes.items():
        if ends[of] > starts[of]:
            share_bytes = limit_bytes * (each.bytes_before(ends[of]) / total_bytes)
            limited[of] = min(ends[of], max(each.offset_after(share_bytes), starts[of] + 1))
    return limited


def split_by_bytes(
    ranges: Iterable[OffsetRange], limit_bytes: int, sizes: Mapping[TopicPartition, Sizes]
) -> list[OffsetRange]:
    """Divide ranges into parts of equal size in bytes, of about `limit_bytes` at most."""
    found = []
    for whole in ranges:
        known = sizes.get((whole.topic, whole.partition))
        parts = 1 if known is None else max(math.ceil(known.total_bytes / limit_bytes), 1)
        start = whole.start_offset
        for part in range(1, parts + 1):
            end = whole.end_offset
            if known is not None and part < parts:
                end = min(known.offset_after(known.total_bytes * part / parts), end)
            if end > start:
                found.append(whole._replace(start_offset=start, end_offset=end))
                start = end
    return found
