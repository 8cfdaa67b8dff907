"""Actions on real clusters, with Apache Kafka's tools as the oracle: what was planned, and what came of it."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import NewTopic  # type: ignore[attr-defined]

from highwater.monitor.actions.acting import ChangedMeanwhileError
from highwater.monitor.actions.plan import ActionError
from tests.broker.running_cluster import running_cluster
from tests.monitor.actions.acting import ANN, DEADLINE_S, Acting
from tests.monitor.kafka_source.oracle import is_committed
from tests.pipeline.kafka.brokers import SYSTEMS, bootstrap_of
from tests.topics import create_topics
from tests.waiting import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.clients]
PARTITIONS, RECORDS = 3, 90
# Brokers look early, and often, for records that are too old: what must stay must not depend on how fast a test is.
_LOOK_OFTEN = {"log.retention.check.interval.ms": "1000"}
_LOOK_EARLY = {"log.initial.task.delay.ms": "0"}


def fill(bootstrap: str, replication: int) -> None:
    # The records are of 2023, so that a time in this test is a time of theirs.
    create_topics(bootstrap, [NewTopic("orders", PARTITIONS, replication, config={"retention.ms": "-1"})])
    producer = Producer({"bootstrap.servers": bootstrap})
    for number in range(RECORDS):
        producer.produce("orders", b"x", partition=number % PARTITIONS, timestamp=1_700_000_000_000 + 1000 * number)
    assert producer.flush(DEADLINE_S) == 0
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "billing"})
    wanted = [TopicPartition("orders", 0, 5), TopicPartition("orders", 1, 10)]
    wait_until(lambda: is_committed(consumer, wanted), "a commit", DEADLINE_S)
    consumer.close()


def check_offsets(acting: Acting) -> None:
    """What is planned is what Kafka's tool would do, and what is done is what it shows afterwards."""
    goals = (
        ("earliest", "", ("--to-earliest",)),
        ("latest", "", ("--to-latest",)),
        ("offset", "12", ("--to-offset", "12")),
        ("time", "2023-11-14T22:13:50", ("--to-datetime", "2023-11-14T22:13:50.000")),
        ("shift", "-3", ("--shift-by", "-3")),
    )
    for goal, value, option in goals:
        plan = acting.plan("offsets", group="billing", topic="", goal=goal, value=value)
        tool = acting.groups("--reset-offsets", "--group", "billing", "--all-topics", "--dry-run", *option)
        # The tool ends no line of this table.
        kafkas = {f"orders-{row[0]}": row[1] for row in re.findall(r"billing\s+orders\s+(\d+)\s+(\d+)", tool)}
        assert {each.what: each.after for each in plan.changes} == kafkas, (goal, tool)
        assert len(kafkas) == 2
    acting.do("offsets", group="billing", topic="orders", goal="offset", value="12")
    assert acting.committed() == {0: 12, 1: 12, 2: 12}
    acting.do("offsets", group="billing", topic="orders", partitions="1,2", goal="shift", value="100")
    assert acting.committed() == {0: 12, 1: 30, 2: 30}
    for form, reason in (
        ({"group": "nobody", "goal": "latest"}, "There is no group 'nobody'"),
        ({"group": "billing", "goal": "latest", "topic": "nothing"}, "There is no topic 'nothing'"),
        ({"group": "billing", "goal": "latest", "topic": "orders", "partitions": "9"}, "has no partition 9"),
    ):
        with pytest.raises(ActionError, match=reason):
            acting.plan("offsets", **form)
    plan = acting.plan("offsets", group="billing", goal="offset", value="3")
    acting.do("offsets", group="billing", topic="orders", partitions="0", goal="offset", value="4")
    with pytest.raises(ChangedMeanwhileError):
        acting.actions.carry_out(ANN, "offsets", plan.fields, plan.digest, lambda _: None)
    assert acting.committed()[0] == 4
    consumer = Consumer({"bootstrap.servers": acting.bootstrap, "group.id": "billing"})
    consumer.subscribe(["orders"])
    wait_until(lambda: consumer.poll(0.1) is not None, "a record", DEADLINE_S)
    with pytest.raises(ActionError, match=r"is in use .*Stop its consumers first"):
        acting.plan("offsets", group="billing", goal="earliest")
    consumer.close()


