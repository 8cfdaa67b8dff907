"""The bytes of `__transaction_state`."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from highwater.broker.txn.schemas import decode_key, decode_transaction, encode_key, encode_transaction
from highwater.broker.txn.transaction import NO_PRODUCER, Producer, StoredTransaction, TxnState
from highwater.kafka.records.batch import CorruptBatch

STORED = [state for state in TxnState if state not in (TxnState.DEAD, TxnState.PREPARE_EPOCH_FENCE)]
INT64 = st.integers(-(1 << 63), (1 << 63) - 1)
PARTITIONS = st.frozensets(st.tuples(st.text(max_size=5), st.integers(0, 1 << 30)), max_size=6)
ONGOING = StoredTransaction(
    Producer(7, 3),
    60_000,
    TxnState.ONGOING,
    frozenset({("t", 1), ("t", 0), ("u", 2)}),
    1_700_000_000_001,
    1_700_000_000_000,
)
ONGOING_BYTES = bytes.fromhex(
    "0000000000000000000700030000ea6001"
    "000000020001740000000200000000000000010001750000000100000002"
    "0000018bcfe568010000018bcfe56800"
)  # fmt: skip


def test_the_key_is_a_version_and_the_id() -> None:
    assert encode_key("id") == b"\0\0\0\2id"
    assert decode_key(b"\0\0\0\2id") == "id"


def test_keys_of_other_kinds_are_told_apart() -> None:
    assert decode_key(b"\0\1\0\2id") is None


def test_the_value_is_kafkas() -> None:
    assert encode_transaction(ONGOING, level=0) == ONGOING_BYTES


def test_partitions_are_null_while_there_is_no_transaction() -> None:
    empty = StoredTransaction(Producer(7, 0), 60_000, TxnState.EMPTY, frozenset(), 1)
    assert encode_transaction(empty, level=0)[17:] == b"\xff\xff\xff\xff" + (1).to_bytes(8, "big") + b"\xff" * 8


@given(
    st.builds(
        StoredTransaction,
        st.builds(Producer, INT64, st.integers(0, 32767)),
        st.integers(1, 900_000),
        st.sampled_from(STORED),
        PARTITIONS,
        INT64,
        INT64,
        last=st.just(NO_PRODUCER),
        previous_id=INT64,
        next=st.builds(Producer, INT64, st.integers(-1, 32767)),
        client_version=st.integers(0, 2),
    ),
    st.integers(0, 2),
)
def test_what_is_written_is_read(transaction: StoredTransaction, level: int) -> None:
    if transaction.state is TxnState.EMPTY:
        transaction = transaction._replace(partitions=frozenset())
    written = encode_transaction(transaction, level=level)
    if level == 0:
        transaction = transaction._replace(previous_id=-1, next=NO_PRODUCER, client_version=0)
    assert decode_transaction(written) == transaction
    assert written[1] == min(level, 1)


def test_a_tag_of_a_newer_kafka_is_passed_over() -> None:
    written = encode_transaction(ONGOING, level=1)
    assert written.endswith(b"\0")
    assert decode_transaction(written[:-1] + b"\1\11\2ok") == ONGOING


def _of_kafka() -> dict[str, str]:
    """What Kafka 4.4 writes of some transactions: see tests/compat/apache_kafka/TransactionRecords.java."""
    lines = (Path(__file__).parent / "transaction_records_4.4.txt").read_text().splitlines()
    return dict(line.split(" = ") for line in lines)


def _told(text: str) -> tuple[int, StoredTransaction]:
    """A level and a transaction, as the fixture tells them: producer id, epoch, previous id, next id and so on."""
    level, producer_id, epoch, previous, following, client, timeout, state, partitions, updated, started = text.split()
    return int(level), StoredTransaction(
        Producer(int(producer_id), int(epoch)),
        int(timeout),
        TxnState[state],
        frozenset(
            (topic, int(index)) for topic, _, index in (key.rpartition("-") for key in partitions.split(",")) if topic
        ),
        int(updated),
        int(started),
        previous_id=int(previous),
        next=Producer(int(following), -1),
        client_version=int(client),
    )


@pytest.mark.parametrize(("text", "data"), _of_kafka().items())
def test_the_values_are_those_of_kafka(text: str, data: str) -> None:
    level, transaction = _told(text)
    assert encode_transaction(transaction, level=level).hex() == data
    if level:
        assert decode_transaction(bytes.fromhex(data)) == transaction


@pytest.mark.parametrize("length", range(len(ONGOING_BYTES)))
def test_a_torn_value_is_told(length: int) -> None:
    with pytest.raises(CorruptBatch):
        decode_transaction(ONGOING_BYTES[:length])


@pytest.mark.parametrize("status", [-1, 6, 7, 8])
def test_a_state_that_is_never_stored_is_told(status: int) -> None:
    with pytest.raises(CorruptBatch, match=f"state {status}"):
        decode_transaction(ONGOING_BYTES[:16] + status.to_bytes(1, "big", signed=True) + ONGOING_BYTES[17:])


def test_a_version_to_come_is_told() -> None:
    with pytest.raises(CorruptBatch, match="version 2"):
        decode_transaction(b"\0\2" + ONGOING_BYTES[2:])


def test_a_torn_key_is_told() -> None:
    with pytest.raises(CorruptBatch):
        decode_key(b"\0\0\0\2i")
