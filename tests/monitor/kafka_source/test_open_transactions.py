"""Open transactions against scripted brokers: whom the collector asks, how often, and what it may conclude."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from highwater.kafka.client.settings import ClientSettings
from highwater.monitor.kafka_source.source import STANDING_MS, KafkaSource
from highwater.monitor.kafka_source.transactions import (
    PROBE,
    CoordinatorTransactions,
    DescribedTransaction,
    OpenProducer,
    Producers,
    describe_producers,
    describe_transactions,
    list_transactions,
    open_transactions,
)
from highwater.monitor.model import OpenTransaction, Snapshot
from tests.monitor.kafka_source.test_answers import answered, asked
from tests.monitor.kafka_source.test_faults import FakeCluster, fake_cluster

KEY = ("t", 0)


def state(producer_id: int, start_offset: int, *, written_ms: int = 77) -> dict[str, Any]:
    return {
        "producer_id": producer_id,
        "producer_epoch": 3,
        "last_sequence": 1,
        "last_timestamp": written_ms,
        "coordinator_epoch": 5,
        "current_txn_start_offset": start_offset,
    }


def test_producers_are_read_with_their_open_transactions_alone() -> None:
    sent = asked(describe_producers({"t": [0, 2], "u": [1]}), 0)
    assert [(each.name, each.partition_indexes) for each in sent.topics] == [("t", (0, 2)), ("u", (1,))]
    many = [state(producer, 100 - producer) for producer in range(50)]
    partitions = [
        {"partition_index": 0, "active_producers": [state(7, -1), state(8, 20), state(9, 0)]},
        {"partition_index": 2, "error_code": ErrorCode.not_leader_or_follower, "error_message": "gone"},
        {"partition_index": 3, "active_producers": many},
    ]
    found = answered(describe_producers({}), 0, {"topics": [{"name": "t", "partitions": partitions}]})
    assert found["t", 0] == (0, "", (OpenProducer(0, 9, 3, 77), OpenProducer(20, 8, 3, 77)))
    assert found["t", 2] == (6, "gone", ())
    assert [each.start_offset for each in found["t", 3].open] == list(range(51, 61))


def test_what_coordinators_say_is_read() -> None:
    assert asked(list_transactions([9, 8]), 0).producer_id_filters == (8, 9)
    states = [{"transactional_id": "tx", "producer_id": 9, "transaction_state": "Ongoing"}]
    assert answered(list_transactions([]), 0, {"transaction_states": states}) == (0, {9: "tx"})
    assert asked(describe_transactions(["tx"]), 0).transactional_ids == ("tx",)
    known = {
        "transactional_id": "tx",
        "transaction_state": "Ongoing",
        "transaction_timeout": 60_000,
        "transaction_start_time": 1_790_000_000_000,
        "producer_id": 9,
        "producer_epoch": 3,
        "topics": [{"topic": "t", "partitions": (0, 2)}],
    }
    unknown = {
        "transactional_id": "u",
        "error_code": ErrorCode.transactional_id_not_found,
        "transaction_start_time": -1,
    }
    found = answered(describe_transactions([]), 0, {"transaction_states": [known, unknown]})
    partitions = frozenset((("t", 0), ("t", 2)))
    assert found["tx"] == DescribedTransaction(0, 9, "Ongoing", 60_000, 1_790_000_000_000, partitions)
    assert (found["u"].error_code, found["u"].started_ms) == (105, None)


OPEN = Producers(0, "", (OpenProducer(4, 9, 3, 77),))
ENDED = Producers(0, "", ())
NEXT_ONE = Producers(0, "", (OpenProducer(6, 9, 3, 78),))


def described(*partitions: tuple[str, int], producer_id: int = 9) -> dict[str, DescribedTransaction]:
    return {"tx": DescribedTransaction(0, producer_id, "Ongoing", 60_000, 5, frozenset(partitions))}


@pytest.mark.parametrize(
    ("coordinator", "still", "is_complete", "known"),
    [
        (CoordinatorTransactions(1, {9: "tx"}, described(KEY)), None, True, [True]),
        (CoordinatorTransactions(1, {9: "tx"}, described(KEY)), None, False, [True]),
        (CoordinatorTransactions(1, {}, {}), OPEN, True, [False]),
        # Its transaction is another one, or one in which the partition is not any more.
        (CoordinatorTransactions(1, {9: "tx"}, described(("t", 1))), OPEN, True, [False]),
        (CoordinatorTransactions(1, {9: "tx"}, described(KEY, producer_id=10)), OPEN, True, [False]),
        # It ended, or the next one began, between the two questions.
        (CoordinatorTransactions(1, {}, {}), ENDED, True, []),
        (CoordinatorTransactions(1, {}, {}), NEXT_ONE, True, []),
        # The leader did not answer the second time, or a coordinator did not answer at all.
        (CoordinatorTransactions(1, {}, {}), None, True, [None]),
        (CoordinatorTransactions(1, {}, {}), OPEN, False, [None]),
    ],
)
def test_a_transaction_is_unknown_only_if_nothing_can_speak_against_it(
    coordinator: CoordinatorTransactions, still: Producers | None, is_complete: bool, known: list[bool | None]
) -> None:
    again = {} if still is None else {KEY: still}
    found = open_transactions({KEY: OPEN}, [coordinator], again, is_complete=is_complete)
    assert [each.is_known for each in found] == known


class Transactions(FakeCluster):
    """Both partitions have an open transaction; `known` are those that broker 0 coordinates."""

    def __init__(self) -> None:
        super().__init__()
        self.known: dict[int, str] = {}
        self.probe = ErrorCode.not_coordinator

    def usual(self, node_id: int, api: str, request: Any) -> Any:
        match api:
            case "describe_producers":
                partitions = [
                    {"partition_index": number, "active_producers": [state(10 + number, 9)]}
                    for topic in request.topics
                    for number in topic.partition_indexes
                ]
                return {"topics": [{"name": "t", "partitions": partitions}]}
            case "list_transactions":
                listed = [
                    {"transactional_id": name, "producer_id": producer_id, "transaction_state": "Ongoing"}
                    for producer_id, name in self.known.items()
                    if node_id == 0 and producer_id in request.producer_id_filters
                ]
                return {"error_code": ErrorCode.none, "transaction_states": listed}
            case "describe_transactions":
                return {"transaction_states": [self._described(name) for name in request.transactional_ids]}
        return super().usual(node_id, api, request)

    def _described(self, name: str) -> dict[str, Any]:
        if name == PROBE:
            return {"transactional_id": name, "error_code": self.probe, "transaction_start_time": -1}
        producer_id = next(each for each, known in self.known.items() if known == name)
        return {
            "transactional_id": name,
            "transaction_state": "Ongoing",
            "transaction_timeout": 60_000,
            "transaction_start_time": 1_790_000_000_000,
            "producer_id": producer_id,
            "topics": [{"topic": "t", "partitions": (producer_id - 10,)}],
        }


def watching(cluster: FakeCluster, story: Callable[[KafkaSource], Awaitable[None]], standing_ms: int = 0) -> None:
    async def running() -> None:
        settings = ClientSettings((("127.0.0.1", cluster.brokers[0].port),))
        source = KafkaSource("c", settings, 2.0, standing_ms)
        try:
            await story(source)
        finally:
            await source.close()

    asyncio.run(running())


def known(snapshot: Snapshot) -> list[tuple[int, str, bool | None]]:
    def row(each: OpenTransaction) -> tuple[int, str, bool | None]:
        return each.partition, each.transactional_id, each.is_known

    return [row(each) for each in snapshot.transactions]


def of_transactions(asked: list[tuple[int, str]]) -> list[tuple[int, str]]:
    return sorted(each for each in asked if "transactions" in each[1] or "producers" in each[1])


def test_few_requests_are_sent_and_only_where_something_stands_still() -> None:
    async def story(source: KafkaSource) -> None:
        first = await source.snapshot(0)
        assert (first.transactions, "kafka transactions" in first.sources) == ((), False)
        assert of_transactions(cluster.asked) == []
        cluster.known = {10: "tx"}
        second = await source.snapshot(1)
        assert second.sources["kafka transactions"].error == ""
        assert known(second) == [(0, "tx", True), (1, "", False)]
        assert of_transactions(cluster.asked) == [
            (0, "describe_producers"),
            (0, "describe_transactions"),
            (0, "list_transactions"),
            (1, "describe_producers"),
            (1, "describe_producers"),
            (1, "list_transactions"),
        ]
        state = second.sources["kafka transactions"]
        assert (state.error, state.requests) == ("", 6)
        # The same ones are asked for in every fourth tick.
        third = await source.snapshot(2)
        assert known(third) == known(second)
        assert len(of_transactions(cluster.asked)) == 6

    with fake_cluster(made=(cluster := Transactions())):
        watching(cluster, story)

    async def young(source: KafkaSource) -> None:
        for number in range(6):
            assert (await source.snapshot(number)).transactions == ()
        assert of_transactions(cluster.asked) == []

    with fake_cluster(made=(cluster := Transactions())):
        watching(cluster, young, STANDING_MS)


def test_nothing_is_called_hanging_while_a_coordinator_may_know_it() -> None:
    def failing(api: str, answer: dict[str, Any]) -> Callable[[FakeCluster], None]:
        return lambda cluster: cluster.answers.__setitem__((1, api), lambda request: answer)

    def hidden(cluster: FakeCluster) -> None:
        assert isinstance(cluster, Transactions)
        cluster.probe = ErrorCode.transactional_id_authorization_failed

    for fault, reason in (
        (
            failing("list_transactions", {"error_code": ErrorCode.coordinator_load_in_progress}),
            "broker 1 does not list its transactions: COORDINATOR_LOAD_IN_PROGRESS (14)",
        ),
        (hidden, "give the monitor's user Describe on all transactional ids"),
    ):

        async def story(source: KafkaSource, reason: str = reason) -> None:
            await source.snapshot(0)
            found = await source.snapshot(1)
            assert known(found) == [(0, "", None), (1, "", None)]
            assert reason in found.sources["kafka transactions"].error

        with fake_cluster(made=(cluster := Transactions())):
            fault(cluster)
            watching(cluster, story)


def test_a_leader_that_refuses_is_told_and_what_was_known_stays() -> None:
    refused = {"partition_index": 1, "error_code": ErrorCode.topic_authorization_failed, "active_producers": []}

    async def story(source: KafkaSource) -> None:
        await source.snapshot(0)
        assert known(await source.snapshot(1)) == [(0, "", False), (1, "", False)]
        answer = {"topics": [{"name": "t", "partitions": [refused]}]}
        cluster.answers[1, "describe_producers"] = lambda request: answer
        for number in (2, 3, 4):
            found = await source.snapshot(number)
        assert known(found) == [(0, "", False), (1, "", False)]
        reason = "t-1: its producers are not visible; give the monitor's user Read on topics"
        assert found.sources["kafka transactions"].error == reason

    with fake_cluster(made=(cluster := Transactions())):
        watching(cluster, story)
