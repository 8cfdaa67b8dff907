"""`highwater broker reassign`: moves replicas to other brokers, throttled, and reports progress."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any, Final, NamedTuple

import typer
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)
from kio.schema.errors import ErrorCode

from highwater.broker.commands.client import (
    DEFAULT_BOOTSTRAP,
    REQUEST_TIMEOUT_S,
    BootstrapOption,
    Cluster,
    CommandConfigOption,
    Partition,
    only_action,
    refuse_options,
    result_of,
)
from highwater.broker.commands.reassignment_plan import Assignment, MalformedPlan, make_plan, parse_plan, render_plan
from highwater.broker.commands.terminal import (
    CommandError,
    JsonOption,
    UsageError,
    print_json,
    print_table,
    reporting,
    say,
)
from highwater.broker.commands.wire import ask_controller

_BROKER_RATES: Final = ("leader.replication.throttled.rate", "follower.replication.throttled.rate")
_LEADER_REPLICAS: Final = "leader.replication.throttled.replicas"
_FOLLOWER_REPLICAS: Final = "follower.replication.throttled.replicas"
_LOOK_S: Final = 1.0


def reassign(
    bootstrap_server: BootstrapOption = DEFAULT_BOOTSTRAP,
    generate: Annotated[
        bool, typer.Option("--generate", help="Print a plan that spreads topics over --brokers with few moves.")
    ] = False,
    execute: Annotated[Path | None, typer.Option("--execute", metavar="PLAN", help="Begin what a plan says.")] = None,
    verify: Annotated[
        Path | None,
        typer.Option("--verify", metavar="PLAN", help="How far it is; when all is done, takes the throttle back."),
    ] = None,
    cancel: Annotated[
        Path | None, typer.Option("--cancel", metavar="PLAN", help="Go back to where the replicas were.")
    ] = None,
    list_: Annotated[bool, typer.Option("--list", help="What is on the move now.")] = False,
    balance: Annotated[
        bool,
        typer.Option(
            "--balance", help="Plan as --generate does, move, wait until all is there, take the throttle back."
        ),
    ] = False,
    topic: Annotated[
        list[str] | None, typer.Option("--topic", help="A topic to plan for; may be repeated.", show_default="all")
    ] = None,
    brokers: Annotated[
        str | None, typer.Option("--brokers", metavar="ID,...", help="Where replicas may be.", show_default="all")
    ] = None,
    without_broker: Annotated[
        list[int] | None,
        typer.Option("--without-broker", metavar="ID", help="Plan to empty this one; may be repeated."),
    ] = None,
    throttle: Annotated[
        int | None,
        typer.Option("--throttle", min=1, metavar="BYTES", help="The most that moving may take, a second and broker."),
    ] = None,
    timeout_s: Annotated[
        int, typer.Option("--timeout", min=1, metavar="SECONDS", help="With --balance: how long to wait.")
    ] = 86_400,
    command_config: CommandConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Move replicas between brokers while they serve. A plan is a file of Kafka's format, or - for standard input.

    --balance may be stopped: the cluster moves on by itself, and asked again it goes on where that is.

    Exit code: 0 done, 1 the cluster said no, or (--verify, --balance) something is still on the move, 2 wrong usage.
    """
    with reporting():
        action = only_action(
            {
                "--generate": generate,
                "--execute": execute is not None,
                "--verify": verify is not None,
                "--cancel": cancel is not None,
                "--list": list_,
                "--balance": balance,
            }
        )
        is_planned = generate or balance
        refuse_options(
            action,
            {
                "--topic": bool(topic) and not is_planned,
                "--brokers": brokers is not None and not is_planned,
                "--without-broker": bool(without_broker) and not is_planned,
                "--throttle": throttle is not None and execute is None and not balance,
            },
        )
        if balance:
            choice = _Choice(topic, brokers, without_broker or [])
            _balance(bootstrap_server, command_config, choice, throttle, timeout_s, as_json)
            return
        cluster = Cluster(bootstrap_server, command_config)
        if generate:
            _generate(cluster, _Choice(topic, brokers, without_broker or []))
        elif execute is not None:
            _execute(cluster, _read_plan(execute), throttle, as_json)
        elif verify is not None:
            _verify(cluster, _read_plan(verify), as_json)
        elif cancel is not None:
            _cancel(cluster, _read_plan(cancel), as_json)
        else:
            _list(cluster, as_json)