def check_settings(acting: Acting, node_id: int) -> None:
    def has(words: str, *entity: str, is_there: bool = True) -> None:
        """Brokers of Kafka 4 hear of settings a moment after the controller has them."""
        wait_until(lambda: (words in acting.configs(*entity)) == is_there, f"{words}: {is_there}", DEADLINE_S)

    made = acting.do("settings", whose="topic", name="orders", setting="retention.ms", operation="set", value="3600000")
    assert (made.changes[0].before, made.changes[0].after) == ("-1", "3600000")
    has("retention.ms=3600000", "--topic", "orders")
    acting.do(
        "settings", whose="topic", name="orders", setting="cleanup.policy", operation="set", value="compact,delete"
    )
    has("cleanup.policy=compact,delete", "--topic", "orders")
    acting.do("settings", whose="topic", name="orders", setting="retention.ms", operation="reset to its default")
    has("retention.ms", "--topic", "orders", is_there=False)
    broker = ("--entity-type", "brokers", "--entity-name", str(node_id))
    acting.do(
        "settings", whose="broker", name=str(node_id), setting="log.segment.bytes", operation="set", value="2000000"
    )
    has("log.segment.bytes=2000000", *broker)
    acting.do("settings", whose="all brokers", setting="log.roll.ms", operation="set", value="3600000")
    has("log.roll.ms=3600000", "--entity-type", "brokers", "--entity-default")
    for form, reason in (
        (
            {"whose": "topic", "name": "orders", "setting": "retention.ms", "value": "soon"},
            "The broker would refuse it",
        ),
        ({"whose": "topic", "name": "orders", "setting": "no.such", "value": "1"}, "The broker would refuse it"),
        ({"whose": "topic", "name": "nothing", "setting": "retention.ms", "value": "1"}, "There is no topic"),
        ({"whose": "broker", "name": "77", "setting": "log.retention.ms", "value": "1"}, "There is no broker 77"),
    ):
        with pytest.raises(ActionError, match=reason):
            acting.plan("settings", operation="set", **form)


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("system", SYSTEMS)
def test_offsets_and_settings(system: str, tmp_path: Path) -> None:
    config = _LOOK_OFTEN | ({} if system == "highwater" else _LOOK_EARLY)
    with bootstrap_of(system, tmp_path, config=config) as bootstrap:
        fill(bootstrap, 1)
        acting = Acting(bootstrap, system)
        check_offsets(acting)
        check_settings(acting, acting.node_ids()[0])
        with pytest.raises(ActionError, match="There is no broker 7 now"):
            acting.plan("reassignment", topic="orders", replicas="0: 7")
        assert not acting.plan("election", topic="orders", kind="preferred").has_changes


@pytest.mark.timeout(1800)
def test_moves_and_elections_on_our_brokers(tmp_path: Path) -> None:
    properties = ("auto.leader.rebalance.enable=false", "offsets.topic.replication.factor=1")
    with running_cluster(tmp_path, 2, properties=properties) as cluster:
        fill(cluster.bootstrap, 1)
        acting = Acting(cluster.bootstrap)
        # Every partition gets both brokers, the second one first; the leaders stay.
        leaders = dict(re.findall(r"Partition: (\d)\s+Leader: (\d)", acting.topic()))
        wanted = {number: [3 - int(leader), int(leader)] for number, leader in sorted(leaders.items())}
        lines = "\n".join(f"{number}: {','.join(map(str, each))}" for number, each in wanted.items())
        plan = acting.do("reassignment", topic="orders", replicas=lines)
        assert [each.after for each in plan.changes] == [",".join(map(str, each)) for each in wanted.values()]
        moves = tmp_path / "plan.json"
        entries = [{"topic": "orders", "partition": int(number), "replicas": each} for number, each in wanted.items()]
        moves.write_text(json.dumps({"version": 1, "partitions": entries}))
        verify = ("reassign.ReassignPartitionsCommand", "--reassignment-json-file", str(moves))
        wait_until(lambda: acting.tool(*verify, "--verify").count("is completed") == PARTITIONS, "moves", DEADLINE_S)
        elected = acting.do("election", topic="orders", kind="preferred")
        preferred = {number: str(each[0]) for number, each in wanted.items()}
        wait_until(
            lambda: dict(re.findall(r"Partition: (\d)\s+Leader: (\d)", acting.topic())) == preferred,
            "the preferred leaders",
            DEADLINE_S,
        )
        assert all(each.before != each.after for each in elected.changes)
        again = acting.tool("LeaderElectionCommand", "--election-type", "preferred", "--topic",
                            "orders", "--partition", "0")  # fmt: skip
        assert "Valid replica already elected" in again
        with pytest.raises(ActionError, match="nothing to change"):
            acting.do("election", topic="orders", kind="preferred")
        # A spread over one broker needs one replica; these have two.
        with pytest.raises(ActionError, match="name more"):
            acting.plan("reassignment", topic="orders", brokers="1")
        with pytest.raises(ActionError, match="name the topic"):
            acting.plan("election", kind="unclean")
        assert not acting.plan("election", topic="orders", kind="unclean").has_changes


@pytest.mark.timeout(900)
def test_an_unclean_election_makes_the_one_lead_that_is_left(tmp_path: Path) -> None:
    with running_cluster(tmp_path, 2, properties=("zookeeper.session.timeout.ms=6000",)) as cluster:
        create_topics(cluster.bootstrap, [NewTopic("orders", 1, replica_assignment=[[2, 1]])])
        acting = Acting(cluster.bootstrap)

        def shown(leader: str, isr: str) -> bool:
            try:
                (change,) = acting.plan("election", topic="orders", kind="unclean").changes
                (row,) = acting.row("orders")
            except ActionError:  # those that are left elect a controller, or one of them starts
                return False
            return change.before == leader and ",".join(map(str, sorted(row.in_sync_replicas))) == isr

        wait_until(lambda: shown("broker 2", "1,2"), "both in sync", DEADLINE_S)
        cluster.kill(1)
        wait_until(lambda: shown("broker 2", "2"), "one in sync", DEADLINE_S)
        cluster.kill(2)
        cluster.start(1)
        wait_until(lambda: shown("no leader", "2"), "no leader", DEADLINE_S)
        assert not acting.plan("election", topic="orders", kind="preferred").has_changes
        plan = acting.do("election", topic="orders", kind="unclean")
        assert plan.warnings[0].startswith("RECORDS ARE LOST")
        assert plan.changes[0].after == "broker 1"
        wait_until(lambda: shown("broker 1", "1"), "a leader", DEADLINE_S)
