"""What clients of version 2 of transactions are answered by a broker that runs alone (KIP-890)."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import chain, repeat
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from kio.schema.errors import ErrorCode

from highwater.broker.log.producer_state import NO_OFFSET, ProducerStates
from highwater.broker.txn.transaction import Producer, StoredTransaction, Transaction, TxnState
from tests.broker.handlers.harness import Pending
from tests.broker.log.reading import visible_to_committed
from tests.broker.txn.asking import T0, T1, TransactionHarness


@pytest.fixture
def node(tmp_path: Path) -> Iterator[TransactionHarness]:
    node = TransactionHarness(tmp_path / "log")
    node.finalise(2)
    node.find()
    node.scheduler.run()
    yield node
    node.close(clean=False)


def committed(node: TransactionHarness) -> list[bytes | None]:
    (found,) = node.fetch("t", 0, isolation_level=1).responses[0].partitions
    aborted = [(entry.producer_id, entry.first_offset) for entry in found.aborted_transactions]
    values, _ = visible_to_committed(bytes(found.records), aborted)
    return list(values.values())


def settled(node: TransactionHarness, answer: Any) -> Any:
    """The answer, which may come a little later."""
    if not isinstance(answer, Pending):
        return answer
    node.advance(200)
    assert not answer.waits
    return answer.answer


def test_records_add_their_partitions_and_each_end_raises_the_epoch(node: TransactionHarness) -> None:
    producer = node.init()
    for number in range(3):
        assert node.write(producer, b"%d" % number, version=12) is ErrorCode.none
        assert node.state() == "Ongoing"
        following = node.end_raising(producer, commit=number != 1)
        assert following == producer.raised()
        assert node.end_raising(producer, commit=number != 1) == following
        assert node.write(producer, b"late", sequence=1, version=12) is ErrorCode.invalid_producer_epoch
        producer = following
    assert committed(node) == [b"0", b"2"]


def test_after_the_last_epoch_the_answer_has_a_new_id(node: TransactionHarness) -> None:
    name = "x"
    node.init(name)
    last = StoredTransaction(Producer(9_999, 32766), 60_000, TxnState.EMPTY, frozenset(), node.clock.now_ms())
    node.node.transactions._transactions[name] = Transaction(last)
    assert node.write(last.producer, b"a", version=12) is ErrorCode.none
    following = node.end_raising(last.producer)
    assert following.epoch == 0
    assert following.producer_id != 9_999
    assert node.end_raising(last.producer) == following
    assert node.write(following, b"b", version=12) is ErrorCode.none
    assert node.end_raising(following) == following.raised()
    assert committed(node) == [b"a", b"b"]


def test_an_abort_of_nothing_is_allowed_a_commit_is_not(node: TransactionHarness) -> None:
    producer = node.init()
    assert node.end_raising(producer) is ErrorCode.invalid_txn_state
    assert node.end_raising(producer, commit=False) == producer.raised()


def test_who_adds_is_told_by_the_version_of_the_request(node: TransactionHarness) -> None:
    producer = node.init()
    assert node.write(producer, b"1", version=11) is ErrorCode.transaction_abortable
    assert node.write(producer, b"1", version=10) is ErrorCode.invalid_txn_state
    assert node.write(producer, b"2", version=12) is ErrorCode.none
    assert node.write(producer, b"3", sequence=1, version=11) is ErrorCode.none
    assert node.verify(producer, T0, T1) == {T0: ErrorCode.none, T1: ErrorCode.transaction_abortable}


def test_verification_that_is_switched_off_does_not_switch_off_adding(tmp_path: Path) -> None:
    node = TransactionHarness(tmp_path / "log", transaction_partition_verification_enable="false")
    node.find()
    node.scheduler.run()
    producer = node.init()
    assert node.write(producer, b"1", version=12) is ErrorCode.none
    assert node.verify(producer, T0) == {T0: ErrorCode.none}
    node.close(clean=False)


@pytest.mark.parametrize(
    ("producer", "name", "error"),
    [
        (Producer(9_999, 0), "x", ErrorCode.invalid_producer_id_mapping),
        (Producer(0, 9), "x", ErrorCode.invalid_producer_epoch),
        (Producer(0, 0), "nobody", ErrorCode.invalid_producer_id_mapping),
        (Producer(0, 0), "", ErrorCode.invalid_request),
    ],
)
def test_what_cannot_be_added(node: TransactionHarness, producer: Producer, name: str, error: ErrorCode) -> None:
    begun = node.init()
    asked = producer._replace(producer_id=begun.producer_id) if producer.producer_id == 0 else producer
    assert settled(node, node.write(asked, b"1", name=name, version=12)) is error
    assert node.end_offset("t", 0) == 0


def test_an_unknown_producer_begins_at_sequence_0(node: TransactionHarness) -> None:
    producer = node.init()
    assert node.write(producer, b"1", sequence=7, version=12) is ErrorCode.out_of_order_sequence_number
    node.add(producer, T1)
    assert node.write(producer, b"1", partition=1, sequence=7, version=11) is ErrorCode.none


def test_a_broker_asks_again_while_the_last_transaction_completes(node: TransactionHarness) -> None:
    producer = node.init()
    transaction = node.node.transactions._transactions["x"]
    transaction.expire()  # a change on its way, as long as nobody reports that it is stored
    answer = node.write(producer, b"1", version=12)
    assert isinstance(answer, Pending)
    node.advance(60)
    assert answer.waits
    transaction._change = None
    node.advance(20)
    assert answer.answer.responses[0].partition_responses[0].error_code is ErrorCode.none


def test_a_marker_that_comes_after_the_question_has_the_broker_ask_again(node: TransactionHarness) -> None:
    producer = node.init()
    before_and_after = chain([NO_OFFSET], repeat(5))
    with patch.object(ProducerStates, "last_marker", lambda *_: next(before_and_after)):
        answer = node.write(producer, b"1", version=12)
        assert isinstance(answer, Pending)
        node.advance(20)
    assert answer.answer.responses[0].partition_responses[0].error_code is ErrorCode.none


def test_a_marker_that_comes_after_the_last_question_has_the_client_ask_again(node: TransactionHarness) -> None:
    producer = node.init()
    with_six_questions = chain(range(12), repeat(11))
    with patch.object(ProducerStates, "last_marker", lambda *_: next(with_six_questions)):
        answer = node.write(producer, b"1", version=12)
        for _ in range(5):
            assert answer.waits
            node.advance(20)
    error = answer.answer.responses[0].partition_responses[0].error_code
    assert error is ErrorCode.concurrent_transactions


def test_a_broker_does_not_ask_for_ever(node: TransactionHarness) -> None:
    producer = node.init()
    node.node.transactions._transactions["x"].expire()
    answer = node.write(producer, b"1", version=12)
    for _ in range(5):
        assert answer.waits
        node.advance(20)
    error = answer.answer.responses[0].partition_responses[0].error_code
    assert error is ErrorCode.concurrent_transactions


def commit_offset(node: TransactionHarness, producer: Producer, version: int) -> Any:
    topic = node.topic_key("t", is_by_id=version >= 6)
    answer = node.ask(
        "txn_offset_commit",
        version,
        transactional_id="x",
        group_id="g",
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        topics=[topic | {"partitions": [{"partition_index": 0, "committed_offset": 7}]}],
    )
    return answer.topics[0].partitions[0].error_code


@pytest.mark.parametrize("version", [5, 6])
def test_offsets_add_the_partition_of_their_group(node: TransactionHarness, version: int) -> None:
    node.find(key_type=0)
    node.scheduler.run()
    producer = node.init()
    commit = partial(commit_offset, node)
    assert commit(producer, 4) is ErrorCode.transaction_abortable
    assert commit(producer, version) is ErrorCode.none
    following = node.end_raising(producer)
    # TxnOffsetCommitRequestTest.testDelayedTxnOffsetCommitWithBumpedEpochIsRejected
    assert commit(producer, version) is ErrorCode.invalid_producer_epoch
    assert commit(producer, 4) is ErrorCode.invalid_producer_epoch
    assert commit(following, version) is ErrorCode.none


def test_the_coordinator_is_asked_for_the_first_offsets_of_a_transaction(node: TransactionHarness) -> None:
    node.find(key_type=0)
    node.scheduler.run()
    producer = node.init()
    transactions = node.node.transactions
    with patch.object(transactions, "add_partitions", wraps=transactions.add_partitions) as asked:
        for number in (1, 2):
            for _ in range(3):
                assert commit_offset(node, producer, 6) is ErrorCode.none
            assert asked.call_count == number
            producer = node.end_raising(producer)


def test_the_two_versions_go_on_beside_each_other(node: TransactionHarness) -> None:
    old, new = node.init("old"), node.init("new")
    for number in range(3):
        assert node.add(old, T0, name="old") == {T0: ErrorCode.none}
        assert node.write(old, b"old%d" % number, sequence=number, name="old", version=9) is ErrorCode.none
        assert node.write(new, b"new%d" % number, name="new", version=12) is ErrorCode.none
        assert node.end(old, name="old") is ErrorCode.none
        new = node.end_raising(new, name="new")
    assert committed(node) == [b"old0", b"new0", b"old1", b"new1", b"old2", b"new2"]
