"""The commands that look after a cluster, on three broker processes: elect, reassign, and what `topics` tells."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from highwater.admin.client import Cluster
from highwater.admin.reassign import _untold
from highwater.admin.reassignment_plan import parse_plan, render_plan
from tests.admin.calling import Result, call
from tests.broker.running_cluster import RunningCluster, running_cluster
from tests.waiting import wait_until

pytestmark = [pytest.mark.clients, pytest.mark.slow]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningCluster]:
    properties = ("zookeeper.session.timeout.ms=6000", "auto.leader.rebalance.enable=false")
    with running_cluster(tmp_path_factory.mktemp("cluster"), properties=properties) as running:
        yield running


def ask(cluster: RunningCluster, *arguments: str | Path, stdin: str = "") -> Result:
    return call(arguments[0], "-b", cluster.bootstrap, *arguments[1:], stdin=stdin)


def create(cluster: RunningCluster, topic: str, assignment: str) -> None:
    created = ask(cluster, "topics", "--create", "--topic", topic, "--replica-assignment", assignment)
    assert created.exit_code == 0, created.errors


def partitions(cluster: RunningCluster, topic: str) -> list[Any]:
    """Empty while the brokers that live have not heard of the topic, or a client waits for a controller that died."""
    described = ask(cluster, "topics", "--describe", "--topic", topic, "--json")
    found: list[Any] = described.json[0]["partitions"] if described.exit_code == 0 else []
    return found


def first(cluster: RunningCluster, topic: str) -> Any:
    """What is known of the topic's first partition."""
    return next(iter(partitions(cluster, topic)), {"leader": -1, "in_sync_replicas": []})


def is_whole(cluster: RunningCluster, topic: str) -> bool:
    found = partitions(cluster, topic)
    return bool(found) and all(sorted(p["in_sync_replicas"]) == sorted(p["replicas"]) for p in found)


def told_by_all(cluster: RunningCluster, topic: str) -> list[Result]:
    """A command asks any one of the brokers, and they hear of changes one by one."""
    addresses = [f"127.0.0.1:{cluster.ports[broker_id]}" for broker_id in cluster.brokers]
    return [call("topics", "-b", address, "--describe", "--topic", topic, "--json") for address in addresses]


def is_known_to_all(cluster: RunningCluster, topic: str) -> bool:
    return all(answer.exit_code == 0 for answer in told_by_all(cluster, topic))


def replicas_are(cluster: RunningCluster, topic: str, wanted: dict[int, int]) -> bool:
    """Whether all brokers say that these have so many replicas in sync, and nobody else has any."""

    def held(answer: Result) -> tuple[dict[int, int], bool]:
        found = answer.json[0]["partitions"] if answer.exit_code == 0 else []
        whole = all(sorted(each["in_sync_replicas"]) == sorted(each["replicas"]) for each in found)
        return Counter(broker for each in found for broker in each["replicas"]), whole

    return all(held(answer) == (wanted, True) for answer in told_by_all(cluster, topic))


def is_throttled(cluster: RunningCluster, *resource: str) -> bool:
    return "throttled" in ask(cluster, "configs", "--describe", *resource, "--json").output


def test_a_broker_is_emptied(cluster: RunningCluster, tmp_path: Path) -> None:
    create(cluster, "moved", "3:1,1:2,2:3")
    wait_until(lambda: is_known_to_all(cluster, "moved"), "all brokers know it")
    generated = ask(cluster, "reassign", "--generate", "--topic", "moved", "--without-broker", "3")
    assert generated.exit_code == 0, generated.errors
    plan = tmp_path / "plan.json"
    plan.write_text(generated.output)
    assert {entry["partition"] for entry in json.loads(generated.output)["partitions"]} >= {0, 2}
    executed = ask(cluster, "reassign", "--execute", plan, "--throttle", "10000000", "--json")
    assert executed.exit_code == 0, executed.errors
    before = {entry["partition"]: entry["replicas"] for entry in executed.json["before"]}
    assert before[0] == [3, 1]
    wait_until(lambda: ask(cluster, "reassign", "--verify", plan).exit_code == 0, "the move is done")
    wait_until(lambda: replicas_are(cluster, "moved", {1: 3, 2: 3}), "all brokers know where it is")
    assert ask(cluster, "reassign", "--list", "--json").json == []
    wait_until(lambda: not is_throttled(cluster, "--topic", "moved"), "no throttle")
    assert ask(cluster, "reassign", "--generate", "--topic", "moved", "--brokers", "1,2").errors == (
        "error: nothing needs to move\n"
    )
    assert ask(cluster, "reassign", "--generate", "--topic", "moved", "--without-broker", "33").errors == (
        "error: --without-broker 33: there is no such broker; there are [1, 2, 3]\n"
    )


