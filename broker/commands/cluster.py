"""`highwater broker cluster`: describes a cluster; `up`, `down`, `status` run one on this host."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from highwater.broker.commands import local_cluster
from highwater.broker.commands.client import (
    DEFAULT_BOOTSTRAP,
    REQUEST_TIMEOUT_S,
    BootstrapOption,
    Cluster,
    CommandConfigOption,
    key_values,
    result_of,
)
from highwater.broker.commands.detached import wait_until
from highwater.broker.commands.terminal import (
    CommandError,
    JsonOption,
    UsageError,
    print_json,
    print_table,
    reporting,
    say,
)
from highwater.broker.settings.config import ConfigError, read_properties_file

_JOINED_WITHIN_S: Final = 60.0
_MOST_SHOWN: Final = 10

cluster = typer.Typer(add_completion=False, pretty_exceptions_enable=False, invoke_without_command=True)
DirectoryArgument = Annotated[
    Path, typer.Argument(metavar="DIR", help="The cluster's directory: the files of its processes and its state.")
]


@cluster.callback()
def describe(
    context: typer.Context,
    bootstrap_server: BootstrapOption = DEFAULT_BOOTSTRAP,
    command_config: CommandConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show the id, the brokers and the controller of a cluster; or run a cluster on this host.

    Exit code: 0 done, 1 the broker refused it, 2 wrong usage.
    """
    if context.invoked_subcommand is not None:
        return
    with reporting():
        connected = Cluster(bootstrap_server, command_config)
        metadata = connected.metadata
        leaders = [p.leader for topic in metadata.topics.values() for p in topic.partitions.values()]
        described = result_of("cluster", connected.admin.describe_cluster(request_timeout=REQUEST_TIMEOUT_S))
        controller = described.controller.id if described.controller is not None else None
        brokers = sorted(described.nodes, key=lambda node: int(node.id))
        if as_json:
            print_json(
                {
                    "cluster_id": described.cluster_id,
                    "controller": controller,
                    "topics": len(metadata.topics),
                    "partitions": len(leaders),
                    "brokers": [
                        {
                            "id": node.id,
                            "host": node.host,
                            "port": node.port,
                            "rack": node.rack,
                            "leaders": leaders.count(node.id),
                        }
                        for node in brokers
                    ],
                }
            )
            return
        say(f"Cluster: {described.cluster_id}  Topics: {len(metadata.topics)}  Partitions: {len(leaders)}")
        print_table(
            ("Broker", "Address", "Rack", "Leads", "Controller"),
            [
                (
                    node.id,
                    f"{node.host}:{node.port}",
                    node.rack,
                    leaders.count(node.id),
                    "yes" if node.id == controller else "",
                )
                for node in brokers
            ],
        )


@cluster.command()
def up(
    directory: DirectoryArgument,
    brokers: Annotated[
        int | None, typer.Option("--brokers", min=1, max=100, help="How many.", show_default="3")
    ] = None,
    zookeeper_nodes: Annotated[
        int | None,
        typer.Option("--zookeeper-nodes", min=1, max=7, help="How many ZooKeeper servers to start.", show_default="1"),
    ] = None,
    zookeeper: Annotated[
        str | None, typer.Option("--zookeeper", metavar="HOST:PORT/CHROOT", help="Use this ensemble and start none.")
    ] = None,
    config: Annotated[
        Path | None,
        typer.Option(
            "--config", help="A server.properties file for all brokers; {id} and {port} become each broker's own."
        ),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="A property for all brokers; may be repeated."),
    ] = None,
    base_port: Annotated[
        int | None,
        typer.Option(
            "--base-port", min=0, max=64_000, help="The first broker's port; 0 takes free ports.", show_default="9092"
        ),
    ] = None,
) -> None:
    """Start a ZooKeeper and brokers on this host, in the background, and wait until they are ready.

    Processes that run are left alone; those that ended are started again. Prints the bootstrap servers. Exit code: 0
    all are ready, 1 a process did not start, 2 wrong usage.
    """
    with reporting():
        try:
            wanted = {setting.name: setting.text for setting in read_properties_file(config)} if config else {}
        except ConfigError as error:
            raise UsageError(str(error)) from None
        wanted |= key_values(settings or (), "--set")
        place = directory.absolute()
        with local_cluster.locked(place):
            planned = local_cluster.plan(place, brokers, zookeeper_nodes, zookeeper, base_port, wanted)
            began_s = time.monotonic()
            for name in planned.start():
                typer.echo(f"{name} is ready ({time.monotonic() - began_s:.1f} s)", err=True)
        _await_all(planned)
        say(planned.bootstrap_servers)


