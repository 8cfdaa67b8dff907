"""The state of a partition's producers: sequence numbers and open transactions.

For each producer id: its epoch, and the sequence numbers and offsets of its last five batches, as a client has at most
five requests in flight. A new batch of the producer has

    epoch and both sequences of a known batch   it is a duplicate: the answer has the offsets of the first time
    a lower epoch                               INVALID_PRODUCER_EPOCH: a newer instance took over
    a higher epoch, and a sequence other than 0 OUT_OF_ORDER_SEQUENCE_NUMBER
    the same epoch, and not the next sequence   OUT_OF_ORDER_SEQUENCE_NUMBER
    otherwise                                   it is appended

An unknown producer may begin at any sequence, because retention may have deleted all that it wrote; in version 2 of
transactions only at 0, as each transaction has an epoch of its own. A batch that a coordinator of this broker writes
for a producer has no sequence. (KIP-98, KIP-360, KIP-890; Apache Kafka, ProducerAppendInfo.java.)

The states of a producer's transaction:

    none         a transactional batch                   open: undecided from that batch's first offset on
    open         a batch that is not transactional       INVALID_TXN_STATE
    open         an end marker                           decided, but still unstable
    decided      the high watermark passes the marker    none
    any          a marker of a lower producer epoch      INVALID_PRODUCER_EPOCH
    open         a marker of version 2 of transactions   INVALID_PRODUCER_EPOCH: it is late, and ended an earlier
                 and the same epoch                      transaction (KIP-1228)
    any          a marker of a lower coordinator epoch   TRANSACTION_COORDINATOR_FENCED
    none         an end marker                           none; the marker's epoch counts from now on

Readers of committed records read below the first unstable offset. (Apache Kafka, ProducerStateManager.java.)

How long a producer wrote nothing is measured by the broker's own clock: its records may have any timestamps. For what
was read from files the time begins with the first `expire` after that, which is never too early. Kafka measures it by
the timestamps, and so forgets a producer of old records at the next check.

`<offset>.snapshot` holds this state as of an offset: i16 version 1, u32 CRC-32C of the rest, i32 count, and for each
producer i64 id, i16 epoch, i32 last sequence, i64 last offset, i32 offset delta, i64 timestamp, i32 coordinator epoch,
i64 first offset of the open transaction or −1. A producer has an entry for each of its last batches, so that after a
restart, too, what a client sends again is known. Apache Kafka writes the last one alone, and reads the last of several
that are not older than producer.id.expiration.ms: so no entry is younger than the last one.
"""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Iterator
from typing import Final, NamedTuple

from kio.schema.errors import ErrorCode

from highwater.broker.log.errors import CorruptSnapshot
from highwater.broker.log.transaction_index import AbortedTransaction
from highwater.kafka.protocol.produce_run import MOST_DELTA, PartitionRun
from highwater.kafka.records.batch import MAX_SEQUENCE, NO_TIMESTAMP, BatchHeader, add_to_sequence
from highwater.kafka.records.checksum import crc32c
from highwater.kafka.records.record import HIGHEST_EPOCH, TRANSACTIONS_2, EndMarker, TransactionMarker

BATCHES_KEPT: Final = 5
NO_EPOCH: Final = -1
NO_SEQUENCE: Final = -1
NO_OFFSET: Final = -1
UNKNOWN_MS: Final = -1
LATE_AFTER_MS: Final = 5 * 60_000
ALL_STABLE: Final = 2**63 - 1
"""The first unstable offset of a log without open transactions: it is above every offset."""

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


_NO_BATCH: Final = BatchMetadata(NO_SEQUENCE, NO_OFFSET, 0, NO_TIMESTAMP)


