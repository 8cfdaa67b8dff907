"""`highwater broker cluster status`: whether a cluster is healthy, and what is wrong; `--watch`."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer
from confluent_kafka import KafkaException
from confluent_kafka.admin import ConfigResource, ResourceType  # type: ignore[attr-defined]

from highwater.admin.client import DEFAULT_BOOTSTRAP, GONE, Cluster, CommandConfigOption
from highwater.admin.cluster_health import (
    ClusterHealth,
    PartitionHealth,
    TopicHealth,
    Trouble,
    judge,
    of_one_host,
    state_text,
)
from highwater.admin.terminal import (
    CommandError,
    JsonOption,
    UsageError,
    print_json,
    print_json_line,
    reporting,
    say,
    table,
    table_console,
    time_text,
)
from highwater.broker.commands import local_cluster
from highwater.common.log_lines import one_line
from highwater.common.topic_partition import partition_name
from highwater.common.units import count_text
from highwater.kafka.client.host_processes import RACK, SETTINGS, host_processes, hosts_of_processes

if TYPE_CHECKING:
    from rich.console import RenderableType

    from highwater.common.figure_table import FigureTable

_CONFIG_TIMEOUT_S: Final = 3.0
_DEFAULT_INTERVAL_S: Final = 2.0
_MOST_TOPICS: Final = 20
_FEWEST_TOPICS: Final = 3
_LEFT_OUT: Final = ("Metrics", "Process", "Host", "Replicas")
"""Columns of brokers that a narrow screen leaves out, in this order."""
_METRICS: Final = "metrics.listener"
_METRICS_LISTENER: Final = re.compile(r"HTTP://(.+):(\d+)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class ClusterStatus:
    health: ClusterHealth
    bootstrap_servers: str
    metrics: dict[int, str]
    """host:port of the metrics by broker id, empty if they are off; port 0 is a free port.

    Apache Kafka's brokers, which have no such setting, and brokers that did not report it are left out.
    """
    local: local_cluster.LocalCluster | None
    """The processes on this host, if the cluster was named by its directory."""


def status(
    directory: Annotated[
        Path | None,
        typer.Argument(metavar="DIR", help="The directory of a cluster that runs on this host.", show_default=False),
    ] = None,
    bootstrap_server: Annotated[
        str | None,
        typer.Option(
            "--bootstrap-server",
            "-b",
            metavar="HOST:PORT,...",
            help="Brokers of another cluster to connect to first; one that answers is enough.",
            show_default=f"{DEFAULT_BOOTSTRAP} without DIR",
        ),
    ] = None,
    command_config: CommandConfigOption = None,
    watch: Annotated[bool, typer.Option("--watch", help="Refresh the display until Ctrl-C.")] = False,
    every_s: Annotated[
        float | None,
        typer.Option("--every", metavar="SECONDS", min=0.1, help="Interval of --watch.", show_default="2"),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Show whether a cluster is healthy, its brokers and where their metrics are, and topics, those in trouble first.

    With --watch a terminal is redrawn in place; other outputs get one block, or one line of JSON, for each update. Exit
    code: 0 the cluster is healthy, 1 it is not, 2 there is no cluster or no broker answers, 130 --watch was
    interrupted.
    """
    with reporting():
        if directory is not None and bootstrap_server is not None:
            raise UsageError("name a cluster by DIR or by --bootstrap-server, not by both")
        if every_s is not None and not watch:
            raise UsageError("--every goes with --watch")

        def look() -> ClusterStatus:
            if directory is not None:
                return _status_of_directory(local_cluster.existing(directory), command_config)
            return status_of(bootstrap_server or DEFAULT_BOOTSTRAP, command_config)

        if watch:
            _watch(look, every_s or _DEFAULT_INTERVAL_S, as_json)
        found = look()
        if as_json:
            print_json(_document(found))
        else:
            _print(found)
        if not found.health.is_healthy:
            raise typer.Exit(CommandError.exit_code)


# Looking


def _status_of_directory(found: local_cluster.LocalCluster, command_config: Path | None) -> ClusterStatus:
    servers = found.bootstrap_servers
    if servers:
        return status_of(servers, command_config, found)
    health = judge(
        listed={}, reasons_down=_ended(found), controller=None, topics=(), servers_down=_zookeepers_down(found)
    )
    return ClusterStatus(health, "", {}, found)


