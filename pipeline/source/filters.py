"""Which of a query's filters the source applies: topic, partition, offset, earliest time. Pure."""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
)

from highwater.common.topic_partition import TopicPartition
from highwater.pipeline.kafka.reader import OffsetRange

_NEVER_NULL: Final = ("topic", "partition", "offset", "timestampType")
_MS_PER_S: Final = 1000


@dataclass
class Bounds:
    """What the filters of a query leave over. None: no filter says anything about it."""

    topics: frozenset[str] | None = None
    partitions: frozenset[int] | None = None
    first_offset: int | None = None
    end_offset: int | None = None
    earliest_ms: int | None = None

    def take(self, condition: Filter) -> bool:
        """Narrow the bounds by one more filter. Returns whether Spark need not apply it any more."""
        match condition:
            case IsNotNull((name,)):
                return name in _NEVER_NULL
            case EqualTo((name,), value) | EqualNullSafe((name,), value):
                return self._is_in(name, [value])
            case In((name,), values):
                return self._is_in(name, list(values))
            case GreaterThan((name,), value):
                return self._is_from(name, value, inclusive=False)
            case GreaterThanOrEqual((name,), value):
                return self._is_from(name, value, inclusive=True)
            case LessThan(("offset",), value) if _is_whole(value):
                self._end_at(value)
                return True
            case LessThanOrEqual(("offset",), value) if _is_whole(value):
                self._end_at(value + 1)
                return True
        return False

    def _is_in(self, name: str, values: list[Any]) -> bool:
        if name == "topic" and all(isinstance(value, str) for value in values):
            self.topics = _both(self.topics, values)
            return True
        if name == "timestamp" and values and all(isinstance(value, datetime) for value in values):
            return self._is_from(name, min(values), inclusive=True)
        if not values or not all(map(_is_whole, values)):
            return False
        if name == "partition":
            self.partitions = _both(self.partitions, values)
            return True
        if name == "offset":
            self._begin_at(min(values))
            self._end_at(max(values) + 1)
            return len(values) == 1
        return False

    def _is_from(self, name: str, value: Any, *, inclusive: bool) -> bool:
        if name == "offset" and _is_whole(value):
            self._begin_at(value if inclusive else value + 1)
            return True
        if name == "timestamp" and isinstance(value, datetime) and value.tzinfo is not None:
            # Records have ms. Later records can have earlier times: Spark has to look at each.
            earliest_ms = math.floor(value.timestamp() * _MS_PER_S)
            self.earliest_ms = earliest_ms if self.earliest_ms is None else max(earliest_ms, self.earliest_ms)
        return False

    def _begin_at(self, offset: int) -> None:
        self.first_offset = offset if self.first_offset is None else max(offset, self.first_offset)

    def _end_at(self, offset: int) -> None:
        self.end_offset = offset if self.end_offset is None else min(offset, self.end_offset)

    def admits(self, of: TopicPartition) -> bool:
        """Whether records of this partition can pass the filters."""
        topic, partition = of
        return (self.topics is None or topic in self.topics) and (
            self.partitions is None or partition in self.partitions
        )

    def narrow(self, whole: OffsetRange) -> OffsetRange:
        """The part of a range that can pass the filters; it can be empty."""
        start, end = whole.start_offset, whole.end_offset
        if self.first_offset is not None:
            start = max(start, self.first_offset)
        if self.end_offset is not None:
            end = min(end, self.end_offset)
        return whole._replace(start_offset=start, end_offset=max(start, end))


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _both(before: frozenset[Any] | None, values: Collection[Any]) -> frozenset[Any]:
    return frozenset(values) if before is None else before & frozenset(values)
