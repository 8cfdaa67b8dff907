"""The parts of a trace from statistics, and the notes on what the trace does not show. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from highwater.bench.workload import trace_directory
from highwater.common.errors import UsageError
from highwater.common.units import count_text, percent_text
from highwater.studies.capture.statistics import Statistics

_NO_PRODUCER_ID: Final = -1
_PRODUCERS_MAX: Final = 100
# With more of the records elsewhere, a key has no partition.
_SCHEMA: Final = "highwater.trace/1"


def parts_of(
    statistics: Statistics, source: Literal["topic", "files"], group: trace_directory.Group | None = None
) -> tuple[trace_directory.Manifest, trace_directory.Distributions, NDArray[np.int32]]:
    """Raises UsageError where nothing was captured, or nothing with a time; SpanError."""
    if not statistics.records:
        raise UsageError("the range has no records; markers of transactions are not records")
    starts_ms, arrivals = statistics.arrivals.series()
    if not len(arrivals):
        raise UsageError(f"none of the {count_text(statistics.records)} records has a time; nothing can be replayed")
    manifest = trace_directory.Manifest(
        schema_=_SCHEMA,
        level=statistics.level,
        source=source,
        starts_at=datetime.fromtimestamp(starts_ms / 1000, UTC).isoformat(timespec="milliseconds"),
        lasts_ms=len(arrivals) * statistics.arrivals.bin_ms,
        bin_ms=statistics.arrivals.bin_ms,
        records=int(arrivals.sum()),
        partitions=max(statistics.partitions) + 1,
        notes=list(_notes(statistics)),
        files={},
    )
    return manifest, _distributions(statistics, group), arrivals


def _distributions(statistics: Statistics, group: trace_directory.Group | None) -> trace_directory.Distributions:
    ranked = [count for producer_id, count in statistics.producers.most_common() if producer_id != _NO_PRODUCER_ID]
    return trace_directory.Distributions(
        batches=trace_directory.Batches(
            size_bytes=_pairs(statistics.batch_bytes),
            records=_pairs(statistics.batch_records),
            span_ms=_pairs(statistics.batch_span_ms),
            stored_bytes=sum(use.stored_bytes for use in statistics.codecs.values()),
            count=sum(use.batches for use in statistics.codecs.values()),
        ),
        codecs={
            name: trace_directory.Codec(
                batches=use.batches,
                records=use.records,
                stored_bytes=use.stored_bytes,
                unpacked_bytes=use.unpacked_bytes,
            )
            for name, use in sorted(statistics.codecs.items())
        },
        partitions=[
            trace_directory.Partition(
                partition=number, records=use.records, stored_bytes=use.stored_bytes, null_keys=use.null_keys
            )
            for number, use in sorted(statistics.partitions.items())
        ],
        producers=trace_directory.ProducerCounts(
            with_id=len(ranked),
            records_by_rank=ranked[:_PRODUCERS_MAX],
            records_without_id=statistics.producers[_NO_PRODUCER_ID],
        ),
        records=_records(statistics) if statistics.level else None,
        group=group,
        control_batches=statistics.control_batches,
        transactional_records=statistics.transactional_records,
        vanished_offsets=statistics.vanished_offsets,
        lost_offsets=statistics.lost_offsets,
        records_without_time=statistics.arrivals.without_time,
    )


def _records(statistics: Statistics) -> trace_directory.RecordStatistics:
    keys = statistics.keys
    return trace_directory.RecordStatistics(
        value_bytes=_pairs(statistics.value_bytes),
        key_bytes=_pairs(statistics.key_bytes),
        headers=[(*shape, count) for shape, count in sorted(statistics.headers.items())],
        null_keys=statistics.null_keys,
        null_values=statistics.null_values,
        keys=trace_directory.Keys(
            distinct=keys.distinct,
            moved_records=keys.moved,
            count_error_max=keys.dropped_count_max,
            rows=[(row.count, row.key_bytes, row.partition, row.keys) for row in keys.rows()],
        ),
        compressibility={
            name: trace_directory.Compressed(before_bytes=before, after_bytes=after)
            for name, (before, after) in sorted(statistics.compressibility.items())
        },
    )


def _pairs(counts: Counter[int]) -> trace_directory.Pairs:
    return sorted(counts.items())


def _notes(statistics: Statistics) -> Iterator[str]:
    records = statistics.records
    if lost := statistics.lost_offsets:
        yield (
            f"{count_text(lost)} records ({percent_text(lost / (lost + records))}) are lost to the trace: retention "
            "deleted them before the capture read them; raise --read-rate, or capture a shorter range"
        )
    if vanished := statistics.vanished_offsets:
        yield (
            f"{count_text(vanished)} offsets of the range have no record any more, as compaction or an administrator "
            "removed them: when those records arrived, their sizes and their keys cannot be known, so that rates are "
            "lower than they were; capture a compacted topic live, with --for"
        )
    if statistics.control_batches:
        yield f"{count_text(statistics.control_batches)} markers of transactions are not records, and are not counted"
    if without := statistics.arrivals.without_time:
        yield f"{count_text(without)} records have no time of their own, and are missing in the arrivals"
    if statistics.keys.dropped_count_max:
        yield (
            f"there are more keys than are counted one by one: the count of a key is up to "
            f"{count_text(statistics.keys.dropped_count_max)} too low, and the number of keys is an estimate"
        )
    if statistics.producers[_NO_PRODUCER_ID]:
        yield "producers without idempotence have no id: how many there are is not known"