def status_of(
    servers: str, command_config: Path | None = None, local: local_cluster.LocalCluster | None = None
) -> ClusterStatus:
    """Raises UsageError when no broker answers.

    Without `command_config`, brokers on this host are asked as they ask each other.
    """
    if local is not None and command_config is None:
        inside = local.inside()
        cluster = Cluster(inside.servers, properties=inside.properties)
    else:
        cluster = Cluster(servers, command_config)
    health = health_of(
        cluster,
        {} if local is None else _ended(local),
        () if local is None else tuple(local.broker_ports),
        () if local is None else _zookeepers_down(local),
    )
    told = _broker_settings(cluster, [broker.broker_id for broker in health.live], (_METRICS, *SETTINGS))
    metrics = {n: _address_of(value) for n, values in told.items() if (value := values[_METRICS]) is not None}
    silent = [broker.broker_id for broker in health.live if broker.broker_id not in told]
    health = replace(health, silent=silent)
    if (processes := host_processes(told)) is not None:
        health = of_one_host(health, processes)
    elif local is None:
        addresses = {broker.broker_id: broker.address for broker in health.live}
        hosts = hosts_of_processes(addresses, {n: values[RACK] for n, values in told.items()})
        health = replace(health, hosts=hosts)
    return ClusterStatus(health, servers, metrics, local)


def _ended(found: local_cluster.LocalCluster) -> dict[int, str]:
    """Return why brokers of this host are down, by id."""
    reasons = {}
    for broker_id in found.broker_ports:
        name = f"broker-{broker_id}"
        if not found.is_running(name):
            process = found.processes.get(name)
            reasons[broker_id] = f"process {process.pid} ended" if process else "it was stopped"
    return reasons


def _zookeepers_down(found: local_cluster.LocalCluster) -> tuple[str, ...]:
    names = (node.directory.name for node in found.ensemble)
    return tuple(name for name in names if not found.is_running(name))


def health_of(
    cluster: Cluster,
    reasons_down: dict[int, str] | None = None,
    expected: Sequence[int] = (),
    servers_down: Sequence[str] = (),
) -> ClusterHealth:
    """Return the health of a cluster; `expected` are ids of brokers that run here and should be in it.

    Raises UsageError when no broker answers.
    """
    metadata = cluster.metadata
    listed = {broker.id: f"{broker.host}:{broker.port}" for broker in metadata.brokers.values()}
    reasons = cluster.unreachable_brokers()
    for broker_id in reasons.keys() & set(expected):
        reasons[broker_id] += "; its process runs: check its advertised.listeners"
    reasons |= {n: "it runs, but it is not in the cluster" for n in expected if n not in listed}
    least = _min_in_sync_replicas(cluster)
    topics = [
        TopicHealth(
            name,
            [
                PartitionHealth(number, found.leader, found.replicas, found.isrs, least.get(name))
                for number, found in sorted(topic.partitions.items())
            ],
        )
        for name, topic in metadata.topics.items()
    ]
    return judge(
        listed=listed,
        reasons_down=reasons | (reasons_down or {}),
        controller=metadata.controller_id,
        topics=topics,
        servers_down=servers_down,
    )


def _min_in_sync_replicas(cluster: Cluster) -> dict[str, int]:
    """Return min.insync.replicas by topic, without topics whose settings cannot be read."""
    topics = [ConfigResource(ResourceType.TOPIC, name) for name in cluster.topic_names]
    name = "min.insync.replicas"
    found = {topic.name: _values(future, [name]) for topic, future in _ask(cluster, topics).items()}
    return {topic: int(value) for topic, values in found.items() if values is not None and (value := values[name])}


def _address_of(listener: str) -> str:
    match = _METRICS_LISTENER.fullmatch(listener)
    return f"{match[1]}:{match[2]}" if match else ""


def _broker_settings(
    cluster: Cluster, broker_ids: Sequence[int], names: Sequence[str]
) -> dict[int, dict[str, str | None]]:
    """Return settings by the id of each broker that answers; None if it refused or does not have that one."""
    # librdkafka refuses a request about more than one broker.
    asked = {n: _ask(cluster, [ConfigResource(ResourceType.BROKER, str(n))]) for n in broker_ids}
    answers = {n: _values(future, names) for n, futures in asked.items() for future in futures.values()}
    return {n: values for n, values in answers.items() if values is not None}


def _ask(cluster: Cluster, resources: list[ConfigResource]) -> Mapping[ConfigResource, Future[Any]]:
    if not resources:
        return {}
    futures: Mapping[ConfigResource, Future[Any]] = cluster.admin.describe_configs(
        resources, request_timeout=_CONFIG_TIMEOUT_S
    )
    return futures


def _values(future: Future[Any], names: Sequence[str]) -> dict[str, str | None] | None:
    """Return settings: empty if one is not set, None if it is not in the answer; None of all if no answer came."""
    try:
        found = future.result(timeout=2 * _CONFIG_TIMEOUT_S)
    except TimeoutError:
        return None
    except KafkaException as error:
        return None if error.args[0].code() in GONE else dict.fromkeys(names)
    entries = {name: found.get(name) for name in names}
    return {name: None if entry is None else str(entry.value or "") for name, entry in entries.items()}


