"""`highwater broker reassign`: moves replicas to other brokers, throttled, and reports progress."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, Final, NamedTuple

import typer
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)

from highwater.admin.client import (
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
from highwater.admin.reassignment_plan import Assignment, MalformedPlan, make_plan, parse_plan, render_plan
from highwater.admin.replication_throttle import RATES, REPLICAS, throttled_replicas
from highwater.admin.terminal import (
    CommandError,
    JsonOption,
    UsageError,
    print_json,
    print_table,
    reporting,
    say,
)
from highwater.admin.wire import ask_controller
from highwater.common.topic_partition import partition_name
from highwater.kafka.requests.alter_partition_reassignments import alter_partition_reassignments
from highwater.kafka.requests.list_partition_reassignments import Move, list_partition_reassignments

_LOOK_S: Final = 1.0


def reassign(
    bootstrap_server: BootstrapOption = DEFAULT_BOOTSTRAP,
    generate: Annotated[
        bool, typer.Option("--generate", help="Print a plan that spreads topics evenly over --brokers with few moves.")
    ] = False,
    execute: Annotated[
        Path | None, typer.Option("--execute", metavar="PLAN", help="Start the moves of a plan.")
    ] = None,
    verify: Annotated[
        Path | None,
        typer.Option(
            "--verify",
            metavar="PLAN",
            help="Show the progress of a plan; when all moves are done, remove the throttle.",
        ),
    ] = None,
    cancel: Annotated[
        Path | None, typer.Option("--cancel", metavar="PLAN", help="Cancel the moves of a plan that are not done.")
    ] = None,
    list_: Annotated[bool, typer.Option("--list", help="List the moves in progress.")] = False,
    balance: Annotated[
        bool,
        typer.Option(
            "--balance", help="Plan as --generate does, move, wait until all moves are done, remove the throttle."
        ),
    ] = False,
    topic: Annotated[
        list[str] | None, typer.Option("--topic", help="A topic to plan for; may be repeated.", show_default="all")
    ] = None,
    brokers: Annotated[
        str | None,
        typer.Option("--brokers", metavar="ID,...", help="Brokers that may have replicas.", show_default="all"),
    ] = None,
    without_broker: Annotated[
        list[int] | None,
        typer.Option("--without-broker", metavar="ID", help="Broker that gets no replicas; may be repeated."),
    ] = None,
    throttle: Annotated[
        int | None,
        typer.Option(
            "--throttle", min=1, metavar="BYTES", help="Limit of the moves, in bytes per second on each broker."
        ),
    ] = None,
    preserve_throttles: Annotated[
        bool, typer.Option("--preserve-throttles", help="With --verify or --cancel: leave the throttle as it is.")
    ] = False,
    timeout_s: Annotated[
        int, typer.Option("--timeout", min=1, metavar="SECONDS", help="Longest time to wait, with --balance.")
    ] = 86_400,
    command_config: CommandConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Move replicas between brokers that keep running. A plan is a file in the format of Kafka's tool, or - for stdin.

    --balance may be interrupted: the cluster finishes the moves by itself, and the next --balance continues from there.

    Exit code: 0 done, 1 the cluster refused it, or (--verify, --balance) some moves are not done yet, 2 usage error.
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
                "--preserve-throttles": preserve_throttles and verify is None and cancel is None,
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
            _verify(cluster, _read_plan(verify), as_json, preserve_throttles=preserve_throttles)
        elif cancel is not None:
            _cancel(cluster, _read_plan(cancel), as_json, preserve_throttles=preserve_throttles)
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
    """The options from which a plan is computed."""

    topics: list[str] | None
    brokers: str | None
    without: list[int]


def _generate(cluster: Cluster, choice: _Choice) -> None:
    # A dead broker can be emptied too: it is known while some partition has it among its replicas.
    known = set(cluster.metadata.brokers).union(*_current(cluster, cluster.topic_names).values())
    if strangers := [broker for broker in choice.without if broker not in known]:
        raise UsageError(f"--without-broker {strangers[0]}: there is no such broker; there are {sorted(known)}")
    moved = _planned(cluster, choice)
    if not moved:
        raise CommandError("nothing needs to move")
    say(render_plan(moved))


def _planned(cluster: Cluster, choice: _Choice) -> Assignment:
    """Return the partitions that must move, with their new replicas."""
    described = result_of("cluster", cluster.admin.describe_cluster(request_timeout=REQUEST_TIMEOUT_S))
    racks = {int(node.id): node.rack for node in described.nodes}
    wanted = _broker_ids(choice.brokers, racks) if choice.brokers is not None else set(racks)
    chosen = {broker: rack for broker, rack in racks.items() if broker in wanted and broker not in choice.without}
    if any(rack is None for rack in chosen.values()):
        chosen = dict.fromkeys(chosen)
    current = _current(cluster, cluster.topic_names if choice.topics is None else choice.topics)
    # During a move a partition has more replicas than before and after.
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
    """Needs no state between two runs: the cluster reports the moves in progress, and the rest is planned again."""
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
                f"{len(moving)} partitions are still moving after {timeout_s} s, such as {places}; the cluster goes on "
                "with them: run the command again, or see --list"
            )
        if len(moving) != waited_for:
            waited_for = len(moving)
            typer.echo(f"{waited_for} partitions are moving", err=True)
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
    say(f"Started to move {len(plan)} partitions. Their replicas before, as a plan:")
    say(render_plan(rollback))
    say("--verify shows the progress and removes the throttle at the end.")


def _begin(cluster: Cluster, plan: Assignment, throttle: int | None) -> Assignment:
    """Start the moves. Returns the replicas before them."""
    _check_known(cluster, plan)
    before = _current(cluster, sorted({topic for topic, _ in plan}))
    if throttle is not None:
        _throttle(cluster, plan, before, throttle)
    _alter(cluster, {place: list(replicas) for place, replicas in plan.items()})
    return before


def _check_known(cluster: Cluster, plan: Assignment) -> None:
    """Raises CommandError for unknown partitions or brokers: Kafka's controller would execute the rest of the plan."""
    alive = set(cluster.metadata.brokers)
    for (topic, partition), replicas in sorted(plan.items()):
        if partition not in cluster.partitions_of(topic):
            raise CommandError(f"topic {topic} has no partition {partition}")
        if strangers := [broker for broker in replicas if broker not in alive]:
            raise CommandError(f"{topic}-{partition}: there is no broker {strangers[0]}; there are {sorted(alive)}")