def _read_plan(path: Path) -> Assignment:
    try:
        text = sys.stdin.read() if str(path) == "-" else path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: {getattr(error, 'strerror', None) or error}") from None
    try:
        return parse_plan(text)
    except MalformedPlan as error:
        raise UsageError(f"{path}: {error}") from None


def _current(cluster: Cluster, topics: Iterable[str]) -> Assignment:
    current: Assignment = {}
    for name in topics:
        cluster.require_topic(name)
        for index, partition in cluster.metadata.topics[name].partitions.items():
            current[name, index] = list(partition.replicas)
    return current


# Planning


class _Choice(NamedTuple):
    """What a plan is to be made of."""

    topics: list[str] | None
    brokers: str | None
    without: list[int]


def _generate(cluster: Cluster, choice: _Choice) -> None:
    # One that is dead can be emptied too, as long as some partition has it among its replicas.
    known = set(cluster.metadata.brokers).union(*_current(cluster, cluster.topic_names).values())
    if strangers := [broker for broker in choice.without if broker not in known]:
        raise UsageError(f"--without-broker {strangers[0]}: there is no such broker; there are {sorted(known)}")
    moved = _planned(cluster, choice)
    if not moved:
        raise CommandError("nothing needs to move")
    say(render_plan(moved))


def _planned(cluster: Cluster, choice: _Choice) -> Assignment:
    """The partitions that are to be elsewhere, and where."""
    described = result_of("cluster", cluster.admin.describe_cluster(request_timeout=REQUEST_TIMEOUT_S))
    racks = {int(node.id): node.rack for node in described.nodes}
    wanted = _broker_ids(choice.brokers, racks) if choice.brokers is not None else set(racks)
    chosen = {broker: rack for broker, rack in racks.items() if broker in wanted and broker not in choice.without}
    if any(rack is None for rack in chosen.values()):
        chosen = dict.fromkeys(chosen)
    current = _current(cluster, cluster.topic_names if choice.topics is None else choice.topics)
    # What is on the move has more copies for a while.
    current |= {place: replicas for place, replicas in _targets(cluster).items() if place in current}
    try:
        planned = make_plan(current, chosen)
    except ValueError as error:
        raise CommandError(str(error)) from None
    return {place: replicas for place, replicas in planned.items() if replicas != current[place]}


def _broker_ids(text: str, known: Iterable[int]) -> set[int]:
    ids = set()
    for part in text.split(","):
        if not part.strip().isdecimal():
            raise UsageError(f"--brokers {text}: broker ids with commas between them")
        ids.add(int(part))
    if strangers := sorted(ids - set(known)):
        raise UsageError(f"--brokers {text}: there is no broker {strangers[0]}; there are {sorted(known)}")
    return ids


# Moving


def _balance(
    bootstrap_server: str,
    command_config: Path | None,
    choice: _Choice,
    throttle: int | None,
    timeout_s: int,
    as_json: bool,
) -> None:
    """Keeps nothing between two runs: the cluster tells what is on the move, and what is left is planned anew."""
    deadline = time.monotonic() + timeout_s
    begun: set[Partition] = set()
    targets: Assignment = {}
    waited_for = 0
    while True:
        cluster = Cluster(bootstrap_server, command_config)
        on_their_way = _targets(cluster)
        targets |= on_their_way
        moving = set(on_their_way) | _untold(cluster, targets)
        if not moving:
            plan = _planned(cluster, choice)
            if not plan:
                break
            _begin(cluster, plan, throttle)
            targets |= plan
            moving = set(plan)
            begun |= moving
        if time.monotonic() >= deadline:
            places = ", ".join(f"{topic}-{index}" for topic, index in sorted(moving)[:3])
            raise CommandError(
                f"{len(moving)} partitions are still on the move after {timeout_s} s, such as {places}; they go on by "
                "themselves: ask again, or see --list"
            )
        if len(moving) != waited_for:
            waited_for = len(moving)
            typer.echo(f"{waited_for} partitions are on the move", err=True)
        time.sleep(_LOOK_S)
    if throttle is not None:
        _take_throttle_back(cluster, _throttled_topics(cluster))
    if as_json:
        print_json({"moved": [{"topic": topic, "partition": partition} for topic, partition in sorted(begun)]})
    else:
        say(f"Moved {len(begun)} partitions." if begun or waited_for else "Nothing needed to move.")