class ProducerState:
    __slots__ = (
        "batches",
        "coordinator_epoch",
        "epoch",
        "is_added",
        "last_append_ms",
        "last_marker",
        "last_timestamp_ms",
        "transaction_first_offset",
    )

    def __init__(self, epoch: int = NO_EPOCH) -> None:
        self.epoch = epoch
        self.batches: deque[BatchMetadata] = deque(maxlen=BATCHES_KEPT)
        self.last_timestamp_ms = NO_TIMESTAMP
        self.last_append_ms = UNKNOWN_MS
        """When the broker appended its last batch, by the broker's clock."""
        self.coordinator_epoch = -1
        self.last_marker = NO_OFFSET
        """The offset of the marker of its last transaction, if this run wrote it."""
        self.transaction_first_offset = NO_OFFSET
        self.is_added = False
        """Whether this run has its open transaction from a client of version 2, so that the coordinator added it."""

    @property
    def last_sequence(self) -> int:
        return self.batches[-1].last_sequence if self.batches else NO_SEQUENCE

    def set_epoch(self, epoch: int) -> None:
        if epoch != self.epoch:
            self.epoch = epoch
            self.batches.clear()


class _Refused(NamedTuple):
    epoch: int
    lowest_sequence: int
    time_ms: int


class ProducerStates:
    __slots__ = ("_open", "_refused", "_states", "decided", "first_unstable_offset")

    def __init__(self) -> None:
        self._states: dict[int, ProducerState] = {}
        self._open: dict[int, int] = {}
        """{first offset of an open transaction: producer id}, in the order of offsets."""
        self._refused: dict[int, _Refused] = {}
        self.decided: dict[int, int] = {}
        """{first offset of a transaction: offset of its marker}, while the high watermark has not passed the marker."""
        self.first_unstable_offset = ALL_STABLE
        """The first offset of the first transaction that is open, or whose marker the high watermark has not passed."""

    def __len__(self) -> int:
        return len(self._states)

    def __iter__(self) -> Iterator[tuple[int, ProducerState]]:
        return iter(self._states.items())

    def get(self, producer_id: int) -> ProducerState | None:
        return self._states.get(producer_id)

    def would_begin(self, producer_id: int, epoch: int, *, by_version_2: bool = False) -> bool:
        """Whether a transactional batch of the producer would begin a transaction, or continue one of an older epoch.

        A client of version 2 may also have come from version 1, whose end leaves the epoch as it is: what is open may
        be decided already (KAFKA-18227). A batch of an older epoch begins nothing: `check` refuses it.
        """
        state = self._states.get(producer_id)
        if state is None or epoch > state.epoch:
            return True
        if epoch < state.epoch:
            return False
        return state.transaction_first_offset == NO_OFFSET or (by_version_2 and not state.is_added)

    def last_marker(self, producer_id: int) -> int:
        """The offset of the marker of the producer's last transaction; NO_OFFSET if it is not known."""
        state = self._states.get(producer_id)
        return NO_OFFSET if state is None else state.last_marker

    def has_late_transaction(self, now_ms: int, longest_ms: int) -> bool:
        """Whether the first open transaction had no batch for longer than `longest_ms`, so that nobody will end it."""
        first = next(iter(self._open.values()), None)
        last_append_ms = UNKNOWN_MS if first is None else self._states[first].last_append_ms
        return last_append_ms != UNKNOWN_MS and now_ms - last_append_ms > longest_ms + LATE_AFTER_MS

    def begins_at(self, offset: int) -> bool:
        """Whether an open transaction has its first record at `offset`."""
        return offset in self._open

    def check(
        self, header: BatchHeader, *, has_sequence: bool = True, by_version_2: bool = False
    ) -> BatchMetadata | ErrorCode | None:
        """Check a produced batch. Returns the batch that it repeats, an error, or None if it may be appended."""
        state = self._states.get(header.producer_id)
        if self._refused and header.base_sequence > self._lowest_refused(header):
            return ErrorCode.out_of_order_sequence_number
        if state is None:
            is_late = by_version_2 and header.base_sequence != 0
            return ErrorCode.out_of_order_sequence_number if is_late else None
        if has_sequence and header.producer_epoch == state.epoch:
            last_sequence = header.last_sequence
            for batch in state.batches:
                if batch.last_sequence == last_sequence and batch.offset_delta == header.last_offset_delta:
                    return batch
        if header.producer_epoch < state.epoch:
            return ErrorCode.invalid_producer_epoch
        if has_sequence:
            expected = NO_SEQUENCE if header.producer_epoch != state.epoch else state.last_sequence
            expected = 0 if expected in (NO_SEQUENCE, MAX_SEQUENCE) else expected + 1
            if header.base_sequence != expected and state.epoch != NO_EPOCH:
                return ErrorCode.out_of_order_sequence_number
        if state.transaction_first_offset != NO_OFFSET and not header.is_transactional:
            return ErrorCode.invalid_txn_state
        return None

    def refuse(self, header: BatchHeader, now_ms: int) -> None:
        """Note a batch that the coordinator of its transaction does not confirm.

        An unknown producer may begin at any sequence, so the batches that it sent right after this one must not be
        appended before it (Apache Kafka, VerificationStateEntry.java).
        """
        known = self._refused.get(header.producer_id)
        lowest = header.base_sequence
        if known is not None and known.epoch == header.producer_epoch:
            lowest = min(lowest, known.lowest_sequence)
        if known is None or header.producer_epoch >= known.epoch:
            self._refused[header.producer_id] = _Refused(header.producer_epoch, lowest, now_ms)

    def _lowest_refused(self, header: BatchHeader) -> int:
        refused = self._refused.get(header.producer_id)
        return MAX_SEQUENCE if refused is None else refused.lowest_sequence

    def check_marker(self, marker: TransactionMarker) -> ErrorCode | None:
        """Why the marker may not be written, or None. A marker that ends no transaction fences older epochs.

        Only a leader asks. Followers and recovery take each marker, as the log has no version of transactions.
        """
        state = self._states.get(marker.producer_id)
        if state is None:
            return None
        if marker.producer_epoch < state.epoch:
            return ErrorCode.invalid_producer_epoch
        if (
            marker.transaction_version >= TRANSACTIONS_2
            and marker.producer_epoch == state.epoch != HIGHEST_EPOCH
            and state.transaction_first_offset != NO_OFFSET
        ):
            return ErrorCode.invalid_producer_epoch
        if marker.coordinator_epoch < state.coordinator_epoch:
            return ErrorCode.transaction_coordinator_fenced
        return None

    def append(
        self,
        header: BatchHeader,
        base_offset: int,
        timestamp_ms: int,
        *,
        append_ms: int = UNKNOWN_MS,
        by_version_2: bool = False,
    ) -> None:
        """Note a batch that was appended, without a check, as replay and replication need it."""
        state = self._states.get(header.producer_id)
        if state is None:
            state = self._states[header.producer_id] = ProducerState(header.producer_epoch)
        state.set_epoch(header.producer_epoch)
        delta = header.last_offset_delta
        state.batches.append(BatchMetadata(header.last_sequence, base_offset + delta, delta, timestamp_ms))
        state.last_timestamp_ms = timestamp_ms
        state.last_append_ms = append_ms
        if header.is_transactional:
            self._refused.pop(header.producer_id, None)
            state.is_added = by_version_2
            if state.transaction_first_offset == NO_OFFSET:
                state.transaction_first_offset = base_offset
                self._open[base_offset] = header.producer_id
                self.first_unstable_offset = min(self.first_unstable_offset, base_offset)

    def begin_run(self, run: PartitionRun, producer_id: int) -> bool:
        """Note in a run which batches follow those of the producer: `check` returns None for each. False if none do."""
        state = self._states.get(producer_id)
        if (
            state is None
            or self._refused
            or state.transaction_first_offset != NO_OFFSET
            or any(batch.offset_delta > MOST_DELTA for batch in state.batches)
        ):
            return False
        last_sequence = state.last_sequence
        run.producer_id, run.producer_epoch = producer_id, state.epoch
        run.base_sequence = 0 if last_sequence in (NO_SEQUENCE, MAX_SEQUENCE) else last_sequence + 1
        return True

    def append_run(self, run: PartitionRun, *, append_ms: int) -> None:
        """Note the batches of a run that `begin_run` has begun."""
        state = self._states[run.producer_id]
        for batch in run.batches[-BATCHES_KEPT:]:
            last_offset, timestamp_ms = batch.last_offset, batch.max_timestamp_ms
            last_sequence = add_to_sequence(run.base_sequence, last_offset - run.base_offset)
            delta = last_offset - batch.base_offset
            state.batches.append(BatchMetadata(last_sequence, last_offset, delta, timestamp_ms))
            state.last_timestamp_ms = timestamp_ms
        state.last_append_ms = append_ms

    def end_transaction(
        self, header: BatchHeader, marker: EndMarker, *, append_ms: int = UNKNOWN_MS
    ) -> AbortedTransaction | None:
        """Note an end marker that was appended; returns the transaction if the marker aborted one."""
        state = self._states.get(header.producer_id)
        if state is None:
            state = self._states[header.producer_id] = ProducerState(header.producer_epoch)
        state.set_epoch(header.producer_epoch)
        state.coordinator_epoch = marker.coordinator_epoch
        state.last_marker = header.base_offset
        state.last_timestamp_ms = header.max_timestamp_ms
        state.last_append_ms = append_ms
        first_offset, state.transaction_first_offset = state.transaction_first_offset, NO_OFFSET
        state.is_added = False
        self._refused.pop(header.producer_id, None)
        if first_offset == NO_OFFSET:
            return None
        del self._open[first_offset]
        self.decided[first_offset] = header.base_offset
        if marker.is_commit:
            return None
        last_stable_offset = next(iter(self._open), header.next_offset)
        return AbortedTransaction(header.producer_id, first_offset, header.base_offset, last_stable_offset)

    def high_watermark_moved(self, high_watermark: int) -> None:
        """Transactions with markers below the high watermark are final: the first unstable offset may advance."""
        self.decided = {first: marker for first, marker in self.decided.items() if marker >= high_watermark}
        self.first_unstable_offset = min(next(iter(self._open), ALL_STABLE), *self.decided, ALL_STABLE)

    def expire(self, now_ms: int, expiration_ms: int) -> None:
        """Forget producers that wrote nothing for `expiration_ms` and have no open transaction."""
        for producer_id, state in list(self._states.items()):
            if state.last_append_ms == UNKNOWN_MS:
                state.last_append_ms = now_ms
            if state.transaction_first_offset == NO_OFFSET and now_ms - state.last_append_ms >= expiration_ms:
                del self._states[producer_id]
        for producer_id, refused in list(self._refused.items()):
            if now_ms - refused.time_ms >= expiration_ms:
                del self._refused[producer_id]

    def encode(self) -> bytes:
        entries = []
        for producer_id, state in self._states.items():
            *earlier, last = state.batches or (_NO_BATCH,)
            latest_ms = state.last_timestamp_ms
            rest = state.coordinator_epoch, state.transaction_first_offset
            for sequence, offset, delta, timestamp_ms in (*earlier, last._replace(timestamp_ms=latest_ms)):
                batch = sequence, offset, delta, min(timestamp_ms, latest_ms)
                entries.append(_ENTRY.pack(producer_id, state.epoch, *batch, *rest))
        body = _COUNT.pack(len(entries)) + b"".join(entries)
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
            state = states._states.setdefault(producer_id, ProducerState(epoch))
            if offset != NO_OFFSET:
                state.batches.append(BatchMetadata(sequence, offset, delta, timestamp_ms))
            state.last_timestamp_ms = timestamp_ms
            state.coordinator_epoch = coordinator_epoch
            state.transaction_first_offset = transaction
            if transaction != NO_OFFSET:
                states._open[transaction] = producer_id
        states._open = dict(sorted(states._open.items()))
        states.first_unstable_offset = next(iter(states._open), ALL_STABLE)
        return states
