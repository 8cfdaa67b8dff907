"""Record batches (magic 2) of values of one size, written in place by NumPy.

The bytes are those that any client writes, with varints in their shortest form. The varint of a record's offset delta
grows (1 byte up to 63, 2 up to 8191, 3 above), so a batch has up to three *stretches* of records of equal length.
Layout: https://kafka.apache.org/documentation/#recordbatch
"""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from highwater.spark_loadgen.compression import Compression
from highwater.spark_loadgen.errors import LoadSetupError
from highwater.spark_loadgen.stamp import STAMP, STAMP_BYTES

HEADER_BYTES: Final = 61
# base offset, length, leader epoch, magic, CRC | attributes, last offset delta, base and max timestamp, producer id,
# producer epoch, base sequence, count
_BEFORE_CRC: Final = struct.Struct(">qiibI")
_AFTER_CRC: Final = struct.Struct(">hiqqqhii")
_CRC: Final = struct.Struct(">I")
_CRC_AT: Final = 17
_LENGTH_COUNTS_FROM: Final = 12
# First record of each stretch: where the offset delta's varint grows.
_STRETCH_STARTS: Final = (0, 64, 8192, 1 << 20)
_NO_KEY: Final = b"\x01"

Checksum = Callable[[memoryview], int]


class ProducerSequence(NamedTuple):
    """What identifies a batch of an idempotent producer in a partition."""

    producer_id: int
    epoch: int
    base_sequence: int


NO_SEQUENCE: Final = ProducerSequence(-1, -1, -1)


@dataclass(frozen=True, slots=True)
class _Stretch:
    """Records `first` to `end` − 1 of a batch, as views of their fields; `bodies` is None if values are only stamps."""

    first: int
    end: int
    start_byte: int
    record_bytes: int
    sequences: NDArray[np.uint64]
    intended_ns: NDArray[np.int64]
    bodies: NDArray[Any] | None


def varint(value: int) -> bytes:
    """Zigzag, base 128, least significant group first."""
    rest = (value << 1) ^ (value >> 63)
    encoded = bytearray()
    while rest > 0x7F:
        encoded.append(rest & 0x7F | 0x80)
        rest >>= 7
    encoded.append(rest)
    return bytes(encoded)


def encode_headers(headers: Sequence[tuple[str, bytes]]) -> bytes:
    """The headers as they end each record."""
    fields = [varint(len(name)) + name.encode() + varint(len(value)) + value for name, value in headers]
    return varint(len(headers)) + b"".join(fields)


class BodyPool:
    """The bodies of a worker's records in one array: record s has the body (start + s) modulo the number of bodies."""

    def __init__(self, bodies: Sequence[bytes], start: int, records_max: int) -> None:
        """records_max: largest count for `at`. Raises ValueError when the bodies differ in size."""
        sizes = {len(body) for body in bodies}
        if len(sizes) != 1:
            raise ValueError(f"values of {min(sizes)} to {max(sizes)} bytes are not of one size")
        self.body_bytes = sizes.pop()
        self._count = len(bodies)
        self._start = start
        self._row: NDArray[Any] | None = None
        if self.body_bytes:
            once = np.frombuffer(b"".join(bodies), dtype=f"V{self.body_bytes}")
            self._row = once[np.arange(self._count + records_max) % self._count]

    def at(self, sequence: int, count: int) -> NDArray[Any]:
        """The bodies of `count` records from `sequence` on."""
        assert self._row is not None
        first = (self._start + sequence) % self._count
        return self._row[first : first + count]


