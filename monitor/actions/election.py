"""Elects leaders: the preferred ones, or, at the price of records, one that is not in sync."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from highwater.common.topic_partition import TopicPartition, partition_name
from highwater.kafka.requests import elect_leaders
from highwater.kafka.requests.metadata import PartitionRow
from highwater.monitor.actions.cluster import TIMEOUT_S, ActionCluster
from highwater.monitor.actions.plan import ActionError, Outcome, Plan, PlannedChange, check_size, numbers_of, text_of
from highwater.monitor.command_line import broker_command
from highwater.monitor.model import NO_LEADER

PREFERRED: Final = "preferred"
UNCLEAN: Final = "unclean"
KINDS: Final = (PREFERRED, UNCLEAN)


def plan(cluster: ActionCluster, bootstrap: str, form: Mapping[str, str]) -> Plan:
    topic, kind = text_of(form, "topic"), form.get("kind", PREFERRED)
    numbers = numbers_of(text_of(form, "partitions"), "partition")
    if kind not in KINDS:
        raise ActionError(f"There is no election of the kind {kind!r}: it is preferred or unclean.")
    if not topic and (kind == UNCLEAN or numbers):
        raise ActionError(
            "Name the topic." if numbers else "An unclean election loses records: name the topic that may lose them."
        )
    names = [topic] if topic else [each.name for each in cluster.row.topics if not each.error_code]
    rows = {(name, row.partition): row for name in names for row in cluster.partitions(name, numbers if topic else ())}
    alive = frozenset(cluster.alive)
    made = {key: change(key, row, kind, alive) for key, row in rows.items()}
    if not topic:
        made = {key: each for key, each in made.items() if each.is_one}
    asked = [key for key, each in made.items() if each.is_one]
    where = (
        ("--all-topics",) if not topic else ("--topic", f"{topic}:{','.join(map(str, numbers))}" if numbers else topic)
    )
    which = "the preferred leaders" if kind == PREFERRED else "leaders that are not in sync"
    return Plan(
        title=f"Elect {which} of {f'topic {topic}' if topic else 'all topics'}",
        entity="topic" if topic else "cluster",
        name=topic,
        command=broker_command("elect", "-b", bootstrap, f"--{kind}", *where),
        changes=check_size(tuple(made.values())),
        fields={"topic": topic, "partitions": ",".join(map(str, numbers)), "kind": kind},
        request=(elect_leaders.PREFERRED if kind == PREFERRED else elect_leaders.UNCLEAN, asked),
        warnings=("RECORDS ARE LOST: what the new leader does not have is gone.",) if kind == UNCLEAN and asked else (),
    )


def carry_out(cluster: ActionCluster, made: Plan) -> list[Outcome]:
    kind, partitions = made.request
    answer = cluster.ask_controller(elect_leaders.elect_leaders(kind, partitions, int(TIMEOUT_S * 1000)))
    if answer.error:
        raise ActionError(f"The controller refused the election: {answer.error}.")
    return [Outcome(partition_name(*key), answer.errors.get(key, "")) for key in partitions]


def change(key: TopicPartition, row: PartitionRow, kind: str, alive: frozenset[int]) -> PlannedChange:
    """Return what the controller would decide by the metadata that brokers report."""
    before = _leader(row.leader)
    if kind == PREFERRED:
        wanted = row.replicas[0]
        if wanted in row.in_sync_replicas and wanted in alive:
            return PlannedChange(partition_name(*key), before, _leader(wanted))
        reason = "is not in sync" if wanted in alive else "is not alive"
        return PlannedChange(
            partition_name(*key), before, before, f"stays, because the preferred broker {wanted} {reason}"
        )
    if row.leader != NO_LEADER:
        return PlannedChange(partition_name(*key), before, before, "stays: it has a leader")
    candidates = [each for each in row.replicas if each in alive]
    if not candidates:
        return PlannedChange(partition_name(*key), before, before, "stays, because none of its replicas is alive")
    return PlannedChange(
        partition_name(*key), before, _leader(candidates[0]), "records that this replica lacks are lost"
    )


def _leader(node_id: int) -> str:
    return "no leader" if node_id == NO_LEADER else f"broker {node_id}"