def _alter(cluster: Cluster, replicas: Mapping[Partition, list[int] | None]) -> None:
    answer = ask_controller(cluster, alter_partition_reassignments(replicas, int(REQUEST_TIMEOUT_S * 1000)))
    whole = {"reassignment": answer.error}
    for what, error in (whole | {partition_name(*key): error for key, error in answer.errors.items()}).items():
        if error:
            raise CommandError(f"{what}: {error}")


def _moving(cluster: Cluster) -> Mapping[Partition, Move]:
    answer = ask_controller(cluster, list_partition_reassignments(int(REQUEST_TIMEOUT_S * 1000)))
    if answer.error:
        raise CommandError(f"reassignments: {answer.error}")
    return answer.moves


def _targets(cluster: Cluster) -> Assignment:
    """Return the target replicas of the moving partitions."""
    return {place: move.target for place, move in _moving(cluster).items()}


def _untold(cluster: Cluster, targets: Assignment) -> set[Partition]:
    """Return partitions whose move is done but whose metadata still has the additional replicas of the move.

    The controller knows the end of a move before the other brokers. A plan from older metadata would make the
    additional replicas permanent.
    """
    known = cluster.metadata.topics
    return {
        (topic, index)
        for (topic, index), replicas in targets.items()
        if topic in known
        and index in known[topic].partitions
        and set(known[topic].partitions[index].replicas) > set(replicas)
    }


