"""The records of `__transaction_state`, as Apache Kafka writes them.

The schemas are TransactionLogKey.json and TransactionLogValue.json.

    key      i16 version 0, transactional id
    value    i16 version, producer id i64, producer epoch i16, timeout i32 in ms, status i8, partitions [topic, [i32]]
             or null, last update i64 in ms, start i64 in ms; in version 1 the tagged fields
             0 previous producer id i64, 1 next producer id i64, 2 the client's version of transactions i16,
             3 next producer epoch i16

Version 1 of the value is flexible (KIP-915). It is written from level 1 of `transaction.version` on, and version 0
below, as Kafka 3.9 does. Both are read at each level. A tagged field with its default is left out. A null value is a
tombstone.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from itertools import groupby
from operator import itemgetter
from typing import Final

from highwater.broker.txn.transaction import NO_EPOCH, NO_PRODUCER_ID, Producer, StoredTransaction, TxnState
from highwater.common.topic_partition import TopicPartition
from highwater.kafka.protocol.primitives import Decoder, MalformedRequestError, array_length, int32_array, string
from highwater.kafka.records.batch import CorruptBatch

_INT16: Final = struct.Struct(">h")
_INT64: Final = struct.Struct(">q")
_KEY_VERSION: Final = 0
_FLEXIBLE_VERSION: Final = 1
"""The newest version of the value."""
_HEAD: Final = struct.Struct(">hqhib")
_TAIL: Final = struct.Struct(">qq")
_NULL: Final = -1
_PREVIOUS_ID, _NEXT_ID, _CLIENT_VERSION, _NEXT_EPOCH = range(4)
"""The tags."""
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


def encode_transaction(transaction: StoredTransaction, *, level: int) -> bytes:
    """`level` is the finalised level of `transaction.version`."""
    is_flexible = level >= _FLEXIBLE_VERSION
    version = _FLEXIBLE_VERSION if is_flexible else 0
    is_empty = transaction.state is TxnState.EMPTY
    return b"".join(
        (
            _HEAD.pack(version, *transaction.producer, transaction.timeout_ms, transaction.state),
            array_length(_NULL, is_flexible) if is_empty else _partitions(transaction.partitions, is_flexible),
            _TAIL.pack(transaction.last_update_ms, transaction.start_ms),
            _tags(transaction) if is_flexible else b"",
        )
    )


def _partitions(partitions: Iterable[TopicPartition], is_flexible: bool) -> bytes:
    by_topic = [(topic, [index for _, index in group]) for topic, group in groupby(sorted(partitions), itemgetter(0))]
    no_tags = b"\0" if is_flexible else b""
    return array_length(len(by_topic), is_flexible) + b"".join(
        string(topic, is_flexible) + int32_array(indexes, is_flexible) + no_tags for topic, indexes in by_topic
    )


def _tags(transaction: StoredTransaction) -> bytes:
    fields = (
        (_PREVIOUS_ID, _INT64, transaction.previous_id, NO_PRODUCER_ID),
        (_NEXT_ID, _INT64, transaction.next.producer_id, NO_PRODUCER_ID),
        (_CLIENT_VERSION, _INT16, transaction.client_version, 0),
        (_NEXT_EPOCH, _INT16, transaction.next.epoch, NO_EPOCH),
    )
    written = [bytes((tag, form.size)) + form.pack(value) for tag, form, value, default in fields if value != default]
    return bytes((len(written),)) + b"".join(written)


def decode_transaction(data: bytes) -> StoredTransaction:
    """Raises CorruptBatch."""
    decoder = Decoder(memoryview(data))
    try:
        version = decoder.int16()
        if not 0 <= version <= _FLEXIBLE_VERSION:
            raise CorruptBatch(f"version {version} of a transaction's value is not known")
        decoder.flexible = version >= _FLEXIBLE_VERSION
        producer = Producer(decoder.int64(), decoder.int16())
        timeout_ms = decoder.int32()
        status = decoder.int8()
        partitions = frozenset(_read_partitions(decoder))
        last_update_ms, start_ms = decoder.int64(), decoder.int64()
        tags = _read_tags(decoder) if decoder.flexible else {}
    except MalformedRequestError as error:
        raise CorruptBatch(f"the value of a transaction cannot be read: {error}") from None
    if status not in list(TxnState) or status in _NEVER_STORED:
        raise CorruptBatch(f"no transaction is in state {status}")
    return StoredTransaction(
        producer,
        timeout_ms,
        TxnState(status),
        partitions,
        last_update_ms,
        start_ms,
        previous_id=tags.get(_PREVIOUS_ID, NO_PRODUCER_ID),
        next=Producer(tags.get(_NEXT_ID, NO_PRODUCER_ID), tags.get(_NEXT_EPOCH, NO_EPOCH)),
        client_version=tags.get(_CLIENT_VERSION, 0),
    )


def _read_tags(decoder: Decoder) -> dict[int, int]:
    """Return the known tagged fields. Others are of a newer Kafka."""
    return {
        tag: value.int64() if tag in (_PREVIOUS_ID, _NEXT_ID) else value.int16()
        for tag, value in decoder.tags()
        if tag in (_PREVIOUS_ID, _NEXT_ID, _CLIENT_VERSION, _NEXT_EPOCH)
    }


def _read_partitions(decoder: Decoder) -> Iterable[TopicPartition]:
    for _ in range(decoder.array_length()):
        topic = decoder.string()
        for _ in range(decoder.array_length()):
            yield topic, decoder.int32()
        decoder.skip_tags()
