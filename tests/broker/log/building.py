"""Short ways to make what the log's tests need: batches, logs, log directories."""

from __future__ import annotations

import uuid
from pathlib import Path

from kio.schema.errors import ErrorCode

from highwater.broker.log.config import LogConfig
from highwater.broker.log.files import FileOperations
from highwater.broker.log.log_directory import LogDirectory
from highwater.broker.log.partition_log import Appended, PartitionLog
from highwater.kafka.records.batch import BatchHeader, Codec, headers, validate_produced
from highwater.kafka.records.record import Record, decode_batch, encode_batch
from tests.broker.manual_clock import ManualClock

ROOT = Path("/logs")
TOPIC_ID = uuid.UUID("7f9e7be5-4330-4441-b92f-bfa95e5d6d04")
NOW_MS = 1_700_000_000_000
# Small enough that a few batches fill a segment and every second or third gets an index entry.
SMALL = LogConfig(segment_bytes=1000, index_interval_bytes=150)


def open_directory(
    files: FileOperations, path: Path = ROOT, config: LogConfig = SMALL, *, max_open_segments: int = 512
) -> LogDirectory:
    directory = LogDirectory(
        files,
        path,
        config,
        broker_id=1,
        cluster_id="vPeOCWypqUOSepEvx0cbog",
        clock=ManualClock(NOW_MS),
        max_open_segments=max_open_segments,
    )
    directory.load()
    return directory


def new_log(files: FileOperations, config: LogConfig = SMALL, root: Path = ROOT) -> tuple[LogDirectory, PartitionLog]:
    directory = open_directory(files, root, config)
    return directory, directory.create_partition("t", 0, TOPIC_ID)


def log_after_power_cut(directory: LogDirectory) -> PartitionLog:
    """One that was never flushed may be gone: the node makes it anew, since its topic is known."""
    return directory.logs.get(("t", 0)) or directory.create_partition("t", 0, TOPIC_ID)


def batch(
    *values: bytes,
    timestamp_ms: int = NOW_MS,
    codec: Codec = Codec.NONE,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
) -> bytearray:
    return encode_batch(
        [Record(value, timestamp_ms=timestamp_ms) for value in values],
        codec=codec,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
    )


def try_append(
    log: PartitionLog, records: bytearray, *, leader_epoch: int = 0, now_ms: int = NOW_MS
) -> Appended | ErrorCode:
    header = validate_produced(records, max_message_bytes=log.config.max_message_bytes)
    assert isinstance(header, BatchHeader), header
    return log.append(records, header, leader_epoch=leader_epoch, now_ms=now_ms)


def append(log: PartitionLog, records: bytearray, *, leader_epoch: int = 0, now_ms: int = NOW_MS) -> Appended:
    appended = try_append(log, records, leader_epoch=leader_epoch, now_ms=now_ms)
    assert isinstance(appended, Appended), appended
    return appended


def read_all(log: PartitionLog, max_bytes: int = 400) -> list[tuple[int, bytes | None]]:
    """(offset, value) of every record, read as a consumer reads: from one fetch's end to the next."""
    found = []
    offset = log.log_start_offset
    while offset < log.log_end_offset:
        data = log.read(offset, max_bytes, end_offset=log.log_end_offset, at_least_one_batch=True)
        assert isinstance(data, bytes), data
        if not data:
            break
        for position, header in headers(data):
            assert header.base_offset <= offset <= header.last_offset or header.base_offset > offset
            found += [(record.offset, record.value) for record in decode_batch(data[position:], header)]
            offset = header.next_offset
    return [(offset, value) for offset, value in found if offset >= log.log_start_offset]


def flush(log: PartitionLog) -> None:
    ticket = log.begin_flush()
    if ticket is not None:
        ticket.sync()
        log.complete_flush(ticket)
