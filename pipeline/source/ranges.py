"""How the ranges of a batch are divided into tasks, as Spark's connector divides them. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Final

from highwater.pipeline.kafka.reader import OffsetRange

_HALF: Final = 0.5


def divide(
    ranges: Iterable[OffsetRange], min_partitions: int | None = None, max_records_per_partition: int | None = None
) -> list[OffsetRange]:
    """One range for each task; empty ranges are left out.

    `max_records_per_partition` divides first. If there are then fewer than `min_partitions`, the large ones are
    divided in proportion to their size. That reaches about `min_partitions`, because shares are rounded.
    """
    found = [each for each in ranges if _size(each) > 0]
    if max_records_per_partition is not None:
        found = [part for each in found for part in _split(each, math.ceil(_size(each) / max_records_per_partition))]
    if min_partitions is None or len(found) >= min_partitions:
        return found
    total = sum(_size(each) for each in found)
    small = [_parts(_size(each), total, min_partitions) == 1 for each in found]
    # Ranges that stay whole take no part in the proportion (SPARK-36576).
    large_total = sum(_size(each) for each, is_small in zip(found, small, strict=True) if not is_small)
    left = max(min_partitions - sum(small), 1)
    return [
        part
        for each, is_small in zip(found, small, strict=True)
        for part in _split(each, 1 if is_small else _parts(_size(each), large_total, left))
    ]


def _size(whole: OffsetRange) -> int:
    """How many offsets it has. There can be fewer records: of compacted topics and of transactions."""
    return whole.end_offset - whole.start_offset


def _parts(size: int, total: int, parts: int) -> int:
    # Java's Math.round rounds halves up, and Python's round to the even number.
    return max(math.floor(size / total * parts + _HALF), 1)


def _split(whole: OffsetRange, parts: int) -> list[OffsetRange]:
    """Into equal parts; the last ones take what is left over."""
    found = []
    start = whole.start_offset
    for part in range(parts):
        end = start + (whole.end_offset - start) // (parts - part)
        if end > start:
            found.append(whole._replace(start_offset=start, end_offset=end))
        start = end
    return found
