"""The idempotence table, case by case as Apache Kafka's ProducerStateManagerTest has them, and its snapshot."""

from __future__ import annotations

import struct

import pytest
from kio.schema.errors import ErrorCode

from highwater.broker.log.errors import CorruptSnapshot
from highwater.broker.log.producer_state import LATE_AFTER_MS, BatchMetadata, ProducerStates
from highwater.kafka.records.batch import BatchHeader, read_header
from highwater.kafka.records.record import EndMarker, Record, TransactionMarker, encode_batch

LAST = 2**31 - 1


def header(
    base_sequence: int, count: int = 1, *, epoch: int = 0, producer_id: int = 1, is_transactional: bool = False
) -> BatchHeader:
    records = [Record(b"", timestamp_ms=1000 + base_sequence)] * count
    return read_header(
        encode_batch(
            records,
            producer_id=producer_id,
            producer_epoch=epoch,
            base_sequence=base_sequence,
            is_transactional=is_transactional,
        )
    )


def states_after(*batches: BatchHeader) -> ProducerStates:
    states = ProducerStates()
    offset = 100
    for batch in batches:
        assert states.check(batch) is None
        states.append(batch, offset, batch.max_timestamp_ms)
        offset += batch.record_count
    return states


@pytest.mark.parametrize(
    ("before", "batch", "expected"),
    [
        ([], header(0), None),
        ([], header(17), None),  # KIP-360: all it wrote may be gone
        ([header(0, 3)], header(3), None),
        ([header(0, 3)], header(4), ErrorCode.out_of_order_sequence_number),
        ([header(0, 3)], header(2), ErrorCode.out_of_order_sequence_number),
        ([header(0, 3)], header(0, 2), ErrorCode.out_of_order_sequence_number),
        ([header(LAST - 1, 2)], header(0), None),
        ([header(LAST - 1, 4)], header(2), None),
        ([header(LAST - 1, 2)], header(1), ErrorCode.out_of_order_sequence_number),
        ([header(0, epoch=5)], header(0, epoch=4), ErrorCode.invalid_producer_epoch),
        ([header(0, epoch=5)], header(1, epoch=4), ErrorCode.invalid_producer_epoch),
        ([header(0, epoch=5)], header(0, epoch=6), None),
        ([header(0, epoch=5)], header(1, epoch=6), ErrorCode.out_of_order_sequence_number),
        ([header(0)], header(0, producer_id=2), None),
        ([header(0, is_transactional=True)], header(1, is_transactional=True), None),
        ([header(0, is_transactional=True)], header(1), ErrorCode.invalid_txn_state),
    ],
)
def test_judging_a_batch(before: list[BatchHeader], batch: BatchHeader, expected: ErrorCode | None) -> None:
    assert states_after(*before).check(batch) is expected


@pytest.mark.parametrize(
    ("before", "epoch", "expected"),
    [
        ([], 0, None),
        ([header(0, epoch=5, is_transactional=True)], 4, ErrorCode.invalid_producer_epoch),
        ([header(0, epoch=5, is_transactional=True)], 5, ErrorCode.invalid_producer_epoch),
        ([header(0, epoch=5, is_transactional=True)], 6, None),
        ([header(0, epoch=5)], 5, None),  # KAFKA-19999: it is written twice
        ([header(0, epoch=5)], 4, ErrorCode.invalid_producer_epoch),
        ([header(0, epoch=32767, is_transactional=True)], 32767, None),
    ],
)
def test_judging_a_marker_of_version_2(before: list[BatchHeader], epoch: int, expected: ErrorCode | None) -> None:
    states = states_after(*before)
    assert states.check_marker(TransactionMarker(1, epoch, 0, is_commit=True, transaction_version=2)) is expected
    lax = None if epoch == 5 else expected
    for version in (0, 1):
        assert states.check_marker(TransactionMarker(1, epoch, 0, is_commit=True, transaction_version=version)) is lax


def test_who_would_begin_a_transaction() -> None:
    states = states_after(header(0, epoch=5, is_transactional=True))
    assert not states.would_begin(1, 5)
    assert states.would_begin(1, 6)  # it must not ride on the transaction of epoch 5
    assert states.would_begin(2, 0)
    assert not states.would_begin(1, 4)  # `check` refuses it
    assert states_after(header(0, epoch=5)).would_begin(1, 5)


def test_a_client_that_comes_from_version_1_may_begin_a_transaction() -> None:
    """KAFKA-18227: an end of version 1 leaves the epoch as it is, and its marker may still be on its way."""
    states = states_after(header(0, is_transactional=True))
    assert not states.would_begin(1, 0)
    assert states.would_begin(1, 0, by_version_2=True)
    states.append(header(1, is_transactional=True), 101, 1000, by_version_2=True)
    assert not states.would_begin(1, 0, by_version_2=True)


def test_an_unknown_producer_of_version_2_begins_at_0() -> None:
    states = states_after(header(0))
    assert states.check(header(1, producer_id=2), by_version_2=True) is ErrorCode.out_of_order_sequence_number
    assert states.check(header(0, producer_id=2), by_version_2=True) is None
    assert states.check(header(1), by_version_2=True) is None


def test_the_last_five_batches_are_known_again() -> None:
    batches = [header(10 * i, 10) for i in range(6)]
    states = states_after(*batches)
    for i in range(1, 6):
        known = states.check(batches[i])
        assert isinstance(known, BatchMetadata)
        assert (known.base_offset, known.last_offset) == (100 + 10 * i, 109 + 10 * i)
        assert (known.base_sequence, known.last_sequence) == (10 * i, 10 * i + 9)
    assert states.check(batches[0]) is ErrorCode.out_of_order_sequence_number


