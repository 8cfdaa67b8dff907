"""`highwater tune agent`, mounted under `tune` by highwater/cli.py: serves the state of this host."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from highwater.bench.host_agent.broker_metrics import is_page_address
from highwater.bench.host_agent.collecting import AgentSettings, HostReaderForAgent
from highwater.bench.host_agent.serving import DEFAULT_LISTEN, TOKEN_VARIABLE, access_of, serve
from highwater.common.command_errors import errors_in_one_line
from highwater.common.errors import UsageError, text_of
from highwater.common.exit_codes import EXIT_USAGE


def agent(
    log_dir: Annotated[
        list[Path] | None,
        typer.Option(metavar="DIR", help="Log directory of a broker on this host; may be repeated."),
    ] = None,
    broker_metrics: Annotated[
        list[str] | None,
        typer.Option(
            metavar="[DIR=]URL",
            help="The broker's metrics page, such as http://127.0.0.1:9404/metrics; may be repeated, with one of the "
            "broker's log directories if there are several brokers.",
        ),
    ] = None,
    listen: Annotated[
        str, typer.Option(metavar="HOST:PORT", help="Address to listen on; port 0 takes a free one.")
    ] = DEFAULT_LISTEN,
    token_file: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help=f"File with the token that clients must send; or set {TOKEN_VARIABLE}."),
    ] = None,
    tls_certificate: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Certificate in PEM format, with its chain.")
    ] = None,
    tls_key: Annotated[Path | None, typer.Option(metavar="FILE", help="Private key in PEM format.")] = None,
    once: Annotated[bool, typer.Option("--once", help="Print the answer as JSON and exit.")] = False,
) -> None:
    """Serve the state of this host to a monitor: CPU, memory, page cache, write-back, disks, brokers, tuning and drift.

    JSON is at /host, Prometheus' format at /metrics. The agent changes nothing. On an address that other hosts can
    reach it needs a token and TLS. Run it as root, or it cannot see what brokers of other users read from disks.

    Exit codes: 0 ended by a signal; 2 usage error.
    """
    with errors_in_one_line(
        {UsageError: EXIT_USAGE, OSError: EXIT_USAGE},
        lambda error: text_of(error) if isinstance(error, OSError) else str(error),
    ):
        directories = _directories(log_dir or [])
        settings = AgentSettings(directories, _pages(broker_metrics or [], directories))
        if once:
            typer.echo(HostReaderForAgent(settings).answer().as_json())
            return
        serve(settings, access_of(listen, token_file, tls_certificate, tls_key, os.environ))


def _directories(given: list[Path]) -> tuple[Path, ...]:
    found = []
    for directory in given:
        # That a directory is not there yet, or its disk not mounted, belongs into the answer.
        if directory.exists() and not directory.is_dir():
            raise UsageError(f"--log-dir {directory}: not a directory")
        found.append(directory.resolve())
    return tuple(dict.fromkeys(found))


def _pages(given: list[str], directories: tuple[Path, ...]) -> dict[Path | None, str]:
    pages: dict[Path | None, str] = {}
    for each in given:
        # A URL may have `=` in it too.
        name, equals, url = each.partition("=") if not is_page_address(each) else ("", "", each)
        directory = Path(name).resolve() if equals else None
        if not is_page_address(url):
            raise UsageError(f"--broker-metrics {each}: not [DIR=]URL, such as http://127.0.0.1:9404/metrics")
        if directory is not None and directory not in directories:
            raise UsageError(f"--broker-metrics {each}: {name} is no --log-dir of this call")
        if directory in pages:
            whose = "without a log directory" if directory is None else f"of {name}"
            raise UsageError(f"--broker-metrics {each}: a second page {whose}")
        pages[directory] = url
    return pages
