"""Bytes between offsets, known from samples; limits and splits by bytes."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from highwater.common.topic_partition import TopicPartition
from highwater.pipeline.kafka.reader import OffsetRange
from highwater.pipeline.source.sizes import Sample, Sizes, at_most_bytes, split_by_bytes

OF: TopicPartition = ("t", 0)


def test_a_range_that_was_sampled_whole_is_exact() -> None:
    sizes = Sizes(10, 30, [Sample(10, 20, 1000), Sample(20, 30, 3000)])
    assert sizes.total_bytes == 4000
    assert [sizes.bytes_before(offset) for offset in (10, 15, 20, 25, 30)] == [0, 500, 1000, 2500, 4000]
    assert [sizes.offset_after(size) for size in (0, 500, 1000, 2500, 4000, 9999)] == [10, 15, 20, 25, 30, 30]


def test_between_samples_records_have_the_mean_size_of_both() -> None:
    sizes = Sizes(0, 100, [Sample(0, 10, 100), Sample(50, 60, 300)])
    assert sizes.bytes_before(10) == 100
    assert sizes.bytes_before(50) == 100 + 40 * 20
    assert sizes.total_bytes == 900 + 300 + 40 * 30


def test_samples_that_overlap_count_once() -> None:
    # The second begins with the batch in which the first ends; both reach beyond the range.
    sizes = Sizes(5, 25, [Sample(0, 20, 200), Sample(10, 40, 300)])
    assert sizes.total_bytes == 200


def test_without_a_sample_nothing_is_held_back() -> None:
    sizes = {OF: Sizes(0, 10, [])}
    assert sizes[OF].total_bytes == 0
    assert at_most_bytes(1, {OF: 0}, {OF: 10}, sizes) == {OF: 10}
    assert split_by_bytes([OffsetRange("t", 0, 0, 10)], 1, sizes) == [OffsetRange("t", 0, 0, 10)]


def test_partitions_share_a_limit_in_proportion_to_their_bytes() -> None:
    one, two, empty = ("t", 0), ("t", 1), ("t", 2)
    starts, ends = {one: 0, two: 100, empty: 7}, {one: 100, two: 200, empty: 7}
    sizes = {one: Sizes(0, 100, [Sample(0, 100, 9000)]), two: Sizes(100, 200, [Sample(100, 200, 1000)])}
    assert at_most_bytes(10_000, starts, ends, sizes) == ends
    assert at_most_bytes(5_000, starts, ends, sizes) == {one: 50, two: 150, empty: 7}
    # No partition starves, and a batch that is larger than the limit is read all the same.
    assert at_most_bytes(1, starts, ends, sizes) == {one: 1, two: 101, empty: 7}


def test_parts_have_equal_sizes() -> None:
    sizes = {OF: Sizes(0, 100, [Sample(0, 50, 1000), Sample(50, 100, 3000)])}
    parts = split_by_bytes([OffsetRange("t", 0, 0, 100), OffsetRange("u", 0, 3, 4)], 1000, sizes)
    assert [(each.topic, each.start_offset, each.end_offset) for each in parts] == [
        ("t", 0, 50),
        ("t", 50, 66),
        ("t", 66, 83),
        ("t", 83, 100),
        ("u", 3, 4),
    ]


@given(
    st.integers(0, 10**12),
    st.integers(1, 10**6),
    st.lists(st.tuples(st.integers(-100, 10**6), st.integers(1, 10**5), st.integers(1, 10**8)), max_size=8),
    st.integers(1, 10**9),
)
def test_limits_and_parts_stay_in_the_range(
    start: int, count: int, samples: list[tuple[int, int, int]], limit_bytes: int
) -> None:
    end = start + count
    sizes = Sizes(start, end, [Sample(start + at, start + at + size, bytes_) for at, size, bytes_ in samples])
    assert sizes.bytes_before(start) == 0
    assert sizes.bytes_before(end) == sizes.total_bytes
    assert start <= sizes.offset_after(limit_bytes) <= end
    limited = at_most_bytes(limit_bytes, {OF: start}, {OF: end}, {OF: sizes})[OF]
    assert start < limited <= end
    if limited > start + 1:
        assert sizes.bytes_before(limited) <= max(limit_bytes, math.ceil(sizes.total_bytes * 1e-9)) * (1 + 1e-9) + 1
    if sizes.total_bytes / limit_bytes < 10_000:
        parts = split_by_bytes([OffsetRange("t", 0, start, end)], limit_bytes, {OF: sizes})
        assert [each.start_offset for each in parts] == [start, *(each.end_offset for each in parts[:-1])]
        assert parts[-1].end_offset == end
        assert all(each.start_offset < each.end_offset for each in parts)


def test_a_sample_is_no_part_of_another_range() -> None:
    assert Sizes(0, 10, [Sample(20, 30, 100)]).total_bytes == pytest.approx(0)
