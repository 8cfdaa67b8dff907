"""The front door: the console command `highwater`. It mounts the rooms' own command groups and does nothing else."""

from __future__ import annotations

import sys

import typer
from typer.exceptions import TyperException

import bench.cli
import broker.cli
import reports.cli
import tuning.cli

app = typer.Typer(
    name="highwater",
    help="Benchmark and tune hosts for Kafka-protocol log brokers.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
app.add_typer(bench.cli.app, name="bench")
app.add_typer(broker.cli.app, name="broker")
app.add_typer(tuning.cli.app, name="tune")
app.command(name="report")(reports.cli.report)


def main() -> None:
    """Entry point of the console command. A mistake in the call itself gets one line and exit status 2."""
    try:
        status = app(standalone_mode=False)
    except typer.Abort:
        status = 130
    except TyperException as error:
        message = error.format_message().strip()
        if message:  # a group called without a command has printed its help, and has nothing to add
            typer.echo(f"error: {message}", err=True)
        status = error.exit_code
    sys.exit(status)


if __name__ == "__main__":
    main()