def _execute(cluster: Cluster, plan: Assignment, throttle: int | None, as_json: bool) -> None:
    before = _begin(cluster, plan, throttle)
    rollback = {place: before[place] for place in plan}
    if as_json:
        print_json({"started": len(plan), "before": [_entry(place, before[place]) for place in sorted(rollback)]})
        return
    say(f"Started to move {len(plan)} partitions. Where they were, to go back:")
    say(render_plan(rollback))
    say("See how far it is, and take a throttle back, with --verify.")


def _begin(cluster: Cluster, plan: Assignment, throttle: int | None) -> Assignment:
    """Where the replicas were before."""
    _check_known(cluster, plan)
    before = _current(cluster, sorted({topic for topic, _ in plan}))
    if throttle is not None:
        _throttle(cluster, plan, before, throttle)
    _alter(cluster, {place: list(replicas) for place, replicas in plan.items()})
    return before


def _check_known(cluster: Cluster, plan: Assignment) -> None:
    """Kafka's controller takes what it is told of partitions one by one: better nothing than a half of a plan."""
    alive = set(cluster.metadata.brokers)
    for (topic, partition), replicas in sorted(plan.items()):
        if partition not in cluster.partitions_of(topic):
            raise CommandError(f"topic {topic} has no partition {partition}")
        if strangers := [broker for broker in replicas if broker not in alive]:
            raise CommandError(f"{topic}-{partition}: there is no broker {strangers[0]}; there are {sorted(alive)}")


def _alter(cluster: Cluster, replicas: dict[Partition, list[int] | None]) -> None:
    topics: dict[str, list[dict[str, Any]]] = {}
    for (topic, partition), wanted in sorted(replicas.items()):
        topics.setdefault(topic, []).append({"partition_index": partition, "replicas": wanted})
    answer = ask_controller(
        cluster,
        "alter_partition_reassignments",
        0,
        timeout=REQUEST_TIMEOUT_S * 1000,
        topics=[{"name": topic, "partitions": partitions} for topic, partitions in topics.items()],
    )
    _refuse(answer.error_code, answer.error_message, "reassignment")
    for topic in answer.responses:
        for partition in topic.partitions:
            _refuse(partition.error_code, partition.error_message, f"{topic.name}-{partition.partition_index}")


def _refuse(error_code: ErrorCode, message: str | None, what: str) -> None:
    if error_code is not ErrorCode.none:
        raise CommandError(f"{what}: {message or error_code.name} ({error_code.name.upper()})")


def _moving(cluster: Cluster) -> dict[Partition, Any]:
    answer = ask_controller(cluster, "list_partition_reassignments", 0, timeout=REQUEST_TIMEOUT_S * 1000, topics=None)
    _refuse(answer.error_code, answer.error_message, "reassignments")
    return {
        (topic.name, partition.partition_index): partition for topic in answer.topics for partition in topic.partitions
    }


def _targets(cluster: Cluster) -> Assignment:
    """Where partitions that are on the move will be."""
    return {
        place: [broker for broker in entry.replicas if broker not in entry.removing_replicas]
        for place, entry in _moving(cluster).items()
    }


def _untold(cluster: Cluster, targets: Assignment) -> set[Partition]:
    """Partitions that have arrived, and of which the broker that was asked still tells the copies of the way there.

    The controller knows first. Whoever plans by what that broker says makes the additional copies permanent.
    """
    told = cluster.metadata.topics
    return {
        (topic, index)
        for (topic, index), replicas in targets.items()
        if topic in told
        and index in told[topic].partitions
        and set(told[topic].partitions[index].replicas) > set(replicas)
    }


def _cancel(cluster: Cluster, plan: Assignment, as_json: bool) -> None:
    moving = [place for place in _moving(cluster) if place in plan]
    if moving:
        _alter(cluster, dict.fromkeys(moving))
    _take_throttle_back(cluster, {topic for topic, _ in plan})
    if as_json:
        print_json({"cancelled": [{"topic": topic, "partition": partition} for topic, partition in sorted(moving)]})
    else:
        say(f"Cancelled the moves of {len(moving)} partitions.")


def _verify(cluster: Cluster, plan: Assignment, as_json: bool) -> None:
    moving = _moving(cluster)
    current = _current(cluster, sorted({topic for topic, _ in plan}))
    states = {
        place: "moving" if place in moving else "done" if current.get(place) == replicas else "elsewhere"
        for place, replicas in plan.items()
    }
    is_over = "moving" not in states.values()
    if is_over:
        _take_throttle_back(cluster, {topic for topic, _ in plan})
    if as_json:
        print_json([_entry(place, current.get(place, [])) | {"state": states[place]} for place in sorted(plan)])
    else:
        rows = [(f"{topic}-{index}", _ids(plan[topic, index]), states[topic, index]) for topic, index in sorted(plan)]
        print_table(("Partition", "Replicas", "State"), rows)
    if not is_over or "elsewhere" in states.values():
        raise typer.Exit(1)


