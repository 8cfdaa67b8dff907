"""`bench run`: runs a workload, or shows and checks what would run.

Imports are late so that --help is fast.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from highwater.bench.commands.common import AsJson, Quiet, one_line_errors
from highwater.bench.commands.load_options import LoadOptions
from highwater.bench.commands.planning import show, tell_workload
from highwater.bench.commands.run_options import RunOptions
from highwater.common.command_options import with_options
from highwater.common.watch_options import Watch, WatchPort, page_of

if TYPE_CHECKING:
    from highwater.bench.display.live_figures import LiveFiguresObserver
    from highwater.bench.telemetry.control import ControlTopic
    from highwater.bench.trials.plan import Plan
    from highwater.bench.trials.progress import Observer
    from highwater.common.page_process import PageProcess

# Written out here, so that --help does not need the import.
Compat = Literal["kafka"]

Telemetry = Annotated[
    str | None,
    typer.Option(
        "--telemetry",
        metavar="HOST:PORT,…",
        help="Publish live figures from the load tasks to this broker (see docs/telemetry.md).",
    ),
]
TelemetryConfig = Annotated[
    Path | None,
    typer.Option("--telemetry-config", metavar="FILE", help="TLS and SASL properties for the control broker."),
]


@with_options
def run(
    *,
    options: RunOptions,
    load: LoadOptions,
    telemetry: Telemetry = None,
    telemetry_config: TelemetryConfig = None,
    watch: Watch = False,
    watch_port: WatchPort = None,
    compat: Annotated[
        Compat | None, typer.Option(help="kafka: print each trial as kafka-producer-perf-test does.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Do what bench plan does and stop.")] = False,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Run every trial of a workload and write a result directory."""
    with one_line_errors():
        from highwater.bench.display.tables import print_end, results_as_json
        from highwater.bench.runs.execution import run_plan
        from highwater.results.analysis.answer import answer_of
        from highwater.results.reader import RunResult

        asked = options.asked(load)
        if dry_run:
            show(asked, as_json=as_json)
            return
        if not (quiet or as_json):
            tell_workload(asked.plan, err=True)
        page = page_of(watch, watch_port)
        manifest = run_plan(
            asked.plan,
            asked.directory,
            launcher=asked.launcher,
            observer=observer_of(asked.plan, quiet, compat, page),
            keep_data=asked.keep_data,
            resume=asked.resume is not None,
            retry_invalid=asked.retry_invalid,
            calibration=asked.calibration,
            probes=asked.probes,
            telemetry=control_of(telemetry, telemetry_config),
        )
        for name, kept in manifest.kept_data.items():
            typer.echo(f"data of storage target {name} is in {kept}", err=True)
        result = RunResult(asked.directory)
        if as_json:
            typer.echo(json.dumps(results_as_json(result), indent=2))
        elif quiet or compat:
            # The lines of --compat are for a parser, which reads standard output.
            typer.echo(answer_of(result).sentence, err=compat is not None)
        else:
            print_end(result)
        raise typer.Exit(manifest.exit_code or 0)


def control_of(telemetry: str | None, config: Path | None) -> ControlTopic | None:
    """Where load tasks publish to. Raises UsageError."""
    from highwater.bench.telemetry.control import ControlTopic
    from highwater.bench.workload.command_config import read_command_config
    from highwater.common.errors import UsageError

    if telemetry is None:
        if config is not None:
            raise UsageError("--telemetry-config is for --telemetry: name the control broker, or leave both out")
        return None
    return ControlTopic(telemetry, connection=read_command_config(config) if config is not None else {})


def observer_of(
    plan: Plan, quiet: bool, compat: Compat | None = None, page: PageProcess | None = None
) -> LiveFiguresObserver:
    """The observer that prints progress, for people or for another program's parser, and writes live figures."""
    from highwater.bench.display.live_figures import LiveFiguresObserver

    return LiveFiguresObserver(plan, _printing(plan, quiet, compat), page)


def _printing(plan: Plan, quiet: bool, compat: Compat | None) -> Observer:
    from rich.console import Console

    from highwater.bench.display.live import LiveObserver
    from highwater.bench.trials.progress import Observer, PlainObserver

    if compat == "kafka":
        from highwater.bench.display.kafka_lines import KafkaLines

        return KafkaLines()
    if quiet:
        return Observer()
    console = Console(stderr=True, highlight=False)
    return LiveObserver(console, plan) if console.is_terminal else PlainObserver()