# Showing


def _document(found: ClusterStatus) -> dict[str, Any]:
    health, local = found.health, found.local
    partitions = [(topic.name, partition) for topic in health.topics for partition in topic.partitions]
    return {
        "healthy": health.is_healthy,
        "answer": health.sentence,
        "zookeeper": local.zookeeper_connect if local else None,
        "bootstrap_servers": found.bootstrap_servers,
        "processes": [] if local is None else _processes_as_json(local),
        "controller": health.controller,
        "brokers": [broker.broker_id for broker in health.live],
        "brokers_down": down_as_json(health),
        "brokers_silent": list(health.silent),
        "host": _host_as_json(health),
        "hosts": _hosts_as_json(health),
        "metrics": {str(broker_id): _url(address) for broker_id, address in found.metrics.items() if address},
        "partitions": len(partitions),
        "under_replicated_partitions": sorted(
            partition_name(name, p.partition) for name, p in partitions if p.lacks_replicas
        ),
        "under_min_isr_partitions": health.partitions_in(Trouble.UNDER_MIN_ISR),
        "offline_partitions": health.partitions_in(Trouble.NO_LEADER),
    }


def _processes_as_json(local: local_cluster.LocalCluster) -> list[dict[str, Any]]:
    return [
        {"name": name, "pid": local.processes[name].pid if local.is_running(name) else None, "address": address}
        for name, address in local.addresses.items()
    ]


def _host_as_json(health: ClusterHealth) -> dict[str, Any] | None:
    """Return None unless the brokers are the processes of one host."""
    processes = health.processes
    if processes is None:
        return None
    states = _states(health)
    return {
        "name": processes.host,
        "processes": [
            {"process": number, "broker": broker_id, "state": states[broker_id]}
            for number, broker_id in enumerate(processes.broker_ids)
        ],
    }


def _hosts_as_json(health: ClusterHealth) -> list[dict[str, Any]]:
    """Return the hosts on which each broker is a process; a broker without a known host is left out."""
    hosts: dict[str, list[dict[str, Any]]] = {}
    for broker_id, state in sorted(_states(health).items()):
        if health.hosts is not None and (found := health.hosts.process_of(broker_id)) is not None:
            name, number = found
            hosts.setdefault(name, []).append({"process": number, "broker": broker_id, "state": state})
    return [{"name": name, "processes": processes} for name, processes in sorted(hosts.items())]


def _states(health: ClusterHealth) -> dict[int, str]:
    up = dict.fromkeys((broker.broker_id for broker in health.live), "up")
    down = dict.fromkeys((broker.broker_id for broker in health.down), "down")
    return up | down | dict.fromkeys(health.silent, "silent")


def down_as_json(health: ClusterHealth) -> list[dict[str, Any]]:
    return [{"id": broker.broker_id, "reason": broker.reason, "replicas": broker.replicas} for broker in health.down]


def down_lines(health: ClusterHealth) -> Iterator[str]:
    """Yield a line for each broker that is down."""
    for broker in health.down:
        held = f"; it has {count_text(broker.replicas)} replicas" if broker.replicas else ""
        name = f"broker {broker.broker_id}"
        if (process := health.process_of(broker.broker_id)) is not None:
            name = f"{process} ({name})"
        yield f"Down: {name}: {broker.reason}{held}"


def _url(address: str) -> str | None:
    return None if address.endswith(":0") else f"http://{address}/metrics"


def _print(found: ClusterStatus) -> None:
    console = table_console()
    for block in _blocks(found, _MOST_TOPICS):
        if isinstance(block, str):
            say(block)
        else:
            block.print_to(console)


def _blocks(found: ClusterStatus, most_topics: int, *, is_screen: bool = False) -> Iterator[str | FigureTable]:
    """Yield lines and tables: the answer, the brokers, what is down, topics."""
    health, local = found.health, found.local
    yield health.sentence
    if health.live:
        yield ""
        yield _broker_table(found, _LEFT_OUT if is_screen else None)
    yield ""
    yield from down_lines(health)
    for name in health.servers_down:
        yield f"Down: {name}"
    if local is not None and (_ended(local) or health.servers_down):
        yield f"To start what is down: highwater broker cluster up {local.directory}"
    if health.live:
        yield f"Controller: {'none' if health.controller is None else f'broker {health.controller}'}"
    if local is not None:
        running = [
            f"{node.directory.name}, process {local.processes[node.directory.name].pid}"
            for node in local.ensemble
            if local.is_running(node.directory.name)
        ]
        yield f"ZooKeeper: {local.zookeeper_connect}" + (f" ({'; '.join(running)})" if running else "")
    if health.topics:
        yield ""
        yield from _topic_blocks(health, most_topics, () if is_screen else None)


