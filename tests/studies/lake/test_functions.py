"""Functions of SQL against raw values: percentiles of merged histograms, and statistics that do not depend on order."""

from __future__ import annotations

import math
import random
from statistics import median

import numpy as np
import pyarrow as pa
import pytest

from highwater.results.analysis.statistics import a_a_bound, coefficient_of_variation
from highwater.results.histogram import HIGHEST_VALUE_NS, Histogram, bucket_indices
from highwater.studies.lake.functions import FUNCTIONS, merged_histogram
from highwater.studies.lake.merging import BUCKETS, COUNTS, merged, merged_in_parts, percentiles_of

OF = {function.name: function.of for function in FUNCTIONS}
CASES = 1200


def split_at_random(values: np.ndarray, chooser: random.Random) -> list[np.ndarray]:
    """Values of several trials, some without any."""
    places = sorted(chooser.randrange(len(values) + 1) for _ in range(chooser.randrange(6)))
    return np.split(values, places)


def test_percentiles_are_those_of_the_raw_values_at_the_resolution_of_buckets() -> None:
    chooser, generator = random.Random(23), np.random.default_rng(23)
    buckets, counts, percentiles, expected = [], [], [], []
    for _ in range(CASES):
        size = chooser.choice((1, 2, 3, 10, 100, 5000))
        values = np.exp(generator.normal(chooser.uniform(2, 26), chooser.uniform(0, 3), size)).astype(np.int64)
        parts = [Histogram.of_values(part) for part in split_at_random(values, chooser)]
        percentile = chooser.choice((0.0, 50.0, 90.0, 99.0, 99.9, 99.99, 100.0, chooser.uniform(0, 100)))
        buckets.append([part.indices.astype(np.int32) for part in parts])
        counts.append([part.counts for part in parts])
        percentiles.append(percentile)
        # The rank that HdrHistogram takes, in the sorted raw values.
        rank = min(size, max(1, int(percentile * size / 100 + 0.5)))
        expected.append(int(np.sort(np.minimum(values, HIGHEST_VALUE_NS))[rank - 1]))
    found = OF["hdr_percentile"](
        pa.array(buckets, pa.list_(pa.list_(pa.int32()))),
        pa.array(counts, pa.list_(pa.list_(pa.int64()))),
        pa.array(percentiles, pa.float64()),
    )
    assert np.array_equal(bucket_indices(np.array(found.to_pylist())), bucket_indices(np.array(expected)))


def test_histograms_are_merged_exactly_whatever_their_counts() -> None:
    huge = (1 << 53) + 1
    merged = merged_histogram(
        pa.array([[1, 5], [5], []], pa.list_(pa.int32())), pa.array([[1, huge], [2], []], pa.list_(pa.int64()))
    )
    assert (merged.indices.tolist(), merged.counts.tolist()) == ([1, 5], [1, huge + 2])
    with pytest.raises(ValueError, match="not of the same histograms"):
        merged_histogram(pa.array([[1], [2, 3]], pa.list_(pa.int32())), pa.array([[1, 2], [3]], pa.list_(pa.int64())))


def test_a_group_without_histograms_has_no_percentile() -> None:
    buckets = pa.chunked_array([pa.array([None, []], pa.list_(pa.list_(pa.int32())))])
    counts = pa.chunked_array([pa.array([None, []], pa.list_(pa.list_(pa.int64())))])
    assert OF["hdr_percentile"](buckets, counts, pa.array([50.0, 50.0])).to_pylist() == [None, None]
    assert OF["hdr_count"](buckets, counts).to_pylist() == [0, 0]


def test_statistics_are_those_of_reports_in_any_order() -> None:
    chooser = random.Random(5)
    groups = [[chooser.lognormvariate(0, 1) for _ in range(chooser.randrange(1, 30))] for _ in range(300)]
    shuffled = [[*group, None] for group in groups]
    for group in shuffled:
        chooser.shuffle(group)
    for name, of in (("median_of", median), ("variation_of", coefficient_of_variation), ("noise_bound", a_a_bound)):
        results = [OF[name](pa.array(given, pa.list_(pa.float64()))).to_pylist() for given in (groups, shuffled)]
        assert results[0] == results[1], name
        expected = [of(sorted(group)) for group in groups]
        assert results[0] == expected, name


