"""The functions of SQL on figures and histograms, the same in every engine; Arrow in, Arrow out.

Each result depends on the set of values alone and not on their order, so that an engine may hand them over as it
likes: values are sorted before anything is added up. Histograms are in the buckets of `results.histogram`, and
statistics are those of `results.analysis.statistics`: one definition for a report and for a lake.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute
from numpy.typing import NDArray

from highwater.results.analysis.statistics import LEAST_FOR_INTERVAL, a_a_bound, coefficient_of_variation
from highwater.results.histogram import COUNTS_LENGTH, Histogram

_EXACT_IN_FLOAT: Final = 1 << 53

_NUMBERS: Final = pa.list_(pa.float64())
_BUCKETS: Final = pa.list_(pa.list_(pa.int32()))
_COUNTS: Final = pa.list_(pa.list_(pa.int64()))


@dataclass(frozen=True, slots=True)
class Function:
    """A function of SQL over groups that `array_agg` makes."""

    name: str
    arguments: tuple[pa.DataType, ...]
    result: pa.DataType
    of: Callable[..., pa.Array]
    """A value of each argument for each group -> a result for each group; arguments may be in chunks."""
    meaning: str


def merged_histogram(buckets: pa.Array, counts: pa.Array) -> Histogram:
    """The exact sum of histograms, each a list of buckets and one of counts. Raises ValueError if they do not match."""
    if not buckets.value_lengths().equals(counts.value_lengths()):
        raise ValueError("buckets and counts are not of the same histograms")
    indices, many = buckets.flatten().to_numpy(zero_copy_only=False), counts.flatten().to_numpy(zero_copy_only=False)
    # bincount adds up in float64, which is exact up to 2^53.
    if int(many.sum()) >= _EXACT_IN_FLOAT:
        dense = np.zeros(COUNTS_LENGTH, np.int64)
        np.add.at(dense, indices, many)
    else:
        dense = np.bincount(indices, weights=many, minlength=COUNTS_LENGTH).astype(np.int64)
    return Histogram.of_dense(dense)


def _histograms(buckets: pa.Array, counts: pa.Array) -> Iterator[Histogram | None]:
    """The merged histogram of each group; None for a group without any."""
    buckets, counts = _whole(buckets), _whole(counts)
    for number in range(len(buckets)):
        of_group, many = buckets[number], counts[number]
        yield merged_histogram(of_group.values, many.values) if of_group.is_valid and len(of_group) else None


def _whole(values: Any) -> pa.Array:
    """One array of what DuckDB hands over in chunks."""
    return values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values


def _percentile(buckets: pa.Array, counts: pa.Array, percentiles: pa.Array) -> pa.Array:
    found = [
        None if histogram is None else histogram.percentile(percentile)
        for histogram, percentile in zip(_histograms(buckets, counts), percentiles.to_pylist(), strict=True)
    ]
    return pa.array(found, pa.int64())


def _count(buckets: pa.Array, counts: pa.Array) -> pa.Array:
    found = [0 if histogram is None else histogram.count for histogram in _histograms(buckets, counts)]
    return pa.array(found, pa.int64())


def _of_numbers(compute: Callable[[Sequence[float]], float | None]) -> Callable[[pa.Array], pa.Array]:
    """A function of the values of each group, in rising order; null for a group without any, and for no number."""

    def of(groups: pa.Array) -> pa.Array:
        found = []
        for group in groups.to_pylist():
            values = sorted(value for value in group or () if value is not None)
            result = compute(values) if values else None
            found.append(None if result is None or not math.isfinite(result) else float(result))
        return pa.array(found, pa.float64())

    return of


def _median(groups: pa.Array) -> pa.Array:
    """`statistics.median` of each group; all groups are sorted at once, as a lake has a hundred thousand of them."""
    groups = _whole(groups)
    values = groups.flatten().to_numpy(zero_copy_only=False)  # null is NaN
    of_group = pa.compute.list_parent_indices(groups).to_numpy()
    known = ~np.isnan(values)
    values, of_group = values[known], of_group[known]
    values = values[np.lexsort((values, of_group))]
    many = np.bincount(of_group, minlength=len(groups))
    ends = np.cumsum(many)
    some = many > 0
    middle = (ends - many + many // 2)[some]
    upper, lower = values[middle], values[middle - (many[some] % 2 == 0)]
    found = np.full(len(groups), np.nan)
    found[some] = np.where(many[some] % 2, upper, (lower + upper) / 2)
    return pa.array(found, mask=~np.isfinite(found))


def _correlation(groups: pa.Array) -> pa.Array:
    groups = _whole(groups)
    found = [rank_correlation(_pairs(groups[number].values)) for number in range(len(groups))]
    return pa.array(found, pa.float64())


def _pairs(pairs: pa.Array | None) -> NDArray[np.float64]:
    """Lists of two numbers as rows; a value that is not known is NaN. Raises ValueError for another list."""
    known = pa.array([], _NUMBERS) if pairs is None else pairs.drop_null()
    if pa.compute.any(pa.compute.not_equal(known.value_lengths(), 2)).as_py():
        raise ValueError("rank_correlation takes pairs: array_agg(pair(x, y))")
    values: NDArray[np.float64] = known.flatten().to_numpy(zero_copy_only=False)
    return values.reshape(-1, 2)


def rank_correlation(pairs: NDArray[np.float64]) -> float | None:
    """Spearman's coefficient of rows of two; pairs with a value that is not known (NaN) do not count.

    None with fewer than LEAST_FOR_INTERVAL pairs, or if one side is constant.
    """
    known = pairs[~np.isnan(pairs).any(axis=1)]
    if len(known) < LEAST_FOR_INTERVAL:
        return None
    # In rising order, as the sums below depend on it in their last bits.
    known = known[np.lexsort((known[:, 1], known[:, 0]))]
    one, other = (side - side.mean() for side in (_ranks(known[:, 0]), _ranks(known[:, 1])))
    scale = math.sqrt(float(one @ one) * float(other @ other))
    return float(one @ other) / scale if scale else None


def _ranks(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Equal values share the mean of their ranks."""
    _, places, many = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(many)
    ranks: NDArray[np.float64] = (last - (many - 1) / 2)[places]
    return ranks


