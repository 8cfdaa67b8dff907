"""Which filters the source applies itself, and what is left to Spark."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    IsNull,
    LessThan,
    LessThanOrEqual,
    Not,
    StringStartsWith,
)

from highwater.pipeline.kafka.reader import OffsetRange
from highwater.pipeline.source.filters import Bounds

AT = datetime(2026, 1, 1, 0, 0, 0, 1500, UTC)
AT_MS = 1767225600001


@pytest.mark.parametrize(
    ("condition", "is_done", "bounds"),
    [
        (EqualTo(("topic",), "t"), True, Bounds(topics=frozenset({"t"}))),
        (In(("topic",), ("t", "u")), True, Bounds(topics=frozenset({"t", "u"}))),
        (EqualTo(("partition",), 3), True, Bounds(partitions=frozenset({3}))),
        (In(("partition",), (1, 2)), True, Bounds(partitions=frozenset({1, 2}))),
        (EqualTo(("offset",), 7), True, Bounds(first_offset=7, end_offset=8)),
        (In(("offset",), (7, 3)), False, Bounds(first_offset=3, end_offset=8)),
        (GreaterThan(("offset",), 7), True, Bounds(first_offset=8)),
        (GreaterThanOrEqual(("offset",), 7), True, Bounds(first_offset=7)),
        (LessThan(("offset",), 7), True, Bounds(end_offset=7)),
        (LessThanOrEqual(("offset",), 7), True, Bounds(end_offset=8)),
        (GreaterThan(("timestamp",), AT), False, Bounds(earliest_ms=AT_MS)),
        (GreaterThanOrEqual(("timestamp",), AT), False, Bounds(earliest_ms=AT_MS)),
        (EqualTo(("timestamp",), AT), False, Bounds(earliest_ms=AT_MS)),
        (LessThan(("timestamp",), AT), False, Bounds()),
        (IsNotNull(("topic",)), True, Bounds()),
        (IsNotNull(("key",)), False, Bounds()),
        (IsNull(("topic",)), False, Bounds()),
        (Not(EqualTo(("topic",), "t")), False, Bounds()),
        (StringStartsWith(("topic",), "t"), False, Bounds()),
        (EqualTo(("value",), b"x"), False, Bounds()),
        (GreaterThan(("partition",), 1), False, Bounds()),
        (EqualTo(("headers", "key"), "x"), False, Bounds()),
    ],
)
def test_a_filter(condition: Filter, is_done: bool, bounds: Bounds) -> None:
    found = Bounds()
    assert found.take(condition) is is_done
    assert found == bounds


def test_filters_together_narrow_a_range() -> None:
    bounds = Bounds()
    for condition in (
        GreaterThanOrEqual(("offset",), 0),
        GreaterThan(("offset",), 4),
        LessThan(("offset",), 9),
        LessThan(("offset",), 20),
        In(("partition",), (0, 1)),
        In(("partition",), (1, 2)),
    ):
        assert bounds.take(condition)
    assert [number for number in range(4) if bounds.admits(("t", number))] == [1]
    assert bounds.narrow(OffsetRange("t", 1, 0, 7)) == OffsetRange("t", 1, 5, 7)
    assert bounds.narrow(OffsetRange("t", 1, 6, 100)) == OffsetRange("t", 1, 6, 9)
    empty = bounds.narrow(OffsetRange("t", 1, 50, 100))
    assert empty.start_offset == empty.end_offset


def test_contradictions_leave_nothing() -> None:
    bounds = Bounds()
    bounds.take(EqualTo(("topic",), "t"))
    bounds.take(EqualTo(("topic",), "u"))
    assert not bounds.admits(("t", 0))
