"""What figures remember of the last half hour: offsets of partitions and commits, in few bytes.

Each tick is a few arrays with one number for each series. A series is a partition's, or that of a group on a partition.
It ends where offsets of different meaning would meet: a topic is made again under its name, or the end offset drops.
"""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from highwater.common.topic_partition import TopicPartition
from highwater.monitor.model import Broker, Group, Snapshot, Topic

WINDOW_MS: Final = 30 * 60 * 1000
# Younger ticks are all kept, so that commits of every few seconds are seen; of older ones, one in each minute.
FULL_MS: Final = 10 * 60 * 1000
SPARSE_MS: Final = 60 * 1000
UNKNOWN: Final = -1
_SPARE_SERIES: Final = 1000

BYTES_IN: Final = "kafka_server_brokertopicmetrics_bytesin_total"
BYTES_OUT: Final = "kafka_server_brokertopicmetrics_bytesout_total"


@dataclass(slots=True)
class Tick:
    """The arrays are indexed by series; UNKNOWN where there was no answer."""

    at_ms: int
    ends: array[int]
    starts: array[int]
    end_delays: array[int]
    """Milliseconds from `at_ms` to the answer with the end offset."""
    commits: array[int]
    commit_delays: array[int]


@dataclass(frozen=True, slots=True)
class Undecided:
    """A last stable offset below the end offset, and since when it stands still."""

    stable_offset: int
    since_ms: int


Points = deque[tuple[int, float]]
"""Monotonic milliseconds and values, the oldest first."""


@dataclass(slots=True)
class _Serial:
    """Numbers for series; a number is used once until `Memory` packs them."""

    count: int = 0
    by_partition: dict[TopicPartition, int] = field(default_factory=dict)
    commit_count: int = 0
    by_group: dict[str, dict[TopicPartition, int]] = field(default_factory=dict)
    partition_of_commit: list[int] = field(default_factory=list)
    """For each series of commits, that of the partition when it began."""
    has_moved: bytearray = field(default_factory=bytearray)
    """For each series of commits: 1 if it was ever seen to rise."""