def _list(cluster: Cluster, as_json: bool) -> None:
    moving = sorted(_moving(cluster).items())
    if as_json:
        print_json(
            [
                _entry(place, list(entry.replicas))
                | {"adding": list(entry.adding_replicas), "removing": list(entry.removing_replicas)}
                for place, entry in moving
            ]
        )
    elif not moving:
        say("Nothing is on the move.")
    else:
        print_table(
            ("Partition", "Replicas", "Adding", "Removing"),
            [
                (f"{topic}-{index}", _ids(entry.replicas), _ids(entry.adding_replicas), _ids(entry.removing_replicas))
                for (topic, index), entry in moving
            ],
        )


def _entry(place: Partition, replicas: list[int]) -> dict[str, Any]:
    return {"topic": place[0], "partition": place[1], "replicas": replicas}


def _ids(brokers: Iterable[int]) -> str:
    return ",".join(map(str, brokers)) or "-"


# The throttle: which replicas, by topic, and how much, by broker (KIP-73)


def _throttle(cluster: Cluster, plan: Assignment, before: Assignment, rate: int) -> None:
    leaders: dict[str, list[str]] = {}
    followers: dict[str, list[str]] = {}
    involved: set[int] = set()
    for (topic, partition), replicas in sorted(plan.items()):
        present = before[topic, partition]
        leaders.setdefault(topic, []).extend(f"{partition}:{broker}" for broker in present)
        followers.setdefault(topic, []).extend(f"{partition}:{broker}" for broker in replicas if broker not in present)
        involved |= {*present, *replicas}
    settings = {
        (ResourceType.TOPIC, topic): {
            _LEADER_REPLICAS: ",".join(leaders[topic]),
            _FOLLOWER_REPLICAS: ",".join(followers[topic]),
        }
        for topic in leaders
    }
    # One that is gone moves nothing, and could not be told.
    there = involved & cluster.brokers_that_listen()
    brokers = {(ResourceType.BROKER, str(broker)): dict.fromkeys(_BROKER_RATES, str(rate)) for broker in there}
    _set(cluster, settings | brokers)


def _throttled_topics(cluster: Cluster) -> set[str]:
    """Those that have replicas with a throttle, whoever set it."""
    resources = [ConfigResource(ResourceType.TOPIC, name) for name in cluster.topic_names]
    if not resources:
        return set()
    futures = cluster.admin.describe_configs(resources, request_timeout=REQUEST_TIMEOUT_S)
    settings = {resource.name: result_of(f"topic {resource.name}", future) for resource, future in futures.items()}
    return {
        name
        for name, values in settings.items()
        if any(key in values and values[key].value for key in (_LEADER_REPLICAS, _FOLLOWER_REPLICAS))
    }


def _take_throttle_back(cluster: Cluster, of_topics: Iterable[str]) -> None:
    topics = [topic for topic in of_topics if topic in cluster.metadata.topics]
    settings: dict[tuple[Any, str], dict[str, str | None]] = {
        (ResourceType.TOPIC, topic): dict.fromkeys((_LEADER_REPLICAS, _FOLLOWER_REPLICAS)) for topic in topics
    }
    # What one that is gone keeps limits nothing: a rate is for throttled replicas.
    for broker in cluster.brokers_that_listen():
        settings[ResourceType.BROKER, str(broker)] = dict.fromkeys(_BROKER_RATES)
    _set(cluster, settings)


def _set(cluster: Cluster, settings: Any) -> None:
    resources = [
        ConfigResource(
            kind,
            name,
            incremental_configs=[
                ConfigEntry(
                    key,
                    value,
                    incremental_operation=AlterConfigOpType.DELETE if value is None else AlterConfigOpType.SET,
                )
                for key, value in values.items()
            ],
        )
        for (kind, name), values in settings.items()
    ]
    topics = [resource for resource in resources if resource.restype is ResourceType.TOPIC]
    # librdkafka takes one broker at a time: each is asked itself.
    for group in ([topics] if topics else []) + [[each] for each in resources if each not in topics]:
        futures: Any = cluster.admin.incremental_alter_configs(group, request_timeout=REQUEST_TIMEOUT_S)
        for resource, future in futures.items():
            result_of(f"the throttle of {resource.name}", future)
