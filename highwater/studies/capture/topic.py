"""Reads a topic of a cluster for a capture: at a bounded rate, without a group, without a commit."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from highwater.common.errors import UsageError
from highwater.common.topic_partition import TopicPartition
from highwater.common.units import count_text
from highwater.kafka.requests.broker_error import BrokerError
from highwater.kafka.requests.fetch import Fetch
from highwater.pipeline.kafka.batches import Partition
from highwater.pipeline.kafka.client import Client
from highwater.pipeline.kafka.model import EARLIEST, LATEST, CommittedOffset, Edge, OutOfRange
from highwater.spark_loadgen.compression import Compression
from highwater.studies.capture.observing import Window, observe
from highwater.studies.capture.pacing import ReadLimit
from highwater.studies.capture.statistics import Statistics

_FETCH_BYTES: Final = 1 << 20
_IDLE_S: Final = 0.2
_PACE_S: Final = 1.0


@dataclass(frozen=True, slots=True)
class TopicRange:
    """What to read of a topic. Times are ms since 1970; None: from its start, or up to its end as it is now.

    for_s: what is written in the next so many seconds. group: from what this group has committed; with for_s, how it
    goes on is observed too.
    """

    topic: str
    start_ms: int | None = None
    end_ms: int | None = None
    start_offset: int | None = None
    end_offset: int | None = None
    for_s: float | None = None
    group: str | None = None


@dataclass(slots=True)
class GroupPace:
    """How a group went on: records consumed in each second, and those that it had left at its end."""

    consumed: list[int] = field(default_factory=list)
    lag: list[int] = field(default_factory=list)


class TopicReader:
    """Reads one topic; `statistics` and `pace` are what it found."""

    def __init__(
        self,
        client: Client,
        wanted: TopicRange,
        statistics: Statistics,
        compressions: Mapping[str, Compression],
        limit: ReadLimit,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.statistics = statistics
        self.pace = GroupPace()
        self._client = client
        self._wanted = wanted
        self._compressions = compressions
        self._limit = limit
        self._clock = clock
        self._sleep = sleep
        self._committed_before: int | None = None
        self._next_pace_s = 0.0

    def read(self) -> None:
        """Raises UsageError for what cannot be read, ClientError, RecordsError and SpanError."""
        if self._wanted.for_s is not None:
            self._read_live(self._wanted.for_s)
        else:
            self.read_windows(self.windows())

    def windows(self) -> dict[TopicPartition, Window]:
        """What there is to read of each partition, as the log is now. Raises UsageError if it is nothing."""
        wanted = self._wanted
        partitions = self._partitions()
        first = self._offsets(partitions, EARLIEST)
        starts, ends = self._starts(partitions, first), self._ends(partitions)
        found = {
            each: Window(starts[each], ends[each], wanted.start_ms, wanted.end_ms)
            for each in partitions
            if starts[each] < ends[each]
        }
        if not found:
            has = sum(offset or 0 for offset in self._offsets(partitions, LATEST).values())
            has -= sum(offset or 0 for offset in first.values())
            raise UsageError(f"topic {wanted.topic} has no record in the range; its log has {count_text(has)} offsets")
        return found

    def read_windows(self, windows: Mapping[TopicPartition, Window]) -> None:
        """Read these ranges, a fetch of each partition in turn. Raises as `read`."""
        positions = {each: window.start_offset for each, window in windows.items()}
        behind = list(windows)
        while behind:
            for each in behind:
                positions[each] = self._read_some(each, positions[each], windows[each])
            behind = [each for each in behind if positions[each] < windows[each].end_offset]

    def _read_live(self, for_s: float) -> None:
        """Read what is written in the next `for_s` seconds: the ends of that moment are read too."""
        partitions = self._partitions()
        positions = self._starts(partitions, self._offsets(partitions, EARLIEST))
        self._next_pace_s = self._clock()
        ends_s = self._next_pace_s + for_s
        ends = self._ends(partitions)
        windows = {each: Window(positions[each]) for each in partitions}
        is_over = False
        while True:
            behind = [each for each in partitions if positions[each] < ends[each]]
            if is_over and not behind:
                return
            for each in behind:
                positions[each] = self._read_some(each, positions[each], windows[each])
                self._observe_group(partitions, ends, ends_s)
            if is_over:
                continue
            if not behind:
                self._sleep(_IDLE_S)
            is_over = self._clock() >= ends_s
            ends = self._ends(partitions)
            self._observe_group(partitions, ends, ends_s)

    def _partitions(self) -> list[TopicPartition]:
        name = self._wanted.topic
        topic = self._client.needed_topics([name])[name]
        if topic.error is not None:
            raise UsageError(self._refusal(topic.error, name))
        return [(name, partition) for partition in sorted(topic.partitions)]

    def _refusal(self, error: BrokerError, what: str) -> str:
        name = self._wanted.topic
        if error.name == "UNKNOWN_TOPIC_OR_PARTITION":
            hidden = "or this user may not see it"
            return f"topic {name} does not exist there, {hidden}; highwater broker topics --list names those that do"
        if error.name in ("TOPIC_AUTHORIZATION_FAILED", "GROUP_AUTHORIZATION_FAILED", "CLUSTER_AUTHORIZATION_FAILED"):
            needed = f"DESCRIBE and READ on the topic {name}"
            if error.name.startswith("GROUP"):
                needed = f"DESCRIBE on the group {self._wanted.group}"
            return f"{what} may not be read by this user; a capture needs {needed}"
        return f"{what} cannot be read: {error}"

    def _offsets(self, partitions: list[TopicPartition], at: Edge | int) -> dict[TopicPartition, int | None]:
        found: dict[TopicPartition, int | None] = {}
        for each, listed in self._client.list_offsets(dict.fromkeys(partitions, at)).items():
            if isinstance(listed, BrokerError):
                raise UsageError(self._refusal(listed, f"the offsets of topic {each[0]}"))
            found[each] = listed.offset
        return found

    def _ends(self, partitions: list[TopicPartition]) -> dict[TopicPartition, int]:
        wanted = self._wanted
        latest = {each: offset or 0 for each, offset in self._offsets(partitions, LATEST).items()}
        if wanted.end_offset is not None:
            latest = {each: min(offset, wanted.end_offset) for each, offset in latest.items()}
        if wanted.end_ms is None:
            return latest
        by_time = self._offsets(partitions, wanted.end_ms)
        return {each: latest[each] if offset is None else min(offset, latest[each]) for each, offset in by_time.items()}

    def _starts(
        self, partitions: list[TopicPartition], first: Mapping[TopicPartition, int | None]
    ) -> dict[TopicPartition, int]:
        wanted = self._wanted
        if wanted.group is not None:
            committed = self._committed(partitions)
            return {each: committed.get(each, first[each] or 0) for each in partitions}
        if wanted.for_s is not None:
            return {each: offset or 0 for each, offset in self._offsets(partitions, LATEST).items()}
        if wanted.start_ms is not None:
            latest = self._offsets(partitions, LATEST)
            by_time = self._offsets(partitions, wanted.start_ms)
            return {each: (latest[each] or 0) if offset is None else offset for each, offset in by_time.items()}
        return {each: max(offset or 0, wanted.start_offset or 0) for each, offset in first.items()}

    def _committed(self, partitions: list[TopicPartition]) -> dict[TopicPartition, int]:
        """What the group has committed; it is asked as any client may ask, and not joined."""
        group = self._wanted.group
        assert group is not None
        answer = self._client.committed_offsets(group, partitions, require_stable=False)
        if isinstance(answer, BrokerError):
            raise UsageError(self._refusal(answer, f"the offsets of group {group}"))
        found = {}
        for each, committed in answer.items():
            if isinstance(committed, BrokerError):
                raise UsageError(self._refusal(committed, f"the offsets of group {group}"))
            if isinstance(committed, CommittedOffset) and committed.offset >= 0:
                found[each] = committed.offset
        if not found:
            raise UsageError(f"group {group} has committed no offset of topic {self._wanted.topic}; leave --group out")
        return found

    def _read_some(self, of: TopicPartition, offset: int, window: Window) -> int:
        """Read one fetch of a partition; returns the offset to go on from."""
        answer = self._client.fetch(Fetch(*of, offset, max_bytes=_FETCH_BYTES))
        if isinstance(answer, OutOfRange):
            if answer.log_start_offset > offset:
                self.statistics.lost_offsets += min(answer.log_start_offset, window.end_offset) - offset
                return answer.log_start_offset
            raise UsageError(f"topic {of[0]} was made anew, or its log was cut, during the capture; start again")
        if isinstance(answer, BrokerError):
            raise UsageError(self._refusal(answer, f"topic {of[0]}"))
        following = observe(
            self.statistics,
            answer.records,
            Partition(*of),
            window,
            offset,
            self._compressions,
            log_start_offset=answer.log_start_offset,
        )
        self.statistics.read_bytes += len(answer.records)
        self._limit.took(len(answer.records))
        if following is None or following == offset:
            raise UsageError(
                f"partition {of[1]} of topic {of[0]} gives no record at offset {offset}, although its log goes on; "
                "check the broker's log for damage"
            )
        return following

    def _observe_group(
        self, partitions: list[TopicPartition], ends: Mapping[TopicPartition, int], ends_s: float
    ) -> None:
        """Once a second, while the capture is live."""
        now_s = self._clock()
        if self._wanted.group is None or not self._next_pace_s <= now_s < ends_s:
            return
        self._next_pace_s += _PACE_S
        committed = self._committed(partitions)
        total = sum(committed.values())
        if self._committed_before is not None:
            self.pace.consumed.append(max(0, total - self._committed_before))
            self.pace.lag.append(sum(max(0, ends[each] - offset) for each, offset in committed.items()))
        self._committed_before = total