def _cancel(cluster: Cluster, plan: Assignment, as_json: bool, *, preserve_throttles: bool) -> None:
    moves = _moving(cluster)
    moving = [place for place in moves if place in plan]
    if moving:
        _alter(cluster, dict.fromkeys(moving))
    if not preserve_throttles:
        _take_throttle_back(cluster, {topic for topic, _ in plan}, len(moves) - len(moving))
    if as_json:
        print_json({"cancelled": [{"topic": topic, "partition": partition} for topic, partition in sorted(moving)]})
    else:
        say(f"Cancelled the moves of {len(moving)} partitions.")


def _verify(cluster: Cluster, plan: Assignment, as_json: bool, *, preserve_throttles: bool) -> None:
    moving = _moving(cluster)
    current = _current(cluster, sorted({topic for topic, _ in plan}))
    states = {
        place: "moving" if place in moving else "done" if current.get(place) == replicas else "elsewhere"
        for place, replicas in plan.items()
    }
    is_over = "moving" not in states.values()
    if is_over and not preserve_throttles:
        _take_throttle_back(cluster, {topic for topic, _ in plan}, len(moving))
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
                _entry(place, list(entry.replicas)) | {"adding": list(entry.adding), "removing": list(entry.removing)}
                for place, entry in moving
            ]
        )
    elif not moving:
        say("No partition is moving.")
    else:
        print_table(
            ("Partition", "Replicas", "Adding", "Removing"),
            [
                (f"{topic}-{index}", _ids(entry.replicas), _ids(entry.adding), _ids(entry.removing))
                for (topic, index), entry in moving
            ],
        )


def _entry(place: Partition, replicas: list[int]) -> dict[str, Any]:
    return {"topic": place[0], "partition": place[1], "replicas": replicas}


def _ids(brokers: Iterable[int]) -> str:
    return ",".join(map(str, brokers)) or "-"


# The throttle: which replicas, by topic, and how much, by broker (KIP-73)


def _throttle(cluster: Cluster, plan: Assignment, before: Assignment, rate: int) -> None:
    of_topics, involved = throttled_replicas(plan, before, _moving(cluster))
    topics = {(ResourceType.TOPIC, topic): settings for topic, settings in sorted(of_topics.items())}
    # A stopped broker moves nothing, and its settings cannot be changed now.
    there = involved & cluster.brokers_that_listen()
    brokers = {(ResourceType.BROKER, str(broker)): dict.fromkeys(RATES, str(rate)) for broker in there}
    _set(cluster, topics | brokers)


def _throttled_topics(cluster: Cluster) -> set[str]:
    """Return the topics that have throttled replicas, no matter who set the throttle."""
    resources = [ConfigResource(ResourceType.TOPIC, name) for name in cluster.topic_names]
    if not resources:
        return set()
    futures = cluster.admin.describe_configs(resources, request_timeout=REQUEST_TIMEOUT_S)
    settings = {resource.name: result_of(f"topic {resource.name}", future) for resource, future in futures.items()}
    return {name for name, values in settings.items() if any(key in values and values[key].value for key in REPLICAS)}


def _take_throttle_back(cluster: Cluster, of_topics: Iterable[str], others: int = 0) -> None:
    """`others`: how many partitions still move, so that the throttle stays for them."""
    if others:
        typer.echo(f"The throttle stays, as other partitions are moving ({others}).", err=True)
        return
    topics = [topic for topic in of_topics if topic in cluster.metadata.topics]
    settings: dict[tuple[Any, str], dict[str, str | None]] = {
        (ResourceType.TOPIC, topic): dict.fromkeys(REPLICAS) for topic in topics
    }
    # A stopped broker keeps its rate, which limits nothing without throttled replicas.
    for broker in cluster.brokers_that_listen():
        settings[ResourceType.BROKER, str(broker)] = dict.fromkeys(RATES)
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
    # librdkafka takes one broker per request.
    for group in ([topics] if topics else []) + [[each] for each in resources if each not in topics]:
        futures: Any = cluster.admin.incremental_alter_configs(group, request_timeout=REQUEST_TIMEOUT_S)
        for resource, future in futures.items():
            result_of(f"the throttle of {resource.name}", future)
