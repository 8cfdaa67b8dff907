"""Plans of where replicas go, in the JSON of Kafka's tool: read, checked, written, and made with few moves.

A made plan keeps what is where it may stay. Then replicas go from the brokers with most to those with least, racks are
kept apart where there are enough, and preferred leaders are spread over the replicas that there are.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from broker.commands.client import Partition

Assignment = dict[Partition, list[int]]
"""Replicas by partition, the preferred leader first."""


class MalformedPlan(ValueError):  # noqa: N818 - it names the thing found
    """A text that is no plan; says what of it."""


def parse_plan(text: str) -> Assignment:
    """Raises MalformedPlan."""
    try:
        document = json.loads(text)
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
    """All partitions on the brokers of `racks`, each with as many replicas as now. ValueError if they are too few."""
    if short := next((place for place, replicas in current.items() if len(replicas) > len(racks)), None):
        raise ValueError(
            f"{short[0]}-{short[1]} has {len(current[short])} replicas, and there are {len(racks)} brokers"
        )
    load = Counter(dict.fromkeys(racks, 0))
    planned: Assignment = {}
    for place, replicas in sorted(current.items()):
        planned[place] = [broker for broker in replicas if broker in racks]
        load.update(planned[place])
    for place, replicas in sorted(current.items()):
        while len(planned[place]) < len(replicas):
            _add(planned[place], load, racks)
    while _move_one(planned, load, racks):
        pass
    return _with_spread_leaders(planned)


def _add(replicas: list[int], load: Counter[int], racks: Mapping[int, str | None]) -> None:
    used = {racks[broker] for broker in replicas}
    chosen = min(
        (broker for broker in racks if broker not in replicas),
        key=lambda broker: (racks[broker] is not None and racks[broker] in used, load[broker], broker),
    )
    replicas.append(chosen)
    load[chosen] += 1


def _move_one(planned: Assignment, load: Counter[int], racks: Mapping[int, str | None]) -> bool:
    """Move one replica from a broker with more to one with at least two fewer, if that sets no two in one rack."""
    for receiver in sorted(racks, key=lambda broker: (load[broker], broker)):
        for giver in sorted(racks, key=lambda broker: (-load[broker], broker)):
            if load[giver] - load[receiver] < 2:
                break
            for replicas in planned.values():
                if giver in replicas and receiver not in replicas and _keeps_apart(replicas, giver, receiver, racks):
                    replicas[replicas.index(giver)] = receiver
                    load[giver] -= 1
                    load[receiver] += 1
                    return True
    return False


def _keeps_apart(replicas: Sequence[int], giver: int, receiver: int, racks: Mapping[int, str | None]) -> bool:
    rack = racks[receiver]
    return rack is None or all(racks[broker] != rack for broker in replicas if broker != giver) or racks[giver] == rack


def _with_spread_leaders(planned: Assignment) -> Assignment:
    leaders: Counter[int] = Counter()
    spread: Assignment = {}
    for place, replicas in planned.items():
        leader = min(replicas, key=lambda broker: (leaders[broker], replicas.index(broker)))
        leaders[leader] += 1
        spread[place] = [leader, *(broker for broker in replicas if broker != leader)]
    return spread
