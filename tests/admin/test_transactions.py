"""`highwater broker transactions` against a running broker."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from confluent_kafka import Producer

from highwater.broker.topics.internal_topic import TRANSACTIONS_TOPIC
from tests.admin.calling import Result, call
from tests.broker.running import RunningBroker

pytestmark = pytest.mark.clients

TIMEOUT_S = 20.0
NOW = ("--max-transaction-timeout", "-1")
"""So that a transaction hangs as soon as nobody knows of it."""


class Commands:
    def __init__(self, broker: RunningBroker) -> None:
        self.broker = broker

    def __call__(self, *arguments: str) -> Result:
        return call("transactions", "-b", self.broker.address, *arguments)

    def begin(self, transactional_id: str, topic: str) -> Producer:
        """A transaction with one record in partition 1 of a new topic."""
        call("topics", "-b", self.broker.address, "--create", "--topic", topic, "--partitions", "2")
        producer = Producer(
            {"log_level": 0, "bootstrap.servers": self.broker.address, "transactional.id": transactional_id}
        )
        producer.init_transactions(TIMEOUT_S)
        producer.begin_transaction()
        producer.produce(topic, "x", partition=1)
        assert producer.flush(TIMEOUT_S) == 0
        return producer


@pytest.fixture
def transactions(broker: RunningBroker) -> Iterator[Commands]:
    yield Commands(broker)
    call("topics", "-b", broker.address, "--delete", "--topic", TRANSACTIONS_TOPIC)


def test_an_open_transaction_is_listed_and_described(transactions: Commands) -> None:
    producer = transactions.begin("open", "written")
    (listed,) = transactions("list", "--json").json
    assert (listed["transactional_id"], listed["coordinator"], listed["state"]) == ("open", 0, "Ongoing")
    described = transactions("describe", "--transactional-id", "open", "--json").json
    assert described.pop("duration_ms") >= 0
    assert described.pop("start_time_ms") > 0
    assert described == {
        "coordinator": 0,
        "transactional_id": "open",
        "producer_id": listed["producer_id"],
        "producer_epoch": 0,
        "state": "Ongoing",
        "timeout_ms": 60_000,
        "partitions": ["written-1"],
    }
    assert "Partitions:       written-1" in transactions("describe", "--transactional-id", "open").output
    assert transactions("list", "--duration-filter", "60000", "--json").json == []
    producer.commit_transaction(TIMEOUT_S)
    assert "CompleteCommit" in transactions("list").output
    described = transactions("describe", "--transactional-id", "open", "--json").json
    assert (described["state"], described["partitions"]) == ("CompleteCommit", [])


def test_one_that_never_began_a_transaction(transactions: Commands) -> None:
    producer = Producer({"log_level": 0, "bootstrap.servers": transactions.broker.address, "transactional.id": "idle"})
    producer.init_transactions(TIMEOUT_S)
    described = transactions("describe", "--transactional-id", "idle", "--json").json
    assert (described["state"], described["start_time_ms"], described["duration_ms"]) == ("Empty", None, None)
    assert "Began:            -" in transactions("describe", "--transactional-id", "idle").output


def test_the_producers_of_a_partition(transactions: Commands) -> None:
    producer = transactions.begin("open", "producers")
    partition = ("describe-producers", "--topic", "producers", "--partition", "1")
    (found,) = transactions(*partition, "--json").json
    assert (found["producer_epoch"], found["last_sequence"], found["current_transaction_start_offset"]) == (0, 0, 0)
    assert transactions(*partition, "--broker-id", "0", "--json").json == [found]
    producer.abort_transaction(TIMEOUT_S)
    (found,) = transactions(*partition, "--json").json
    assert found["current_transaction_start_offset"] is None
    assert transactions("describe-producers", "--topic", "producers", "--partition", "0", "--json").json == []


@pytest.mark.parametrize("by_start_offset", [True, False])
def test_what_hangs_is_found_and_aborted(transactions: Commands, by_start_offset: bool) -> None:
    topic = f"hanging-{by_start_offset}"
    producer = transactions.begin("lost", topic)
    for where in (("--topic", topic), ("--topic", topic, "--partition", "1"), ("--broker-id", "0")):
        assert transactions("find-hanging", *where, *NOW, "--json").json == []
    call("topics", "-b", transactions.broker.address, "--delete", "--topic", TRANSACTIONS_TOPIC)
    for where in (("--topic", topic), ("--topic", topic, "--partition", "1"), ("--broker-id", "0")):
        (found,) = transactions("find-hanging", *where, *NOW, "--json").json
        assert (found["topic"], found["partition"], found["current_transaction_start_offset"]) == (topic, 1, 0)
    assert transactions("find-hanging", "--topic", topic, "--json").json == []
    assert topic in transactions("find-hanging", "--topic", topic, *NOW).output
    which = (
        ["--start-offset", "0"]
        if by_start_offset
        else ["--producer-id", str(found["producer_id"]), "--producer-epoch", "0", "--coordinator-epoch", "0"]
    )
    aborted = transactions("abort", "--topic", topic, "--partition", "1", *which)
    assert (aborted.exit_code, aborted.errors) == (0, "")
    assert transactions("find-hanging", "--topic", topic, *NOW, "--json").json == []
    again = transactions("abort", "--topic", topic, "--partition", "1", "--start-offset", "0")
    assert again.exit_code == 1
    assert again.errors == f"error: {topic}-1: no open transaction begins at offset 0\n"
    del producer


@pytest.mark.parametrize(
    ("arguments", "exit_code", "line"),
    [
        (["describe", "--transactional-id", "nobody"], 1, "nobody: there is no such transactional id"),
        (
            ["describe-producers", "--topic", "knwn", "--partition", "0"],
            1,
            "there is no topic knwn; did you mean known?",
        ),
        (["describe-producers", "--topic", "known", "--partition", "7"], 1, "known has no partition 7"),
        (
            ["describe-producers", "--topic", "known", "--partition", "0", "--broker-id", "9"],
            2,
            "--broker-id 9: there is no such broker",
        ),
        (["find-hanging"], 2, "give --topic or --broker-id"),
        (["find-hanging", "--broker-id", "0", "--partition", "0"], 2, "--partition needs --topic"),
        (
            ["abort", "--topic", "known", "--partition", "0"],
            2,
            "say which transaction: --start-offset, or --producer-id with both epochs",
        ),
        (
            ["abort", "--topic", "known", "--partition", "0", "--producer-id", "1"],
            2,
            "--producer-id needs --producer-epoch and --coordinator-epoch",
        ),
    ],
)
def test_a_mistake_is_one_line(transactions: Commands, arguments: list[str], exit_code: int, line: str) -> None:
    call("topics", "-b", transactions.broker.address, "--create", "--topic", "known")
    result = transactions(*arguments)
    assert (result.exit_code, result.output, result.errors) == (exit_code, "", f"error: {line}\n")
