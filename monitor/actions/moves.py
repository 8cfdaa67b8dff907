"""Moves that are under way: shows them, cancels them, and removes their throttle when they are done."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from highwater.admin.reassignment_plan import Assignment, render_plan
from highwater.common.topic_partition import TopicPartition, partition_name
from highwater.common.units import plural
from highwater.kafka.requests.list_partition_reassignments import Move
from highwater.monitor.actions import throttle
from highwater.monitor.actions.cluster import ActionCluster
from highwater.monitor.actions.plan import ActionError, Outcome, Plan, PlannedChange, check_size, numbers_of, text_of
from highwater.monitor.actions.reassignment import alter, kafka_reassign
from highwater.monitor.actions.throttle import ReplicationThrottle
from highwater.monitor.command_line import broker_command, quoted
from highwater.monitor.kafka_source.configs import TOPIC


def plan_check(cluster: ActionCluster, bootstrap: str, form: Mapping[str, str]) -> Plan:
    running = cluster.moves()
    limits = ReplicationThrottle() if running else throttle.to_remove(cluster)
    topics = [name for kind, name in limits.wanted if kind == TOPIC]
    named: Assignment = {key: move.target for key, move in running.items()}
    for topic in topics:
        named |= {(topic, row.partition): list(row.replicas) for row in cluster.partitions(topic, ())}
    moving = tuple(_still(key, move) for key, move in sorted(running.items()))
    warnings: tuple[str, ...] = ()
    if running:
        verb = "is" if len(running) == 1 else "are"
        warnings = (f"{plural(len(running), 'partition')} {verb} moving: a throttle stays until all moves are done.",)
    return Plan(
        title="Check moves, and remove their throttle",
        entity="cluster",
        name="",
        command=_with_plan(broker_command("reassign", "-b", bootstrap, "--verify", "-"), named),
        kafka_command=_with_plan(kafka_reassign(bootstrap, "--verify"), named),
        changes=check_size((*moving, *limits.changes)),
        fields={},
        request=limits,
        warnings=warnings,
    )


def carry_out_check(cluster: ActionCluster, made: Plan) -> list[Outcome]:
    return throttle.remove(cluster, made.request)


def plan_cancel(cluster: ActionCluster, bootstrap: str, form: Mapping[str, str]) -> Plan:
    topic, numbers = text_of(form, "topic"), numbers_of(text_of(form, "partitions"), "partition")
    if numbers and not topic:
        raise ActionError("Name the topic of the partitions.")
    if topic:
        cluster.partitions(topic, numbers)
    running = cluster.moves()
    chosen = {key: move for key, move in sorted(running.items()) if _is_chosen(key, topic, numbers)}
    if numbers and (still := [number for number in numbers if (topic, number) not in chosen]):
        raise ActionError(f"{partition_name(topic, still[0])} does not move now.")
    # As Kafka's tool does it; the throttle of other moves must stay.
    is_all = bool(chosen) and len(chosen) == len(running)
    limits = throttle.to_remove(cluster, {name for name, _ in chosen}) if is_all else ReplicationThrottle()
    kept = () if is_all else ("--preserve-throttles",)
    named: Assignment = {key: move.target for key, move in chosen.items()}
    return Plan(
        title=f"Cancel moves of {f'topic {topic}' if topic else 'all topics'}",
        entity="topic" if topic else "cluster",
        name=topic,
        command=_with_plan(broker_command("reassign", "-b", bootstrap, "--cancel", "-", *kept), named),
        kafka_command=_with_plan(kafka_reassign(bootstrap, "--cancel", *kept), named),
        changes=check_size((*(_cancelled(key, move) for key, move in chosen.items()), *limits.changes)),
        fields={"topic": topic, "partitions": ",".join(map(str, numbers))},
        request=(tuple(chosen), limits),
        warnings=("Other moves go on, and so does their throttle.",) if chosen and not is_all else (),
    )


def carry_out_cancel(cluster: ActionCluster, made: Plan) -> list[Outcome]:
    keys: Sequence[TopicPartition]
    limits: ReplicationThrottle
    keys, limits = made.request
    outcomes = alter(cluster, dict.fromkeys(keys))
    # What is not cancelled goes on at its throttle.
    return outcomes if any(each.error for each in outcomes) else [*outcomes, *throttle.remove(cluster, limits)]


def _is_chosen(key: TopicPartition, topic: str, numbers: Sequence[int]) -> bool:
    return not topic or (key[0] == topic and (not numbers or key[1] in numbers))


def _still(key: TopicPartition, move: Move) -> PlannedChange:
    shown = f"moves from {_ids(move.origin)} to {_ids(move.target)}"
    return PlannedChange(partition_name(*key), shown, shown, f"{_ids(move.adding)} copies it" if move.adding else "")


def _cancelled(key: TopicPartition, move: Move) -> PlannedChange:
    note = f"what {_ids(move.adding)} has copied is deleted" if move.adding else ""
    return PlannedChange(partition_name(*key), f"moves to {_ids(move.target)}", f"stays on {_ids(move.origin)}", note)


def _with_plan(command: str, named: Assignment) -> str:
    return f"{command} <<< {quoted(render_plan(named))}" if named else command


def _ids(node_ids: Sequence[int]) -> str:
    return ",".join(map(str, node_ids))