def _broker_table(found: ClusterStatus, leaves_out: Sequence[str] | None) -> FigureTable:
    local, processes, hosts = found.local, found.health.processes, found.health.hosts
    rows = [
        (
            broker.broker_id,
            broker.address,
            *(() if processes is None else (processes.number_of(broker.broker_id),)),
            *(() if hosts is None else hosts.process_of(broker.broker_id) or ("", "")),
            *(() if local is None else (_pid(local, broker.broker_id),)),
            broker.leads,
            broker.replicas,
            "no answer"
            if broker.broker_id in found.health.silent
            else _metrics_text(found.metrics.get(broker.broker_id)),
        )
        for broker in found.health.live
    ]
    process: tuple[str, ...] = () if local is None and processes is None else ("Process",)
    if hosts is not None:
        process = ("Host", "Process")
    return table(("Broker", "Address", *process, "Leads", "Replicas", "Metrics"), rows, leaves_out=leaves_out)


def _pid(local: local_cluster.LocalCluster, broker_id: int) -> int | None:
    """Return None for a broker that another host, or another directory, runs."""
    process = local.processes.get(f"broker-{broker_id}")
    return process.pid if process else None


def _metrics_text(address: str | None) -> str:
    if address is None:
        return "-"
    return "see its log" if address.endswith(":0") else address or "off"


def _topic_blocks(
    health: ClusterHealth, most_topics: int, leaves_out: Sequence[str] | None
) -> Iterator[str | FigureTable]:
    rows = [(topic.name, len(topic.partitions), state_text(topic)) for topic in health.topics[:most_topics]]
    yield table(("Topic", "Partitions", "State"), rows, leaves_out=leaves_out)
    if left := health.topics[most_topics:]:
        troubled = sum(topic.worst is not Trouble.NONE for topic in left)
        yield f"and {len(left)} more topics, {f'{troubled} of them with problems' if troubled else 'all in sync'}"


# Watching


def _watch(look: Callable[[], ClusterStatus], interval_s: float, as_json: bool) -> None:
    """Look again and again, also when no broker answers any more, until Ctrl-C raises KeyboardInterrupt."""
    if as_json or not table_console().is_terminal:
        _repeat(look, interval_s, as_json)
    else:
        _redraw(look, interval_s)


def _looks(look: Callable[[], ClusterStatus], interval_s: float) -> Iterator[tuple[str, ClusterStatus | CommandError]]:
    """Yield the time and the status, or why there is none. Raises CommandError when the first look fails."""
    found: ClusterStatus | CommandError = look()
    while True:
        yield time_text(time.time_ns() // 1_000_000), found
        time.sleep(interval_s)
        try:
            found = look()
        except CommandError as error:
            found = error


def _repeat(look: Callable[[], ClusterStatus], interval_s: float, as_json: bool) -> None:
    for now, found in _looks(look, interval_s):
        if as_json:
            answer = {"healthy": False, "answer": str(found)} if isinstance(found, CommandError) else _document(found)
            print_json_line({"time": now, **answer})
        else:
            say(now)
            say(str(found)) if isinstance(found, CommandError) else _print(found)
            say("")
        sys.stdout.flush()


def _redraw(look: Callable[[], ClusterStatus], interval_s: float) -> None:
    from rich.console import Group
    from rich.live import Live
    from rich.text import Text

    console = table_console()
    with Live(console=console, auto_refresh=False) as live:
        for now, found in _looks(look, interval_s):
            if isinstance(found, CommandError):
                blocks: list[RenderableType] = [Text(one_line(str(found)), style="bold red")]
            else:
                answer, *rest = _blocks(found, _topics_that_fit(found, console.height), is_screen=True)
                blocks = [Text(str(answer), style="bold green" if found.health.is_healthy else "bold red"), *rest]
            blocks += ["", Text(f"{now}, every {interval_s:g} s; Ctrl-C to stop", style="dim")]
            live.update(
                Group(*(Text(one_line(block)) if isinstance(block, str) else block for block in blocks)), refresh=True
            )


def _topics_that_fit(found: ClusterStatus, height: int) -> int:
    others = sum(1 if isinstance(block, str) else len(found.health.live) + 1 for block in _blocks(found, 0))
    # A table of topics has a header; the footer takes two lines, the cursor one.
    return max(_FEWEST_TOPICS, height - others - 4)