def _await_all(started: local_cluster.LocalCluster) -> None:
    def is_whole() -> bool:
        # The answer may be from a broker that does not know all the others yet: each poll asks anew.
        found = Cluster(started.bootstrap_servers).metadata
        return found.controller_id >= 0 and len(found.brokers) >= len(started.broker_ports)

    if not wait_until(is_whole, _JOINED_WITHIN_S, "all brokers know of each other"):
        raise CommandError(
            f"not all {len(started.broker_ports)} brokers are in one cluster after {_JOINED_WITHIN_S:.0f} s: "
            f"`highwater broker cluster status {started.directory}` shows which"
        )


@cluster.command()
def down(
    directory: DirectoryArgument,
    wipe: Annotated[bool, typer.Option("--wipe", help="Remove its files too.")] = False,
) -> None:
    """Stop the brokers one by one by controlled shutdown, then ZooKeeper.

    Exit code: 0 done, 1 a process had to be killed, 2 there is no cluster.
    """
    with reporting():
        killed = []
        with local_cluster.locked(_load(directory).directory):
            found = _load(directory)
            for name, was_clean in found.stop():
                typer.echo(f"{name} {'stopped' if was_clean else 'was killed: it did not stop in time'}", err=True)
                killed += [] if was_clean else [name]
            if wipe:
                found.wipe()
        if killed:
            raise CommandError(f"{', '.join(killed)} did not stop when asked to")


@cluster.command()
def status(directory: DirectoryArgument, as_json: JsonOption = False) -> None:
    """Show the processes, the controller, and the partitions without a leader or without all replicas in sync.

    Exit code: 0 the cluster is healthy, 1 it is not, 2 there is no cluster.
    """
    with reporting():
        found = _load(directory)
        running = [name for name in found.names if found.is_running(name)]
        servers = found.bootstrap_servers
        metadata = Cluster(servers).metadata if servers else None
        partitions = (
            []
            if metadata is None
            else [(topic, number, p) for topic, t in metadata.topics.items() for number, p in t.partitions.items()]
        )
        offline = [f"{topic}-{number}" for topic, number, p in partitions if p.leader < 0]
        under_replicated = [f"{topic}-{number}" for topic, number, p in partitions if len(p.isrs) < len(p.replicas)]
        document = {
            "zookeeper": found.zookeeper_connect,
            "bootstrap_servers": servers,
            "processes": [
                {"name": name, "pid": found.processes[name].pid if name in running else None, "address": address}
                for name, address in found.addresses.items()
            ],
            "controller": None if metadata is None or metadata.controller_id < 0 else metadata.controller_id,
            "brokers": [] if metadata is None else sorted(metadata.brokers),
            "partitions": len(partitions),
            "under_replicated_partitions": sorted(under_replicated),
            "offline_partitions": sorted(offline),
        }
        if as_json:
            print_json(document)
        else:
            _print_status(document)
        is_well = running == found.names and not under_replicated and not offline
        if not (is_well and document["brokers"] == sorted(found.broker_ports) and document["controller"] is not None):
            raise typer.Exit(CommandError.exit_code)


def _load(directory: Path) -> local_cluster.LocalCluster:
    found = local_cluster.LocalCluster.load(directory.absolute())
    if found is None:
        raise UsageError(f"{directory} holds no cluster: `highwater broker cluster up {directory}` makes one")
    return found


def _print_status(document: dict[str, Any]) -> None:
    print_table(
        ("Process", "Pid", "State", "Address"),
        [
            (process["name"], process["pid"], "runs" if process["pid"] else "is down", process["address"])
            for process in document["processes"]
        ],
    )
    say(f"ZooKeeper: {document['zookeeper']}")
    if not document["bootstrap_servers"]:
        return
    say(f"Controller: {'none' if document['controller'] is None else document['controller']}")
    say(f"Brokers: {', '.join(map(str, document['brokers']))}")
    say(f"Partitions: {document['partitions']}")
    for what in ("under_replicated", "offline"):
        names = document[f"{what}_partitions"]
        shown = names[:_MOST_SHOWN] + ([f"and {len(names) - _MOST_SHOWN} more"] if len(names) > _MOST_SHOWN else [])
        listed = f" ({', '.join(shown)})" if names else ""
        say(f"{what.capitalize().replace('_', '-')}: {len(names)}{listed}")
