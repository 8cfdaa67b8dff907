"""Division into tasks: the cases of KafkaOffsetRangeCalculatorSuite, and maxRecordsPerPartition."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from highwater.pipeline.kafka.reader import OffsetRange
from highwater.pipeline.source.ranges import divide

Plain = tuple[str, int, int]


def ranges(*plain: Plain) -> list[OffsetRange]:
    return [OffsetRange(topic, 1, start, end) for topic, start, end in plain]


@pytest.mark.parametrize(
    ("min_partitions", "given_ranges", "expected"),
    [
        (None, [("a", 1, 2), ("b", 1, 1)], [("a", 1, 2)]),
        (3, [("a", 1, 2), ("b", 1, 2), ("c", 1, 2)], [("a", 1, 2), ("b", 1, 2), ("c", 1, 2)]),
        (4, [("a", 1, 5)], [("a", 1, 2), ("a", 2, 3), ("a", 3, 4), ("a", 4, 5)]),
        (4, [("a", 1, 5), ("b", 1, 21)], [("a", 1, 5), ("b", 1, 7), ("b", 7, 14), ("b", 14, 21)]),
        (4, [("a", 1, 1), ("b", 1, 21)], [("b", 1, 6), ("b", 6, 11), ("b", 11, 16), ("b", 16, 21)]),
        (4, [("a", 1, 2), ("b", 1, 1001)], [("a", 1, 2), ("b", 1, 334), ("b", 334, 667), ("b", 667, 1001)]),
        (1, [("a", 1, 5), ("b", 1, 21)], [("a", 1, 5), ("b", 1, 21)]),
        (3, [("a", 1, 11)], [("a", 1, 4), ("a", 4, 7), ("a", 7, 11)]),
        (
            6,
            [("a", 0, 10), ("b", 0, 10), ("c", 0, 1)],
            [("a", 0, 3), ("a", 3, 6), ("a", 6, 10), ("b", 0, 3), ("b", 3, 6), ("b", 6, 10), ("c", 0, 1)],
        ),
        (
            6,
            [("a", 0, 500), ("b", 0, 12000), ("c", 0, 15001)],
            [
                ("a", 0, 500),
                ("b", 0, 6000),
                ("b", 6000, 12000),
                ("c", 0, 5000),
                ("c", 5000, 10000),
                ("c", 10000, 15001),
            ],
        ),
        (
            6,
            [("a", 0, 1), ("b", 0, 1), ("c", 0, 10000)],
            [("a", 0, 1), ("b", 0, 1), ("c", 0, 2500), ("c", 2500, 5000), ("c", 5000, 7500), ("c", 7500, 10000)],
        ),
        (4, [("a", 0, 1), ("b", 0, 1), ("c", 0, 2)], [("a", 0, 1), ("b", 0, 1), ("c", 0, 1), ("c", 1, 2)]),
    ],
)
def test_min_partitions_divides_as_sparks_connector_does(
    min_partitions: int | None, given_ranges: list[Plain], expected: list[Plain]
) -> None:
    assert divide(ranges(*given_ranges), min_partitions) == ranges(*expected)


def test_no_task_has_more_records_than_allowed() -> None:
    assert divide(ranges(("a", 0, 10), ("b", 0, 3)), None, 4) == ranges(
        ("a", 0, 3), ("a", 3, 6), ("a", 6, 10), ("b", 0, 3)
    )


@given(
    st.lists(st.tuples(st.integers(0, 50), st.integers(0, 5000)), max_size=5),
    st.none() | st.integers(1, 40),
    st.none() | st.integers(1, 700),
)
def test_every_offset_is_in_one_task(
    sizes: list[tuple[int, int]], min_partitions: int | None, max_records: int | None
) -> None:
    whole = [OffsetRange("t", number, start, start + size) for number, (start, size) in enumerate(sizes)]
    tasks = divide(whole, min_partitions, max_records)
    for each in whole:
        parts = [task for task in tasks if task.partition == each.partition]
        assert all(task.end_offset > task.start_offset for task in parts)
        edges = [task.start_offset for task in parts] + [each.end_offset]
        assert edges[0] == each.start_offset
        assert [task.end_offset for task in parts] == edges[1:]
        assert max_records is None or all(task.end_offset - task.start_offset <= max_records for task in parts)
