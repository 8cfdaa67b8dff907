"""`bench run` and `bench plan`: run a workload, or show what would run.

Imports are late so that --help is fast.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from highwater.bench.commands.common import (
    AsJson,
    BootstrapServers,
    CalibrationFile,
    CommandConfig,
    Launcher,
    PayloadFile,
    Quiet,
    Seed,
    SparkConf,
    SparkMaster,
    StorageOption,
    Trials,
    WorkloadFile,
    calibration_of,
    one_line_errors,
    pairs_of,
    specification_of,
)
from highwater.bench.runs.launchers import LauncherKind

if TYPE_CHECKING:
    from highwater.bench.trials.plan import Plan, Price
    from highwater.bench.trials.progress import Observer

# Written out here, so that --help does not need the import.
Compat = Literal["kafka"]


def run(
    file: WorkloadFile,
    out: Annotated[Path | None, typer.Option(metavar="DIR", help="Result directory; new or empty.")] = None,
    resume: Annotated[Path | None, typer.Option(metavar="DIR", help="Continue an interrupted run.")] = None,
    launcher: Launcher = LauncherKind.SPARK,
    master: SparkMaster = None,
    spark_conf: SparkConf = None,
    seed: Seed = None,
    trials: Trials = None,
    payload_file: PayloadFile = None,
    storage: StorageOption = None,
    bootstrap_servers: BootstrapServers = None,
    command_config: CommandConfig = None,
    keep_data: Annotated[bool, typer.Option("--keep-data", help="Keep the broker's files and say where.")] = False,
    calibration: CalibrationFile = None,
    probes: Annotated[
        Path | None, typer.Option(metavar="FILE", help="What fio measured on the hosts of external clusters.")
    ] = None,
    compat: Annotated[
        Compat | None, typer.Option(help="kafka: print each trial as kafka-producer-perf-test does.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the plan and stop.")] = False,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Run every trial of a workload and write a result directory."""
    with one_line_errors():
        from highwater.bench.display.tables import print_end, results_as_json
        from highwater.bench.results import RunResult
        from highwater.bench.runs.execution import LauncherChoice, run_plan
        from highwater.bench.runs.resume import seed_of
        from highwater.bench.storage.given_probes import load_probes
        from highwater.bench.trials.plan import make_plan

        specification = specification_of(file, trials, payload_file, storage, bootstrap_servers, command_config)
        plan = make_plan(specification, seed if resume is None else seed_of(resume, seed))
        if dry_run:
            show_plan(plan, None, as_json)
            return
        directory = directory_of(out, resume)
        given = [] if probes is None else load_probes(probes, specification.workload.system.clusters)
        manifest = run_plan(
            plan,
            directory,
            launcher=LauncherChoice(launcher, master, pairs_of(spark_conf, "--spark-conf")),
            observer=observer_of(plan, quiet, compat),
            keep_data=keep_data,
            resume=resume is not None,
            calibration=calibration_of(calibration),
            probes=given,
        )
        for name, kept in manifest.kept_data.items():
            typer.echo(f"data of storage target {name} kept in {kept}", err=True)
        result = RunResult(directory)
        if as_json:
            typer.echo(json.dumps(results_as_json(result), indent=2))
        elif not (quiet or compat):
            print_end(result)
        raise typer.Exit(manifest.exit_code or 0)


def directory_of(out: Path | None, resume: Path | None) -> Path:
    """The result directory. Raises UsageError unless exactly one of the two is given."""
    from highwater.bench.errors import UsageError

    if out is not None and resume is not None:
        raise UsageError("--out begins a run and --resume goes on with one; give one of them")
    directory = out or resume
    if directory is None:
        raise UsageError("name a result directory with --out DIR (or go on with an interrupted run: --resume DIR)")
    return directory


def plan(
    file: WorkloadFile,
    seed: Seed = None,
    trials: Trials = None,
    payload_file: PayloadFile = None,
    storage: StorageOption = None,
    bootstrap_servers: BootstrapServers = None,
    command_config: CommandConfig = None,
    price_per_hour: Annotated[
        float | None,
        typer.Option(metavar="X", min=0, help="Price of the machines per hour, to show the price of the run."),
    ] = None,
    currency: Annotated[str, typer.Option(metavar="NAME", help="Currency of --price-per-hour.")] = "USD",
    as_json: AsJson = False,
) -> None:
    """Show the trials in their order, the expected duration, and the disk space needed. Starts nothing."""
    with one_line_errors():
        from highwater.bench.trials.plan import Price, make_plan

        price = None if price_per_hour is None else Price(price_per_hour, currency)
        made = make_plan(specification_of(file, trials, payload_file, storage, bootstrap_servers, command_config), seed)
        show_plan(made, price, as_json)


def show_plan(plan: Plan, price: Price | None, as_json: bool) -> None:
    """Print the plan, for people or as JSON."""
    from highwater.bench.display.tables import plan_as_json, print_plan

    if as_json:
        typer.echo(json.dumps(plan_as_json(plan, price), indent=2))
    else:
        print_plan(plan, price)


def observer_of(plan: Plan, quiet: bool, compat: Compat | None = None) -> Observer:
    """The observer that prints progress, for people or for another program's parser."""
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
