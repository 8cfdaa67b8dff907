"""Moves replicas of a topic to brokers that are named, or spreads them with few moves; throttled."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from highwater.admin.reassignment_plan import make_plan, render_plan
from highwater.common.topic_partition import TopicPartition, partition_name
from highwater.kafka.requests.alter_partition_reassignments import alter_partition_reassignments
from highwater.kafka.requests.metadata import BrokerRow, PartitionRow
from highwater.monitor.actions import throttle
from highwater.monitor.actions.cluster import TIMEOUT_S, ActionCluster
from highwater.monitor.actions.plan import ActionError, Outcome, Plan, PlannedChange, check_size, numbers_of, text_of
from highwater.monitor.actions.throttle import ReplicationThrottle
from highwater.monitor.command_line import broker_command, quoted

_EXAMPLE: Final = "write a line for each partition, such as 0: 1,2"


def plan(cluster: ActionCluster, bootstrap: str, form: Mapping[str, str]) -> Plan:
    topic = text_of(form, "topic")
    if not topic:
        raise ActionError("Name the topic.")
    lines = text_of(form, "replicas")
    rows = {row.partition: row for row in cluster.partitions(topic, ())}
    wanted = (
        named(lines) if lines else spread(rows, cluster.row.brokers, numbers_of(text_of(form, "brokers"), "broker"))
    )
    check(topic, wanted, rows, cluster.alive)
    moved = {
        (topic, number): replicas
        for number, replicas in sorted(wanted.items())
        if replicas != list(rows[number].replicas)
    }
    rate = throttle.rate_of(text_of(form, "throttle"))
    current = {(topic, number): row.replicas for number, row in rows.items()}
    limits = ReplicationThrottle() if rate is None or not moved else throttle.to_set(cluster, rate, moved, current)
    changes = tuple(_change(key, rows[key[1]], replicas) for key, replicas in moved.items())
    option = () if rate is None else ("--throttle", str(rate))
    is_running = bool(moved) and bool(cluster.moves())
    more = ("--additional",) if is_running else ()
    lines_of = f" <<< {quoted(render_plan(moved))}" if moved else ""
    return Plan(
        title=f"Move replicas of topic {topic}",
        entity="topic",
        name=topic,
        command=broker_command("reassign", "-b", bootstrap, "--execute", "-", *option) + lines_of,
        kafka_command=kafka_reassign(bootstrap, "--execute", *more, *option) + lines_of,
        changes=check_size((*changes, *limits.changes)),
        # What was planned, and not the wish to plan: a broker that comes meanwhile must not change what is confirmed.
        fields={
            "topic": topic,
            "replicas": "\n".join(f"{number}: {_ids(each)}" for (_, number), each in moved.items()),
            "throttle": "" if rate is None else str(rate),
        },
        request=(moved, limits),
        warnings=_warnings(rate) if moved else (),
    )


def carry_out(cluster: ActionCluster, made: Plan) -> list[Outcome]:
    moved: Mapping[TopicPartition, Sequence[int]]
    limits: ReplicationThrottle
    moved, limits = made.request
    # The throttle first: a move that has begun takes all that there is.
    throttle.apply(cluster, limits)
    try:
        outcomes = alter(cluster, moved)
    except ActionError as error:
        raise ActionError(f"{str(error).rstrip('.')}{_undone(cluster, limits)}.") from None
    if limits.wanted and all(each.error for each in outcomes):
        throttle.take_back(cluster, limits)
    return outcomes


def _undone(cluster: ActionCluster, limits: ReplicationThrottle) -> str:
    """Whether a controller whose answer is missing has begun is not known: then the throttle has to stay."""
    if not limits.wanted:
        return ""
    try:
        is_moving = bool(cluster.moves())
    except ActionError:
        return ", and the throttle stays, as it is not known whether something moves"
    return ", and the throttle stays, as something moves" if is_moving else throttle.take_back(cluster, limits)


def alter(cluster: ActionCluster, wanted: Mapping[TopicPartition, Sequence[int] | None]) -> list[Outcome]:
    answer = cluster.ask_controller(alter_partition_reassignments(wanted, int(TIMEOUT_S * 1000)))
    if answer.error:
        raise ActionError(f"The controller refused the reassignment: {answer.error}.")
    return [
        Outcome(partition_name(*key), answer.errors.get(key, "the controller did not mention it")) for key in wanted
    ]


def kafka_reassign(bootstrap: str, *words: str) -> str:
    """Kafka's own tool, which reads its plan from the text that follows `<<<`."""
    base = ("kafka-reassign-partitions.sh", "--bootstrap-server", bootstrap)
    return " ".join(map(quoted, (*base, "--reassignment-json-file", "/dev/stdin", *words)))


