"""What figures remember of the last half hour: offsets of partitions and commits, in few bytes.

A series is a partition's, or that of a group on a partition. A tick has one array with the offsets of all series: small
arrays that live for half an hour, one for each series, would lie between what lives for one tick, and most of that
memory could not be used again. A series ends where offsets of different meaning would meet: a topic is made again under
its name, or the end offset drops.
"""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from highwater.common.host_answer import HostAnswer
from highwater.common.topic_partition import TopicPartition
from highwater.monitor.model import Broker, Group, Host, Snapshot, Topic
from highwater.monitor.undecided import UndecidedPartitions

WINDOW_MS: Final = 30 * 60 * 1000
# Younger ticks are all kept, so that commits of every few seconds are seen; of older ones, one in each minute.
FULL_MS: Final = 10 * 60 * 1000
SPARSE_MS: Final = 60 * 1000
HOST_SPAN_MS: Final = 60 * 1000
# Retention moves log start offsets by whole segments.
STARTS_MS: Final = 5 * 60 * 1000
RATE_SPAN_MS: Final = 60 * 1000
"""Rates are those of the last minute: short enough to follow a load, long enough that bursts do not rule."""
UNKNOWN: Final = -1
_NO_DELAYS: Final = array("h")
_SPARE_SERIES: Final = 1000
# What four bytes hold: only a made-up source is further from its tick.
_LONGEST_DELAY_MS: Final = 2**31 - 1

BYTES_IN: Final = "kafka_server_brokertopicmetrics_bytesin_total"
BYTES_OUT: Final = "kafka_server_brokertopicmetrics_bytesout_total"


@dataclass(frozen=True, slots=True)
class TickOffsets:
    """The arrays are indexed by series, and know nothing of series that began later."""

    at_ms: int
    ends: array[int]
    """End offsets of partitions; UNKNOWN where there was no answer."""
    end_delays: array[int]
    """Milliseconds from `at_ms` to the answer with the end offset."""
    commits: array[int]
    """Offsets that groups committed on partitions, likewise."""
    commit_delays: array[int]
    """Empty if the tick is older than RATE_SPAN_MS, as rates alone need them."""


@dataclass(frozen=True, slots=True)
class Starts:
    """Log start offsets by series, at few of the ticks; UNKNOWN where there was no answer."""

    at_ms: int
    offsets: array[int]


Points = deque[tuple[int, float]]
"""Monotonic milliseconds and values, the oldest first."""


@dataclass(slots=True)
class _Serial:
    """Numbers for series; a number is used once until `Memory` packs them."""

    by_topic: dict[str, list[int]] = field(default_factory=dict)
    """Numbers of series by topic, in the order of the partitions."""
    last_ends: array[int] = field(default_factory=lambda: array("q"))
    """For each series of partitions, its newest end offset that is known."""
    by_group: dict[str, dict[TopicPartition, int]] = field(default_factory=dict)
    partition_of_commit: list[int | None] = field(default_factory=list)
    """For each series of commits, that of the partition when it began; None if there was none."""
    has_moved: bytearray = field(default_factory=bytearray)
    """For each series of commits: 1 if it was ever seen to rise."""

    def of(self, key: TopicPartition) -> int | None:
        topic, partition = key
        numbers = self.by_topic.get(topic, ())
        return numbers[partition] if 0 <= partition < len(numbers) else None


