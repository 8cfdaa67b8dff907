"""Requests that are worse than a schema shows: record batches that unfold, lookups in them, groups. Pure."""

from __future__ import annotations

import struct
import time
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Final, NamedTuple

import cramjam

from highwater.kafka.protocol.apis import FETCH, LIST_OFFSETS, PRODUCE
from highwater.kafka.records import compress
from highwater.kafka.records.batch import HEADER, HEADER_SIZE, MAGIC, Codec, update_crc
from highwater.kafka.records.record import write_varint
from tests.drills.bystander.shapes import TOPIC

OPENED: Final = {
    "compacted": {"cleanup.policy": "compact"},
    "recoded": {"compression.type": "gzip"},
    "bounded": {"message.timestamp.after.max.ms": "60000"},
    "stamped": {"message.timestamp.type": "LogAppendTime"},
}
"""Topics of which a broker may open or change batches."""
PLAIN: Final = "plain"
PARTITIONS: Final = 100
"""Of each of these topics."""
_RECORDS: Final = 500_000
_ZEROS: Final = 120 << 20


class Worst(NamedTuple):
    key: int
    version: int
    label: str
    body: bytes


def worst() -> Iterator[Worst]:
    for name, batch in _batches():
        for topic in (PLAIN, *OPENED):
            yield Worst(PRODUCE, 7, f"1 batch of {name}, {topic}", _produce(topic, [batch]))
        for topic in OPENED:
            count = min(PARTITIONS, (99 << 20) // len(batch))
            yield Worst(PRODUCE, 7, f"{count} batches of {name}, {topic}", _produce(topic, [batch] * count))
        for version in (0, 1, 7):
            late_ms = 2**62 if version == 1 else int(time.time() * 1000) - 5
            yield Worst(LIST_OFFSETS, version, f"time in a batch of {name}", _list_offsets(version, late_ms))
        yield Worst(FETCH, 4, f"a batch of {name}", _fetch())
    small = _sealed(_many_records(1), Codec.NONE, 1)
    yield Worst(PRODUCE, 7, "100,000 batches, one partition", _produce(PLAIN, [small] * 100_000, spread=1))
    yield Worst(PRODUCE, 7, "100,000 batches, 100 partitions", _produce(PLAIN, [small] * 100_000))
    yield Worst(PRODUCE, 3, "99 batches of 1 MB", _produce(PLAIN, [_large()] * 99))
    yield Worst(11, 1, "100,000 protocols", _join_group(100_000, b""))
    yield Worst(11, 1, "90 protocols of 1 MB", _join_group(90, b"x" * 1_000_000))


@cache
def _batches() -> Sequence[tuple[str, bytes]]:
    plain = _many_records(_RECORDS)
    few = _many_records(100)
    zeros = bytearray()
    _write_record(zeros, 0, bytes(_ZEROS))
    members = b"".join(bytes(cramjam.gzip.compress(few[at : at + 1], 9)) for at in range(len(few))) * 50
    raw = _many_records(90_000)
    return (
        ("500,000 records, zstd", _sealed(compress.compress(Codec.ZSTD, plain), Codec.ZSTD, _RECORDS)),
        ("500,000 records, gzip", _sealed(compress.compress(Codec.GZIP, plain), Codec.GZIP, _RECORDS)),
        ("500,000 records without keys", _sealed(compress.compress(Codec.ZSTD, _keyless()), Codec.ZSTD, _RECORDS)),
        ("120 MiB of zeros, zstd", _sealed(compress.compress(Codec.ZSTD, zeros), Codec.ZSTD, 1)),
        ("120 MiB of zeros, gzip", _sealed(compress.compress(Codec.GZIP, zeros), Codec.GZIP, 1)),
        ("30 MiB of zeros, lz4", _sealed(compress.compress(Codec.LZ4, zeros[: 30 << 20]), Codec.LZ4, 1)),
        ("18 MiB of zeros, snappy", _sealed(compress.compress(Codec.SNAPPY, zeros[: 18 << 20]), Codec.SNAPPY, 1)),
        ("members of gzip", _sealed(members, Codec.GZIP, 5_000)),
        ("90,000 records", _sealed(raw, Codec.NONE, 90_000)),
    )


def _write_record(out: bytearray, number: int, value: bytes, key: bytes | None = b"k") -> None:
    record = bytearray(b"\0\0")
    write_varint(record, number)
    if key is None:
        write_varint(record, -1)
    else:
        write_varint(record, len(key))
        record += key
    write_varint(record, len(value))
    record += value + b"\0"
    write_varint(out, len(record))
    out += record


@cache
def _many_records(count: int) -> bytes:
    out = bytearray()
    for number in range(count):
        _write_record(out, number, b"")
    return bytes(out)


@cache
def _keyless() -> bytes:
    out = bytearray()
    for number in range(_RECORDS):
        _write_record(out, number, b"", None)
    return bytes(out)


def _large() -> bytes:
    out = bytearray()
    _write_record(out, 0, b"x" * 1_000_000)
    return _sealed(bytes(out), Codec.NONE, 1)


def _sealed(body: bytes, codec: Codec, count: int) -> bytes:
    batch = bytearray(HEADER_SIZE) + body
    now_ms = int(time.time() * 1000)
    HEADER.pack_into(
        batch, 0, 0, len(batch) - 12, -1, MAGIC, 0, codec, count - 1, now_ms - 10, now_ms, -1, -1, -1, count
    )
    update_crc(batch, 0, len(batch))
    return bytes(batch)


def _text(text: str) -> bytes:
    return struct.pack(">h", len(text)) + text.encode()


def _produce(topic: str, batches: Sequence[bytes], spread: int = PARTITIONS) -> bytes:
    parts = [b"\xff\xff", struct.pack(">hii", 1, 30_000, 1), _text(topic), struct.pack(">i", len(batches))]
    for number, batch in enumerate(batches):
        parts += [struct.pack(">ii", number % spread, len(batch)), batch]
    return b"".join(parts)


def _list_offsets(version: int, timestamp_ms: int) -> bytes:
    """The first partition of the plain topic, which has each batch so far; version 7 asks for the largest timestamp."""
    head = struct.pack(">i", -1) + (b"\0" if version >= 2 else b"")
    if version >= 6:
        wanted = struct.pack(">iiqb", 0, -1, -3, 0)
        return head + b"\x02" + bytes([len(PLAIN) + 1]) + PLAIN.encode() + b"\x02" + wanted + b"\0\0"
    wanted = struct.pack(">iq", 0, timestamp_ms) + (struct.pack(">i", 10) if version == 0 else b"")
    return head + struct.pack(">i", 1) + _text(PLAIN) + struct.pack(">i", 1) + wanted


def _fetch() -> bytes:
    head = struct.pack(">iiiib", -1, 0, 0, 64 << 20, 0)
    return head + struct.pack(">i", 1) + _text(PLAIN) + struct.pack(">iiqi", 1, 0, 0, 64 << 20)


def _join_group(count: int, metadata: bytes) -> bytes:
    head = _text("group") + struct.pack(">ii", 10_000, 10_000) + _text("") + _text("consumer")
    protocols = (_text(f"p{at}") + struct.pack(">i", len(metadata)) + metadata for at in range(count))
    return head + struct.pack(">i", count) + b"".join(protocols)


__all__ = ["OPENED", "PARTITIONS", "PLAIN", "TOPIC", "Worst", "worst"]