def test_a_cluster_is_balanced_in_one_go_and_asked_again_it_has_nothing_to_do(cluster: RunningCluster) -> None:
    create(cluster, "uneven", "1:2,1:2,2:1,2:1,1:2,2:1")
    wait_until(lambda: is_known_to_all(cluster, "uneven"), "all brokers know it")
    balanced = ask(cluster, "reassign", "--balance", "--topic", "uneven", "--throttle", "50000000", "--json")
    assert balanced.exit_code == 0, balanced.errors
    assert {entry["topic"] for entry in balanced.json["moved"]} == {"uneven"}
    wait_until(lambda: replicas_are(cluster, "uneven", {1: 4, 2: 4, 3: 4}), "all brokers know where it is")
    for resource in (("--topic", "uneven"), ("--broker", "1")):
        wait_until(lambda of=resource: not is_throttled(cluster, *of), f"no throttle of {resource}")  # type: ignore[misc]
    again = ask(cluster, "reassign", "--balance", "--topic", "uneven", "--json")
    assert (again.exit_code, again.json) == (0, {"moved": []})
    emptied = ask(cluster, "reassign", "--balance", "--topic", "uneven", "--without-broker", "3", "--json")
    assert emptied.exit_code == 0, emptied.errors
    wait_until(lambda: replicas_are(cluster, "uneven", {1: 6, 2: 6}), "all brokers know where it is")
    too_few = ask(cluster, "reassign", "--balance", "--topic", "uneven", "--brokers", "1")
    assert (too_few.exit_code, too_few.errors) == (
        1,
        "error: uneven-0 has 2 replicas, and there are 1 brokers\n",
    )


def test_what_is_on_the_move_is_planned_by_where_it_will_be(cluster: RunningCluster, tmp_path: Path) -> None:
    create(cluster, "slow", "1:2,1:2")
    # More than the first answer that a throttled follower gets.
    lines = "".join(f"{'x' * 50_000}\n" for _ in range(100))
    for partition in ("0", "1"):
        produced = ask(cluster, "produce", "--topic", "slow", "--partition", partition, stdin=lines)
        assert produced.exit_code == 0, produced.errors
    plan = tmp_path / "plan.json"
    plan.write_text(render_plan({("slow", 0): [3, 2]}))
    beside = tmp_path / "beside.json"
    beside.write_text(render_plan({("slow", 1): [3, 2]}))
    assert ask(cluster, "reassign", "--execute", plan, "--throttle", "1").exit_code == 0
    try:
        assert ask(cluster, "reassign", "--execute", beside, "--throttle", "1").exit_code == 0
        assert '"0:3,1:3"' in ask(cluster, "configs", "--describe", "--topic", "slow", "--json").output
        assert "slow-0" in ask(cluster, "reassign", "--list").output
        generated = ask(cluster, "reassign", "--generate", "--topic", "slow", "--brokers", "1,2")
        assert generated.exit_code == 0, generated.errors
        assert sorted(parse_plan(generated.output)["slow", 0]) == [1, 2]
        # What goes on keeps its throttle, also when another move ends, and what is to come may ask for that.
        assert ask(cluster, "reassign", "--verify", plan).exit_code == 1
        assert is_throttled(cluster, "--broker", "1")
        cancelled = ask(cluster, "reassign", "--cancel", plan)
        assert cancelled.exit_code == 0
        assert cancelled.errors == "The throttle stays, as other partitions are moving (1).\n"
        assert is_throttled(cluster, "--broker", "1")
        assert ask(cluster, "reassign", "--cancel", beside, "--preserve-throttles").exit_code == 0
        assert is_throttled(cluster, "--broker", "1")
        wrong = ask(cluster, "reassign", "--list", "--preserve-throttles")
        assert (wrong.exit_code, "--preserve-throttles" in wrong.errors) == (2, True)
    finally:
        assert [ask(cluster, "reassign", "--cancel", each).exit_code for each in (beside, plan)] == [0, 0]
    wait_until(lambda: not is_throttled(cluster, "--broker", "1"), "no throttle")


