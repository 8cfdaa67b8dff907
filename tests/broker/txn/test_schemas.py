"""The bytes of `__transaction_state`."""

from __future__ import annotations

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
    assert encode_transaction(ONGOING) == ONGOING_BYTES


def test_partitions_are_null_while_there_is_no_transaction() -> None:
    empty = StoredTransaction(Producer(7, 0), 60_000, TxnState.EMPTY, frozenset(), 1)
    assert encode_transaction(empty)[17:] == b"\xff\xff\xff\xff" + (1).to_bytes(8, "big") + b"\xff" * 8


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
    )
)
def test_what_is_written_is_read(transaction: StoredTransaction) -> None:
    if transaction.state is TxnState.EMPTY:
        transaction = transaction._replace(partitions=frozenset())
    assert decode_transaction(encode_transaction(transaction)) == transaction


def test_the_flexible_version_is_read() -> None:
    """KIP-915: a broker of Kafka 4 may have written it, with tags that 3.9 passes over."""
    flexible = (
        b"\0\1" + ONGOING_BYTES[2:17]
        + b"\3\2t\3\0\0\0\0\0\0\0\1\0\2u\2\0\0\0\2\0"
        + ONGOING_BYTES[-16:]
        + b"\1\0\10" + bytes(8)
    )  # fmt: skip
    assert decode_transaction(flexible) == ONGOING


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
