"""Merges histograms by key and takes percentiles of each sum; pure: Arrow in, Arrow out.

Sums are exact, so parts may be merged in any order and again: on Spark each task merges what it reads before anything
is sent to another one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa

from highwater.results.histogram import Histogram
from highwater.studies.lake.functions import merged_histogram

BUCKETS: Final = pa.list_(pa.int32())
COUNTS: Final = pa.list_(pa.int64())
COUNT: Final = "count"

Key = tuple[Any, ...]


def merged(rows: pa.Table, by: Sequence[str]) -> pa.Table:
    """Return one histogram for each combination of the columns `by`, sorted by these. rows: with buckets, counts."""
    keys, sums = _sums(rows, by)
    columns = _columns(rows, by, keys)
    columns["buckets"] = pa.array([item.indices.astype(np.int32) for item in sums], BUCKETS)
    columns["counts"] = pa.array([item.counts for item in sums], COUNTS)
    return pa.table(columns)


def _sums(rows: pa.Table, by: Sequence[str]) -> tuple[list[Key], list[Histogram]]:
    """Each key in rising order, and the sum of its histograms."""
    places: dict[Key, list[int]] = {}
    for place, key in enumerate(zip(*(rows[name].to_pylist() for name in by), strict=True)):
        places.setdefault(key, []).append(place)
    order = sorted(places)
    buckets, counts = (rows[name].combine_chunks() for name in ("buckets", "counts"))
    chosen = (pa.array(places[key], pa.int64()) for key in order)
    return order, [merged_histogram(buckets.take(rows_of_key), counts.take(rows_of_key)) for rows_of_key in chosen]


def _columns(rows: pa.Table, by: Sequence[str], keys: Sequence[Key]) -> dict[str, pa.Array]:
    kinds = [rows.schema.field(name).type for name in by]
    return {name: pa.array([key[place] for key in keys], kinds[place]) for place, name in enumerate(by)}


def merged_in_parts(parts: Iterable[pa.Table], by: Sequence[str]) -> Iterator[pa.Table]:
    """The same of many parts, of which only the sum so far is kept; nothing if there is no part."""
    so_far: pa.Table | None = None
    for part in parts:
        so_far = merged(part if so_far is None else pa.concat_tables([so_far, part]), by)
    if so_far is not None:
        yield so_far


def percentile_column(percentile: float) -> str:
    """`p99_9_ns` of 99.9."""
    return f"p{percentile:g}_ns".replace(".", "_")


def percentiles_of(rows: pa.Table, by: Sequence[str], percentiles: Sequence[float]) -> pa.Table:
    """Merge by `by`, and replace each histogram by its count and these percentiles in ns."""
    keys, sums = _sums(rows, by)
    columns = _columns(rows, by, keys)
    columns[COUNT] = pa.array([item.count for item in sums], pa.int64())
    for percentile in percentiles:
        values = [item.percentile(percentile) for item in sums]
        columns[percentile_column(percentile)] = pa.array(values, pa.int64())
    return pa.table(columns)