class Memory:
    """Takes each snapshot of a cluster once, in the order of their ticks."""

    def __init__(self) -> None:
        self._newest: Snapshot | None = None
        self._serial = _Serial()
        self.ticks: list[TickOffsets] = []
        """The oldest first."""
        self.starts: list[Starts] = []
        """The oldest first."""
        self.undecided = UndecidedPartitions()
        self.usable_bytes: dict[tuple[int, str], Points] = {}
        """Usable bytes by broker and path of the log directory."""
        self.counters: dict[tuple[int, str], Points] = {}
        """BYTES_IN and BYTES_OUT by broker. A counter that drops begins anew."""
        self._memberless: deque[tuple[int, frozenset[str]]] = deque()
        self.hosts: dict[str, deque[HostAnswer]] = {}
        """Answers of the last minute by host, all of one boot, the oldest first."""

    @property
    def newest(self) -> Snapshot:
        """Raises ValueError before the first snapshot."""
        if self._newest is None:
            raise ValueError("figures need one snapshot at least")
        return self._newest

    @property
    def window_ms(self) -> int:
        """How far back it reaches."""
        return self.ticks[-1].at_ms - self.ticks[0].at_ms

    def add(self, snapshot: Snapshot) -> None:
        """Raises ValueError if `snapshot` is older than the newest one."""
        if self._newest is not None and snapshot.at_ms < self._newest.at_ms:
            raise ValueError(f"tick {snapshot.number} is older than tick {self._newest.number}")
        self._add_series(snapshot)
        self.undecided.add(snapshot.topics, snapshot.at_ms)
        for broker in snapshot.brokers.values():
            self._add_gauges(broker, snapshot.at_ms)
        self._add_memberless(snapshot)
        for host in snapshot.hosts.values():
            self._add_host(host)
        self._newest = snapshot
        self._forget()

    def topic_series(self, topic: str) -> Sequence[int]:
        """Return the series of a topic's partitions, in their order."""
        return self._serial.by_topic.get(topic, ())

    def partition_series(self, key: TopicPartition) -> int | None:
        return self._serial.of(key)

    def commit_series(self, group: str) -> Mapping[TopicPartition, int]:
        return self._serial.by_group.get(group, {})

    def ends(self, series: int) -> list[int]:
        """The end offset of a partition's series at each tick; UNKNOWN where there was no answer."""
        return _row([tick.ends for tick in self.ticks], series)

    def commits(self, series: int) -> list[int]:
        """What a group committed on a partition at each tick, by its series; UNKNOWN where there was no answer."""
        return _row([tick.commits for tick in self.ticks], series)

    def has_moved(self, series: int) -> bool:
        """True if a series of commits was seen to rise since this memory began."""
        return bool(self._serial.has_moved[series])

    def was_memberless(self, group: str, from_ms: int, to_ms: int) -> bool:
        """True if `group` had no member in some tick from `from_ms` to `to_ms`."""
        return any(group in groups for at_ms, groups in self._memberless if from_ms <= at_ms <= to_ms)

    def first_tick_since(self, at_ms: int) -> int:
        """Index of the oldest tick at `at_ms` or later."""
        for index in range(len(self.ticks) - 1, -1, -1):
            if self.ticks[index].at_ms < at_ms:
                return index + 1
        return 0

    def _add_series(self, snapshot: Snapshot) -> None:
        if self._newest is not None:
            self._end_series_of_new_topics(self._newest.topics, snapshot.topics)
        at_ms, by_topic, last_ends = snapshot.at_ms, self._serial.by_topic, self._serial.last_ends
        ends = array("q", [UNKNOWN]) * len(last_ends)
        delays = array("i", [0]) * len(ends)
        is_due = not self.starts or at_ms - self.starts[-1].at_ms >= STARTS_MS
        starts = array("q", [UNKNOWN]) * len(ends) if is_due else None

        def begun() -> int:
            ends.append(UNKNOWN)
            last_ends.append(UNKNOWN)
            delays.append(0)
            if starts is not None:
                starts.append(UNKNOWN)
            return len(ends) - 1

        for name, topic in snapshot.topics.items():
            numbers = by_topic.get(name)
            if numbers is None:
                numbers = by_topic[name] = []
            for place, partition in enumerate(topic.partitions):
                if place == len(numbers):
                    numbers.append(begun())
                number, end = numbers[place], partition.end_offset
                if end is not None:
                    if end < last_ends[number]:
                        number = numbers[place] = begun()
                    last_ends[number] = ends[number] = end
                answered_at_ms = partition.offsets_at_ms
                if answered_at_ms is not None:
                    delays[number] = _delay_ms(answered_at_ms, at_ms)
                if starts is not None and partition.log_start_offset is not None:
                    starts[number] = partition.log_start_offset
        commits, commit_delays = self._add_commits(snapshot)
        if starts is not None:
            self.starts.append(Starts(at_ms, starts))
        self.ticks.append(TickOffsets(at_ms, *map(_narrow, (ends, delays, commits, commit_delays))))

    def _add_commits(self, snapshot: Snapshot) -> tuple[array[int], array[int]]:
        """Return the commits and their delays."""
        serial, at_ms = self._serial, snapshot.at_ms
        commits = array("q", [UNKNOWN]) * len(serial.partition_of_commit)
        delays = array("i", [0]) * len(commits)
        before = self.ticks[-1].commits if self.ticks else ()
        known_before = len(before)
        for group in snapshot.groups.values():
            numbers = serial.by_group.setdefault(group.name, {})
            for key, commit in group.commits.items():
                partition = serial.of(key)
                number = numbers.get(key)
                if number is None or serial.partition_of_commit[number] != partition:
                    number = numbers[key] = len(commits)
                    commits.append(UNKNOWN)
                    serial.partition_of_commit.append(partition)
                    serial.has_moved.append(0)
                    delays.append(0)
                if number < known_before and UNKNOWN < before[number] < commit.offset:
                    serial.has_moved[number] = 1
                commits[number] = commit.offset
                delays[number] = _delay_ms(commit.at_ms, at_ms)
        return commits, delays

    def _end_series_of_new_topics(self, old: Mapping[str, Topic], new: Mapping[str, Topic]) -> None:
        for name, topic in new.items():
            before = old.get(name)
            if before is not None and before.topic_id and topic.topic_id and before.topic_id != topic.topic_id:
                self._serial.by_topic.pop(name, None)

    def _add_gauges(self, broker: Broker, at_ms: int) -> None:
        for directory in broker.directories:
            if directory.usable_bytes is not None:
                points = self.usable_bytes.setdefault((broker.node_id, directory.path), deque())
                points.append((at_ms, directory.usable_bytes))
        for name in (BYTES_IN, BYTES_OUT):
            value = None if broker.metrics is None else broker.metrics.get(name)
            if value is not None:
                points = self.counters.setdefault((broker.node_id, name), deque())
                if points and value < points[-1][1]:
                    points.clear()
                points.append((at_ms if broker.metrics_at_ms is None else broker.metrics_at_ms, value))

    def _add_host(self, host: Host) -> None:
        answers = self.hosts.setdefault(host.name, deque())
        newest = host.answer
        if newest is None:
            return
        if answers and (answers[-1].boot_id, answers[-1].monotonic_ms) == (newest.boot_id, newest.monotonic_ms):
            return
        if answers and (answers[-1].boot_id != newest.boot_id or answers[-1].monotonic_ms > newest.monotonic_ms):
            answers.clear()
        answers.append(newest)
        while len(answers) > 2 and answers[1].monotonic_ms <= newest.monotonic_ms - HOST_SPAN_MS:
            answers.popleft()

    def _add_memberless(self, snapshot: Snapshot) -> None:
        names = frozenset(group.name for group in snapshot.groups.values() if _is_memberless(group))
        # Mostly the same from tick to tick, and large.
        if self._memberless and self._memberless[-1][1] == names:
            names = self._memberless[-1][1]
        self._memberless.append((snapshot.at_ms, names))

    def _forget(self) -> None:
        now_ms = self.ticks[-1].at_ms
        oldest_ms = now_ms - WINDOW_MS
        ticks = self.ticks
        del ticks[: self.first_tick_since(oldest_ms)]
        newest_sparse = self.first_tick_since(now_ms - FULL_MS) - 1
        if newest_sparse > 0 and ticks[newest_sparse].at_ms - ticks[newest_sparse - 1].at_ms < SPARSE_MS:
            del ticks[newest_sparse]
        without_rates = self.first_tick_since(now_ms - RATE_SPAN_MS) - 1
        if without_rates >= 0:
            ticks[without_rates] = replace(ticks[without_rates], commit_delays=_NO_DELAYS)
        while self.starts[0].at_ms < oldest_ms:
            del self.starts[0]
        for table in (self.usable_bytes, self.counters):
            for key in [key for key, points in table.items() if _trimmed(points, oldest_ms)]:
                del table[key]
        while self._memberless[0][0] < oldest_ms:
            self._memberless.popleft()
        commits = sum(len(group.commits) for group in self.newest.groups.values())
        partitions = sum(len(topic.partitions) for topic in self.newest.topics.values())
        newest = ticks[-1]
        if len(newest.ends) > 2 * partitions + _SPARE_SERIES or len(newest.commits) > 2 * commits + _SPARE_SERIES:
            self._pack()

    def _pack(self) -> None:
        """Forget the series that ended, and those of which no tick knows anything more."""
        old, new = self._serial, _Serial()
        kept: list[int] = []
        for topic, numbers in old.by_topic.items():
            if any(_is_known(self.ends(number)) for number in numbers):
                new.by_topic[topic] = list(range(len(kept), len(kept) + len(numbers)))
                kept += numbers
        new.last_ends = array("q", [old.last_ends[number] for number in kept])
        numbers_now = {number: index for index, number in enumerate(kept)}
        kept_commits: list[int] = []
        for group, series in old.by_group.items():
            for key, number in series.items():
                if _is_known(self.commits(number)):
                    new.by_group.setdefault(group, {})[key] = len(kept_commits)
                    partition = old.partition_of_commit[number]
                    new.partition_of_commit.append(None if partition is None else numbers_now.get(partition))
                    new.has_moved.append(old.has_moved[number])
                    kept_commits.append(number)
        self.starts = [Starts(each.at_ms, _picked(each.offsets, kept)) for each in self.starts]
        self.ticks = [
            TickOffsets(
                tick.at_ms,
                _picked(tick.ends, kept),
                _picked(tick.end_delays, kept),
                _picked(tick.commits, kept_commits),
                _picked(tick.commit_delays, kept_commits) if tick.commit_delays else _NO_DELAYS,
            )
            for tick in self.ticks
        ]
        self._serial = new