class BatchBuffer:
    """Memory for one batch at a time, with room for the request's header before it.

    Compressed records go to a second buffer, so that the constant bytes of the first one stay intact.
    """

    def __init__(
        self,
        worker: int,
        magic: int,
        pool: BodyPool,
        headers: bytes,
        batch_bytes: int,
        records_max: int,
        room: int,
        compression: Compression | None = None,
    ) -> None:
        """Make room for as many records as fit in `batch_bytes`, at least one and at most `records_max`."""
        self._pool = pool
        self._checksum = _checksum()
        self._compression = compression
        self._room = room
        self._stretches: list[_Stretch] = []
        plans = list(_stretch_plans(pool.body_bytes + STAMP_BYTES, len(headers), batch_bytes, records_max))
        self.records_max = plans[-1][1]
        self._data = bytearray(room + HEADER_BYTES + sum((end - first) * size for first, end, size in plans))
        self._packed = bytearray(len(self._data) if compression else 0)
        self._filled = memoryview(self._data)
        """Room for a request's header, then the batch of the last `fill`."""
        at = room + HEADER_BYTES
        for first, end, record_bytes in plans:
            self._stretches.append(self._stretch(at, first, end, record_bytes, worker, magic, headers))
            at += (end - first) * record_bytes

    def _stretch(
        self, at: int, first: int, end: int, record_bytes: int, worker: int, magic: int, headers: bytes
    ) -> _Stretch:
        """Write the constant bytes and make views of the fields that change."""
        count, value_bytes = end - first, self._pool.body_bytes + STAMP_BYTES
        head = _record_head(first, record_bytes, value_bytes)
        rows = np.frombuffer(self._data, np.uint8, count * record_bytes, at).reshape(count, record_bytes)
        rows[:, : len(head)] = np.frombuffer(head, np.uint8)
        deltas, delta_bytes = np.arange(first, end) << 1, len(varint(first))
        delta_at = len(head) - len(varint(value_bytes)) - len(_NO_KEY) - delta_bytes
        for position in range(delta_bytes):
            more = 0x80 if position < delta_bytes - 1 else 0
            rows[:, delta_at + position] = deltas >> (7 * position) & 0x7F | more
        if headers:
            rows[:, -len(headers) :] = np.frombuffer(headers, np.uint8)

        def column(name: str) -> NDArray[Any]:
            dtype, offset = STAMP.fields[name][:2]  # type: ignore[index]
            return np.ndarray(count, dtype, self._data, at + len(head) + offset, (record_bytes,))

        column("worker")[:] = worker
        column("magic")[:] = magic
        bodies = None
        if self._pool.body_bytes:
            body_type = np.dtype(f"V{self._pool.body_bytes}")
            bodies = np.ndarray(count, body_type, self._data, at + len(head) + STAMP_BYTES, (record_bytes,))
        return _Stretch(first, end, at, record_bytes, column("sequence"), column("intended_ns"), bodies)

    @property
    def batch_bytes(self) -> int:
        """Size of the batch of the last `fill`."""
        return len(self._filled) - self._room

    def _end_of(self, count: int) -> int:
        for stretch in self._stretches:
            if count <= stretch.end:
                return stretch.start_byte + (count - stretch.first) * stretch.record_bytes
        raise ValueError(f"{count} records do not fit; {self.records_max} do")

    def fill(
        self, first: int, count: int, intended_ns: NDArray[np.int64], sequence: ProducerSequence = NO_SEQUENCE
    ) -> None:
        """Write the batch of records `first` to `first + count − 1`, with the present time as their timestamp."""
        for stretch in self._stretches:
            n = min(count, stretch.end) - stretch.first
            if n <= 0:
                break
            start = first + stretch.first
            stretch.sequences[:n] = np.arange(start, start + n)
            stretch.intended_ns[:n] = intended_ns[stretch.first : stretch.first + n]
            if stretch.bodies is not None:
                stretch.bodies[:n] = self._pool.at(start, n)
        self._filled, codec = self._finish(self._end_of(count))
        now_ms, at, batch = time.time_ns() // 1_000_000, self._room, self._filled
        _BEFORE_CRC.pack_into(batch, at, 0, self.batch_bytes - _LENGTH_COUNTS_FROM, -1, 2, 0)
        _AFTER_CRC.pack_into(batch, at + _BEFORE_CRC.size, codec, count - 1, now_ms, now_ms, *sequence, count)
        _CRC.pack_into(batch, at + _CRC_AT, self._checksum(batch[at + _BEFORE_CRC.size :]))

    def _finish(self, end: int) -> tuple[memoryview, int]:
        """Compress the batch that ends at `end`. Returns room and batch, and the number of the codec.

        Like librdkafka, it leaves records uncompressed when compression does not make them smaller.
        """
        plain, start = memoryview(self._data)[:end], self._room + HEADER_BYTES
        if self._compression is None:
            return plain, 0
        records = self._compression.compress(plain[start:])
        if start + len(records) >= end:
            return plain, 0
        self._packed[start : start + len(records)] = records
        return memoryview(self._packed)[: start + len(records)], self._compression.number

    def frame(self, prefix: bytes) -> memoryview:
        """`prefix` and the batch of the last `fill`, contiguous; the next `fill` overwrites this memory."""
        start = self._room - len(prefix)
        self._filled[start : self._room] = prefix
        return self._filled[start:]


def _checksum() -> Checksum:
    """Raises LoadSetupError where the package is missing: executors need it only for this driver."""
    try:
        from crc32c import crc32c
    except ImportError as error:
        raise LoadSetupError(
            f"executor {socket.gethostname()} lacks the package crc32c, which the wire driver needs: install it there, "
            "or use the client driver"
        ) from error
    checksum: Checksum = crc32c
    return checksum


def _record_head(delta: int, record_bytes: int, value_bytes: int) -> bytes:
    """The start of a record: length, attributes, timestamp delta, offset delta, key, length of the value."""
    rest = b"\x00\x00" + varint(delta) + _NO_KEY + varint(value_bytes)
    # The length field does not count itself, so find the size of that field first.
    lengths = (varint(record_bytes - length_bytes) for length_bytes in range(1, 6))
    return next(length for length_bytes, length in enumerate(lengths, 1) if len(length) == length_bytes) + rest


def _record_bytes(delta: int, value_bytes: int, headers_bytes: int) -> int:
    content = 2 + len(varint(delta)) + len(_NO_KEY) + len(varint(value_bytes)) + value_bytes + headers_bytes
    return len(varint(content)) + content


def _stretch_plans(
    value_bytes: int, headers_bytes: int, batch_bytes: int, records_max: int
) -> list[tuple[int, int, int]]:
    """(first record, end, bytes per record) of every stretch of the batch."""
    plans, left = [], batch_bytes - HEADER_BYTES
    for first, limit in pairwise(_STRETCH_STARTS):
        size = _record_bytes(first, value_bytes, headers_bytes)
        count = min(limit, records_max) - first
        fitting = min(count, max(left // size, 0 if first else 1))
        if fitting > 0:
            plans.append((first, first + fitting, size))
        left -= fitting * size
        if fitting < count or limit >= records_max:
            break
    return plans
