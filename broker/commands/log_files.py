"""Readers of a log's files, which yield the content and its problems for `dump-log`.

They never write, so the files may be those of a running broker. Each reader yields rows: ("batch", {...}),
("problem", {"message": ...}), and so on. The files may be Apache Kafka's, whose preallocated indexes and segments end
in zeros until the broker closes them.
"""

from __future__ import annotations

import struct
from array import array
from bisect import bisect_right
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import IO, Any, Final, NamedTuple, TypeVar

from highwater.broker.log import checkpoint, offset_index, time_index
from highwater.broker.log.checkpoint import MalformedFile
from highwater.broker.log.errors import CorruptSnapshot
from highwater.broker.log.producer_state import ProducerStates
from highwater.broker.log.segment_names import (
    INDEX_SUFFIX,
    LOG_SUFFIX,
    SNAPSHOT_SUFFIX,
    TIME_INDEX_SUFFIX,
    TRANSACTION_INDEX_SUFFIX,
)
from highwater.kafka.records.batch import (
    CODEC_MASK,
    HEADER_SIZE,
    NO_PRODUCER_ID,
    BatchHeader,
    Codec,
    CorruptBatch,
    crc_is_valid,
    read_header,
)
from highwater.kafka.records.record import Record, decode_batch, read_end_marker

_INDEX_ENTRY: Final = struct.Struct(">ii")
_TIME_INDEX_ENTRY: Final = struct.Struct(">qi")
# KIP-98; Apache Kafka, AbortedTxn: version, producer id, first offset, last offset, last stable offset.
_ABORTED_TRANSACTION: Final = struct.Struct(">hqqqq")
_READ_BUFFER_BYTES: Final = 1 << 20
_NAME_DIGITS: Final = 20


class Row(NamedTuple):
    kind: str
    fields: dict[str, Any]


class Options(NamedTuple):
    verify: bool = False
    """Check CRCs, records, offset gaps, and indexes against their segments; else only what reading on needs."""
    records: bool = False
    gaps_are_damage: bool = True


class UnknownFile(Exception):  # noqa: N818 - it names the thing found
    """The file is not one of a log."""


Rows = Iterator[Row]
T = TypeVar("T")


def problem(message: str) -> Row:
    return Row("problem", {"message": message})


def note(message: str) -> Row:
    return Row("note", {"message": message})


def log_files_below(directory: Path) -> list[Path]:
    """Return the files in and below a directory that `inspect` can read, sorted by partition."""
    return sorted(path for path in directory.rglob("*") if _reader_of(path) is not None and path.is_file())


def inspect(path: Path, options: Options) -> Rows:
    """Yield the rows of one file. Raises UnknownFile, and OSError when the file cannot be read."""
    reader = _reader_of(path)
    if reader is None:
        raise UnknownFile(f"{path} is neither a segment nor an index, snapshot or checkpoint of a log")
    return reader(path, options)


def _reader_of(path: Path) -> Callable[[Path, Options], Rows] | None:
    if path.suffix in _BY_SUFFIX and len(path.stem) == _NAME_DIGITS and path.stem.isdecimal():
        return _BY_SUFFIX[path.suffix]
    return _BY_NAME.get(path.name)


# Segments


def _read_log(path: Path, options: Options) -> Rows:
    size_bytes = path.stat().st_size
    next_offset = segment_base = int(path.stem)
    batch_count = record_count = 0
    with path.open("rb", buffering=_READ_BUFFER_BYTES) as file:
        for item in _batches(file, size_bytes):
            if isinstance(item, Row):
                yield item
                continue
            position, header = item
            yield Row("batch", _batch_fields(position, header))
            if header.base_offset < next_offset or header.last_offset_delta < 0:
                yield problem(f"the batch at {position} has offset {header.base_offset} after {next_offset - 1}")
            elif options.verify and header.base_offset > next_offset and batch_count and options.gaps_are_damage:
                yield problem(_gap(next_offset, header.base_offset))
            next_offset = max(next_offset, header.next_offset)
            batch_count += 1
            record_count += header.record_count
            if options.verify or options.records:
                yield from _open_batch(file, position, header, options)
    fields = {"batches": batch_count, "records": record_count, "bytes": size_bytes}
    if batch_count:
        fields |= {"end_offset": next_offset}
    if options.verify and options.gaps_are_damage and batch_count:
        following = min((base for base in _base_offsets(path.parent) if base > segment_base), default=next_offset)
        if following > next_offset:
            yield problem(_gap(next_offset, following))
        elif following < next_offset:
            yield problem(f"it ends at offset {next_offset}, and the next segment begins at {following}")
    yield Row("summary", fields)