def _is_memberless(group: Group) -> bool:
    return not group.members and not group.error


def _delay_ms(at_ms: int, tick_at_ms: int) -> int:
    delay_ms = at_ms - tick_at_ms
    return delay_ms if -_LONGEST_DELAY_MS < delay_ms < _LONGEST_DELAY_MS else 0


def _narrow(numbers: array[int]) -> array[int]:
    """Return the numbers in as few bytes each as can hold all: most offsets need four, and most delays two."""
    lowest, highest = (min(numbers), max(numbers)) if numbers else (0, 0)
    for typecode in ("h", "i"):
        limit = 1 << (8 * array(typecode).itemsize - 1)
        if -limit <= lowest and highest < limit:
            return array(typecode, numbers)
    return numbers


def _row(columns: Sequence[array[int]], series: int) -> list[int]:
    """What the columns have at one place."""
    if columns and series < len(columns[0]):
        return [column[series] for column in columns]
    return [column[series] if series < len(column) else UNKNOWN for column in columns]


def _is_known(offsets: Sequence[int]) -> bool:
    return any(offset > UNKNOWN for offset in offsets)


def _picked(column: array[int], numbers: Sequence[int]) -> array[int]:
    """The column of the series with these numbers; UNKNOWN for those that began later."""
    known = len(column)
    return array(column.typecode, [column[number] if number < known else UNKNOWN for number in numbers])


def _trimmed(points: Points, oldest_ms: int) -> bool:
    """Drop old points; returns True if none is left."""
    while points and points[0][0] < oldest_ms:
        points.popleft()
    return not points