@pytest.mark.parametrize(
    ("told", "is_untold"),
    [([1, 2, 3, 4], True), ([1, 2, 3], False), ([2, 3, 4], False), ([1, 2], False)],
    ids=["with those that go", "arrived", "as before", "cancelled"],
)
def test_a_broker_that_was_not_told_yet_is_waited_for(told: list[int], is_untold: bool) -> None:
    partition = SimpleNamespace(replicas=told)
    metadata = SimpleNamespace(topics={"t": SimpleNamespace(partitions={0: partition})})
    found = _untold(cast(Cluster, SimpleNamespace(metadata=metadata)), {("t", 0): [1, 2, 3], ("gone", 0): [1]})
    assert found == ({("t", 0)} if is_untold else set())


def test_a_dead_broker_is_emptied(cluster: RunningCluster) -> None:
    """Metadata names it for a while after it died, and a throttle cannot be told to it."""
    create(cluster, "orphaned", "1:3,3:2")
    wait_until(lambda: is_known_to_all(cluster, "orphaned"), "all brokers know it")
    cluster.kill(3)
    try:
        emptied = ask(
            cluster,
            *("reassign", "--balance", "--topic", "orphaned", "--without-broker", "3", "--throttle", "50000000"),
        )
        assert emptied.exit_code == 0, emptied.errors
        wait_until(lambda: replicas_are(cluster, "orphaned", {1: 2, 2: 2}), "all brokers know where it is")
    finally:
        cluster.start(3)


def test_preferred_leaders_lead_again(cluster: RunningCluster) -> None:
    create(cluster, "led", "1:2:3,2:3:1")
    cluster.kill(1)
    wait_until(lambda: first(cluster, "led")["leader"] in (2, 3), "another leads")
    wait_until(
        lambda: (
            ask(
                cluster, "topics", "--describe", "--topic", "led", "--under-replicated-partitions", "--json"
            ).output.count('"partition":')
            == 2
        ),
        "both lack a replica",
    )
    refused = ask(cluster, "elect", "--preferred", "--topic", "led:0")
    assert refused.exit_code == 1
    assert "PREFERRED_LEADER_NOT_AVAILABLE" in refused.output
    cluster.start(1)
    wait_until(lambda: is_whole(cluster, "led"), "all are in sync again")
    assert ask(cluster, "elect", "--preferred", "--topic", "led").output == "Elected leaders of 1 partitions.\n"
    wait_until(lambda: first(cluster, "led")["leader"] == 1, "the preferred one leads")
    assert ask(cluster, "elect", "--preferred", "--topic", "led").output == "No election was needed.\n"


def test_a_leader_that_was_not_in_sync_is_elected_only_when_asked_for(cluster: RunningCluster) -> None:
    create(cluster, "lost", "2:3")
    wait_until(lambda: is_whole(cluster, "lost"), "both are in sync")
    cluster.kill(3)
    wait_until(lambda: first(cluster, "lost")["in_sync_replicas"] == [2], "one is in sync")
    cluster.kill(2)
    wait_until(lambda: first(cluster, "lost")["leader"] is None, "nobody leads")
    found = ask(cluster, "topics", "--describe", "--topic", "lost", "--unavailable-partitions", "--json").json
    assert len(found[0]["partitions"]) == 1
    cluster.start(3)
    wait_until(lambda: first(cluster, "lost")["leader"] is None, "the other does not lead")

    def is_elected() -> bool:
        """Refused as long as the controller has not heard that the other is back."""
        elected = ask(cluster, "elect", "--unclean", "--topic", "lost:0")
        return (elected.exit_code, elected.output) == (0, "Elected leaders of 1 partitions.\n")

    wait_until(is_elected, "the election")
    wait_until(lambda: first(cluster, "lost")["leader"] == 3, "it leads")
    cluster.start(2)
    wait_until(lambda: is_whole(cluster, "lost"), "both are in sync again")
