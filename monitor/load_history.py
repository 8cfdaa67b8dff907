"""Draws a load from the history: peaks, means, growth, how uneven brokers are, and who reads."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median
from typing import Final

from highwater.monitor.errors import HistoryError
from highwater.monitor.figures.trend import LEAST_POINTS, slope
from highwater.monitor.history.kinds import (
    BROKER,
    CLUSTER,
    DAY_MS,
    GROUP,
    GROUP_PARTITION,
    HOUR_MS,
    MINUTE_MS,
    PARTITION,
    TOPIC,
    Tier,
)
from highwater.monitor.history.reader import RATE, HistoryReader, Point

LEAST_MS: Final = DAY_MS
"""A shorter history does not show the busiest minute."""
PEAK_PERCENTILE: Final = 0.999
_LAG_PERCENTILE: Final = 0.99
_WEEK_PERCENTILE: Final = 0.95
_FIVE_MINUTES_MS: Final = 5 * MINUTE_MS
_WEEK_MS: Final = 7 * DAY_MS
_MONTH_WEEKS: Final = 365.25 / 12 / 7
# A week of which more is missing says nothing of its busy hours.
_HOURS_OF_A_WEEK: Final = 5 * 24
_MOST_NAMES: Final = 1_000_000
# Partitions that are looked at, of each topic and of each topic that a group reads.
_MOST_PARTITIONS: Final = 100
_MOST_COMMITS: Final = 8
_BUSY_SHARE: Final = 0.1

Span = tuple[int, int]


@dataclass(frozen=True, slots=True)
class TopicLoad:
    name: str
    records_per_s: float
    """The mean."""
    peak_bytes_per_s: float | None
    """None, as the other bytes, if no broker said how large the topic is."""
    mean_bytes_per_s: float | None
    partitions: int
    partition_bytes: float | None
    """The mean of the leaders' replicas."""
    replication: int | None
    held_s: float | None
    """For how long records are kept, if old ones were deleted meanwhile."""
    groups: tuple[str, ...]
    """Those that committed something new."""
    consumers: int
    """Members of the largest of these groups."""
    lag_s: float
    hottest: tuple[int, float] | None
    """The partition that got the most, and its share of the records; None with a single partition."""


@dataclass(frozen=True, slots=True)
class DrawnGrowth:
    """The growth of a week's busy hours per month, with its 95 % interval."""

    per_month: float
    low: float
    high: float
    weeks: int


@dataclass(frozen=True, slots=True)
class DrawnLoad:
    cluster: str
    shown: str
    """The history's file or address."""
    from_ms: int
    to_ms: int
    covered_ms: int
    minutes_from_ms: int
    """The history has a value for each minute from here on, and for five minutes before."""
    topics: tuple[TopicLoad, ...]
    """That records were produced to, those with most first."""
    silent: tuple[str, ...]
    """The other ones."""
    busiest_bytes_per_s: float
    """The peak of all topics together, of five minutes."""
    counted_bytes_per_s: float | None
    """The mean, as the brokers counted it; None if they serve no metrics."""
    request_bytes: float | None
    """The mean of a produce request; None if the brokers serve no metrics."""
    imbalance: float | None
    """The busiest broker over the mean, in busy hours; None if the brokers serve no metrics."""
    growth: DrawnGrowth | None
    weeks: int
    """Whole weeks that growth was looked for in."""


