"""Counts what the batches of one partition hold: bytes of a log in, statistics out. Pure.

Only lengths, counts and times of a record are stored. A key is hashed with the salt of the capture, to be counted.
Batches belong to a capture as a whole: those that have an offset of its range, and begin in its range of times.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from highwater.pipeline.errors import RecordsError
from highwater.pipeline.kafka.batches import Batches, Bools, Partition, check_crcs, read_batches
from highwater.pipeline.kafka.records import (
    Fields,
    Int64s,
    MalformedRecords,
    find_starts,
    read_fields,
    read_headers,
)
from highwater.pipeline.kafka.unpack import Unpacked, unpack
from highwater.spark_loadgen.compression import CODECS, Compression
from highwater.studies.capture.counts import count_values, rounded
from highwater.studies.capture.statistics import CodecUse, PartitionUse, Statistics

OFFSET_MAX: Final = 2**63 - 1
_SAMPLED_SHARE: Final = 4
"""One byte of so many is compressed, at least _SAMPLED_BYTES_MIN of a fetch."""
_SAMPLED_BYTES_MIN: Final = 256 << 10
_SAMPLE_BYTES_MAX: Final = 1 << 20
_SAMPLED_BYTES_MAX: Final = 64 << 20
_NULL: Final = -1


@dataclass(frozen=True, slots=True)
class Window:
    """Batches with an offset from start_offset up to end_offset, without it, and start_ms <= first time < end_ms.

    continues: another window ends at start_offset, and has the batch that reaches over it.
    """

    start_offset: int = 0
    end_offset: int = OFFSET_MAX
    start_ms: int | None = None
    end_ms: int | None = None
    continues: bool = False


def observe(
    statistics: Statistics,
    data: memoryview,
    of: Partition,
    window: Window,
    expected_offset: int | None,
    compressions: Mapping[str, Compression],
    *,
    log_start_offset: int = 0,
) -> int | None:
    """Add the whole batches of `data`; returns the offset after the last one, or `expected_offset` if there is none.

    expected_offset: where the log continues; None: it begins with `data`. compressions: the codecs that samples are
    compressed with. log_start_offset: records before it are deleted, also where their batch reaches over it. Raises
    RecordsError for damage.
    """
    batches = read_batches(data, of)
    least = window.start_offset if expected_offset is None else expected_offset
    batches = batches.where(batches.last_offset >= least)
    if not len(batches):
        return expected_offset
    check_crcs(data, batches, of)
    following = int(batches.last_offset[-1]) + 1
    wanted = batches.base_offset < window.end_offset
    if window.continues:
        wanted &= batches.base_offset >= window.start_offset
    statistics.vanished_offsets += _vanished(batches, wanted, window, expected_offset)
    statistics.control_batches += int((batches.is_control & wanted).sum())
    wanted &= ~batches.is_control & (_left(batches, log_start_offset) > 0)
    begins_ms = np.where(batches.is_log_append_time, batches.max_timestamp_ms, batches.base_timestamp_ms)
    if window.start_ms is not None:
        wanted &= begins_ms >= window.start_ms
    if window.end_ms is not None:
        wanted &= begins_ms < window.end_ms
    batches = batches.where(wanted)
    if len(batches):
        counted = replace(batches, record_count=_left(batches, log_start_offset))
        _add_batches(statistics, counted, of.partition)
        if statistics.level:
            _add_records(statistics, data, batches, of, compressions, log_start_offset)
        else:
            statistics.arrivals.add(_spread(counted))
    return following


def _left(batches: Batches, log_start_offset: int) -> Int64s:
    """How many records of each batch are in the log still."""
    left: Int64s = batches.record_count - np.clip(log_start_offset - batches.base_offset, 0, batches.record_count)
    return left


def _vanished(batches: Batches, wanted: Bools, window: Window, expected_offset: int | None) -> int:
    """Offsets of the window between batches, and within the wanted ones, that have no record."""
    first = int(batches.base_offset[0]) if expected_offset is None else expected_offset
    ends = np.append(first, batches.last_offset[:-1] + 1)
    bounds = window.start_offset, window.end_offset
    between = np.maximum(np.clip(batches.base_offset, *bounds) - np.clip(ends, *bounds), 0)
    within = np.where(batches.is_control, 0, batches.last_offset - batches.base_offset + 1 - batches.record_count)
    return int(between.sum() + within[wanted].sum())


def _add_batches(statistics: Statistics, batches: Batches, partition: int) -> None:
    count_values(statistics.batch_bytes, batches.size_bytes)
    count_values(statistics.batch_records, batches.record_count)
    spans_ms = np.where(batches.is_log_append_time, 0, batches.max_timestamp_ms - batches.base_timestamp_ms)
    count_values(statistics.batch_span_ms, np.maximum(spans_ms, 0))
    statistics.transactional_records += int(batches.record_count[batches.is_transactional].sum())
    for number in np.unique(batches.codec).tolist():
        of_codec = batches.where(batches.codec == number)
        use = CodecUse(len(of_codec), int(of_codec.record_count.sum()), int(of_codec.size_bytes.sum()))
        statistics.codecs.setdefault(CODECS[number], CodecUse()).add(use)
    for producer_id in np.unique(batches.producer_id).tolist():
        statistics.producers[producer_id] += int(batches.record_count[batches.producer_id == producer_id].sum())
    use_of_partition = statistics.partitions.setdefault(partition, PartitionUse())
    use_of_partition.records += int(batches.record_count.sum())
    use_of_partition.stored_bytes += int(batches.size_bytes.sum())


def _spread(batches: Batches) -> Int64s:
    """A time for each record from the headers alone: evenly from a batch's first to its last timestamp."""
    counts = batches.record_count
    ends_ms = batches.max_timestamp_ms
    starts_ms = np.where(batches.is_log_append_time, ends_ms, batches.base_timestamp_ms)
    number = np.arange(int(counts.sum())) - np.repeat(np.cumsum(counts) - counts, counts)
    steps = np.repeat((ends_ms - starts_ms) / np.maximum(counts - 1, 1), counts)
    times_ms: Int64s = np.repeat(starts_ms, counts) + (number * steps).astype(np.int64)
    return times_ms


