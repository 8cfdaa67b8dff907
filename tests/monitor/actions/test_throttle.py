"""A throttle that is refused, or whose moves are refused, is taken back: the cluster is left as it was."""

from __future__ import annotations

from typing import Any, cast

import pytest

from highwater.kafka.requests.answered import Answered
from highwater.kafka.requests.list_partition_reassignments import Move
from highwater.kafka.requests.metadata import BrokerRow, ClusterRow, PartitionRow, TopicRow
from highwater.monitor.actions import moves, reassignment
from highwater.monitor.actions.cluster import ActionCluster
from highwater.monitor.actions.plan import ActionError
from highwater.monitor.actions.requests import Resource
from highwater.monitor.kafka_source.configs import BROKER, TOPIC, Described
from highwater.monitor.model import ConfigValue
from tests.monitor.kafka_source.test_answers import asked

ORDERS: Resource = (TOPIC, "orders")
FORM = {"topic": "orders", "replicas": "0: 2", "throttle": "1MiB"}
RATES = {"leader.replication.throttled.rate": "1048576", "follower.replication.throttled.rate": "1048576"}
REPLICAS = {"leader.replication.throttled.replicas": "0:1", "follower.replication.throttled.replicas": "0:2"}


class MadeUpCluster:
    """Two brokers with one topic; `settings` are those that were set."""

    def __init__(self) -> None:
        rows = [PartitionRow(0, 1, 0, (1,), (1,), ())]
        brokers = [BrokerRow(1, "h", 1, ""), BrokerRow(2, "h", 2, "")]
        self.row = ClusterRow("c", 1, brokers, [TopicRow("orders", "", False, 0, rows)])
        self.alive = [1, 2]
        self.settings: dict[Resource, dict[str, str]] = {ORDERS: {}, (BROKER, "1"): {}, (BROKER, "2"): {}}
        self.running: dict[tuple[str, int], Move] = {}
        self.refuses: dict[Resource, str] = {}
        self.refuses_trials = True
        self.controller = Answered(False, "", {("orders", 0): ""})
        self.is_silent = False

    def partitions(self, topic: str, numbers: Any) -> list[PartitionRow]:
        return self.row.topics[0].partitions

    def moves(self) -> dict[tuple[str, int], Move]:
        if self.is_silent:
            raise ActionError("The broker does not answer: no.")
        return self.running

    def ask_controller(self, request: Any) -> Answered:
        if self.controller.error == "silent":
            raise ActionError("The broker does not answer: no.")
        return self.controller

    def ask(self, node_id: int, request: Any) -> dict[Resource, Any]:
        sent = asked(request, request.most)
        resources = [(int(each.resource_type), each.resource_name) for each in sent.resources]
        assert all(kind == TOPIC or name == str(node_id) for kind, name in resources)
        if request.schema == "describe_configs":
            return {each: Described(0, "", self._config(each)) for each in resources}
        if not sent.validate_only:
            for each, resource in zip(sent.resources, resources, strict=True):
                self._set(resource, each.configs)
        is_refusing = not sent.validate_only or self.refuses_trials
        return {each: self.refuses.get(each, "") if is_refusing else "" for each in resources}

    def _config(self, resource: Resource) -> dict[str, ConfigValue]:
        source = "DYNAMIC_TOPIC_CONFIG" if resource[0] == TOPIC else "DYNAMIC_BROKER_CONFIG"
        defaults = {"leader.replication.throttled.rate": ConfigValue("9", "DEFAULT_CONFIG")}
        return defaults | {name: ConfigValue(value, source) for name, value in self.settings[resource].items()}

    def _set(self, resource: Resource, configs: Any) -> None:
        if resource in self.refuses:
            return
        for each in configs:
            self.settings[resource].pop(each.name, None)
            if each.value is not None:
                self.settings[resource][each.name] = each.value

    def act(self) -> None:
        cluster = cast(ActionCluster, self)
        assert not [each for each in reassignment.carry_out(cluster, self.plan()) if each.error]

    def plan(self) -> Any:
        return reassignment.plan(cast(ActionCluster, self), "h:1", FORM)

    @property
    def is_throttled(self) -> bool:
        return any(self.settings.values())


def test_it_is_set_for_the_topic_and_both_brokers() -> None:
    made = MadeUpCluster()
    plan = made.plan()
    assert not made.is_throttled
    assert plan.fields["throttle"] == "1048576"
    assert "--execute - --throttle 1048576 <<< " in plan.command
    start = "kafka-reassign-partitions.sh --bootstrap-server h:1 --reassignment-json-file /dev/stdin --execute "
    assert plan.kafka_command.startswith(f"{start}--throttle 1048576 <<< ")
    made.act()
    assert made.settings == {ORDERS: REPLICAS, (BROKER, "1"): RATES, (BROKER, "2"): RATES}


