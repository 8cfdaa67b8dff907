"""Since when the last stable offset of a partition stands still: a transaction is open there. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from highwater.common.topic_partition import TopicPartition
from highwater.monitor.model import Topic


@dataclass(frozen=True, slots=True)
class Undecided:
    topic_id: str
    stable_offset: int
    since_ms: int
    """Monotonic time of the tick that saw it first."""


class UndecidedPartitions:
    """Takes the topics of each tick once, in the order of the ticks."""

    def __init__(self) -> None:
        self.by_partition: dict[TopicPartition, Undecided] = {}

    def add(self, topics: Mapping[str, Topic], at_ms: int) -> None:
        before, kept = self.by_partition, dict[TopicPartition, Undecided]()
        for topic in topics.values():
            for partition in topic.partitions:
                stable, end = partition.last_stable_offset, partition.end_offset
                if stable is not None and end is not None and stable >= end:
                    continue
                key = partition.key
                seen = before.get(key)
                if seen is not None and seen.topic_id != topic.topic_id:
                    seen = None  # the topic was made again
                if stable is None or end is None:
                    if seen is not None:
                        kept[key] = seen
                elif seen is not None and seen.stable_offset == stable:
                    kept[key] = seen
                else:
                    kept[key] = Undecided(topic.topic_id, stable, at_ms)
        self.by_partition = kept

    def standing_since(self, at_ms: int, limit: int) -> list[TopicPartition]:
        """Return at most `limit` partitions that stand still at least since `at_ms`, the longest first."""
        standing = sorted((seen.since_ms, key) for key, seen in self.by_partition.items() if seen.since_ms <= at_ms)
        return [key for _, key in standing[:limit]]
