"""Stories of version 2 of transactions over three simulated brokers, each with its rule taken away once (KIP-890)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any
from unittest.mock import patch

import pytest
from kio.schema.errors import ErrorCode

from highwater.broker.cluster.peers import PeerFailure
from highwater.broker.features import Features
from highwater.broker.log.producer_state import NO_OFFSET, ProducerStates
from highwater.broker.txn import transaction
from highwater.broker.txn.schemas import encode_transaction
from highwater.broker.txn.transaction import Producer, ProducerAnswer, StoredTransaction, Transaction
from highwater.common.topic_partition import TopicPartition
from highwater.kafka.records.record import TransactionMarker
from tests.broker.member.asking import TRANSACTION, AskedCluster, check_epochs, read_committed

KEYS = (("t", 0), ("t", 1), ("t", 2))


class Stage:
    """A cluster of level 2, and the transactional id `x` of a client."""

    def __init__(self) -> None:
        self.cluster = AskedCluster()
        self.cluster.create_topic("t", [1, 2, 3], [2, 3, 1], [3, 1, 2])
        self._sequences: dict[tuple[Producer, TopicPartition], int] = {}

    @property
    def coordinator(self) -> int:
        return self.cluster.coordinator("x", TRANSACTION)

    def leader(self, key: TopicPartition) -> int:
        self.cluster.wait(lambda: self.cluster.known_leader(key) is not None)
        leader = self.cluster.known_leader(key)
        assert leader is not None
        return leader

    @property
    def near_and_far(self) -> tuple[TopicPartition, TopicPartition]:
        """A partition that the coordinator leads, and one of another broker."""
        near = next(key for key in KEYS if self.leader(key) == self.coordinator)
        return near, next(key for key in KEYS if key != near)

    def init(self) -> Producer:
        answer = self.cluster.until(
            lambda: self.cluster.ask(
                self.coordinator, "init_producer_id", 4, transactional_id="x", transaction_timeout=60_000
            ),
            lambda answer: not answer.error_code,
        )
        return Producer(answer.producer_id, answer.producer_epoch)

    def add(self, producer: Producer, key: TopicPartition) -> None:
        """Add a partition as clients of version 1 do."""
        answer = self.cluster.ask(
            self.coordinator,
            "add_partitions_to_txn",
            3,
            v3_and_below_transactional_id="x",
            v3_and_below_producer_id=producer.producer_id,
            v3_and_below_producer_epoch=producer.epoch,
            v3_and_below_topics=[{"name": key[0], "partitions": [key[1]]}],
        )
        assert not answer.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code

    def try_to_write(
        self, producer: Producer, key: TopicPartition, value: str, version: int = 12
    ) -> ErrorCode | PeerFailure:
        sequence = self._sequences.get((producer, key), 0)
        outcome = self.cluster.produce(
            self.leader(key),
            key,
            value.encode(),
            transactional_id="x",
            version=version,
            producer_id=producer.producer_id,
            producer_epoch=producer.epoch,
            base_sequence=sequence,
            is_transactional=True,
        )
        if outcome is ErrorCode.none:
            self._sequences[producer, key] = sequence + 1
        return outcome

    def write(self, producer: Producer, key: TopicPartition, value: str, version: int = 12) -> None:
        retriable = (ErrorCode.concurrent_transactions, ErrorCode.not_enough_replicas, ErrorCode.not_leader_or_follower)
        for _ in range(300):
            outcome = self.try_to_write(producer, key, value, version)
            if outcome is ErrorCode.none:
                return
            assert isinstance(outcome, PeerFailure) or outcome in retriable, outcome
            self.cluster.let_pass(100)
        raise AssertionError(outcome)

    def end(self, producer: Producer, *, is_commit: bool = True) -> Producer:
        """End the transaction as clients do that ask until there is an answer, and return who they are then."""

        def question() -> Any:
            return self.cluster.ask(
                self.coordinator,
                "end_txn",
                5,
                transactional_id="x",
                producer_id=producer.producer_id,
                producer_epoch=producer.epoch,
                committed=is_commit,
            )

        retriable = (
            ErrorCode.concurrent_transactions,
            ErrorCode.coordinator_load_in_progress,
            ErrorCode.coordinator_not_available,
            ErrorCode.not_coordinator,
        )
        answer = self.cluster.until(question, lambda answer: answer.error_code not in retriable)
        assert not answer.error_code, answer.error_code.name
        return Producer(answer.producer_id, answer.producer_epoch)

    @contextmanager
    def without_markers(self, key: TopicPartition) -> Iterator[None]:
        """The present coordinator cannot write markers to this partition."""
        node = self.cluster[self.coordinator].node
        assert node is not None
        markers = node.transactions._markers
        write = markers.write

        def write_others(partitions: Iterable[TopicPartition], marker: Any, marked: Any, is_wanted: Any) -> None:
            write([one for one in partitions if one != key], marker, marked, is_wanted)
            if key in partitions:
                marked(key, ErrorCode.leader_not_available)

        with patch.object(markers, "write", write_others):
            yield

    def replace_coordinator(self) -> None:
        before = self.coordinator
        self.cluster[before].kill()
        self.cluster.wait(lambda: self.coordinator != before)
        self.cluster.mend()
        self.cluster.wait(lambda: self.cluster.cluster.is_whole)

    def check(self, **expected: list[str]) -> None:
        """Check what readers of committed records find, by `t0`, `t1`, `t2`."""
        wanted = {key: [value.encode() for value in expected.get(f"t{key[1]}", [])] for key in KEYS}
        self.cluster.wait(lambda: self.cluster.cluster.is_whole)
        for key in KEYS:
            found = read_committed(self.cluster[self.leader(key)], key)
            assert found == wanted[key], (key, found)
            check_epochs(self.cluster[self.leader(key)], key)


# The stories


def a_late_record_comes_into_the_next_transaction(stage: Stage) -> None:
    first = stage.init()
    stage.write(first, KEYS[0], "a")
    second = stage.end(first)
    stage.write(second, KEYS[0], "b")
    assert stage.try_to_write(first, KEYS[0], "late") is ErrorCode.invalid_producer_epoch
    stage.end(second)
    stage.cluster.let_pass(1000)
    stage.check(t0=["a", "b"])


def the_answer_of_an_end_is_lost(stage: Stage) -> None:
    producer = stage.init()
    for number in range(3):
        stage.write(producer, KEYS[0], f"{number}")
        following = stage.end(producer)
        assert stage.end(producer) == following
        stage.replace_coordinator()
        assert stage.end(producer) == following
        producer = following
    stage.check(t0=["0", "1", "2"])


def a_record_comes_between_the_decision_and_its_markers(stage: Stage) -> None:
    first = stage.init()
    near, far = stage.near_and_far
    stage.write(first, near, "a")
    stage.write(first, far, "b")
    with stage.without_markers(far):
        second = stage.end(first)
        assert stage.try_to_write(second, near, "c") is ErrorCode.concurrent_transactions
        assert stage.try_to_write(second, far, "d") is ErrorCode.concurrent_transactions
    stage.write(second, near, "c")
    stage.write(second, far, "d")
    stage.end(second, is_commit=False)
    stage.cluster.let_pass(3000)
    stage.check(**{f"t{near[1]}": ["a"], f"t{far[1]}": ["b"]})


def the_coordinator_dies_before_the_markers_and_they_are_doubled(stage: Stage) -> None:
    first = stage.init()
    near, far = stage.near_and_far
    stage.write(first, near, "a")
    stage.write(first, far, "b")
    with stage.without_markers(far):
        second = stage.end(first)
        stage.cluster.let_pass(500)
        stage.replace_coordinator()
    stage.write(second, near, "c")
    assert _mark(stage, second, near) is ErrorCode.invalid_producer_epoch
    stage.write(second, far, "d")
    stage.end(second)
    stage.cluster.let_pass(3000)
    stage.check(**{f"t{near[1]}": ["a", "c"], f"t{far[1]}": ["b", "d"]})


def _mark(stage: Stage, producer: Producer, key: TopicPartition) -> ErrorCode:
    """Abort what is open with a marker that comes late, from an earlier retry of this coordinator."""
    marker = {
        "producer_id": producer.producer_id,
        "producer_epoch": producer.epoch,
        "transaction_result": False,
        "topics": [{"name": key[0], "partition_indexes": [key[1]]}],
        "coordinator_epoch": 1000,
        "transaction_version": 2,
    }
    answer = stage.cluster.ask(stage.leader(key), "write_txn_markers", 2, markers=[marker])
    error: ErrorCode = answer.markers[0].topics[0].partitions[0].error_code
    return error


def a_client_moves_to_version_2_with_its_transaction_open(stage: Stage) -> None:
    first = stage.init()
    stage.add(first, KEYS[0])
    stage.write(first, KEYS[0], "a", version=9)
    second = stage.end(first)
    stage.write(second, KEYS[0], "b")
    assert stage.try_to_write(first, KEYS[0], "late", version=9) is ErrorCode.invalid_producer_epoch
    stage.end(second)
    stage.cluster.let_pass(1000)
    stage.check(t0=["a", "b"])


def a_client_moves_to_version_2_before_the_markers_of_version_1(stage: Stage) -> None:
    producer = stage.init()
    near, far = stage.near_and_far
    for key in (near, far):
        stage.add(producer, key)
        stage.write(producer, key, "a", version=9)
    with stage.without_markers(far):
        ended = stage.cluster.ask(
            stage.coordinator,
            "end_txn",
            3,
            transactional_id="x",
            producer_id=producer.producer_id,
            producer_epoch=producer.epoch,
            committed=True,
        )
        assert not ended.error_code
        assert stage.try_to_write(producer, far, "b") is ErrorCode.concurrent_transactions
    stage.write(producer, far, "b")
    stage.end(producer, is_commit=False)
    stage.cluster.let_pass(3000)
    stage.check(**{f"t{near[1]}": ["a"], f"t{far[1]}": ["a"]})


# Their rules, taken away


def no_end_raises_the_epoch() -> AbstractContextManager[Any]:
    decide = Transaction._decided_raising

    def keep(self: Transaction, *details: Any) -> Any:
        decided = decide(self, *details)
        return decided if isinstance(decided, ErrorCode) else decided._replace(producer=self.kept.producer)

    return patch.object(Transaction, "_decided_raising", keep)


def no_retry_of_an_end_is_known() -> AbstractContextManager[Any]:
    end = Transaction.end_raising

    def end_once(self: Transaction, producer: Producer, is_commit: bool, ids: Any, answer: Any, now_ms: int) -> Any:
        if producer.epoch < self.kept.producer.epoch:
            answer(ProducerAnswer(ErrorCode.producer_fenced))
            return []
        return end(self, producer, is_commit, ids, answer, now_ms)

    return patch.object(Transaction, "end_raising", end_once)


def the_log_keeps_no_tags() -> AbstractContextManager[Any]:
    def encode(stored: StoredTransaction, *, level: int) -> bytes:
        return encode_transaction(stored, level=0)

    return patch("highwater.broker.txn.coordinator.encode_transaction", encode)


def an_open_transaction_is_known_by_the_id_alone() -> AbstractContextManager[Any]:
    def would_begin(self: ProducerStates, producer_id: int, epoch: int, *, by_version_2: bool = False) -> bool:
        state = self.get(producer_id)
        return state is None or state.transaction_first_offset == NO_OFFSET

    return patch.object(ProducerStates, "would_begin", would_begin)


def what_is_open_is_taken_for_added() -> AbstractContextManager[Any]:
    begin = ProducerStates.would_begin

    def would_begin(self: ProducerStates, producer_id: int, epoch: int, *, by_version_2: bool = False) -> bool:
        return begin(self, producer_id, epoch)

    return patch.object(ProducerStates, "would_begin", would_begin)


def markers_are_checked_as_in_version_1() -> AbstractContextManager[Any]:
    check = ProducerStates.check_marker

    def check_laxly(self: ProducerStates, marker: TransactionMarker) -> ErrorCode | None:
        return check(self, marker._replace(transaction_version=0))

    return patch.object(ProducerStates, "check_marker", check_laxly)


def the_first_request_decides_the_version() -> AbstractContextManager[Any]:
    end = Transaction.end_raising

    def end_as_begun(self: Transaction, producer: Producer, is_commit: bool, ids: Any, answer: Any, now_ms: int) -> Any:
        if self.kept.client_version:
            return end(self, producer, is_commit, ids, answer, now_ms)

        def tell(value: ProducerAnswer) -> None:
            answer(value._replace(producer=producer))

        return self.end(producer, is_commit, tell, now_ms)

    return patch.object(Transaction, "end_raising", end_as_begun)


@contextmanager
def level_2(last_epoch: int = transaction.LAST_EPOCH) -> Iterator[Stage]:
    with patch.object(Features, "level", lambda self, name: 2), patch.object(transaction, "LAST_EPOCH", last_epoch):
        yield Stage()


STORIES = [
    (a_late_record_comes_into_the_next_transaction, no_end_raises_the_epoch),
    (the_answer_of_an_end_is_lost, no_retry_of_an_end_is_known),
    (a_record_comes_between_the_decision_and_its_markers, an_open_transaction_is_known_by_the_id_alone),
    (the_coordinator_dies_before_the_markers_and_they_are_doubled, markers_are_checked_as_in_version_1),
    (a_client_moves_to_version_2_with_its_transaction_open, the_first_request_decides_the_version),
    (a_client_moves_to_version_2_before_the_markers_of_version_1, what_is_open_is_taken_for_added),
]


@pytest.mark.parametrize("story", [story for story, _ in STORIES], ids=lambda story: story.__name__)
def test_story(story: Callable[[Stage], None]) -> None:
    with level_2() as stage:
        story(stage)


def test_the_answer_of_an_end_is_lost_while_the_epochs_end() -> None:
    with level_2(last_epoch=1) as stage:
        the_answer_of_an_end_is_lost(stage)


@pytest.mark.parametrize(("story", "rule"), STORIES, ids=lambda told: told.__name__)
def test_each_story_needs_its_rule(
    story: Callable[[Stage], None], rule: Callable[[], AbstractContextManager[Any]]
) -> None:
    with level_2() as stage, rule(), pytest.raises(AssertionError):
        story(stage)


def test_the_end_of_the_epochs_needs_the_tags() -> None:
    with level_2(last_epoch=1) as stage, the_log_keeps_no_tags(), pytest.raises(AssertionError):
        the_answer_of_an_end_is_lost(stage)
