"""`bench run` and `bench plan`: run a workload, or show and check what would run.

Imports are late so that --help is fast.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from highwater.bench.commands import load_options
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
    probes_of,
    specification_of,
)
from highwater.bench.commands.planning import Asked, show, tell_workload
from highwater.bench.runs.launchers import LauncherChoice, LauncherKind

if TYPE_CHECKING:
    from highwater.bench.telemetry.control import ControlTopic
    from highwater.bench.trials.plan import Plan
    from highwater.bench.trials.progress import Observer
    from highwater.bench.workload.specification import Specification

# Written out here, so that --help does not need the import.
Compat = Literal["kafka"]


Resume = Annotated[Path | None, typer.Option(metavar="DIR", help="Continue an interrupted run.")]
RetryInvalid = Annotated[
    bool, typer.Option("--retry-invalid", help="With --resume: measure invalid and failed trials again, on record.")
]
Out = Annotated[Path | None, typer.Option(metavar="DIR", help="Result directory; new or empty.")]
Telemetry = Annotated[
    str | None,
    typer.Option(
        "--telemetry", metavar="HOST:PORT,…", help="Load tasks publish live figures to this control broker (docs)."
    ),
]
TelemetryConfig = Annotated[
    Path | None,
    typer.Option("--telemetry-config", metavar="FILE", help="TLS and SASL properties for the control broker."),
]
KeepData = Annotated[bool, typer.Option("--keep-data", help="Keep the broker's files and say where.")]
Probes = Annotated[
    Path | None, typer.Option(metavar="FILE", help="What fio measured on the hosts of external clusters.")
]


def run(
    context: typer.Context,
    file: WorkloadFile = None,
    out: Out = None,
    resume: Resume = None,
    retry_invalid: RetryInvalid = False,
    launcher: Launcher = LauncherKind.SPARK,
    master: SparkMaster = None,
    spark_conf: SparkConf = None,
    seed: Seed = None,
    trials: Trials = None,
    payload_file: PayloadFile = None,
    storage: StorageOption = None,
    bootstrap_servers: BootstrapServers = None,
    command_config: CommandConfig = None,
    keep_data: KeepData = False,
    calibration: CalibrationFile = None,
    probes: Probes = None,
    telemetry: Telemetry = None,
    telemetry_config: TelemetryConfig = None,
    compat: Annotated[
        Compat | None, typer.Option(help="kafka: print each trial as kafka-producer-perf-test does.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Do what bench plan does and stop.")] = False,
    quiet: Quiet = False,
    as_json: AsJson = False,
    rate: load_options.Rate = None,
    size: load_options.Size = None,
    measure: load_options.Measure = None,
    warmup: load_options.Warmup = None,
    acks: load_options.Acks = None,
    compression: load_options.Compression = None,
    batch_size: load_options.BatchSize = None,
    linger: load_options.Linger = None,
    partitions: load_options.Partitions = None,
    producers: load_options.Producers = None,
    consumers: load_options.Consumers = None,
    system: load_options.System = None,
) -> None:
    """Run every trial of a workload and write a result directory."""
    with one_line_errors():
        from highwater.bench.analysis.answer import answer_of
        from highwater.bench.display.tables import print_end, results_as_json
        from highwater.bench.results import RunResult
        from highwater.bench.runs.execution import run_plan

        specification = specification_of(
            file,
            trials,
            payload_file,
            storage,
            bootstrap_servers,
            command_config,
            load=load_options.load_in_one_line(context),
            resume=resume,
        )
        asked = Asked(
            plan=_plan_of(specification, seed, resume),
            launcher=LauncherChoice(launcher, master, pairs_of(spark_conf, "--spark-conf")),
            out=out,
            resume=resume,
            retry_invalid=retry_invalid,
            keep_data=keep_data,
            calibration=calibration_of(calibration),
            probes=probes_of(probes, specification),
        )
        if dry_run:
            show(asked, as_json=as_json)
            return
        if not (quiet or as_json):
            tell_workload(asked.plan, err=True)
        manifest = run_plan(
            asked.plan,
            asked.directory,
            launcher=asked.launcher,
            observer=observer_of(asked.plan, quiet, compat),
            keep_data=keep_data,
            resume=resume is not None,
            retry_invalid=retry_invalid,
            calibration=asked.calibration,
            probes=asked.probes,
            telemetry=control_of(telemetry, telemetry_config),
        )
        for name, kept in manifest.kept_data.items():
            typer.echo(f"data of storage target {name} kept in {kept}", err=True)
        result = RunResult(asked.directory)
        if as_json:
            typer.echo(json.dumps(results_as_json(result), indent=2))
        elif quiet or compat:
            # The lines of --compat are for a parser, which reads standard output.
            typer.echo(answer_of(result).sentence, err=compat is not None)
        else:
            print_end(result)
        raise typer.Exit(manifest.exit_code or 0)


def plan(
    context: typer.Context,
    file: WorkloadFile = None,
    out: Out = None,
    resume: Resume = None,
    retry_invalid: RetryInvalid = False,
    launcher: Launcher = LauncherKind.SPARK,
    master: SparkMaster = None,
    spark_conf: SparkConf = None,
    seed: Seed = None,
    trials: Trials = None,
    payload_file: PayloadFile = None,
    storage: StorageOption = None,
    bootstrap_servers: BootstrapServers = None,
    command_config: CommandConfig = None,
    keep_data: KeepData = False,
    calibration: CalibrationFile = None,
    probes: Probes = None,
    price_per_hour: Annotated[
        float | None,
        typer.Option(metavar="X", min=0, help="Price of the machines per hour, to show the price of the run."),
    ] = None,
    currency: Annotated[str, typer.Option(metavar="NAME", help="Currency of --price-per-hour.")] = "USD",
    lake: Annotated[
        Path | None,
        typer.Option("--lake", metavar="DIR", help="Say how small a change the trials can show, from earlier runs."),
    ] = None,
    as_json: AsJson = False,
    rate: load_options.Rate = None,
    size: load_options.Size = None,
    measure: load_options.Measure = None,
    warmup: load_options.Warmup = None,
    acks: load_options.Acks = None,
    compression: load_options.Compression = None,
    batch_size: load_options.BatchSize = None,
    linger: load_options.Linger = None,
    partitions: load_options.Partitions = None,
    producers: load_options.Producers = None,
    consumers: load_options.Consumers = None,
    system: load_options.System = None,
) -> None:
    """Show trials, duration and disk space, and refuse what bench run would refuse. Starts nothing."""
    with one_line_errors():
        from highwater.bench.trials.plan import Price

        specification = specification_of(
            file,
            trials,
            payload_file,
            storage,
            bootstrap_servers,
            command_config,
            load=load_options.load_in_one_line(context),
            resume=resume,
        )
        asked = Asked(
            plan=_plan_of(specification, seed, resume),
            launcher=LauncherChoice(launcher, master, pairs_of(spark_conf, "--spark-conf")),
            out=out,
            resume=resume,
            retry_invalid=retry_invalid,
            keep_data=keep_data,
            calibration=calibration_of(calibration),
            probes=probes_of(probes, specification),
        )
        price = None if price_per_hour is None else Price(price_per_hour, currency)
        show(asked, price, as_json=as_json, lake=lake)


def _plan_of(specification: Specification, seed: int | None, resume: Path | None) -> Plan:
    from highwater.bench.runs.resume import seed_of
    from highwater.bench.trials.plan import make_plan

    return make_plan(specification, seed if resume is None else seed_of(resume, seed))


def control_of(telemetry: str | None, config: Path | None) -> ControlTopic | None:
    """Where load tasks publish to. Raises UsageError."""
    from highwater.bench.errors import UsageError
    from highwater.bench.telemetry.control import ControlTopic
    from highwater.bench.workload.command_config import read_command_config

    if telemetry is None:
        if config is not None:
            raise UsageError("--telemetry-config is for --telemetry: name the control broker, or leave both out")
        return None
    return ControlTopic(telemetry, connection=read_command_config(config) if config is not None else {})


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