def test_a_batch_around_the_end_of_sequences_is_known_again() -> None:
    batch = header(LAST - 1, 4)
    known = states_after(batch).check(batch)
    assert isinstance(known, BatchMetadata)
    assert (known.base_sequence, known.last_sequence) == (LAST - 1, 1)


def test_a_new_epoch_forgets_the_old_ones_batches() -> None:
    states = states_after(header(0), header(0, epoch=1))
    assert states.check(header(0)) is ErrorCode.invalid_producer_epoch
    assert states.check(header(1, epoch=1)) is None


def test_the_end_of_a_transaction() -> None:
    states = states_after(header(0, is_transactional=True))
    states.end_transaction(header(-1, epoch=0), EndMarker(is_commit=True, coordinator_epoch=9))
    state = states.get(1)
    assert state is not None
    assert (state.transaction_first_offset, state.coordinator_epoch) == (-1, 9)
    assert states.check(header(1, is_transactional=True)) is None
    states.end_transaction(header(-1, epoch=3, producer_id=2), EndMarker(is_commit=False, coordinator_epoch=9))
    assert states.check(header(0, epoch=2, producer_id=2)) is ErrorCode.invalid_producer_epoch
    assert states.check(header(0, epoch=3, producer_id=2)) is None
    assert states.check(header(1, epoch=3, producer_id=2)) is ErrorCode.out_of_order_sequence_number


def test_idle_producers_expire_unless_in_a_transaction() -> None:
    states = ProducerStates()
    states.append(header(0), 0, 1000, append_ms=1000)
    states.append(header(0, producer_id=2, is_transactional=True), 1, 1000, append_ms=1000)
    states.append(header(0, producer_id=3), 2, 1000, append_ms=1001)
    states.expire(now_ms=2500, expiration_ms=1500)
    assert [producer_id for producer_id, _ in states] == [2, 3]


@pytest.mark.parametrize("timestamp_ms", [-1, 0, 10**6, 2**62])
def test_how_long_a_producer_is_idle_does_not_depend_on_timestamps_of_records(timestamp_ms: int) -> None:
    states = ProducerStates()
    states.append(header(0), 0, timestamp_ms, append_ms=10**6)
    states.append(header(0, producer_id=2, is_transactional=True), 1, timestamp_ms, append_ms=10**6)
    states.expire(now_ms=10**6 + 999, expiration_ms=1000)
    assert isinstance(states.check(header(0)), BatchMetadata)
    assert not states.has_late_transaction(10**6 + 1000 + LATE_AFTER_MS, 1000)
    assert states.has_late_transaction(10**6 + 1001 + LATE_AFTER_MS, 1000)
    again = ProducerStates.decode(states.encode())
    again.expire(now_ms=10**7, expiration_ms=1000)
    assert isinstance(again.check(header(0)), BatchMetadata)
    assert not again.has_late_transaction(10**7, 1000)
    again.expire(now_ms=10**7 + 1000, expiration_ms=1000)
    assert again.get(1) is None
    states.expire(now_ms=10**6 + 1000, expiration_ms=1000)
    assert states.get(1) is None


def test_the_snapshot_to_the_byte_and_back() -> None:
    states = states_after(header(0, 5), header(5, 3), header(0, epoch=2, producer_id=7, is_transactional=True))
    data = states.encode()
    assert data[:2] == b"\x00\x01"
    entry = struct.Struct(">qhiqiqiq")
    assert data[6:] == b"".join(
        [
            struct.pack(">i", 3),
            entry.pack(1, 0, 4, 104, 4, 1000, -1, -1),
            entry.pack(1, 0, 7, 107, 2, 1005, -1, -1),
            entry.pack(7, 2, 0, 108, 0, 1000, -1, 108),
        ]
    )
    again = ProducerStates.decode(data)
    assert again.encode() == data
    assert again.check(header(8)) is None


def test_what_a_client_sends_again_is_known_after_a_restart() -> None:
    states = states_after(*(header(sequence) for sequence in range(7)))
    again = ProducerStates.decode(states.encode())
    assert again.check(header(1)) is ErrorCode.out_of_order_sequence_number
    for sequence in range(2, 7):
        assert again.check(header(sequence)) == states.check(header(sequence)) is not None


def test_kafka_forgets_no_later_batch_than_others_of_a_producer() -> None:
    """It passes over each entry that is too old, and would take an earlier batch for the last one."""
    states = ProducerStates()
    for sequence, timestamp_ms in enumerate((3000, 1000, 2000)):
        states.append(header(sequence), sequence, timestamp_ms)
    batches = ProducerStates.decode(states.encode()).get(1)
    assert batches is not None
    assert [batch.timestamp_ms for batch in batches.batches] == [2000, 1000, 2000]


def test_an_ended_producer_survives_the_snapshot() -> None:
    states = ProducerStates()
    states.end_transaction(header(-1, epoch=3), EndMarker(is_commit=False, coordinator_epoch=1))
    again = ProducerStates.decode(states.encode())
    assert again.check(header(1, epoch=3)) is ErrorCode.out_of_order_sequence_number
    assert again.encode() == states.encode()


def test_a_damaged_snapshot_is_refused() -> None:
    data = states_after(header(0, 5)).encode()
    for position in range(len(data)):
        damaged = bytearray(data)
        damaged[position] ^= 0x10
        with pytest.raises(CorruptSnapshot):
            ProducerStates.decode(bytes(damaged))
        with pytest.raises(CorruptSnapshot):
            ProducerStates.decode(data[:position])
    with pytest.raises(CorruptSnapshot):
        ProducerStates.decode(bytes(50))
