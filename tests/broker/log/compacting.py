"""A pass of compaction without a process around it, and logs with keys to compact."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from highwater.broker.log.compaction import compact
from highwater.broker.log.compaction_job import CleanedGroup, Pass
from highwater.broker.log.files import FileOperations
from highwater.broker.log.log_directory import LogDirectory
from highwater.broker.log.partition_log import PartitionLog
from highwater.kafka.records.batch import Codec, headers
from highwater.kafka.records.record import Record, decode_batch, encode_batch
from tests.broker.log.building import NOW_MS, append, flush

MAP_BYTES = 1 << 20


def compact_once(
    files: FileOperations, directory: LogDirectory, *, now_ms: int = NOW_MS, map_bytes: int = MAP_BYTES
) -> Pass | None:
    """One pass over the log, in the steps the broker takes; None if there is nothing to compact."""
    log = directory.logs["t", 0]
    dirt = log.dirtiness(directory.clean_offsets.get(("t", 0), 0), log.log_end_offset, now_ms)
    if not dirt.dirty_bytes:
        return None
    job = log.compaction_job(dirt, now_ms, map_bytes, 0.9, ".1.cleaned")
    for step in compact(files, job, lambda _: None):
        if isinstance(step, CleanedGroup):
            log.replace_segments(step, now_ms)
        else:
            files.sync_directory(log.directory)
            directory.clean_offsets["t", 0] = step.clean_up_to
            directory.begin_cleaner_checkpoint().write()
            return step
    raise AssertionError("a pass ends with what it came to")


def keyed_batch(
    pairs: Sequence[tuple[bytes | None, bytes | None]], *, timestamp_ms: int = NOW_MS, **options: Any
) -> bytearray:
    codec = Codec(options.pop("codec", 0))
    records = [Record(value, key, timestamp_ms + i) for i, (key, value) in enumerate(pairs)]
    return encode_batch(records, codec=codec, **options)


def put(log: PartitionLog, *pairs: tuple[bytes | None, bytes | None], **options: Any) -> int:
    return append(log, keyed_batch(pairs, **options)).base_offset


def roll(log: PartitionLog) -> None:
    """Seal the active segment, by a record that wants a segment for itself, and bring all to the disk."""
    put(log, (b"filler %d" % log.log_end_offset, b"x" * (log.config.segment_bytes - 100)))
    flush(log)


def records_of(
    log: PartitionLog, offset: int | None = None, max_bytes: int = 700, *, is_whole: bool = True
) -> list[Record]:
    """All records from `offset` on, read as a consumer reads: from one fetch's end to the next.

    A log that is not whole may end in offsets without records: a power cut took the end of one segment, and left the
    next. Where compaction makes gaps, a recovery cannot tell this one from those.
    """
    found: list[Record] = []
    start = offset = log.log_start_offset if offset is None else offset
    while offset < log.log_end_offset:
        data = log.read(offset, max_bytes, end_offset=log.log_end_offset, at_least_one_batch=True)
        assert isinstance(data, bytes), data
        if not data and not is_whole:
            break
        assert data, f"nothing from offset {offset} on, and the log ends at {log.log_end_offset}"
        for position, header in headers(data):
            found += decode_batch(data[position:], header)
            offset = header.next_offset
    return [record for record in found if record.offset >= start]


def last_values(records: Sequence[Record]) -> dict[bytes | None, bytes]:
    """What a reader who takes in all records holds at the end."""
    state: dict[bytes | None, bytes] = {}
    for record in records:
        if record.value is None:
            state.pop(record.key, None)
        else:
            state[record.key] = record.value
    return state
