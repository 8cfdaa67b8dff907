"""`bench run` and `bench plan`. Imports are late so that --help is fast."""

from __future__ import annotations

import json
import logging
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bench.commands.common import (
    AsJson,
    BootstrapServers,
    PayloadFile,
    Seed,
    StorageOption,
    Trials,
    WorkloadFile,
    one_line_errors,
    pairs_of,
    specification_of,
)

if TYPE_CHECKING:
    from bench.plan import Plan
    from bench.progress import Observer
    from bench.results import Manifest


def run(
    file: WorkloadFile,
    out: Annotated[Path, typer.Option(metavar="DIR", help="Result directory; new or empty.")],
    master: Annotated[str, typer.Option(metavar="URL", help="Spark master.")] = "local[*]",
    spark_conf: Annotated[list[str] | None, typer.Option(metavar="KEY=VALUE", help="Spark configuration.")] = None,
    seed: Seed = None,
    trials: Trials = None,
    payload_file: PayloadFile = None,
    storage: StorageOption = None,
    bootstrap_servers: BootstrapServers = None,
    keep_data: Annotated[bool, typer.Option("--keep-data", help="Keep the broker's files and say where.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress, no table.")] = False,
    as_json: AsJson = False,
) -> None:
    """Run every trial of a workload and write a result directory."""
    with one_line_errors():
        from bench.plan import make_plan
        from bench.results import RunResult
        from bench.tables import print_end, results_as_json

        specification = specification_of(file, trials, payload_file, storage, bootstrap_servers)
        plan = make_plan(specification, seed)
        conf = pairs_of(spark_conf, "--spark-conf")
        manifest = _run(plan, out, master, conf, keep_data, _observer(plan, quiet))
        result = RunResult(out)
        if as_json:
            typer.echo(json.dumps(results_as_json(result), indent=2))
        elif not quiet:
            print_end(result)
        raise typer.Exit(manifest.exit_code or 0)


def plan(
    file: WorkloadFile,
    seed: Seed = None,
    trials: Trials = None,
    payload_file: PayloadFile = None,
    storage: StorageOption = None,
    bootstrap_servers: BootstrapServers = None,
    as_json: AsJson = False,
) -> None:
    """Show which trials would run in which order, for how long, on how much disk. Starts nothing."""
    with one_line_errors():
        from bench.plan import make_plan
        from bench.tables import plan_as_json, print_plan

        made = make_plan(specification_of(file, trials, payload_file, storage, bootstrap_servers), seed)
        if as_json:
            typer.echo(json.dumps(plan_as_json(made), indent=2))
        else:
            print_plan(made)


def _run(
    plan: Plan, out: Path, master: str, spark_conf: dict[str, str], keep_data: bool, observer: Observer
) -> Manifest:
    from bench.results import ResultWriter
    from bench.runner import Run, Surroundings, check_slots, prepare
    from bench.stopping import StopRequest
    from bench.storage import StorageAreas
    from spark_loadgen import SparkLauncher
    from tuning.facts import collect

    writer = ResultWriter(out)
    # Until trials run there is nothing to keep: both signals end the run at once, and everything is cleaned up.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    # py4j logs a traceback of every Ctrl-C on the root logger, which without a handler prints it.
    logging.getLogger().addHandler(logging.NullHandler())
    stop = StopRequest()
    try:
        with StorageAreas(keep_data) as areas, observer:
            prepare(plan, areas)
            with SparkLauncher(master=master, spark_conf=spark_conf) as launcher:
                check_slots(plan, launcher)
                with stop.taking_signals():
                    surroundings = Surroundings(argv=sys.argv, directory=Path.cwd())
                    manifest = Run(plan, surroundings, writer, launcher, collect(), areas, observer, stop).execute()
    finally:
        writer.remove_if_empty()
    for name, directory in areas.directories.items() if keep_data else ():
        typer.echo(f"data of storage target {name} kept in {directory}", err=True)
    return manifest


def _observer(plan: Plan, quiet: bool) -> Observer:
    from rich.console import Console

    from bench.live import LiveObserver
    from bench.progress import Observer, PlainObserver

    if quiet:
        return Observer()
    console = Console(stderr=True, highlight=False)
    return LiveObserver(console, plan) if console.is_terminal else PlainObserver()
