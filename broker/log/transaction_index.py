"""The `.txnindex` of a segment: the transactions that were aborted in it.

Each entry is 34 bytes, big-endian (KIP-98; Apache Kafka, AbortedTxn.java): i16 version 0, i64 producer id, i64 first
offset of the transaction, i64 offset of its abort marker, i64 last stable offset when that was written.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import Final, NamedTuple

from broker.log.errors import CorruptIndex

_VERSION: Final = 0
_ENTRY: Final = struct.Struct(">hqqqq")


class AbortedTransaction(NamedTuple):
    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


def encode_aborted(transactions: Iterable[AbortedTransaction]) -> bytes:
    return b"".join(_ENTRY.pack(_VERSION, *transaction) for transaction in transactions)


def decode_aborted(data: bytes) -> list[AbortedTransaction]:
    if len(data) % _ENTRY.size:
        raise CorruptIndex(f"{len(data)} bytes are no whole number of entries")
    entries = list(_ENTRY.iter_unpack(data))
    if any(version != _VERSION for version, *_ in entries):
        raise CorruptIndex(f"an entry is not of version {_VERSION}")
    return [AbortedTransaction(*fields) for _, *fields in entries]