class Memory:
    """Takes each snapshot of a cluster once, in the order of their ticks."""

    def __init__(self) -> None:
        self._newest: Snapshot | None = None
        self._serial = _Serial()
        self.ticks: list[Tick] = []
        self.undecided: dict[TopicPartition, Undecided] = {}
        self.usable_bytes: dict[tuple[int, str], Points] = {}
        """By broker and path of the log directory."""
        self.counters: dict[tuple[int, str], Points] = {}
        """BYTES_IN and BYTES_OUT by broker. A counter that drops begins anew."""
        self._memberless: deque[tuple[int, frozenset[str]]] = deque()

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
        self._add_undecided(snapshot)
        for broker in snapshot.brokers.values():
            self._add_gauges(broker, snapshot.at_ms)
        self._add_memberless(snapshot)
        self._newest = snapshot
        self._forget()

    def partition_series(self, key: TopicPartition) -> int | None:
        return self._serial.by_partition.get(key)

    def commit_series(self, group: str) -> Mapping[TopicPartition, int]:
        return self._serial.by_group.get(group, {})

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
        last = self.ticks[-1] if self.ticks else None
        if self._newest is not None:
            self._end_series_of_new_topics(self._newest.topics, snapshot.topics)
        serial, at_ms = self._serial, snapshot.at_ms
        numbers = serial.by_partition
        ends, starts, delays = (_column(serial.count) for _ in range(3))
        for topic in snapshot.topics.values():
            for partition in topic.partitions:
                number = numbers.get(partition.key)
                end = UNKNOWN if partition.end_offset is None else partition.end_offset
                if number is None or (last is not None and UNKNOWN < end < self._last_end(number)):
                    number = numbers[partition.key] = serial.count
                    serial.count += 1
                    for column in (ends, starts, delays):
                        column.append(UNKNOWN)
                ends[number] = end
                if partition.log_start_offset is not None:
                    starts[number] = partition.log_start_offset
                delays[number] = 0 if partition.offsets_at_ms is None else partition.offsets_at_ms - at_ms
        commits, commit_delays = self._commit_columns(snapshot)
        tick = Tick(at_ms, ends, starts, delays, commits, commit_delays)
        self.ticks.append(tick)
        for old in self.ticks:
            _pad((old.ends, old.starts, old.end_delays), serial.count)
            _pad((old.commits, old.commit_delays), serial.commit_count)

    def _last_end(self, number: int) -> int:
        # A series that began in this very tick is in no column yet.
        return next((tick.ends[number] for tick in reversed(self.ticks) if tick.ends[number] > UNKNOWN), UNKNOWN)

    def _commit_columns(self, snapshot: Snapshot) -> tuple[array[int], array[int]]:
        serial, at_ms = self._serial, snapshot.at_ms
        last = self.ticks[-1].commits if self.ticks else None
        commits, delays = _column(serial.commit_count), _column(serial.commit_count)
        for group in snapshot.groups.values():
            numbers = serial.by_group.setdefault(group.name, {})
            for key, commit in group.commits.items():
                partition = serial.by_partition.get(key, UNKNOWN)
                number = numbers.get(key)
                if number is None or serial.partition_of_commit[number] != partition:
                    number = numbers[key] = serial.commit_count
                    serial.commit_count += 1
                    serial.partition_of_commit.append(partition)
                    serial.has_moved.append(0)
                    commits.append(UNKNOWN)
                    delays.append(UNKNOWN)
                elif last is not None and UNKNOWN < last[number] < commit.offset:
                    serial.has_moved[number] = 1
                commits[number] = commit.offset
                delays[number] = commit.at_ms - at_ms
        return commits, delays

    def _end_series_of_new_topics(self, old: Mapping[str, Topic], new: Mapping[str, Topic]) -> None:
        for name, topic in new.items():
            before = old.get(name)
            if before is not None and before.topic_id and topic.topic_id and before.topic_id != topic.topic_id:
                for partition in before.partitions:
                    self._serial.by_partition.pop(partition.key, None)
                    self.undecided.pop(partition.key, None)

    def _add_undecided(self, snapshot: Snapshot) -> None:
        kept: dict[TopicPartition, Undecided] = {}
        for topic in snapshot.topics.values():
            for partition in topic.partitions:
                stable, end = partition.last_stable_offset, partition.end_offset
                if stable is not None and end is not None and stable >= end:
                    continue
                before = self.undecided.get(partition.key)
                if stable is None or end is None:
                    if before is not None:
                        kept[partition.key] = before
                elif before is not None and before.stable_offset == stable:
                    kept[partition.key] = before
                else:
                    kept[partition.key] = Undecided(stable, snapshot.at_ms)
        self.undecided = kept

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
                points.append((at_ms, value))

    def _add_memberless(self, snapshot: Snapshot) -> None:
        names = frozenset(group.name for group in snapshot.groups.values() if _is_memberless(group))
        # Mostly the same from tick to tick, and large.
        if self._memberless and self._memberless[-1][1] == names:
            names = self._memberless[-1][1]
        self._memberless.append((snapshot.at_ms, names))

    def _forget(self) -> None:
        now_ms = self.ticks[-1].at_ms
        oldest_ms = now_ms - WINDOW_MS
        while self.ticks[0].at_ms < oldest_ms:
            del self.ticks[0]
        newest_sparse = self.first_tick_since(now_ms - FULL_MS) - 1
        if newest_sparse > 0 and self.ticks[newest_sparse].at_ms - self.ticks[newest_sparse - 1].at_ms < SPARSE_MS:
            del self.ticks[newest_sparse]
        for table in (self.usable_bytes, self.counters):
            for key in [key for key, points in table.items() if _trimmed(points, oldest_ms)]:
                del table[key]
        while self._memberless[0][0] < oldest_ms:
            self._memberless.popleft()
        commits = sum(len(group.commits) for group in self.newest.groups.values())
        partitions = sum(len(topic.partitions) for topic in self.newest.topics.values())
        if self._serial.count > 2 * partitions + _SPARE_SERIES or (
            self._serial.commit_count > 2 * commits + _SPARE_SERIES
        ):
            self._pack()

    def _pack(self) -> None:
        """Forget the series that ended, and those of which no tick knows anything more."""
        old, new = self._serial, _Serial()
        kept: list[int] = []
        for key, number in old.by_partition.items():
            if any(tick.ends[number] > UNKNOWN or tick.starts[number] > UNKNOWN for tick in self.ticks):
                new.by_partition[key] = new.count
                new.count += 1
                kept.append(number)
        numbers = dict(zip(kept, range(new.count), strict=True))
        kept_commits: list[int] = []
        for group, series in old.by_group.items():
            for key, number in series.items():
                if any(tick.commits[number] > UNKNOWN for tick in self.ticks):
                    new.by_group.setdefault(group, {})[key] = new.commit_count
                    new.commit_count += 1
                    new.partition_of_commit.append(numbers.get(old.partition_of_commit[number], UNKNOWN))
                    new.has_moved.append(old.has_moved[number])
                    kept_commits.append(number)
        for tick in self.ticks:
            tick.ends, tick.starts = _picked(tick.ends, kept), _picked(tick.starts, kept)
            tick.end_delays = _picked(tick.end_delays, kept)
            tick.commits = _picked(tick.commits, kept_commits)
            tick.commit_delays = _picked(tick.commit_delays, kept_commits)
        self._serial = new


def _is_memberless(group: Group) -> bool:
    return not group.members and not group.error


def _column(length: int) -> array[int]:
    return array("q", [UNKNOWN]) * length


def _pad(columns: Iterable[array[int]], length: int) -> None:
    for column in columns:
        column.extend([UNKNOWN] * (length - len(column)))


def _picked(column: array[int], numbers: Iterable[int]) -> array[int]:
    return array("q", (column[number] for number in numbers))


def _trimmed(points: Points, oldest_ms: int) -> bool:
    """Drop old points; returns True if none is left."""
    while points and points[0][0] < oldest_ms:
        points.popleft()
    return not points
