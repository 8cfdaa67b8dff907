"""What a partition remembers of its producers, so that a retry is not written twice (KIP-98, KIP-360).

For each producer id: its epoch, and sequence numbers and offsets of its last five batches, since a client has at most
five requests in flight. A new batch of the producer is then one of

    known (epoch and both sequences equal)      a duplicate: answered with the offsets it got the first time
    of a lower epoch                            INVALID_PRODUCER_EPOCH: a newer instance took over
    of a higher epoch, sequence not 0           OUT_OF_ORDER_SEQUENCE_NUMBER
    of the same epoch, not the next sequence    OUT_OF_ORDER_SEQUENCE_NUMBER
    otherwise                                   next in line

A producer that is not known is accepted at any sequence: retention may have removed all it wrote. (Apache Kafka,
ProducerAppendInfo.java.)

`<offset>.snapshot` holds this state as of an offset: i16 version 1, u32 CRC-32C of the rest, i32 count, and for each
producer i64 id, i16 epoch, i32 last sequence, i64 last offset, i32 offset delta, i64 timestamp, i32 coordinator epoch,
i64 first offset of the open transaction or −1. Only the last batch of each producer is kept there.
"""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Iterator
from typing import Final, NamedTuple

from crc32c import crc32c
from kio.schema.errors import ErrorCode

from broker.log.errors import CorruptSnapshot
from broker.records.batch import MAX_SEQUENCE, NO_TIMESTAMP, BatchHeader, add_to_sequence
from broker.records.record import EndMarker

BATCHES_KEPT: Final = 5
NO_EPOCH: Final = -1
NO_SEQUENCE: Final = -1
NO_OFFSET: Final = -1

_SNAPSHOT_VERSION: Final = 1
_SNAPSHOT_HEAD: Final = struct.Struct(">hI")
_COUNT: Final = struct.Struct(">i")
_ENTRY: Final = struct.Struct(">qhiqiqiq")


class BatchMetadata(NamedTuple):
    """One batch that was appended."""

    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp_ms: int

    @property
    def base_offset(self) -> int:
        return self.last_offset - self.offset_delta

    @property
    def base_sequence(self) -> int:
        return add_to_sequence(self.last_sequence, -self.offset_delta)


class ProducerState:
    __slots__ = ("batches", "coordinator_epoch", "epoch", "last_timestamp_ms", "transaction_first_offset")

    def __init__(self, epoch: int = NO_EPOCH) -> None:
        self.epoch = epoch
        self.batches: deque[BatchMetadata] = deque(maxlen=BATCHES_KEPT)
        self.last_timestamp_ms = NO_TIMESTAMP
        self.coordinator_epoch = -1
        self.transaction_first_offset = NO_OFFSET

    @property
    def last_sequence(self) -> int:
        return self.batches[-1].last_sequence if self.batches else NO_SEQUENCE

    def set_epoch(self, epoch: int) -> None:
        if epoch != self.epoch:
            self.epoch = epoch
            self.batches.clear()


