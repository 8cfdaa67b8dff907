"""A trace as values of the load generator: its arrivals, sizes, keys and headers. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from highwater.bench.workload.trace_directory import RecordStatistics, Trace
from highwater.spark_loadgen.stamp import STAMP_BYTES
from highwater.spark_loadgen.traces import TracedArrivals, TracedHeaders, TracedKeys, TracedSizes

_NULL: Final = -1
# With more of the records elsewhere, keys have no partition of their own.
_MOVED_MAX: Final = 0.01


@dataclass(frozen=True, eq=False, slots=True)
class Replayed:
    """keys: None, if no record had one. partitions: of the captured topic."""

    sizes: TracedSizes
    keys: TracedKeys | None
    headers: TracedHeaders


@dataclass(frozen=True, eq=False, slots=True)
class Traces:
    """What a load takes from traces; None: nothing."""

    arrivals: TracedArrivals | None = None
    records: Replayed | None = None


def arrivals_of(trace: Trace, speed: float, share: float) -> TracedArrivals:
    """The trace's own arrivals, `speed` times as fast, `share` of them."""
    return TracedArrivals(trace.arrivals, trace.manifest.bin_ms * 1_000_000, speed, share)


def records_of(trace: Trace, partitions: int) -> Replayed:
    """For a topic with so many partitions: if the captured one had as many, keys keep their partitions."""
    records = trace.distributions.records
    assert records is not None
    keep = partitions == trace.manifest.partitions and records.keys.moved_records <= _MOVED_MAX * trace.manifest.records
    return Replayed(sizes_of(records), keys_of(trace, records, keep_partitions=keep), headers_of(records))


def sizes_of(records: RecordStatistics) -> TracedSizes:
    """Sizes of values. Null values, and those too short for a stamp, become a stamp alone."""
    counts: dict[int, int] = {}
    for size, count in ((0, records.null_values), *records.value_bytes):
        if count:
            fitting = max(size, STAMP_BYTES)
            counts[fitting] = counts.get(fitting, 0) + count
    return TracedSizes(tuple(sorted(counts.items())))


def keys_of(trace: Trace, records: RecordStatistics, *, keep_partitions: bool) -> TracedKeys | None:
    if not records.keys.rows:
        return None
    rows = [
        (count, key_bytes, partition if keep_partitions else _NULL, keys)
        for count, key_bytes, partition, keys in records.keys.rows
    ]
    # Clients choose the partitions of records without keys, and batch them accordingly.
    nulls = [(records.null_keys, _NULL, _NULL, 1)] if records.null_keys else []
    return TracedKeys(tuple(rows + nulls))


def headers_of(records: RecordStatistics) -> TracedHeaders:
    return TracedHeaders(tuple(records.headers))
