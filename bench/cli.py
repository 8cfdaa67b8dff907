"""`highwater bench …`: run a workload, show its plan, check a result. Imports are late so that --help is fast."""

from __future__ import annotations

import json
import logging
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from bench.plan import Plan
    from bench.progress import Observer
    from bench.results import Manifest
    from bench.specification import Specification
    from bench.yaml_document import Location

app = typer.Typer(
    no_args_is_help=True,
    help="Measure a broker with load from Spark executors.\n\n"
    "Exit codes: 0 all well; 2 bad input or set-up; 3 the system failed or lost data; 4 a measurement is not valid; "
    "130 interrupted, with what was measured so far kept.",
)

WorkloadFile = Annotated[Path, typer.Argument(metavar="FILE", help="Workload file (YAML, schema bench.workload/1).")]
Trials = Annotated[int | None, typer.Option(min=1, max=1000, help="Trials of each cell, instead of the file's.")]
Seed = Annotated[int | None, typer.Option(min=0, help="Seed of order and payload, instead of the file's.")]
PayloadFile = Annotated[Path | None, typer.Option(metavar="FILE", help="Send the lines of this text file.")]
StorageOption = Annotated[
    list[str] | None,
    typer.Option(metavar="NAME=PATH", help="A storage target, and the one to use unless the matrix chooses."),
]
BootstrapServers = Annotated[
    str | None, typer.Option(metavar="HOST:PORT,…", help="Measure this running cluster and start no broker.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON on standard output.")]


@app.command()
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
    with _one_line_errors():
        from bench.plan import make_plan
        from bench.results import RunResult
        from bench.tables import print_end, results_as_json

        specification = _specification(file, trials, payload_file, storage, bootstrap_servers)
        plan = make_plan(specification, seed)
        conf = _pairs(spark_conf, "--spark-conf")
        manifest = _run(plan, out, master, conf, keep_data, _observer(plan, quiet))
        result = RunResult(out)
        if as_json:
            typer.echo(json.dumps(results_as_json(result), indent=2))
        elif not quiet:
            print_end(result)
        raise typer.Exit(manifest.exit_code or 0)


@app.command()
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
    with _one_line_errors():
        from bench.plan import make_plan
        from bench.tables import plan_as_json, print_plan

        made = make_plan(_specification(file, trials, payload_file, storage, bootstrap_servers), seed)
        if as_json:
            typer.echo(json.dumps(plan_as_json(made), indent=2))
        else:
            print_plan(made)


@app.command()
def schema() -> None:
    """Print the JSON Schema of workload files, for editors."""
    from bench.workload import json_schema

    typer.echo(json.dumps(json_schema(), indent=2))


@app.command()
def verify(directory: Annotated[Path, typer.Argument(metavar="DIR", help="Result directory.")]) -> None:
    """Recompute percentiles and counts of a result directory; exit code 4 when they disagree with what it says."""
    with _one_line_errors():
        from bench.results import RunResult
        from bench.runner import EXIT_INVALID
        from bench.verify import disagreements

        result = RunResult(directory)
        found = list(disagreements(result))
        for line in found:
            typer.echo(line, err=True)
        if found:
            raise typer.Exit(EXIT_INVALID)
        typer.echo(f"{directory}: {len(result.trials)} trials agree with their histograms and windows")


def _specification(
    file: Path,
    trials: int | None,
    payload_file: Path | None,
    storage: list[str] | None,
    bootstrap_servers: str | None,
) -> Specification:
    from bench.specification import load_specification

    overrides: dict[Location, tuple[Any, str]] = {}
    if trials is not None:
        overrides["trials", "n"] = (trials, "--trials")
    if payload_file is not None:
        overrides["records", "payload_file"] = (str(payload_file.absolute()), "--payload-file")
        overrides["records", "compress_ratio"] = (None, "--payload-file")
    for name, path in _pairs(storage, "--storage").items():
        overrides["storage", "targets", name] = ({"path": path}, "--storage")
        overrides["storage", "target"] = (name, "--storage")
    if bootstrap_servers is not None:
        overrides["system", "kind"] = ("external", "--bootstrap-servers")
        overrides["system", "bootstrap_servers"] = (bootstrap_servers, "--bootstrap-servers")
    return load_specification(file, overrides)


def _pairs(options: list[str] | None, name: str) -> dict[str, str]:
    from bench.errors import UsageError

    pairs = {}
    for option in options or []:
        key, equals, value = option.partition("=")
        if not (key and equals and value):
            raise UsageError(f"{name}: {option!r} is not of the form NAME=VALUE")
        pairs[key] = value
    return pairs


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


@contextmanager
def _one_line_errors() -> Iterator[None]:
    """Users' mistakes and a host that does not play along are one line each, with the exit code that fits."""
    from bench.errors import StoppedError, UsageError
    from bench.results import ResultDirectoryError
    from spark_loadgen import LoadSetupError

    try:
        yield
    except (UsageError, ResultDirectoryError, LoadSetupError) as error:
        typer.echo(f"error: {error}", err=True)
        raise typer.Exit(2) from None
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        typer.echo(f"error: {where}{error.strerror or error}", err=True)
        raise typer.Exit(2) from None
    except (KeyboardInterrupt, StoppedError):
        typer.echo("interrupted", err=True)
        raise typer.Exit(130) from None