FUNCTIONS: Final = (
    Function(
        "hdr_percentile",
        (_BUCKETS, _COUNTS, pa.float64()),
        pa.int64(),
        _percentile,
        "hdr_percentile(array_agg(buckets), array_agg(counts), 99.9): of all values of these histograms, in ns",
    ),
    Function(
        "hdr_count",
        (_BUCKETS, _COUNTS),
        pa.int64(),
        _count,
        "hdr_count(array_agg(buckets), array_agg(counts)): how many values these histograms hold",
    ),
    Function(
        "median_of",
        (_NUMBERS,),
        pa.float64(),
        _median,
        "median_of(array_agg(value)): as all estimates of a report",
    ),
    Function(
        "variation_of",
        (_NUMBERS,),
        pa.float64(),
        _of_numbers(coefficient_of_variation),
        "variation_of(array_agg(value)): standard deviation ÷ mean; null with fewer than two values",
    ),
    Function(
        "noise_bound",
        (_NUMBERS,),
        pa.float64(),
        _of_numbers(a_a_bound),
        "noise_bound(array_agg(ratio)): what two trials of the same thing differ by at most, 95 times in 100",
    ),
    Function(
        "rank_correlation",
        (pa.list_(_NUMBERS),),
        pa.float64(),
        _correlation,
        "rank_correlation(array_agg(pair(x, y))): Spearman's coefficient; null with fewer than five pairs",
    ),
)
"""Beside these, each engine has `pair(x, y)`, a list of two numbers."""
