"""Sets the committed offsets of a group without members, as Kafka's own tool does."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Final

from highwater.common.topic_partition import TopicPartition, partition_name
from highwater.kafka.requests.list_offsets import EARLIEST, LATEST
from highwater.kafka.requests.offset_fetch import offset_fetch
from highwater.monitor.actions import requests
from highwater.monitor.actions.cluster import ActionCluster
from highwater.monitor.actions.plan import ActionError, Outcome, Plan, PlannedChange, check_size, numbers_of, text_of
from highwater.monitor.command_line import broker_command
from highwater.monitor.kafka_source.groups import list_groups
from highwater.monitor.kafka_source.parts import refusal

TO_EARLIEST: Final = "earliest"
TO_LATEST: Final = "latest"
TO_OFFSET: Final = "offset"
TO_TIME: Final = "time"
SHIFT: Final = "shift"
GOALS: Final = (TO_EARLIEST, TO_LATEST, TO_OFFSET, TO_TIME, SHIFT)
_MEMBERLESS: Final = ("Empty", "Dead")
_NOTHING: Final = "no commit"
_INTEGER: Final = re.compile(r"[+-]?[0-9]{1,18}")


def plan(cluster: ActionCluster, bootstrap: str, form: Mapping[str, str]) -> Plan:
    group, topic, goal = form.get("group", ""), text_of(form, "topic"), form.get("goal", "")
    numbers = numbers_of(text_of(form, "partitions"), "partition")
    if numbers and not topic:
        raise ActionError("Name the topic of the partitions.")
    value, option = read_goal(goal, text_of(form, "value"))
    check_is_inactive(cluster, group)
    committed = commits(cluster, group)
    keys = (
        [(topic, row.partition) for row in cluster.partitions(topic, numbers)]
        if topic
        else existing(cluster, committed)
    )
    if not keys:
        raise ActionError(f"Group {group!r} has committed nothing that still exists: name a topic.")
    low, high = cluster.offsets(keys, EARLIEST), cluster.offsets(keys, LATEST)
    later = cluster.offsets(keys, value) if goal == TO_TIME else {}
    made = {
        key: target(key, goal, value, committed.get(key), (low[key], high[key]), later.get(key, -1)) for key in keys
    }
    where = (
        ("--all-topics",) if not topic else ("--topic", f"{topic}:{','.join(map(str, numbers))}" if numbers else topic)
    )
    changes = tuple(_change(key, committed.get(key), *made[key]) for key in keys)
    return Plan(
        title=f"Set the offsets of group {group}",
        entity="group",
        name=group,
        command=broker_command(
            "groups", "-b", bootstrap, "--reset-offsets", "--group", group, *where, *option, "--execute"
        ),
        changes=check_size(changes),
        fields={
            "group": group,
            "topic": topic,
            "partitions": ",".join(map(str, numbers)),
            "goal": goal,
            "value": text_of(form, "value"),
        },
        is_moving=goal in (TO_EARLIEST, TO_LATEST, TO_TIME),
        request={key: offset for key, (offset, _) in made.items() if offset != committed.get(key)},
    )


def carry_out(cluster: ActionCluster, made: Plan) -> list[Outcome]:
    offsets: Mapping[TopicPartition, int] = made.request
    answer = cluster.ask_coordinator(made.name, requests.offset_commit(made.name, offsets))
    return [Outcome(partition_name(*key), _words(answer.errors.get(key, "no answer"))) for key in offsets]


def _words(error: str) -> str:
    """A commit of nobody is refused so if somebody is there."""
    return f"the group has members again ({error})" if error.startswith("UNKNOWN_MEMBER_ID") else error


def read_goal(goal: str, text: str) -> tuple[int, tuple[str, ...]]:
    """The number of the goal (an offset, Unix time in ms, a distance), and the options of the command."""
    if goal in (TO_EARLIEST, TO_LATEST):
        return 0, (f"--to-{goal}",)
    if goal == TO_TIME:
        return time_ms(text), ("--to-datetime", text)
    if goal not in (TO_OFFSET, SHIFT):
        raise ActionError(f"Say where to: one of {', '.join(GOALS)}.")
    if not _INTEGER.fullmatch(text) or (goal == TO_OFFSET and int(text) < 0):
        what = "an offset, from 0 on" if goal == TO_OFFSET else "a number of records, such as -100"
        raise ActionError(f"{text!r} is not {what}.")
    return int(text), ("--to-offset" if goal == TO_OFFSET else "--shift-by", str(int(text)))


def time_ms(text: str) -> int:
    try:
        moment = datetime.fromisoformat(text)
        moment = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
        return (moment - datetime.fromtimestamp(0, UTC)) // timedelta(milliseconds=1)
    except (ValueError, OverflowError):
        raise ActionError(f"{text!r} is not a time: write it as 2026-01-31T12:00:00, in UTC.") from None


def check_is_inactive(cluster: ActionCluster, group: str) -> None:
    listed = cluster.ask_at(cluster.coordinator(group), list_groups())
    if listed.error_code:
        raise ActionError(f"The coordinator does not list its groups: {refusal(listed.error_code)}.")
    found = next((each for each in listed.groups if each.name == group), None)
    if found is None:
        raise ActionError(f"There is no group {group!r} of consumers.")
    if found.state not in _MEMBERLESS:
        raise ActionError(
            f"Group {group!r} is in use (its state is {found.state or 'not known'}): offsets can be set when it has no "
            "members. Stop its consumers first."
        )


def commits(cluster: ActionCluster, group: str) -> dict[TopicPartition, int]:
    found = cluster.ask_at(cluster.coordinator(group), offset_fetch([group]))[group]
    if found.error_code:
        raise ActionError(f"The commits of group {group!r} are not known: {refusal(found.error_code)}.")
    return {key: offset for key, (offset, _) in found.offsets.items()}


def existing(cluster: ActionCluster, committed: Mapping[TopicPartition, int]) -> list[TopicPartition]:
    """A group may have commits of topics that were deleted."""
    there = {(topic.name, row.partition) for topic in cluster.row.topics for row in topic.partitions}
    return [key for key in sorted(committed) if key in there]


def target(
    key: TopicPartition, goal: str, value: int, committed: int | None, log: Sequence[int], later: int
) -> tuple[int, str]:
    """The new offset, and a note if it is not what was asked for. `log`: the first offset, and the end."""
    low, high = log
    wanted = {TO_EARLIEST: low, TO_LATEST: high, TO_OFFSET: value}.get(goal)
    note = ""
    if goal == TO_TIME:
        wanted = later if later >= 0 else high
        note = "" if later >= 0 else "no record is as late: the end of the log"
    if wanted is None:
        if committed is None:
            raise ActionError(f"{partition_name(*key)}: the group has committed nothing there from which to shift.")
        wanted = committed + value
    nearest = min(max(wanted, low), high)
    return (
        nearest,
        note
        if nearest == wanted
        else f"{wanted} is not between {low} and {high}, where the log begins and ends: the nearer one is taken",
    )


def _change(key: TopicPartition, committed: int | None, offset: int, note: str) -> PlannedChange:
    return PlannedChange(partition_name(*key), _NOTHING if committed is None else str(committed), str(offset), note)