def _batches(file: IO[bytes], size_bytes: int) -> Iterator[tuple[int, BatchHeader] | Row]:
    """Yield (position, header) of every batch, and a row with the reason when the rest is not batches."""
    position = 0
    while position < size_bytes:
        file.seek(position)
        head = file.read(HEADER_SIZE)
        left_bytes = size_bytes - position
        if not any(head) and _is_zero_to_the_end(file):
            yield note(f"{left_bytes} bytes of zeros follow from {position} on, as preallocation leaves them")
            return
        try:
            header = read_header(head)
        except CorruptBatch as error:
            yield problem(f"no batch at {position}: {error}; {left_bytes} bytes from there on are not read")
            return
        if header.size_bytes > left_bytes:
            yield problem(f"the batch at {position} is cut off: {left_bytes} of {header.size_bytes} bytes")
            return
        yield position, header
        position += header.size_bytes


def _is_zero_to_the_end(file: IO[bytes]) -> bool:
    while block := file.read(_READ_BUFFER_BYTES):
        if any(block):
            return False
    return True


def _batch_fields(position: int, header: BatchHeader) -> dict[str, Any]:
    codec = header.attributes & CODEC_MASK
    return {
        "position": position,
        "base_offset": header.base_offset,
        "last_offset": header.last_offset,
        "records": header.record_count,
        "bytes": header.size_bytes,
        "codec": Codec(codec).name.lower() if codec <= Codec.ZSTD else f"codec {codec}",
        "timestamp_type": "LogAppendTime" if header.timestamp_type else "CreateTime",
        "base_timestamp_ms": header.base_timestamp_ms,
        "max_timestamp_ms": header.max_timestamp_ms,
        "leader_epoch": header.leader_epoch,
        "producer_id": header.producer_id,
        "producer_epoch": header.producer_epoch,
        "base_sequence": header.base_sequence,
        "last_sequence": header.last_sequence if header.producer_id != NO_PRODUCER_ID else -1,
        "is_transactional": header.is_transactional,
        "is_control": header.is_control,
        "crc": header.crc,
    }


def _open_batch(file: IO[bytes], position: int, header: BatchHeader, options: Options) -> Rows:
    file.seek(position)
    batch = file.read(header.size_bytes)
    if not crc_is_valid(batch, 0, header):
        yield problem(f"the CRC of the batch at {position} does not match: offsets {header.base_offset} and after")
        return
    try:
        records = decode_batch(batch, header)
        marker = read_end_marker(batch, header) if header.is_control else None
    except CorruptBatch as error:
        yield problem(f"the records of the batch at {position} cannot be read: {error}")
        return
    if options.records:
        for record in records:
            yield (
                Row("record", _record_fields(record))
                if marker is None
                else Row(
                    "end_marker",
                    {
                        "offset": record.offset,
                        "timestamp_ms": record.timestamp_ms,
                        "is_commit": marker.is_commit,
                        "coordinator_epoch": marker.coordinator_epoch,
                    },
                )
            )
    offsets = [record.offset for record in records]
    if offsets and (offsets != sorted(set(offsets)) or offsets[0] < header.base_offset):
        yield problem(f"the offsets in the batch at {position} do not rise")
    elif offsets and offsets[-1] > header.last_offset:
        yield problem(f"the batch at {position} ends with offset {offsets[-1]}, and says {header.last_offset}")


def _record_fields(record: Record) -> dict[str, Any]:
    return {
        "offset": record.offset,
        "timestamp_ms": record.timestamp_ms,
        "key": record.key,
        "value": record.value,
        "headers": list(record.headers),
    }


def _base_offsets(directory: Path) -> list[int]:
    return [int(path.stem) for path in directory.glob(f"*{LOG_SUFFIX}") if path.stem.isdecimal()]


def _gap(first: int, after: int) -> str:
    missing = f"offset {first} is" if after == first + 1 else f"offsets {first} to {after - 1} are"
    return f"{missing} missing; compaction does that, and then --allow-gaps is the option to use"


