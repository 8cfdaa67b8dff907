"""`highwater broker monitoring`: writes what Prometheus and Grafana need to watch a cluster's metrics."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Final

import typer

from highwater.admin.client import DEFAULT_BOOTSTRAP, BootstrapOption, CommandConfigOption
from highwater.admin.terminal import CommandError, UsageError, reporting, say
from highwater.broker.commands.cluster_status import ClusterStatus, status_of
from highwater.common.atomic_files import write_atomically

SHIPPED: Final = Path(__file__).parent.parent / "monitoring"
FILES: Final = ("prometheus.yml", "alerts.yml", "grafana-dashboard.json")
TARGETS_FILE: Final = "brokers.json"
_EVERY_ADDRESS: Final = ("0.0.0.0", "[::]")
_LOOPBACK: Final = ("127.", "localhost:", "[::1]:")


def monitoring(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="Directory for the files; created if missing.")],
    bootstrap_server: BootstrapOption = DEFAULT_BOOTSTRAP,
    name: Annotated[
        str, typer.Option("--name", help="The cluster's name: the label `cluster` of all its metrics.")
    ] = "highwater",
    command_config: CommandConfigOption = None,
) -> None:
    """Write a Prometheus configuration, alert rules and a Grafana dashboard for a cluster.

    brokers.json has the metrics addresses that the brokers report. A second call writes it anew and leaves the other
    files as they are. Exit code: 0 done, 1 no broker serves metrics, 2 usage error or no broker answers.
    """
    with reporting():
        found = status_of(bootstrap_server, command_config)
        targets = targets_of(found)
        if not targets:
            raise CommandError(
                "no broker reports where it serves metrics: set metrics.listener=HTTP://127.0.0.1:9404 and restart"
            )
        for problem in problems(found, targets):
            typer.echo(f"warning: {problem}", err=True)
        _write(directory, targets, name)
        say(
            f"{directory / TARGETS_FILE} has {len(targets)} brokers. Start Prometheus; import the dashboard in Grafana:"
        )
        say(f"  prometheus --config.file {directory / 'prometheus.yml'} --web.listen-address 127.0.0.1:9090")
        say(f"  {directory / 'grafana-dashboard.json'}")


def targets_of(found: ClusterStatus) -> dict[int, str]:
    """Return host:port of the metrics by broker id, of brokers that serve them on a known port."""
    hosts = {broker.broker_id: broker.address.rpartition(":")[0] for broker in found.health.live}
    targets = {}
    for broker_id, address in sorted(found.metrics.items()):
        host, _, port = address.rpartition(":")
        if port not in ("", "0"):
            targets[broker_id] = f"{hosts[broker_id] if host in _EVERY_ADDRESS else host}:{port}"
    return targets


def problems(found: ClusterStatus, targets: Mapping[int, str]) -> Iterator[str]:
    """Yield what the addresses leave out, and which of them only their own host reaches."""
    known = {*(broker.broker_id for broker in found.health.live), *(broker.broker_id for broker in found.health.down)}
    absent = [str(broker_id) for broker_id in sorted(known - targets.keys())]
    if absent:
        yield f"no metrics address is known of broker {', '.join(absent)}, which {TARGETS_FILE} leaves out"
    elsewhere = [
        str(broker.broker_id)
        for broker in found.health.live
        if targets.get(broker.broker_id, "").startswith(_LOOPBACK) and not broker.address.startswith(_LOOPBACK)
    ]
    if elsewhere:
        yield (
            f"broker {', '.join(elsewhere)} serves metrics on the loopback address of its host: run Prometheus "
            "there, or set metrics.listener to an address that Prometheus reaches"
        )


def _write(directory: Path, targets: Mapping[int, str], name: str) -> None:
    scraped = [
        {"targets": [address], "labels": {"cluster": name, "broker": str(broker_id)}}
        for broker_id, address in targets.items()
    ]
    try:
        directory.mkdir(parents=True, exist_ok=True)
        for file in FILES:
            if not (directory / file).exists():
                write_atomically(directory / file, (SHIPPED / file).read_text("utf-8"))
        write_atomically(directory / TARGETS_FILE, json.dumps(scraped, indent=2) + "\n")
    except OSError as error:
        raise UsageError(f"{directory} cannot be written: {error.strerror}") from None