def _warnings(rate: int | None) -> tuple[str, ...]:
    if rate is None:
        return ("The moves have no throttle: they take what disks and network give.",)
    return (
        "A throttle must be higher than what is produced to these partitions, or the moves never end.",
        "It stays until somebody removes it: check the moves when they are done.",
    )


def named(lines: str) -> dict[int, list[int]]:
    """`0: 1,2` for each partition."""
    found: dict[int, list[int]] = {}
    for line in lines.splitlines():
        if not line.strip():
            continue
        number, colon, brokers = line.partition(":")
        numbers = numbers_of(number.strip(), "partition")
        if not colon or len(numbers) != 1:
            raise ActionError(f"{line.strip()!r} is not understood: {_EXAMPLE}.")
        if numbers[0] in found:
            raise ActionError(f"Partition {numbers[0]} is there twice.")
        found[numbers[0]] = numbers_of(brokers.strip(), "broker")
    return found


def spread(
    rows: Mapping[int, PartitionRow], brokers: Sequence[BrokerRow], chosen: Sequence[int]
) -> dict[int, list[int]]:
    """Return replicas as `reassign --generate` spreads them: over all live brokers, or over those of `chosen`."""
    racks: dict[int, str | None] = {each.node_id: each.rack or None for each in brokers}
    if strange := [each for each in chosen if each not in racks]:
        raise ActionError(f"There is no broker {strange[0]} now; there are {_ids(sorted(racks))}.")
    if chosen:
        racks = {each: racks[each] for each in chosen}
    if None in racks.values():
        racks = dict.fromkeys(racks)
    current = {("", number): list(row.replicas) for number, row in rows.items()}
    try:
        planned = make_plan(current, racks)
    except ValueError:
        most = max(len(row.replicas) for row in rows.values())
        raise ActionError(f"A partition has {most} replicas, and these are {len(racks)} brokers: name more.") from None
    return {number: replicas for (_, number), replicas in planned.items()}


def check(
    topic: str, wanted: Mapping[int, Sequence[int]], rows: Mapping[int, PartitionRow], alive: Sequence[int]
) -> None:
    """Before anything is asked: a controller would carry out the rest of a plan of which it refuses a part."""
    for number, replicas in wanted.items():
        if number not in rows:
            raise ActionError(f"Topic {topic} has no partition {number}; it has {len(rows)}, from 0 on.")
        if not replicas:
            raise ActionError(f"Partition {number} would have no replica: {_EXAMPLE}.")
        if strange := [each for each in replicas if each not in alive]:
            raise ActionError(f"There is no broker {strange[0]} now; there are {_ids(alive)}.")


def _change(key: TopicPartition, row: PartitionRow, replicas: Sequence[int]) -> PlannedChange:
    added = [each for each in replicas if each not in row.replicas]
    note = f"{_ids(added)} copies it" if added else "no data are copied"
    return PlannedChange(partition_name(*key), _ids(row.replicas), _ids(replicas), note)


def _ids(node_ids: Sequence[int]) -> str:
    return ",".join(map(str, node_ids))