class ProducerStates:
    __slots__ = ("_states",)

    def __init__(self) -> None:
        self._states: dict[int, ProducerState] = {}

    def __len__(self) -> int:
        return len(self._states)

    def __iter__(self) -> Iterator[tuple[int, ProducerState]]:
        return iter(self._states.items())

    def get(self, producer_id: int) -> ProducerState | None:
        return self._states.get(producer_id)

    def check(self, header: BatchHeader) -> BatchMetadata | ErrorCode | None:
        """Judge a batch that a client sent: the duplicate it repeats, an error, or None: append it."""
        state = self._states.get(header.producer_id)
        if state is None:
            return None
        if header.producer_epoch == state.epoch:
            last_sequence = header.last_sequence
            for batch in state.batches:
                if batch.last_sequence == last_sequence and batch.offset_delta == header.last_offset_delta:
                    return batch
        elif header.producer_epoch < state.epoch:
            return ErrorCode.invalid_producer_epoch
        expected = NO_SEQUENCE if header.producer_epoch != state.epoch else state.last_sequence
        expected = 0 if expected in (NO_SEQUENCE, MAX_SEQUENCE) else expected + 1
        if header.base_sequence != expected and state.epoch != NO_EPOCH:
            return ErrorCode.out_of_order_sequence_number
        if state.transaction_first_offset != NO_OFFSET and not header.is_transactional:
            return ErrorCode.invalid_txn_state
        return None

    def append(self, header: BatchHeader, base_offset: int, timestamp_ms: int) -> None:
        """Note a batch of records that went into the log; unchecked, as replay and replication need it."""
        state = self._states.get(header.producer_id)
        if state is None:
            state = self._states[header.producer_id] = ProducerState(header.producer_epoch)
        state.set_epoch(header.producer_epoch)
        delta = header.last_offset_delta
        state.batches.append(BatchMetadata(header.last_sequence, base_offset + delta, delta, timestamp_ms))
        state.last_timestamp_ms = timestamp_ms
        if header.is_transactional and state.transaction_first_offset == NO_OFFSET:
            state.transaction_first_offset = base_offset

    def end_transaction(self, header: BatchHeader, marker: EndMarker) -> None:
        """Note a control batch that went into the log."""
        state = self._states.setdefault(header.producer_id, ProducerState(header.producer_epoch))
        state.set_epoch(header.producer_epoch)
        state.coordinator_epoch = marker.coordinator_epoch
        state.last_timestamp_ms = header.max_timestamp_ms
        state.transaction_first_offset = NO_OFFSET

    def expire(self, now_ms: int, expiration_ms: int) -> None:
        """Forget producers that wrote nothing for `expiration_ms` and have no transaction open."""
        for producer_id, state in list(self._states.items()):
            if state.transaction_first_offset == NO_OFFSET and now_ms - state.last_timestamp_ms >= expiration_ms:
                del self._states[producer_id]

    def encode(self) -> bytes:
        body = bytearray(_COUNT.pack(len(self._states)))
        for producer_id, state in self._states.items():
            last = state.batches[-1] if state.batches else BatchMetadata(NO_SEQUENCE, NO_OFFSET, 0, NO_TIMESTAMP)
            body += _ENTRY.pack(
                producer_id,
                state.epoch,
                last.last_sequence,
                last.last_offset,
                last.offset_delta,
                state.last_timestamp_ms,
                state.coordinator_epoch,
                state.transaction_first_offset,
            )
        return _SNAPSHOT_HEAD.pack(_SNAPSHOT_VERSION, crc32c(body)) + body

    @classmethod
    def decode(cls, data: bytes) -> ProducerStates:
        if len(data) < _SNAPSHOT_HEAD.size + _COUNT.size:
            raise CorruptSnapshot(f"{len(data)} bytes are too few")
        version, crc = _SNAPSHOT_HEAD.unpack_from(data)
        if version != _SNAPSHOT_VERSION:
            raise CorruptSnapshot(f"version {version} is not {_SNAPSHOT_VERSION}")
        body = memoryview(data)[_SNAPSHOT_HEAD.size :]
        if crc32c(body) != crc:
            raise CorruptSnapshot("its CRC does not match")
        (count,) = _COUNT.unpack_from(body)
        if len(body) != _COUNT.size + count * _ENTRY.size:
            raise CorruptSnapshot(f"{count} entries do not make {len(body)} bytes")
        states = cls()
        for entry in _ENTRY.iter_unpack(body[_COUNT.size :]):
            producer_id, epoch, sequence, offset, delta, timestamp_ms, coordinator_epoch, transaction = entry
            state = states._states[producer_id] = ProducerState(epoch)
            if offset != NO_OFFSET:
                state.batches.append(BatchMetadata(sequence, offset, delta, timestamp_ms))
            state.last_timestamp_ms = timestamp_ms
            state.coordinator_epoch = coordinator_epoch
            state.transaction_first_offset = transaction
        return states