class _LogOutline:
    """Positions, offsets and timestamps of a segment's batches, to check its indexes against."""

    def __init__(self, path: Path) -> None:
        self.positions = array("q")
        self.base_offsets = array("q")
        self.last_offsets = array("q")
        self.max_timestamps = array("q")
        """The largest timestamp of the segment up to each batch."""
        self.own_timestamps = array("q")
        largest = -1
        with path.open("rb", buffering=_READ_BUFFER_BYTES) as file:
            for item in _batches(file, path.stat().st_size):
                if isinstance(item, Row):
                    return  # The dump of the segment itself reports the problem.
                position, header = item
                largest = max(largest, header.max_timestamp_ms)
                self.positions.append(position)
                self.base_offsets.append(header.base_offset)
                self.last_offsets.append(header.last_offset)
                self.max_timestamps.append(largest)
                self.own_timestamps.append(header.max_timestamp_ms)

    def slot_at(self, position: int) -> int | None:
        slot = bisect_right(self.positions, position) - 1
        return slot if slot >= 0 and self.positions[slot] == position else None

    def slot_of(self, offset: int) -> int | None:
        slot = bisect_right(self.base_offsets, offset) - 1
        return slot if slot >= 0 and offset <= self.last_offsets[slot] else None


def _outline(path: Path, options: Options) -> _LogOutline | None:
    log = path.with_suffix(LOG_SUFFIX)
    return _LogOutline(log) if options.verify and log.exists() else None


# Indexes