def test_without_one_the_plan_says_so_and_nothing_is_set() -> None:
    made = MadeUpCluster()
    plan = reassignment.plan(cast(ActionCluster, made), "h:1", FORM | {"throttle": ""})
    assert plan.warnings == ("The moves have no throttle: they take what disks and network give.",)
    assert "--throttle" not in plan.command + plan.kafka_command
    assert len(plan.changes) == 1


def test_a_cluster_that_cannot_throttle_says_so_in_the_plan() -> None:
    made = MadeUpCluster()
    made.refuses = {(BROKER, "2"): "INVALID_CONFIG (40): unknown"}
    with pytest.raises(ActionError, match="This cluster cannot throttle: broker 2 would refuse it: INVALID_CONFIG"):
        made.plan()
    assert not made.is_throttled


def test_a_throttle_that_is_refused_in_part_is_taken_back_and_nothing_moves() -> None:
    made = MadeUpCluster()
    made.settings[BROKER, "1"] = {"leader.replication.throttled.rate": "7"}
    before = {key: dict(value) for key, value in made.settings.items()}
    made.refuses_trials, made.refuses = False, {(BROKER, "2"): "POLICY_VIOLATION (44)"}
    made.controller = Answered(False, "must not be asked", {})
    with pytest.raises(ActionError, match=r"by broker 2: POLICY_VIOLATION .* Nothing was moved, and no throttle"):
        made.act()
    assert made.settings == before


@pytest.mark.parametrize(
    ("answer", "running", "is_silent", "is_left", "words"),
    [
        (Answered(False, "NOT_CONTROLLER (41)", {}), False, False, False, "no throttle is left"),
        (Answered(False, "silent", {}), False, False, False, "no throttle is left"),
        (Answered(False, "silent", {}), True, False, True, "the throttle stays, as something moves"),
        (Answered(False, "silent", {}), False, True, True, "it is not known whether something moves"),
    ],
)
def test_a_throttle_stays_only_if_something_may_move(
    answer: Answered, running: bool, is_silent: bool, is_left: bool, words: str
) -> None:
    made = MadeUpCluster()
    plan = made.plan()
    made.controller, made.is_silent = answer, is_silent
    made.running = {("orders", 0): Move((1, 2), (2,), (1,))} if running else {}
    with pytest.raises(ActionError, match=words):
        reassignment.carry_out(cast(ActionCluster, made), plan)
    assert made.is_throttled == is_left


def test_no_throttle_is_left_if_the_controller_refuses_every_move() -> None:
    made = MadeUpCluster()
    made.controller = Answered(False, "", {("orders", 0): "INVALID_REPLICA_ASSIGNMENT (39)"})
    (outcome,) = reassignment.carry_out(cast(ActionCluster, made), made.plan())
    assert outcome.error
    assert not made.is_throttled


def test_a_check_removes_what_is_set_and_nothing_else() -> None:
    made = MadeUpCluster()
    cluster = cast(ActionCluster, made)
    assert not moves.plan_check(cluster, "h:1", {}).has_changes
    made.act()
    made.running = {("orders", 0): Move((1, 2), (2,), (1,))}
    running = moves.plan_check(cluster, "h:1", {})
    assert (running.has_changes, [each.before for each in running.changes]) == (False, ["moves from 1 to 2"])
    made.running = {}
    plan = moves.plan_check(cluster, "h:1", {})
    assert [(each.what, each.after) for each in plan.changes] == [
        ("throttle of topic orders", "not set"),
        ("throttle of broker 1", "not set"),
        ("throttle of broker 2", "not set"),
    ]
    assert not [each for each in moves.carry_out_check(cluster, plan) if each.error]
    assert not made.is_throttled


def test_what_is_cancelled_is_what_moves() -> None:
    made = MadeUpCluster()
    cluster = cast(ActionCluster, made)
    assert not moves.plan_cancel(cluster, "h:1", {"topic": "orders"}).has_changes
    made.act()
    made.running = {("orders", 0): Move((1, 2), (2,), (1,)), ("other", 3): Move((1, 2), (2,), (1,))}
    plan = moves.plan_cancel(cluster, "h:1", {"topic": "orders"})
    assert plan.warnings == ("Other moves go on, and so does their throttle.",)
    assert plan.kafka_command.partition(" <<< ")[0].endswith("--cancel --preserve-throttles")
    moves.carry_out_cancel(cluster, plan)
    assert made.is_throttled
    del made.running["other", 3]
    for form, reason in (
        ({"topic": "orders", "partitions": "1"}, "orders-1 does not move now"),
        ({"partitions": "1"}, "Name the topic"),
    ):
        with pytest.raises(ActionError, match=reason):
            moves.plan_cancel(cluster, "h:1", form)
    plan = moves.plan_cancel(cluster, "h:1", {})
    made.controller = Answered(False, "", {("orders", 0): "NO_REASSIGNMENT_IN_PROGRESS (85)"})
    assert moves.carry_out_cancel(cluster, plan)[0].error
    assert made.is_throttled
    made.controller = Answered(False, "", {("orders", 0): ""})
    assert not [each for each in moves.carry_out_cancel(cluster, plan) if each.error]
    assert not made.is_throttled
