"""How much of what is new a micro-batch takes. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping

from highwater.common.topic_partition import TopicPartition


def new_offsets(starts: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]) -> int:
    return sum(end - starts[of] for of, end in ends.items())


def at_most(
    records: int, starts: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]
) -> dict[TopicPartition, int]:
    """The ends of a batch of about `records` offsets, which partitions share in proportion to what is new in them.

    As Spark's connector computes them. In a query with a watermark, this is for records of one time alone: a share of
    the offsets of each partition is not a share of its time, and what is left in one partition would be late.

    A partition with something new gets one offset at least, so that no small partition starves: a batch can therefore
    have a few more than `records`. `starts` has every partition of `ends`.
    """
    new = {of: end - starts[of] for of, end in ends.items() if end > starts[of]}
    total = sum(new.values())
    if total <= records:
        return dict(ends)
    limited = dict(ends)
    for of, size in new.items():
        share = records * (size / total)
        limited[of] = min(ends[of], starts[of] + (math.ceil(share) if share < 1 else math.floor(share)))
    return limited


class Delay:
    """Holds a batch back until enough is new, or until the last one was long ago."""

    def __init__(self, min_records: int, max_delay_ms: int) -> None:
        self._min_records = min_records
        self._max_delay_ms = max_delay_ms
        self._last_batch_ms: int | None = None

    def holds_back(self, new_records: int, now_ms: int) -> bool:
        """Whether to wait. If not, the time of `max_delay_ms` begins again. The first batch never waits."""
        last_ms = self._last_batch_ms
        if last_ms is not None and now_ms - last_ms < self._max_delay_ms and new_records < self._min_records:
            return True
        self._last_batch_ms = now_ms
        return False