def draw(reader: HistoryReader, shown: str, days: float) -> DrawnLoad:
    """The load of the newest `days`. Raises HistoryError if the history cannot be read, or is too short."""
    tiers = reader.sizes().tiers
    cluster = next(iter(reader.names(CLUSTER.name, 1)), "")
    if not tiers:
        raise HistoryError(f"{shown}: the history is empty; let highwater monitor serve run for a day at least")
    oldest_ms, to_ms = min(tier.oldest_ms for tier in tiers), max(tier.newest_ms for tier in tiers)
    span = max(oldest_ms, to_ms - round(days * DAY_MS)), to_ms
    covered_ms = _covered_ms(reader, cluster, span)
    if covered_ms < LEAST_MS:
        raise HistoryError(
            f"{shown}: has {covered_ms / HOUR_MS:.3g} hours of {cluster}, and its busiest minute is not known of less "
            f"than {LEAST_MS // HOUR_MS}; let highwater monitor serve run on"
        )
    raw_ms = next((tier.oldest_ms for tier in tiers if tier.tier is Tier.RAW), to_ms)
    return _Drawing(reader, span, max(span[0], raw_ms, to_ms - 2 * DAY_MS)).load(cluster, shown, covered_ms, oldest_ms)


def _covered_ms(reader: HistoryReader, cluster: str, span: Span) -> int:
    points = reader.series(CLUSTER.name, cluster, "brokers", *span, _steps(span, _FIVE_MINUTES_MS)).points
    return sum(
        later.at_ms - point.at_ms
        for point, later in pairwise(points)
        if point.value is not None and later.value is not None
    )


