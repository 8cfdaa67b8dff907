"""How much of what is new a micro-batch takes, and at which one time it ends in all partitions. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Final

from highwater.common.topic_partition import TopicPartition
from highwater.pipeline.kafka.model import ListedOffset


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


_ENOUGH: Final = 0.8
"""The share of the limit that is enough: to come nearer would cost further requests."""
_AIM: Final = 0.9
_FIRST_SPAN_MS: Final = 1000
_WIDER: Final = 8
_TIME_END_MS: Final = 1 << 63


class TimeCut:
    """Finds where the batches of a query end, and remembers the time of the last end: the next is near.

    A batch takes the records before a time, of each partition, and none from the first one on that has this time or a
    later one. So the watermark stays behind all that is left, and drops nothing that is in order in its partition.
    """

    def __init__(self) -> None:
        self._time_ms = 1
        self._span_ms = _FIRST_SPAN_MS

    def ends(
        self,
        starts: Mapping[TopicPartition, int],
        ends: Mapping[TopicPartition, int],
        share: Callable[[Mapping[TopicPartition, int]], float],
        listed_at: Callable[[int], Mapping[TopicPartition, ListedOffset]],
    ) -> dict[TopicPartition, int]:
        """Where a batch ends that takes the limit at most; but one millisecond with more than the limit comes whole.

        share: of the limit, that is before such ends; above 1 for `ends`. listed_at: the first record with a time or
        a later one in each partition that has something new; each call is a request to all leaders.
        """
        low, low_ms, low_share = dict(starts), 0, 0.0
        high, high_ms, high_share = dict(ends), _TIME_END_MS, share(ends)
        time_ms, first_ms, step_ms, halves = self._time_ms, 0, self._span_ms, False
        while high_ms - low_ms > 1 and low_share < _ENOUGH:
            listed = listed_at(time_ms)
            reached = {of: _reached(listed.get(of), starts[of], end) for of, end in ends.items()}
            if (found := share(reached)) > 1:
                high, high_ms, high_share = reached, time_ms, found
            else:
                # All times up to that of the first record which is left give the same ends.
                left_ms = (each.timestamp_ms for of, each in listed.items() if reached[of] < ends[of])
                low, low_ms, low_share = reached, max(time_ms, min(left_ms, default=time_ms)), found
            first_ms = first_ms or low_ms
            if high_ms == _TIME_END_MS:
                time_ms, step_ms = low_ms + step_ms, step_ms * _WIDER
            else:
                # Where records crowd, a straight line between the two comes near but slowly.
                part = 0.5 if halves else (_AIM - low_share) / (high_share - low_share)
                time_ms, halves = low_ms + max(int((high_ms - low_ms) * part), 1), not halves
            time_ms = min(time_ms, high_ms - 1)
        self._time_ms, self._span_ms = max(low_ms, 1), max(low_ms - first_ms, 1)
        return high if low == starts else low


def _reached(listed: ListedOffset | None, start: int, end: int) -> int:
    return end if listed is None or listed.offset is None else min(max(listed.offset, start), end)
