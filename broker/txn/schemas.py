"""The records of `__transaction_state`, as Apache Kafka writes them.

The schemas are TransactionLogKey.json and TransactionLogValue.json.

    key      i16 version 0, transactional id
    value    i16 version, producer id i64, producer epoch i16, timeout i32 in ms, status i8, partitions [topic, [i32]]
             or null, last update i64 in ms, start i64 in ms

Kafka 3.9 writes version 0 of the value; version 1 is flexible (KIP-915), and Kafka 4 adds tagged fields. A null value
is a tombstone.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from itertools import groupby
from operator import itemgetter
from typing import Final

from highwater.broker.txn.transaction import Producer, StoredTransaction, TxnState
from highwater.common.topic_partition import TopicPartition
from highwater.kafka.protocol.primitives import Decoder, MalformedRequestError, string
from highwater.kafka.records.batch import CorruptBatch

_INT16: Final = struct.Struct(">h")
_INT32: Final = struct.Struct(">i")
_KEY_VERSION: Final = 0
_VALUE_VERSION: Final = 0
_NEWEST_VALUE_VERSION: Final = 1
_FLEXIBLE_FROM: Final = 1
_HEAD: Final = struct.Struct(">hqhib")
_TAIL: Final = struct.Struct(">qq")
_NULL: Final = _INT32.pack(-1)
_NEVER_STORED: Final = (TxnState.DEAD, TxnState.PREPARE_EPOCH_FENCE)


def encode_key(transactional_id: str) -> bytes:
    return _INT16.pack(_KEY_VERSION) + string(transactional_id, False)


def decode_key(data: bytes) -> str | None:
    """Return the transactional id, or None for a key of another kind. Raises CorruptBatch."""
    decoder = Decoder(memoryview(data))
    try:
        return decoder.string() if decoder.int16() == _KEY_VERSION else None
    except MalformedRequestError as error:
        raise CorruptBatch(f"the key of a transaction cannot be read: {error}") from None


def encode_transaction(transaction: StoredTransaction) -> bytes:
    return b"".join(
        (
            _HEAD.pack(_VALUE_VERSION, *transaction.producer, transaction.timeout_ms, transaction.state),
            _NULL if transaction.state is TxnState.EMPTY else _partitions(transaction.partitions),
            _TAIL.pack(transaction.last_update_ms, transaction.start_ms),
        )
    )


def _partitions(partitions: Iterable[TopicPartition]) -> bytes:
    by_topic = [(topic, list(group)) for topic, group in groupby(sorted(partitions), key=itemgetter(0))]
    return _INT32.pack(len(by_topic)) + b"".join(
        string(topic, False) + struct.pack(f">i{len(group)}i", len(group), *(partition for _, partition in group))
        for topic, group in by_topic
    )


def decode_transaction(data: bytes) -> StoredTransaction:
    """Raises CorruptBatch."""
    decoder = Decoder(memoryview(data))
    try:
        version = decoder.int16()
        if not 0 <= version <= _NEWEST_VALUE_VERSION:
            raise CorruptBatch(f"version {version} of a transaction's value is not known")
        decoder.flexible = version >= _FLEXIBLE_FROM
        producer = Producer(decoder.int64(), decoder.int16())
        timeout_ms = decoder.int32()
        status = decoder.int8()
        partitions = frozenset(_read_partitions(decoder))
        last_update_ms, start_ms = decoder.int64(), decoder.int64()
    except MalformedRequestError as error:
        raise CorruptBatch(f"the value of a transaction cannot be read: {error}") from None
    if status not in list(TxnState) or status in _NEVER_STORED:
        raise CorruptBatch(f"no transaction is in state {status}")
    return StoredTransaction(producer, timeout_ms, TxnState(status), partitions, last_update_ms, start_ms)


def _read_partitions(decoder: Decoder) -> Iterable[TopicPartition]:
    for _ in range(decoder.array_length()):
        topic = decoder.string()
        for _ in range(decoder.array_length()):
            yield topic, decoder.int32()
        decoder.skip_tags()
