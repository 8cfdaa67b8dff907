"""Reassignment plans in the JSON of Kafka's tool: parsed, checked, written, computed with few moves.

A computed plan leaves replicas where they may stay. It then moves replicas from the brokers with most to those with
least, first within each topic, then in total. Replicas of a partition are in different racks when there are enough
racks. Preferred leaders are spread over the existing replicas.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from highwater.common.topic_partition import TopicPartition, partition_name
from highwater.common.typed_json import parse_json

Assignment = dict[TopicPartition, list[int]]
"""Replicas by partition, the preferred leader first."""


class MalformedPlan(ValueError):  # noqa: N818 - it names the thing found
    """The text is not a plan; the message says why."""


def parse_plan(text: str) -> Assignment:
    """Raises MalformedPlan."""
    try:
        document = parse_json(text)
    except ValueError as error:
        raise MalformedPlan(f"not JSON: {error}") from None
    entries = document.get("partitions") if isinstance(document, dict) and document.get("version") == 1 else None
    if not isinstance(entries, list):
        raise MalformedPlan('expected {"version": 1, "partitions": [{"topic": …, "partition": …, "replicas": […]}, …]}')
    plan: Assignment = {}
    for entry in entries:
        topic, partition, replicas = _fields(entry)
        if (topic, partition) in plan:
            raise MalformedPlan(f"{topic}-{partition} is there twice")
        if not replicas or len(set(replicas)) < len(replicas):
            raise MalformedPlan(f"{topic}-{partition}: the replicas {replicas} are none, or name a broker twice")
        plan[topic, partition] = replicas
    if not plan:
        raise MalformedPlan("it names no partitions")
    return plan


def _fields(entry: Any) -> tuple[str, int, list[int]]:
    try:
        topic, partition, replicas = entry["topic"], entry["partition"], entry["replicas"]
    except (KeyError, TypeError):
        raise MalformedPlan(f"{json.dumps(entry)} lacks topic, partition or replicas") from None
    numbers = [partition, *replicas] if isinstance(replicas, list) else [None]
    if not isinstance(topic, str) or not all(
        isinstance(n, int) and not isinstance(n, bool) and n >= 0 for n in numbers
    ):
        raise MalformedPlan(f"{json.dumps(entry)}: a topic's name, a partition and broker ids are expected")
    if any(directory != "any" for directory in entry.get("log_dirs", ())):
        raise MalformedPlan(
            f"{topic}-{partition}: log_dirs are moved by AlterReplicaLogDirs, not here; say any or nothing"
        )
    return topic, partition, replicas


def render_plan(assignment: Assignment) -> str:
    return json.dumps(
        {
            "version": 1,
            "partitions": [
                {"topic": topic, "partition": partition, "replicas": replicas}
                for (topic, partition), replicas in sorted(assignment.items())
            ],
        }
    )


def make_plan(current: Assignment, racks: Mapping[int, str | None]) -> Assignment:
    """Place all partitions on the brokers of `racks`, each with as many replicas as now.

    Each topic is spread evenly, and so is the total: a new broker gets its share of every topic, not just of the
    largest. Replicas and leaders that may stay do stay. Raises ValueError when there are too few brokers.
    """
    if short := next((place for place, replicas in current.items() if len(replicas) > len(racks)), None):
        raise ValueError(
            f"{partition_name(*short)} has {len(current[short])} replicas, and there are {len(racks)} brokers"
        )
    planned = {place: _staying(replicas, racks) for place, replicas in sorted(current.items())}
    replicas_held = _Loads((topic, broker) for (topic, _), replicas in planned.items() for broker in replicas)
    for place, replicas in planned.items():
        while len(replicas) < len(current[place]):
            _add(place[0], replicas, replicas_held, racks)
    partitions: defaultdict[str, list[list[int]]] = defaultdict(list)
    for (topic, _), replicas in planned.items():
        partitions[topic].append(replicas)

    def move_replica(topic: str, giver: int, receiver: int) -> bool:
        for replicas in partitions[topic]:
            if giver in replicas and receiver not in replicas and _keeps_apart(replicas, giver, receiver, racks):
                replicas[replicas.index(giver)] = receiver
                return True
        return False

    def move_leader(topic: str, giver: int, receiver: int) -> bool:
        for replicas in partitions[topic]:
            if replicas[0] == giver and receiver in replicas:
                replicas.remove(receiver)
                replicas.insert(0, receiver)
                return True
        return False

    _even_out(replicas_held, sorted(racks), move_replica)
    leaders = _Loads((topic, replicas[0]) for (topic, _), replicas in planned.items())
    _even_out(leaders, sorted(racks), move_leader)
    return planned


def _staying(replicas: Sequence[int], racks: Mapping[int, str | None]) -> list[int]:
    """Those on brokers of `racks`, without a second one of a rack while another rack could have it."""
    there = [broker for broker in replicas if broker in racks]
    if None in racks.values() or len(set(racks.values())) < len(replicas):
        return there
    return [broker for at, broker in enumerate(there) if racks[broker] not in {racks[each] for each in there[:at]}]


class _Loads:
    """The number of replicas or leaders per broker, by topic and in total."""

    def __init__(self, held: Iterable[TopicPartition]) -> None:
        self.of_topics: defaultdict[str, Counter[int]] = defaultdict(Counter)
        self.total: Counter[int] = Counter()
        for topic, broker in held:
            self.add(topic, broker, 1)

    def add(self, topic: str, broker: int, count: int) -> None:
        self.of_topics[topic][broker] += count
        self.total[broker] += count


def _even_out(loads: _Loads, brokers: Sequence[int], move: Callable[[str, int, int], bool]) -> None:
    """Move one at a time from a broker with more to a broker with less, within each topic and then in total.

    It ends: a move of the first kind makes a topic more even; one of the second kind makes the total more even and no
    topic less even.
    """

    def moved(topic: str, giver: int, receiver: int) -> bool:
        if not move(topic, giver, receiver):
            return False
        loads.add(topic, giver, -1)
        loads.add(topic, receiver, 1)
        return True

    def evened_topics() -> bool:
        count = 0
        for topic, load in loads.of_topics.items():
            while any(
                moved(topic, giver, receiver)
                for giver, receiver in _uneven({broker: (load[broker], loads.total[broker]) for broker in brokers})
                if load[giver] - load[receiver] >= 2
            ):
                count += 1
        return count > 0

    def evened_the_whole() -> bool:
        count = 0
        while any(
            moved(topic, giver, receiver)
            for giver, receiver in _uneven({broker: (loads.total[broker], 0) for broker in brokers})
            if loads.total[giver] - loads.total[receiver] >= 2
            for topic, load in loads.of_topics.items()
            if load[giver] > load[receiver]
        ):
            count += 1
        return count > 0

    # A move of leadership in a topic may make another one possible in the same topic.
    while evened_topics() or evened_the_whole():
        pass


def _uneven(loads: Mapping[int, tuple[int, int]]) -> list[tuple[int, int]]:
    """Return pairs of brokers (from, to), those with the largest difference first."""
    by_load = sorted(loads, key=lambda broker: loads[broker])
    return [(giver, receiver) for receiver in by_load for giver in reversed(by_load) if giver != receiver]


def _add(topic: str, replicas: list[int], loads: _Loads, racks: Mapping[int, str | None]) -> None:
    used = {racks[broker] for broker in replicas}
    load = loads.of_topics[topic]
    chosen = min(
        (broker for broker in racks if broker not in replicas),
        key=lambda broker: (
            racks[broker] is not None and racks[broker] in used,
            load[broker],
            loads.total[broker],
            broker,
        ),
    )
    replicas.append(chosen)
    loads.add(topic, chosen, 1)


def _keeps_apart(replicas: Sequence[int], giver: int, receiver: int, racks: Mapping[int, str | None]) -> bool:
    rack = racks[receiver]
    return rack is None or all(racks[broker] != rack for broker in replicas if broker != giver) or racks[giver] == rack
