"""Limited batches that end at one time in all partitions, under the watermarks of Spark."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from highwater.common.topic_partition import TopicPartition
from highwater.pipeline.kafka.model import ListedOffset
from highwater.pipeline.source.limits import TimeCut, at_most

_MOST_REQUESTS = 150
"""A limit of the search by halves over all times, of which each second step is one."""


@dataclass
class Brokers:
    """The times of the records of each partition, and what ListOffsets answers."""

    times_ms: dict[TopicPartition, list[int]] = field(default_factory=dict)
    requests: int = 0

    def ends(self) -> dict[TopicPartition, int]:
        return {of: len(times) for of, times in self.times_ms.items()}

    def listed_at(self, time_ms: int) -> Mapping[TopicPartition, ListedOffset]:
        assert 0 < time_ms < 1 << 63
        self.requests += 1
        found = {}
        for of, times in self.times_ms.items():
            offset = next((number for number, each in enumerate(times) if each >= time_ms), None)
            found[of] = ListedOffset(None, -1, -1) if offset is None else ListedOffset(offset, times[offset], 0)
        return found


@dataclass
class Query:
    """What Spark does: the watermark of a batch is the largest time of those before it, less the delay."""

    brokers: Brokers
    limit: int
    delay_ms: int
    cut: TimeCut = field(default_factory=TimeCut)
    starts: dict[TopicPartition, int] = field(default_factory=dict)
    watermark_ms: int = -(1 << 63)
    sizes: list[int] = field(default_factory=list)
    late: list[int] = field(default_factory=list)
    dropped_from_windows: list[int] = field(default_factory=list)

    def batch(self, window_ms: int) -> bool:
        ends = self.brokers.ends()
        starts = {of: self.starts.get(of, 0) for of in ends}
        if starts == ends:
            return False
        limit = self.limit

        def share(reached: Mapping[TopicPartition, int]) -> float:
            return sum(reached[of] - starts[of] for of in reached) / limit

        if share(ends) > 1:
            ends = at_most(limit, starts, self.cut.ends(starts, ends, share, self.brokers.listed_at))
        assert any(ends[of] > starts[of] for of in ends)
        assert all(ends[of] >= starts[of] for of in ends)
        taken = [each for of, end in ends.items() for each in self.brokers.times_ms[of][starts[of] : end]]
        # Spark drops a row at the watermark itself, except from a window.
        self.late += [each for each in taken if each < self.watermark_ms + bool(self.delay_ms)]
        self.dropped_from_windows += [
            each for each in taken if each // window_ms * window_ms + window_ms <= self.watermark_ms
        ]
        self.sizes.append(len(taken))
        self.watermark_ms = max(self.watermark_ms, max(taken) - self.delay_ms)
        self.starts = ends
        return True


times = st.one_of(st.integers(0, 30), st.integers(10**12, 10**12 + 10**7), st.integers(0, (1 << 63) - 1))
arrivals = st.lists(st.tuples(times, st.integers(0, 4), st.booleans()), min_size=1, max_size=80)


@given(arrivals, st.integers(1, 50), st.integers(0, 20), st.integers(1, 1000))
def test_no_watermark_drops_what_was_in_order(
    records: list[tuple[int, int, bool]], limit: int, delay_ms: int, window_ms: int
) -> None:
    brokers = Brokers()
    query = Query(brokers, limit, delay_ms)
    for time_ms, partition, runs_batch in sorted(records, key=lambda each: each[0]):
        brokers.times_ms.setdefault(("t", partition), []).append(time_ms)
        if runs_batch:
            query.batch(window_ms)
    while query.batch(window_ms):
        pass
    assert query.starts == brokers.ends()
    assert query.late == []
    assert query.dropped_from_windows == []
    assert max(query.sizes) <= limit + len(brokers.times_ms)
    assert brokers.requests <= _MOST_REQUESTS * len(query.sizes)


@given(arrivals, st.integers(1, 50), st.integers(0, 500))
def test_a_delay_of_the_disorder_of_each_partition_is_enough(
    records: list[tuple[int, int, bool]], limit: int, disorder_ms: int
) -> None:
    """However far apart partitions are: a backlog of which one partition was written long before another."""
    brokers = Brokers()
    newest: dict[int, int] = {}
    for time_ms, partition, is_behind in records:
        newest[partition] = max(newest.get(partition, 0), time_ms)
        least = max(newest[partition] - disorder_ms, 0)
        brokers.times_ms.setdefault(("t", partition), []).append(least if is_behind else newest[partition])
    query = Query(brokers, limit, disorder_ms + 1)
    while query.batch(1):
        pass
    assert query.late == []
    assert query.starts == brokers.ends()


def test_a_backlog_costs_few_requests() -> None:
    brokers = Brokers({("t", number): list(range(10**12 + number, 10**12 + 10**6, 300)) for number in range(3)})
    query = Query(brokers, 500, 0)
    while query.batch(60_000):
        pass
    assert query.starts == brokers.ends()
    assert min(query.sizes[:-1]) >= 0.8 * 500
    assert brokers.requests <= 4 * len(query.sizes)


def test_a_millisecond_with_more_than_the_limit_is_divided_before_anything_later() -> None:
    brokers = Brokers({("t", 0): [5] * 10 + [6], ("t", 1): [5] * 10 + [6], ("t", 2): [7]})
    query = Query(brokers, 10, 0)
    taken = []
    while query.batch(1):
        taken.append(list(query.starts.values()))
    assert taken == [[5, 5, 0], [10, 10, 0], [11, 11, 1]]


def test_a_partition_that_is_ahead_waits_and_one_with_the_times_of_another_unit_does_not_block() -> None:
    now_ms = 10**12
    brokers = Brokers({("t", 0): [now_ms * 1000 + n for n in range(5)], ("t", 1): [now_ms + n for n in range(10)]})
    query = Query(brokers, 5, 0)
    query.batch(1)
    assert query.starts == {("t", 0): 0, ("t", 1): 4}
    while query.batch(1):
        pass
    assert query.starts == brokers.ends()
