"""The `.txnindex` of a segment: the transactions whose abort markers are in the segment.

Each entry is 34 bytes, big-endian (KIP-98; Apache Kafka, AbortedTxn.java): i16 version 0, i64 producer id, i64 first
offset of the transaction, i64 offset of its abort marker, i64 last stable offset when the marker was written.
"""

from __future__ import annotations

import struct
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from highwater.broker.log.errors import CorruptIndex

_VERSION: Final = 0
_ENTRY: Final = struct.Struct(">hqqqq")
ENTRY_SIZE: Final = _ENTRY.size
_LAST_OFFSET: Final = struct.Struct(">q")
_LAST_OFFSET_POSITION: Final = 18


class AbortedTransaction(NamedTuple):
    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


class TransactionIndex:
    """Entries in the order of the markers, as bytes: a segment may have very many aborted transactions."""

    __slots__ = ("_data", "written_entries")

    def __init__(self) -> None:
        self._data = bytearray()
        self.written_entries = 0
        """The number of entries that are in the file."""

    @classmethod
    def decode(cls, data: bytes, base_offset: int) -> TransactionIndex:
        """The index in `data`. CorruptIndex if it cannot be that of the segment of `base_offset`."""
        index = cls()
        last_offset = base_offset - 1
        for transaction in decode_aborted(data):
            if not transaction.first_offset <= transaction.last_offset > last_offset:
                raise CorruptIndex(f"a marker of offset {transaction.last_offset} comes after {last_offset}")
            last_offset = transaction.last_offset
        index._data += data
        index.written_entries = len(index)
        return index

    def __len__(self) -> int:
        return len(self._data) // ENTRY_SIZE

    def append(self, transaction: AbortedTransaction) -> None:
        self._data += _ENTRY.pack(_VERSION, *transaction)

    def truncate(self, offset: int) -> None:
        """Forget the transactions whose marker is at `offset` or later."""
        del self._data[bisect_left(range(len(self)), offset, key=self._last_offset) * ENTRY_SIZE :]

    def unwritten(self) -> bytes:
        """The bytes of the entries that are not in the file yet."""
        return bytes(self._data[self.written_entries * ENTRY_SIZE :])

    def entries(self, from_offset: int = 0) -> Iterator[AbortedTransaction]:
        """The transactions whose marker is at `from_offset` or later."""
        first = bisect_left(range(len(self)), from_offset, key=self._last_offset)
        for slot in range(first, len(self)):
            yield AbortedTransaction(*_ENTRY.unpack_from(self._data, slot * ENTRY_SIZE)[1:])

    def _last_offset(self, slot: int) -> int:
        offset: int = _LAST_OFFSET.unpack_from(self._data, slot * ENTRY_SIZE + _LAST_OFFSET_POSITION)[0]
        return offset


def encode_aborted(transactions: Iterable[AbortedTransaction]) -> bytes:
    return b"".join(_ENTRY.pack(_VERSION, *transaction) for transaction in transactions)


def decode_aborted(data: bytes) -> list[AbortedTransaction]:
    if len(data) % _ENTRY.size:
        raise CorruptIndex(f"{len(data)} bytes are no whole number of entries")
    entries = list(_ENTRY.iter_unpack(data))
    if any(version != _VERSION for version, *_ in entries):
        raise CorruptIndex(f"an entry is not of version {_VERSION}")
    return [AbortedTransaction(*fields) for _, *fields in entries]
