"""Throttled moves on real clusters: what ours sets, shows, cancels and removes is what Kafka's tool does."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import NewTopic  # type: ignore[attr-defined]

from highwater.monitor.actions.plan import ActionError
from tests.compat.apache_kafka.scripts import pasted
from tests.compat.apache_kafka.tools import jars_3_9, jars_4
from tests.monitor.actions.acting import DEADLINE_S, Acting
from tests.pipeline.kafka.brokers import SYSTEMS, bootstrap_of
from tests.topics import create_topics
from tests.waiting import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.clients]
PARTITIONS = 3
LINES = "0: 2\n1: 2"
SLOW, FAST = "20000", "100MiB"
_SETTING = re.compile(r"((?:leader|follower)\.replication\.throttled\.\w+)=(\S*)")


def fill(bootstrap: str) -> None:
    """Partitions of several fetches of a follower, on broker 1 alone: a throttle holds after the first one."""
    create_topics(bootstrap, [NewTopic("orders", PARTITIONS, replica_assignment=[[1]] * PARTITIONS)])
    producer = Producer({"bootstrap.servers": bootstrap})
    for number in range(1500):
        producer.produce("orders", bytes(10_000), partition=number % PARTITIONS)
    assert producer.flush(DEADLINE_S) == 0


def throttle_of(acting: Acting) -> dict[str, dict[str, str]]:
    """The settings of the throttle of topic and brokers, as Kafka's tool tells them."""
    entities: dict[str, tuple[str, ...]] = {"orders": ("--topic", "orders")}
    entities |= {str(each): ("--entity-type", "brokers", "--entity-name", str(each)) for each in (1, 2)}
    found = {}
    for name, options in entities.items():
        # A setting is there again as a synonym of itself.
        lines = re.sub(r"synonyms=\{[^}]*\}", "", acting.configs(*options))
        found[name] = dict(_SETTING.findall(lines))
    return {name: settings for name, settings in found.items() if any(settings.values())}


def replicas_of(acting: Acting) -> list[tuple[int, ...]]:
    return [row.replicas for row in acting.row("orders")]


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("system", SYSTEMS)
def test_throttled_moves_are_those_of_kafkas_tool(system: str, tmp_path: Path) -> None:
    (tmp_path / "brokers").mkdir()
    jars = jars_4() if system == "4" else jars_3_9()
    with bootstrap_of(system, tmp_path / "brokers", 2) as bootstrap:
        fill(bootstrap)
        acting = Acting(bootstrap, system)

        def paste(command: str) -> str:
            return pasted(command, tmp_path / "bin", jars)

        def moving() -> set[str]:
            return {each.what for each in acting.plan("reassignment-check").changes if each.note.endswith("copies it")}

        def has_throttle(wanted: dict[str, dict[str, str]]) -> None:
            """Brokers of Kafka 4 hear of settings a moment after the controller has them."""
            wait_until(lambda: throttle_of(acting) == wanted, f"the throttle {wanted}", DEADLINE_S)

        with pytest.raises(ActionError, match="'fast' is not a throttle"):
            acting.plan("reassignment", topic="orders", replicas=LINES, throttle="fast")
        plan = acting.do("reassignment", topic="orders", replicas=LINES, throttle=SLOW)
        assert [(each.what, each.before, each.after) for each in plan.changes] == [
            ("orders-0", "1", "2"),
            ("orders-1", "1", "2"),
            ("throttle of topic orders", "not set", "leader 0:1,1:1; follower 0:2,1:2"),
            ("throttle of broker 1", "not set", "leader 20,000 bytes/s; follower 20,000 bytes/s"),
            ("throttle of broker 2", "not set", "leader 20,000 bytes/s; follower 20,000 bytes/s"),
        ]
        wait_until(lambda: len(throttle_of(acting)) == 3, "the throttle", DEADLINE_S)
        ours = throttle_of(acting)
        wait_until(lambda: moving() == {"orders-0", "orders-1"}, "both moves", DEADLINE_S)
        # While something moves there is nothing to remove; one move is cancelled, and the other keeps its throttle.
        check = acting.plan("reassignment-check")
        assert (check.has_changes, check.warnings) == (
            False,
            ("2 partitions are moving: a throttle stays until all moves are done.",),
        )
        some = acting.do("reassignment-cancel", topic="orders", partitions="1")
        assert some.changes[0].before == "moves to 2"
        assert some.changes[0].after == "stays on 1"
        assert "--preserve-throttles" in some.kafka_command
        wait_until(lambda: moving() == {"orders-0"}, "one move", DEADLINE_S)
        has_throttle(ours)
        with pytest.raises(ActionError, match="orders-1 does not move now"):
            acting.plan("reassignment-cancel", topic="orders", partitions="1")
        acting.do("reassignment-cancel")
        wait_until(lambda: replicas_of(acting) == [(1,)] * PARTITIONS, "the former replicas", DEADLINE_S)
        has_throttle({})
        wait_until(lambda: not moving(), "no move", DEADLINE_S)
        # The command for Kafka's tool does the same as the page.
        paste(plan.kafka_command)
        has_throttle(ours)
        cancel = acting.plan("reassignment-cancel", topic="orders")
        assert [each.what for each in cancel.changes] == [
            "orders-0",
            "orders-1",
            "throttle of topic orders",
            "throttle of broker 1",
            "throttle of broker 2",
        ]
        printed = paste(cancel.kafka_command)
        assert printed.count("orders-0") >= 1, printed
        wait_until(lambda: replicas_of(acting) == [(1,)] * PARTITIONS, "the former replicas", DEADLINE_S)
        has_throttle({})
        # Fast moves end by themselves, and their throttle stays until somebody checks.
        acting.do("reassignment", topic="orders", replicas=LINES, throttle=FAST)
        wait_until(lambda: replicas_of(acting) == [(2,), (2,), (1,)] and not moving(), "the moves", DEADLINE_S)
        assert throttle_of(acting)["1"]["leader.replication.throttled.rate"] == str(100 << 20)
        check = acting.plan("reassignment-check")
        acting.do("reassignment-check")
        has_throttle({})
        assert not acting.plan("reassignment-check").has_changes
        # Kafka's tool takes the same command for the same thing.
        back = acting.plan("reassignment", topic="orders", replicas="0: 1", throttle=FAST)
        paste(back.kafka_command)
        wait_until(lambda: replicas_of(acting)[0] == (1,) and not moving(), "the move", DEADLINE_S)
        verified = paste(acting.plan("reassignment-check").kafka_command)
        assert "Clearing topic-level throttles on topic orders" in verified, verified
        has_throttle({})
        assert json.loads(plan.kafka_command.partition("<<< ")[2].strip("'"))["version"] == 1
