"""`highwater tune agent`, mounted under `tune` by highwater/cli.py: serves the state of this host."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from highwater.bench.errors import UsageError, text_of
from highwater.bench.host_agent.broker_metrics import is_page_address
from highwater.bench.host_agent.collecting import AgentSettings, HostReaderForAgent
from highwater.bench.host_agent.serving import DEFAULT_LISTEN, TOKEN_VARIABLE, access_of, serve


def agent(
    log_dir: Annotated[
        list[Path] | None,
        typer.Option(metavar="DIR", help="Log directory of a broker on this host; repeatable."),
    ] = None,
    broker_metrics: Annotated[
        list[str] | None,
        typer.Option(
            metavar="[ID=]URL",
            help="The broker's page of metrics, such as http://127.0.0.1:9404/metrics; repeatable, with the broker's "
            "id if there are several.",
        ),
    ] = None,
    listen: Annotated[str, typer.Option(metavar="HOST:PORT", help="Port 0 takes a free one.")] = DEFAULT_LISTEN,
    token_file: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help=f"Who asks must send this token; or {TOKEN_VARIABLE} in the environment."),
    ] = None,
    tls_certificate: Annotated[Path | None, typer.Option(metavar="FILE", help="PEM, with its chain.")] = None,
    tls_key: Annotated[Path | None, typer.Option(metavar="FILE", help="PEM.")] = None,
    once: Annotated[bool, typer.Option("--once", help="Print the answer as JSON and end.")] = False,
) -> None:
    """Serve the state of this host to a monitor: CPU, memory, page cache, write-back, disks, brokers, tuning and drift.

    JSON is at /host, Prometheus' format at /metrics. The agent changes nothing. On an address that other hosts can
    reach it needs a token and TLS. Run it as root, or it cannot tell what brokers of other users read from disks.

    Exit codes: 0 ended by a signal; 2 a mistake in the call.
    """
    try:
        settings = AgentSettings(_directories(log_dir or []), _pages(broker_metrics or []))
        if once:
            typer.echo(HostReaderForAgent(settings).answer().as_json())
            return
        serve(settings, access_of(listen, token_file, tls_certificate, tls_key, os.environ))
    except UsageError as error:
        typer.echo(f"error: {error}", err=True)
        raise typer.Exit(2) from None
    except OSError as error:
        typer.echo(f"error: {text_of(error)}", err=True)
        raise typer.Exit(2) from None


def _directories(given: list[Path]) -> tuple[Path, ...]:
    found = []
    for directory in given:
        # That a directory is not there yet, or its disk not mounted, belongs into the answer.
        if directory.exists() and not directory.is_dir():
            raise UsageError(f"--log-dir {directory}: not a directory")
        found.append(directory.resolve())
    return tuple(dict.fromkeys(found))


def _pages(given: list[str]) -> dict[int | None, str]:
    pages: dict[int | None, str] = {}
    for each in given:
        name, equals, url = each.partition("=")
        broker = int(name) if equals and name.isdecimal() else None
        address = each if broker is None else url
        if not is_page_address(address):
            raise UsageError(f"--broker-metrics {each}: not [ID=]URL, such as 1=http://127.0.0.1:9404/metrics")
        if broker in pages:
            whose = "without a broker's id" if broker is None else f"of broker {broker}"
            raise UsageError(f"--broker-metrics {each}: a second page {whose}")
        pages[broker] = address
    return pages