def _add_records(
    statistics: Statistics,
    data: memoryview,
    batches: Batches,
    of: Partition,
    compressions: Mapping[str, Compression],
    log_start_offset: int,
) -> None:
    left = batches
    while len(left):
        unpacked = unpack(data, left, of)
        try:
            _add_unpacked(statistics, unpacked, of.partition, compressions, log_start_offset)
        except MalformedRecords as error:
            raise RecordsError(
                of.topic, of.partition, int(unpacked.batches.base_offset[0]), f"the records are damaged: {error}"
            ) from None
        left = left.where(np.arange(len(left)) >= len(unpacked.batches))


def _add_unpacked(
    statistics: Statistics,
    unpacked: Unpacked,
    partition: int,
    compressions: Mapping[str, Compression],
    log_start_offset: int,
) -> None:
    octets, batches = unpacked.octets, unpacked.batches
    fields = read_fields(octets, find_starts(unpacked.body, octets, unpacked.regions))
    counts = _left(batches, log_start_offset)
    if (counts < batches.record_count).any():
        from_the_end = np.repeat(np.cumsum(batches.record_count), batches.record_count) - np.arange(len(fields.end))
        fields = fields.where(from_the_end <= np.repeat(counts, batches.record_count))
    times_ms = np.repeat(batches.base_timestamp_ms, counts) + fields.timestamp_delta
    by_broker = np.repeat(batches.is_log_append_time, counts)
    statistics.arrivals.add(np.where(by_broker, np.repeat(batches.max_timestamp_ms, counts), times_ms))
    for number, region in zip(batches.codec.tolist(), unpacked.regions, strict=True):
        statistics.codecs[CODECS[number]].unpacked_bytes += region.end - region.start
    _add_sizes(statistics, octets, fields, partition)
    statistics.keys.add(
        [
            bytes(unpacked.body[start : start + length])
            for start, length in zip(fields.key_start.tolist(), fields.key_length.tolist(), strict=True)
            if length != _NULL
        ],
        partition,
    )
    _sample(statistics, unpacked, compressions)


def _add_sizes(statistics: Statistics, octets: NDArray[np.uint8], fields: Fields, partition: int) -> None:
    keyed, valued = fields.key_length != _NULL, fields.value_length != _NULL
    count_values(statistics.key_bytes, fields.key_length[keyed])
    count_values(statistics.value_bytes, fields.value_length[valued])
    null_keys = len(keyed) - int(keyed.sum())
    statistics.null_keys += null_keys
    statistics.partitions[partition].null_keys += null_keys
    statistics.null_values += len(valued) - int(valued.sum())
    shapes = np.zeros((len(keyed), 3), np.int64)
    shapes[:, 0] = fields.header_count
    if fields.header_count.any():
        found = read_headers(octets, fields)
        record = np.repeat(np.arange(len(keyed)), fields.header_count)
        for column, lengths in ((1, found.key_length), (2, np.maximum(found.value_length, 0))):
            shapes[:, column] = np.bincount(record, weights=lengths, minlength=len(keyed)).astype(np.int64)
        shapes[:, 2] = rounded(shapes[:, 2])
    different, times = np.unique(shapes, axis=0, return_counts=True)
    for shape, count in zip(different.tolist(), times.tolist(), strict=True):
        statistics.headers[tuple(shape)] += count


def _sample(statistics: Statistics, unpacked: Unpacked, compressions: Mapping[str, Compression]) -> None:
    """Compress a few batches with every codec; only the sums of sizes are kept."""
    regions = unpacked.regions
    size_bytes = sum(region.end - region.start for region in regions)
    wanted_bytes = max(_SAMPLED_BYTES_MIN, size_bytes // _SAMPLED_SHARE)
    for region in regions[:: max(1, round(size_bytes / wanted_bytes))]:
        if statistics.sampled_bytes >= _SAMPLED_BYTES_MAX or region.end == region.start:
            return
        body = memoryview(bytes(unpacked.body[region.start : min(region.end, region.start + _SAMPLE_BYTES_MAX)]))
        statistics.sampled_bytes += len(body)
        for codec, compression in compressions.items():
            before, after = statistics.compressibility.get(codec, (0, 0))
            statistics.compressibility[codec] = (before + len(body), after + len(compression.compress(body)))
