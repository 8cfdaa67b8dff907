"""Which partition each row goes to, as Kafka's default partitioner decides, and rows sorted by it. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from highwater.pipeline.kafka.arrow_columns import (
    UnwritableError,
    binary_of,
    edges_of,
    ints_of,
    nulls_of,
    octets_of,
)
from highwater.pipeline.kafka.key_hash import murmur2

Int64s = NDArray[np.int64]

_POSITIVE: Final = 0x7FFFFFFF


def partitions_of(rows: Any, partition_count: int, *, first: int = 0) -> Int64s:
    """The partition of each row of a pyarrow.RecordBatch.

    It is the column `partition` where that is there and not null, and murmur2 of the key for other rows. Rows without
    either are divided evenly, in runs, so that batches stay large; the first run goes to `first`, and a caller with few
    rows at a time moves it on. Raises UnwritableError for a partition that the topic does not have.
    """
    names = rows.schema.names
    chosen = np.full(rows.num_rows, -1, np.int64)
    if "partition" in names:
        chosen = _explicit(rows.column("partition"), partition_count)
    open_rows = np.flatnonzero(chosen < 0)
    if "key" in names and open_rows.size:
        key = binary_of("key", rows.column("key"))
        null = nulls_of(key)
        keyed = open_rows if null is None else open_rows[~null[open_rows]]
        if keyed.size:
            edges = edges_of(key)
            start = edges[:-1].astype(np.int64)[keyed]
            length = np.diff(edges).astype(np.int64)[keyed]
            chosen[keyed] = (murmur2(octets_of(key), start, length) & _POSITIVE) % partition_count
            open_rows = np.flatnonzero(chosen < 0)
    if open_rows.size:
        runs = np.arange(open_rows.size) * partition_count // open_rows.size
        chosen[open_rows] = (first + runs) % partition_count
    return chosen


def _explicit(column: Any, partition_count: int) -> Int64s:
    if pa.types.is_null(column.type):
        return np.full(len(column), -1, np.int64)
    if not pa.types.is_integer(column.type):
        raise UnwritableError(f"the column partition is {column.type}; cast it to int")
    values = ints_of(column)
    null = nulls_of(column)
    wrong = (values < 0) | (values >= partition_count)
    if null is not None:
        wrong &= ~null
        values = np.where(null, -1, values)
    if wrong.any():
        found = int(values[int(wrong.argmax())])
        raise UnwritableError(
            f"the column partition has {found}; the topic has the partitions 0 to {partition_count - 1}"
        )
    return values


@dataclass(frozen=True, slots=True)
class Sorted:
    """Rows by their partition, otherwise in their order: those of `partitions[i]` end at `ends[i]`."""

    rows: Any
    partitions: Int64s
    ends: Int64s


def sorted_by(rows: Any, partitions: Int64s) -> Sorted:
    """The rows of a pyarrow.RecordBatch by partition, for `encode`."""
    if not rows.num_rows:
        return Sorted(rows, np.zeros(0, np.int64), np.zeros(0, np.int64))
    if (np.diff(partitions) < 0).any():
        order = np.argsort(partitions, kind="stable")
        partitions = partitions[order]
        # `pa.array` would import pandas.
        rows = rows.take(pa.Array.from_buffers(pa.int64(), len(order), [None, pa.py_buffer(order)]))
    ends = np.append(np.flatnonzero(np.diff(partitions)) + 1, len(partitions))
    return Sorted(rows, partitions[ends - 1], ends)