class _Drawing:
    def __init__(self, reader: HistoryReader, span: Span, minutes_from_ms: int) -> None:
        self._reader = reader
        self._span = span
        self._minutes_from_ms = minutes_from_ms
        self._readers = self._commits()

    def load(self, cluster: str, shown: str, covered_ms: int, oldest_ms: int) -> DrawnLoad:
        topics, silent = [], []
        together: dict[int, float] = defaultdict(float)
        hours: dict[int, float] = defaultdict(float)
        for name in self._reader.names(TOPIC.name, _MOST_NAMES):
            if name.startswith("__") or not self._values(TOPIC.name, name, "partitions", HOUR_MS):
                continue
            found = self._topic(name, together)
            if found is None:
                silent.append(name)
                continue
            topics.append(found)
            self._add_hours(found, hours, oldest_ms)
        growth, weeks = growth_of(hours)
        counted, requests = self._of_brokers("bytes_in"), self._of_brokers("produce_requests")
        return DrawnLoad(
            cluster=cluster,
            shown=shown,
            from_ms=self._span[0],
            to_ms=self._span[1],
            covered_ms=covered_ms,
            minutes_from_ms=self._minutes_from_ms,
            topics=tuple(sorted(topics, key=lambda topic: (-(topic.peak_bytes_per_s or math.inf), topic.name))),
            silent=tuple(sorted(silent)),
            busiest_bytes_per_s=_percentile(together.values(), PEAK_PERCENTILE),
            counted_bytes_per_s=counted,
            request_bytes=counted / requests if counted and requests else None,
            imbalance=self._imbalance(),
            growth=growth,
            weeks=weeks,
        )

    def _points(self, kind: str, name: str, metric: str, step_ms: int, span: Span | None = None) -> Sequence[Point]:
        span = span or self._span
        return self._reader.series(kind, name, metric, *span, _steps(span, step_ms)).points

    def _values(self, kind: str, name: str, metric: str, step_ms: int) -> list[float]:
        return [point.value for point in self._points(kind, name, metric, step_ms) if isinstance(point.value, float)]

    # -- Topics --------------------------------------------------------------------------------------------------------

    def _topic(self, name: str, together: dict[int, float]) -> TopicLoad | None:
        """None if nothing was produced to it. together: bytes of all topics for each five minutes, to add to."""
        mean = mean_rate(self._points(TOPIC.name, name, "end_offsets", _FIVE_MINUTES_MS))
        if not mean:
            return None
        rates = self._points(TOPIC.name, name, "end_offsets" + RATE, _FIVE_MINUTES_MS)
        minutes_span = self._minutes_from_ms, self._span[1]
        minutes = self._points(TOPIC.name, name, "end_offsets" + RATE, MINUTE_MS, minutes_span)
        sizes, leaders = (self._values(TOPIC.name, name, each, HOUR_MS) for each in ("size_bytes", "leader_bytes"))
        partitions = round(max(self._values(TOPIC.name, name, "partitions", HOUR_MS), default=1.0))
        record_bytes, held_bytes = self._record_bytes(name), leaders[-1] if leaders else None
        starts = self._values(TOPIC.name, name, "start_offsets", HOUR_MS)
        held_s = None
        if record_bytes is not None and held_bytes is not None and len(starts) > 1 and starts[-1] > starts[0]:
            held_s = held_bytes / (mean * record_bytes)
        for point in rates:
            if isinstance(point.value, float):
                together[point.at_ms // _FIVE_MINUTES_MS] += point.value * (record_bytes or 0.0)
        groups = self._readers.get(name, ())
        members = [value for group in groups for value in self._values(GROUP.name, group, "members", HOUR_MS)]
        peak = max(_percentile(_known(each), PEAK_PERCENTILE) for each in (rates, minutes))
        return TopicLoad(
            name=name,
            records_per_s=mean,
            peak_bytes_per_s=max(peak, mean) * record_bytes if record_bytes is not None else None,
            mean_bytes_per_s=mean * record_bytes if record_bytes is not None else None,
            partitions=partitions,
            partition_bytes=held_bytes / partitions if held_bytes else None,
            replication=_copies(sizes, leaders),
            held_s=held_s,
            groups=groups,
            consumers=round(max(members, default=0.0)),
            lag_s=max((self._lag_s(group) for group in groups), default=0.0),
            hottest=self._hottest(name, partitions),
        )

    def _lag_s(self, group: str) -> float:
        return _percentile(self._values(GROUP.name, group, "lag_s", _FIVE_MINUTES_MS), _LAG_PERCENTILE)

    def _record_bytes(self, name: str) -> float | None:
        """Bytes of one copy for each offset, by what the leaders hold at the end; None if no broker said it."""
        last = [
            {point.at_ms // HOUR_MS: point.value for point in self._points(TOPIC.name, name, metric, HOUR_MS)}
            for metric in ("leader_bytes", "end_offsets", "start_offsets")
        ]
        for hour in sorted(last[0], reverse=True):
            size, end, start = (of_hour.get(hour) for of_hour in last)
            if isinstance(size, float) and isinstance(end, float) and isinstance(start, float) and size and end > start:
                return size / (end - start)
        return None

    def _hottest(self, topic: str, partitions: int) -> tuple[int, float] | None:
        if not 1 < partitions <= _MOST_PARTITIONS:
            return None
        produced = {
            number: mean_rate(self._points(PARTITION.name, f"{topic}-{number}", "end_offset", HOUR_MS))
            for number in range(partitions)
        }
        total = sum(produced.values())
        hottest = max(produced, key=lambda number: produced[number])
        return (hottest, produced[hottest] / total) if total else None

    def _commits(self) -> dict[str, tuple[str, ...]]:
        """The groups that committed something new in each topic."""
        of_pair: dict[tuple[str, str], list[str]] = defaultdict(list)
        for name in self._reader.names(GROUP_PARTITION.name, _MOST_NAMES):
            group, _, partition = name.rpartition("/")
            of_pair[group, partition.rpartition("-")[0]].append(name)
        found: dict[str, list[str]] = defaultdict(list)
        for (group, topic), names in sorted(of_pair.items()):
            for name in names[:: math.ceil(len(names) / _MOST_COMMITS)]:
                if mean_rate(self._points(GROUP_PARTITION.name, name, "committed", HOUR_MS)):
                    found[topic].append(group)
                    break
        return {topic: tuple(groups) for topic, groups in found.items()}

    def _add_hours(self, topic: TopicLoad, hours: dict[int, float], oldest_ms: int) -> None:
        """Add its bytes in each hour of the whole history."""
        if topic.mean_bytes_per_s is None:
            return
        record_bytes = topic.mean_bytes_per_s / topic.records_per_s
        span = oldest_ms, self._span[1]
        for point in self._points(TOPIC.name, topic.name, "end_offsets" + RATE, HOUR_MS, span):
            if isinstance(point.value, float):
                hours[point.at_ms // HOUR_MS] += point.value * record_bytes

    # -- Brokers -------------------------------------------------------------------------------------------------------

    def _of_brokers(self, counter: str) -> float | None:
        """Per second, of all brokers."""
        names = self._reader.names(BROKER.name, _MOST_NAMES)
        return sum(mean_rate(self._points(BROKER.name, name, counter, HOUR_MS)) for name in names) or None

    def _imbalance(self) -> float | None:
        """What clients and leaders wrote to the busiest broker over the mean, in the busiest tenth of the hours."""
        of_hour: dict[int, dict[str, float]] = defaultdict(lambda: defaultdict(float))
        for name in self._reader.names(BROKER.name, _MOST_NAMES):
            for counter in ("bytes_in", "replication_bytes_in"):
                for point in self._points(BROKER.name, name, counter + RATE, HOUR_MS):
                    if isinstance(point.value, float):
                        of_hour[point.at_ms // HOUR_MS][name] += point.value
        # An hour in which a broker was away is not one of uneven brokers.
        most = max(map(len, of_hour.values()), default=0)
        whole = sorted((each for each in of_hour.values() if len(each) == most), key=lambda each: -sum(each.values()))
        busy = [each for each in whole[: max(1, round(len(whole) * _BUSY_SHARE))] if sum(each.values())]
        if most < 2 or not busy:
            return None
        return median(max(each.values()) * most / sum(each.values()) for each in busy)


def growth_of(hours: Mapping[int, float]) -> tuple[DrawnGrowth | None, int]:
    """Return the growth of each week's 95th percentile, None if none is certain; and the number of whole weeks."""
    weeks: dict[int, list[float]] = defaultdict(list)
    for hour, value in hours.items():
        weeks[hour * HOUR_MS // _WEEK_MS].append(value)
    whole = {
        week: _percentile(values, _WEEK_PERCENTILE) for week, values in weeks.items() if len(values) >= _HOURS_OF_A_WEEK
    }
    times = sorted(whole)
    if len(times) < LEAST_POINTS:
        return None, len(times)
    found, newest = slope(times, [whole[week] for week in times]), median(whole[week] for week in times[-3:])
    if found is None or found.low <= 0 or not newest:
        return None, len(times)
    per_month = _MONTH_WEEKS / newest
    return DrawnGrowth(found.median * per_month, found.low * per_month, found.high * per_month, len(times)), len(times)


def mean_rate(counted: Sequence[Point]) -> float:
    """Return the mean rate of a counter per second, over the times that it was seen."""
    total = time_ms = 0.0
    for before, point in pairwise(counted):
        if isinstance(before.value, float) and isinstance(point.value, float) and point.value >= before.value:
            total += point.value - before.value
            time_ms += point.at_ms - before.at_ms
    return 1000 * total / time_ms if time_ms else 0.0


def _copies(sizes: Sequence[float], leaders: Sequence[float]) -> int | None:
    """Return the copies of each partition, by the bytes of all replicas and of the leaders'; None if not known."""
    ratios = [size / leader for size, leader in zip(sizes, leaders, strict=False) if leader]
    return max(1, round(median(ratios))) if ratios else None


def _known(points: Iterable[Point]) -> list[float]:
    return [point.value for point in points if isinstance(point.value, float)]


def _percentile(values: Iterable[float], share: float) -> float:
    """The value that `share` of them do not exceed; 0 of none."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, math.ceil(share * len(ordered)) - 1)] if ordered else 0.0


def _steps(span: Span, step_ms: int) -> int:
    """How many points of a span are `step_ms` apart."""
    return max(1, (span[1] - span[0]) // step_ms)
