"""`highwater broker cluster`: describes a cluster; `up`, `down`, `status` run one on this host."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated, Final

import typer

from highwater.admin.client import (
    DEFAULT_BOOTSTRAP,
    REQUEST_TIMEOUT_S,
    BootstrapOption,
    Cluster,
    CommandConfigOption,
    key_values,
    result_of,
    why_unreachable,
)
from highwater.admin.terminal import (
    CommandError,
    JsonOption,
    UsageError,
    print_json,
    print_table,
    reporting,
    say,
    say_all,
    say_aside,
)
from highwater.broker.commands import local_cluster
from highwater.broker.commands.cluster_status import down_as_json, down_lines, health_of, status
from highwater.broker.commands.detached import wait_until
from highwater.broker.settings.config import ConfigError, read_properties_file
from highwater.kafka.client.blocking import BlockingClient
from highwater.kafka.client.errors import ClientError, ClientSettingsError
from highwater.kafka.client.settings import address_of, settings_of
from highwater.kafka.requests.metadata import metadata as metadata_of

_JOINED_WITHIN_S: Final = 60.0

cluster = typer.Typer(add_completion=False, pretty_exceptions_enable=False, invoke_without_command=True)
cluster.command()(status)
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

    Exit code: 0 done, 1 the broker refused it, 2 usage error.
    """
    with reporting():
        if context.invoked_subcommand is not None:
            if bootstrap_server != DEFAULT_BOOTSTRAP or command_config is not None or as_json:
                raise UsageError(f"write the options behind {context.invoked_subcommand}")
            return
        connected = Cluster(bootstrap_server, command_config)
        metadata = connected.metadata
        leaders = [p.leader for topic in metadata.topics.values() for p in topic.partitions.values()]
        described = result_of("cluster", connected.admin.describe_cluster(request_timeout=REQUEST_TIMEOUT_S))
        controller = described.controller.id if described.controller is not None else None
        health = health_of(connected)
        live = {broker.broker_id for broker in health.live}
        brokers = sorted((node for node in described.nodes if node.id in live), key=lambda node: int(node.id))
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
                    "brokers_down": down_as_json(health),
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
        say_all(down_lines(health))


@cluster.command()
def up(
    directory: DirectoryArgument,
    brokers: Annotated[
        int | None, typer.Option("--brokers", min=1, max=100, help="Number of brokers.", show_default="3")
    ] = None,
    zookeeper_nodes: Annotated[
        int | None,
        typer.Option("--zookeeper-nodes", min=1, max=7, help="Number of ZooKeeper servers to start.", show_default="1"),
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

    Processes that run are left alone; those that ended are started again. Prints the bootstrap servers. Where brokers
    have TLS or a login among themselves, this command asks them in the same way. When it fails, or is interrupted, it
    stops what it started. Exit code: 0 all are ready, 1 a process did not start or a broker is not in the cluster, 2
    usage error.
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
            try:
                began_s = time.monotonic()
                for name in planned.start():
                    typer.echo(f"{name} is ready ({time.monotonic() - began_s:.1f} s)", err=True)
                _await_all(planned)
            except BaseException:
                _stop_what_began(planned)
                raise
        say(planned.bootstrap_servers)


def _stop_what_began(cluster: local_cluster.LocalCluster) -> None:
    for name, was_clean in cluster.stop(cluster.begun):
        typer.echo(f"{name} {'stopped' if was_clean else 'was killed: it did not stop in time'}", err=True)
    left = [name for name in cluster.names if cluster.is_running(name)]
    if cluster.begun and left:
        say_aside(f"not stopped, as they ran before: {', '.join(left)}; `highwater broker cluster down DIR` stops them")


def _await_all(started: local_cluster.LocalCluster) -> None:
    """Raises CommandError unless each broker comes to know all the others."""
    inside = started.inside()
    try:
        client = BlockingClient(settings_of({"bootstrap.servers": inside.servers, **inside.properties}))
    except ClientSettingsError as error:
        raise UsageError(str(error)) from None
    reason = ""

    def is_whole() -> bool:
        nonlocal reason
        for broker_id, server in inside.addresses.items():
            started.require_running(f"broker-{broker_id}")
            try:
                found = client.ask(address_of(server), metadata_of(with_topics=False))
            except ClientError as error:
                if error.is_refusal:
                    raise CommandError(f"broker-{broker_id}: {error}") from None
                reason = str(error)
                return False
            missing = started.broker_ports.keys() - {broker.node_id for broker in found.brokers}
            if missing or found.controller < 0:
                unknown = ", ".join(f"broker-{each}" for each in sorted(missing)) or "any controller"
                reason = f"broker-{broker_id} does not know {unknown}"
                return False
            for broker in found.brokers:
                why = why_unreachable(broker.host, broker.port)
                if why is not None and broker.node_id in started.broker_ports:
                    raise CommandError(
                        f"the brokers do not reach broker-{broker.node_id}: {why}. Check its advertised.listeners, "
                        "and firewalls"
                    )
        return True

    if not wait_until(is_whole, _JOINED_WITHIN_S, "all brokers know each other"):
        raise CommandError(
            f"not all {len(started.broker_ports)} brokers are in one cluster after {_JOINED_WITHIN_S:.0f} s: {reason} "
            f"(the output of each is {started.directory}/broker-N/broker.log)"
        )


@cluster.command()
def down(
    directory: DirectoryArgument,
    wipe: Annotated[bool, typer.Option("--wipe", help="Also remove the cluster's files.")] = False,
) -> None:
    """Stop the brokers one by one by controlled shutdown, then ZooKeeper.

    Exit code: 0 done, 1 a process had to be killed, 2 there is no cluster.
    """
    with reporting():
        killed = []
        with local_cluster.locked(local_cluster.existing(directory).directory):
            found = local_cluster.existing(directory)
            for name, was_clean in found.stop():
                typer.echo(f"{name} {'stopped' if was_clean else 'was killed: it did not stop in time'}", err=True)
                killed += [] if was_clean else [name]
            if wipe:
                found.wipe()
        if killed:
            raise CommandError(f"{', '.join(killed)} did not stop in time and had to be killed")