def test_no_values_make_no_number() -> None:
    nothing = pa.array([None, [], [None]], pa.list_(pa.float64()))
    for name in ("median_of", "variation_of", "noise_bound"):
        assert OF[name](nothing).to_pylist() == [None, None, None]
    assert OF["median_of"](pa.array([[math.inf]], pa.list_(pa.float64()))).to_pylist() == [None]


def correlation(*groups: list[tuple[float | None, float | None] | None] | None) -> list[float | None]:
    found: list[float | None] = OF["rank_correlation"](pa.array(groups, pa.list_(pa.list_(pa.float64())))).to_pylist()
    return found


def test_rank_correlation_is_spearmans() -> None:
    rising: list[tuple[float | None, float | None] | None] = [(float(x), float(x) ** 3) for x in range(6)]
    falling: list[tuple[float | None, float | None] | None] = [(float(x), -(float(x) ** 3)) for x in range(6)]
    assert correlation(rising, falling) == pytest.approx([1.0, -1.0])
    # 1 − 6·Σd²/(n(n²−1)) of the ranks 2 1 4 3 5 is 0.8.
    assert correlation([(1.0, 20.0), (2, 10), (3, 40), (4, 30), (5, 50)]) == pytest.approx([0.8])
    assert correlation(rising[:4], [(1.0, float(y)) for y in range(6)], [], None) == [None] * 4
    assert correlation([*rising, (None, 1.0), None]) == correlation(list(reversed(rising)))
    with pytest.raises(ValueError, match="takes pairs"):
        OF["rank_correlation"](pa.array([[[1.0, 2.0, 3.0]]], pa.list_(pa.list_(pa.float64()))))


def test_ranks_that_are_equal_do_not_depend_on_order() -> None:
    chooser = random.Random(7)
    pairs: list[tuple[float | None, float | None] | None] = [
        (chooser.randrange(5) / 7, chooser.random()) for _ in range(500)
    ]
    in_order = correlation(pairs)
    for _ in range(20):
        chooser.shuffle(pairs)
        assert correlation(pairs) == in_order


def test_parts_may_be_merged_in_any_order_and_again() -> None:
    chooser, generator = random.Random(11), np.random.default_rng(11)
    raw: dict[tuple[str, int], list[int]] = {}
    keys, histograms = [], []
    for _ in range(200):
        key = (chooser.choice("ab"), chooser.randrange(3))
        values = np.exp(generator.normal(14, 1, chooser.randrange(50))).astype(np.int64)
        keys.append(key)
        histograms.append(Histogram.of_values(values))
        raw.setdefault(key, []).extend(values.tolist())
    rows = pa.table(
        {
            "cell": [cell for cell, _ in keys],
            "second": pa.array([second for _, second in keys], pa.int64()),
            "buckets": pa.array([item.indices.astype(np.int32) for item in histograms], BUCKETS),
            "counts": pa.array([item.counts for item in histograms], COUNTS),
        }
    )
    by = ["cell", "second"]
    whole = merged(rows, by)
    shuffled = rows.take(pa.array(chooser.sample(range(rows.num_rows), rows.num_rows)))
    (in_parts,) = merged_in_parts([shuffled.slice(place, 7) for place in range(0, rows.num_rows, 7)], by)
    assert in_parts.equals(whole)
    assert list(merged_in_parts([], by)) == []
    found = percentiles_of(rows, by, [50.0, 99.9]).to_pylist()
    assert [(row["cell"], row["second"]) for row in found] == sorted(raw)
    for row in found:
        expected = Histogram.of_values(raw[row["cell"], row["second"]])
        assert (row["count"], row["p50_ns"], row["p99_9_ns"]) == (
            expected.count,
            expected.percentile(50),
            expected.percentile(99.9),
        )