def _entries(path: Path, entry: struct.Struct) -> tuple[list[tuple[int, ...]], list[Row]]:
    """Return the entries of an index file without its padding, and rows about its size."""
    data = path.read_bytes()
    rest = len(data) % entry.size
    rows = [problem(f"{len(data)} bytes are no whole number of entries of {entry.size}")] if rest else []
    used = len(data.rstrip(b"\0"))
    # The last entry may itself end in zeros; an entry of nothing but zeros is padding unless it is the first.
    count = min(-(-used // entry.size), len(data) // entry.size)
    padding_bytes = len(data) - rest - count * entry.size
    if padding_bytes:
        rows.append(note(f"{padding_bytes} bytes of zeros follow, as preallocation leaves them"))
    return list(entry.iter_unpack(data[: count * entry.size])), rows


def _read_offset_index(path: Path, options: Options) -> Rows:
    base_offset = int(path.stem)
    entries, rows = _entries(path, _INDEX_ENTRY)
    outline = _outline(path, options)
    previous: tuple[int, int] = (-1, -1)
    for relative, position in entries:
        offset = base_offset + relative
        yield Row("index_entry", {"offset": offset, "position": position})
        if relative <= previous[0] or position <= previous[1]:
            yield problem(f"the entry of offset {offset} at {position} does not rise above the one before it")
        elif outline is not None:
            slot = outline.slot_at(position)
            if slot is None:
                yield problem(f"the entry of offset {offset} points to {position}, where no batch begins")
            elif outline.base_offsets[slot] > offset:
                found = outline.base_offsets[slot]
                yield problem(f"the entry of offset {offset} points to {position}, where offset {found} begins")
        previous = relative, position
    yield from rows
    yield Row("summary", {"entries": len(entries), "bytes": len(entries) * offset_index.ENTRY_SIZE})


def _read_time_index(path: Path, options: Options) -> Rows:
    base_offset = int(path.stem)
    entries, rows = _entries(path, _TIME_INDEX_ENTRY)
    outline = _outline(path, options)
    previous: tuple[int, int] = (-1, -1)
    for timestamp_ms, relative in entries:
        offset = base_offset + relative
        yield Row("time_index_entry", {"timestamp_ms": timestamp_ms, "offset": offset})
        if timestamp_ms <= previous[0] or relative < previous[1]:
            yield problem(f"the entry of {timestamp_ms} at offset {offset} does not rise above the one before it")
        elif outline is not None:
            slot = outline.slot_of(offset)
            if slot is None:
                yield problem(f"the entry of {timestamp_ms} points to offset {offset}, which the log does not have")
            elif outline.own_timestamps[slot] != timestamp_ms:
                found = outline.own_timestamps[slot]
                yield problem(f"the entry of {timestamp_ms} points to offset {offset}, whose batch has {found}")
            elif outline.max_timestamps[slot] > timestamp_ms:
                found = outline.max_timestamps[slot]
                yield problem(f"the log has timestamp {found} before offset {offset}, and the entry {timestamp_ms}")
        previous = timestamp_ms, relative
    yield from rows
    yield Row("summary", {"entries": len(entries), "bytes": len(entries) * time_index.ENTRY_SIZE})


def _read_transaction_index(path: Path, options: Options) -> Rows:
    entries, rows = _entries(path, _ABORTED_TRANSACTION)
    for version, producer_id, first_offset, last_offset, last_stable_offset in entries:
        yield Row(
            "aborted_transaction",
            {
                "producer_id": producer_id,
                "first_offset": first_offset,
                "last_offset": last_offset,
                "last_stable_offset": last_stable_offset,
            },
        )
        if version != 0:
            yield problem(f"an entry is of version {version}, and 0 is known")
        if first_offset > last_offset:
            yield problem(f"an aborted transaction ends at {last_offset}, before its beginning at {first_offset}")
    yield from rows
    yield Row("summary", {"entries": len(entries), "bytes": len(entries) * _ABORTED_TRANSACTION.size})


# Snapshots and checkpoints


def _read_snapshot(path: Path, options: Options) -> Rows:
    try:
        states = ProducerStates.decode(path.read_bytes())
    except CorruptSnapshot as error:
        yield problem(str(error))
        return
    for producer_id, state in states:
        yield Row(
            "producer",
            {
                "producer_id": producer_id,
                "producer_epoch": state.epoch,
                "last_sequence": state.last_sequence,
                "last_offset": state.batches[-1].last_offset if state.batches else -1,
                "timestamp_ms": state.last_timestamp_ms,
                "coordinator_epoch": state.coordinator_epoch,
                "transaction_first_offset": state.transaction_first_offset,
            },
        )
    yield Row("summary", {"producers": len(states)})


def _read_offsets(path: Path, options: Options) -> Rows:
    offsets = yield from _decoded(path, checkpoint.decode_offsets)
    for (topic, partition), offset in sorted((offsets or {}).items()):
        yield Row("checkpoint_entry", {"topic": topic, "partition": partition, "offset": offset})


def _read_epochs(path: Path, options: Options) -> Rows:
    epochs = yield from _decoded(path, checkpoint.decode_epochs)
    for epoch, start_offset in epochs or ():
        yield Row("leader_epoch", {"epoch": epoch, "start_offset": start_offset})


def _read_partition_metadata(path: Path, options: Options) -> Rows:
    topic_id = yield from _decoded(path, checkpoint.decode_partition_metadata)
    if topic_id is not None:
        yield Row("property", {"name": "topic_id", "value": checkpoint.encode_topic_id(topic_id)})


def _read_meta_properties(path: Path, options: Options) -> Rows:
    properties = yield from _decoded(path, checkpoint.decode_properties)
    for name, value in sorted((properties or {}).items()):
        yield Row("property", {"name": name, "value": value})


def _decoded(path: Path, decode: Callable[[bytes], T]) -> Generator[Row, None, T | None]:
    """Return the decoded file, or yield its problem and return None."""
    try:
        return decode(path.read_bytes())
    except MalformedFile as error:
        yield problem(str(error))
        return None


_BY_SUFFIX: Final[dict[str, Callable[[Path, Options], Rows]]] = {
    LOG_SUFFIX: _read_log,
    INDEX_SUFFIX: _read_offset_index,
    TIME_INDEX_SUFFIX: _read_time_index,
    TRANSACTION_INDEX_SUFFIX: _read_transaction_index,
    SNAPSHOT_SUFFIX: _read_snapshot,
}
_BY_NAME: Final[dict[str, Callable[[Path, Options], Rows]]] = {
    checkpoint.RECOVERY_POINT_CHECKPOINT: _read_offsets,
    checkpoint.LOG_START_OFFSET_CHECKPOINT: _read_offsets,
    checkpoint.REPLICATION_OFFSET_CHECKPOINT: _read_offsets,
    "cleaner-offset-checkpoint": _read_offsets,
    checkpoint.LEADER_EPOCH_CHECKPOINT: _read_epochs,
    checkpoint.PARTITION_METADATA: _read_partition_metadata,
    checkpoint.META_PROPERTIES: _read_meta_properties,
}
