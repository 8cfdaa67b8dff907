"""`bench lake add|compact|remove|verify|query`: figures of thousands of runs, and questions.

Imports are late so that --help is fast.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from highwater.bench.commands.common import AsJson, EngineMaster, Quiet, one_line_errors, parsed
from highwater.studies.lake.extra import named_extra

if TYPE_CHECKING:
    from highwater.studies.lake.adding import Addition

app = typer.Typer(no_args_is_help=True, help="Figures of thousands of runs as Parquet, and questions asked of them.")

Memory = Annotated[str, typer.Option(metavar="SIZE", help="Memory of DuckDB, such as 4GiB.")]
Lake = Annotated[Path, typer.Option("--lake", metavar="DIR", help="The directory of the lake.")]
DEFAULT_LAKE = Path("lake")


class Format(StrEnum):
    TABLE = "table"
    JSON = "json"
    CSV = "csv"


class EngineKind(StrEnum):
    LOCAL = "local"
    SPARK = "spark"


@contextmanager
def lake_errors() -> Iterator[None]:
    """Errors in one line each; a package that is missing is named with its extra."""
    with one_line_errors(), named_extra():
        yield


@app.command()
def add(
    directories: Annotated[
        list[Path], typer.Argument(metavar="DIR...", help="Result directories, or folders that contain some.")
    ],
    lake: Lake = DEFAULT_LAKE,
    seconds: Annotated[
        bool, typer.Option("--seconds/--no-seconds", help="Keep the histograms of each second, for time lines.")
    ] = True,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Add runs to the lake; the first one makes it. A run that is there already changes nothing.

    Exit code 4 when a directory was left out: a damaged one is named with its file, and the others are added.
    """
    with lake_errors():
        import json
        from dataclasses import asdict

        from highwater.common.exit_codes import EXIT_INVALID
        from highwater.studies.lake.adding import add as add_to
        from highwater.studies.lake.manifest import Manifest

        found: list[Addition] = []
        for addition in add_to(Manifest(lake), _result_directories(directories), seconds=seconds):
            found.append(addition)
            if addition.outcome == "left out":
                typer.echo(f"left out: {addition.directory}: {addition.text}", err=True)
            elif not quiet and not as_json:
                typer.echo(f"{addition.outcome}: {addition.text}")
        if as_json:
            typer.echo(json.dumps([asdict(addition) for addition in found], indent=2, default=str))
        else:
            typer.echo(f"{lake}: {_added_text(found)}")
        if any(addition.outcome == "left out" for addition in found):
            raise typer.Exit(EXIT_INVALID)


def _result_directories(given: list[Path]) -> list[Path]:
    """The result directories among what was given, and below it. Raises UsageError."""
    from highwater.common.errors import UsageError
    from highwater.results.files import is_result_directory

    found = []
    for path in given:
        if not path.is_dir():
            raise UsageError(f"{path}: no such directory")
        below = [path] if is_result_directory(path) else sorted(filter(is_result_directory, path.iterdir()))
        if not below:
            raise UsageError(f"{path}: neither a result directory nor a folder of result directories")
        found += below
    return found


def _added_text(found: list[Addition]) -> str:
    from highwater.common.units import plural, size_text

    added = [addition for addition in found if addition.outcome == "added"]
    parts = [f"{plural(len(added), 'run')} added"]
    if added:
        trials, size = (sum(getattr(item, name) for item in added) for name in ("trials", "bytes"))
        plain = size - sum(item.bytes_of_seconds for item in added)
        parts[0] += (
            f" ({plural(trials, 'trial')}, {size_text(size)}; {size_text(plain / trials)} a trial without seconds)"
        )
    counts = {outcome: sum(item.outcome == outcome for item in found) for outcome in ("there already", "left out")}
    return ", ".join([*parts, *(f"{count} {outcome}" for outcome, count in counts.items() if count)])


@app.command()
def compact(lake: Lake = DEFAULT_LAKE) -> None:
    """Merge the files of each month, so that questions open a few files instead of thousands."""
    with lake_errors():
        from highwater.common.units import count_text, plural, size_text
        from highwater.studies.lake.compacting import compact as compacted
        from highwater.studies.lake.manifest import Manifest

        done = compacted(Manifest(lake))
        typer.echo(
            f"{lake}: {plural(done.months, 'month')} compacted; "
            f"{plural(done.files_before, 'file')} ({size_text(done.bytes_before)}) → "
            f"{count_text(done.files_after)} ({size_text(done.bytes_after)})"
        )


@app.command()
def remove(
    run: Annotated[str, typer.Argument(metavar="RUN", help="The id of the run.")], lake: Lake = DEFAULT_LAKE
) -> None:
    """Take a run out of the lake."""
    with lake_errors():
        from highwater.studies.lake.compacting import remove as remove_from
        from highwater.studies.lake.manifest import Manifest

        remove_from(Manifest(lake), run)
        typer.echo(f"{lake}: {run} removed")


@app.command()
def verify(lake: Lake = DEFAULT_LAKE) -> None:
    """Check the digest of every file. Exit code 4 when one is damaged or missing."""
    with lake_errors():
        from highwater.common.exit_codes import EXIT_INVALID
        from highwater.common.units import plural
        from highwater.studies.lake.manifest import Manifest
        from highwater.studies.lake.storage import disagreement

        groups = Manifest(lake).groups()
        files = [(group, file) for group in groups for file in group.files]
        wrong = [(group, what) for group, file in files if (what := disagreement(lake, file)) is not None]
        for group, what in wrong:
            others = f" and {len(group.runs) - 1} more" if len(group.runs) > 1 else ""
            typer.echo(f"{what} (of {group.runs[0].run}{others})", err=True)
        if wrong:
            typer.echo(f"{lake}: {len(wrong)} of {plural(len(files), 'file')} are not as the manifest says", err=True)
            raise typer.Exit(EXIT_INVALID)
        runs = sum(len(group.runs) for group in groups)
        typer.echo(f"{lake}: {plural(runs, 'run')} in {plural(len(files), 'file')}, all as the manifest says")


@app.command()
def query(
    question: Annotated[
        str | None, typer.Argument(metavar="QUESTION", help="Q1 … Q12, or its name; --list shows them.")
    ] = None,
    lake: Lake = DEFAULT_LAKE,
    parameters: Annotated[
        list[str] | None,
        typer.Option("--param", metavar="NAME=VALUE", help="A parameter of the question; may be repeated."),
    ] = None,
    sql: Annotated[
        str | None,
        typer.Option("--sql", metavar="FILE|-", help="Run the SELECT in this file instead of a predefined question."),
    ] = None,
    list_: Annotated[
        bool, typer.Option("--list", help="Show the questions, their parameters, and the tables.")
    ] = False,
    format_: Annotated[Format, typer.Option("--format", help="Format of the rows.")] = Format.TABLE,
    engine: Annotated[EngineKind, typer.Option(help="DuckDB in this process, or Spark.")] = EngineKind.LOCAL,
    master: EngineMaster = "local[2]",
    conf: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY=VALUE", help="Spark configuration, for --engine spark; may be repeated."),
    ] = None,
    memory: Memory = "2GiB",
) -> None:
    """Answer a question: one sentence, then the rows. A statement only reads, and reaches nothing but the lake."""
    with lake_errors():
        from highwater.bench.commands.common import pairs_of
        from highwater.common.errors import UsageError
        from highwater.common.quantities import SIZE
        from highwater.studies.commands import lake_output
        from highwater.studies.lake.asking import ask_lake, asked_sql
        from highwater.studies.lake.manifest import Manifest
        from highwater.studies.lake.questions import question_named

        if list_:
            typer.echo(lake_output.catalogue())
            return
        if (question is None) == (sql is None):
            raise UsageError("give one question, or one statement with --sql; --list shows the questions")
        given = pairs_of(parameters, "--param")
        asked = question_named(question) if question is not None else asked_sql(_statement(sql or ""))
        settings = pairs_of(conf, "--conf")
        answer = ask_lake(
            Manifest(lake), asked, given, engine.value, master, settings, parsed("--memory", SIZE.integer, memory)
        )
        typer.echo(lake_output.text_of(answer, format_.value), nl=False)


def _statement(place: str) -> str:
    return sys.stdin.read() if place == "-" else Path(place).read_text("utf-8")


@app.command()
def timeline(
    workload: Annotated[str, typer.Argument(metavar="WORKLOAD", help="Name of the workload.")],
    lake: Lake = DEFAULT_LAKE,
    metric: Annotated[
        str,
        typer.Option(metavar="NAME", help="produce_response, produce_service, send_delay, e2e_response, txn_commit."),
    ] = "produce_response",
    format_: Annotated[Format, typer.Option("--format", help="Format of the rows.")] = Format.TABLE,
    engine: Annotated[EngineKind, typer.Option(help="DuckDB in this process, or Spark.")] = EngineKind.LOCAL,
    master: EngineMaster = "local[2]",
    conf: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY=VALUE", help="Spark configuration, for --engine spark; may be repeated."),
    ] = None,
    memory: Memory = "2GiB",
) -> None:
    """Percentiles of each second since T0, over all usable trials of a workload: all their histograms are added up."""
    with lake_errors():
        from highwater.bench.commands.common import pairs_of
        from highwater.common.errors import UsageError
        from highwater.common.nearest import did_you_mean
        from highwater.common.quantities import SIZE
        from highwater.results.models import LATENCY_METRICS
        from highwater.studies.commands import lake_output
        from highwater.studies.lake.asking import opened, time_line
        from highwater.studies.lake.manifest import Manifest

        known = (*LATENCY_METRICS, "txn_commit")
        if metric not in known:
            raise UsageError(f"--metric: {metric} is none of {', '.join(known)}{did_you_mean(metric, known)}")
        settings = pairs_of(conf, "--conf")
        memory_bytes = parsed("--memory", SIZE.integer, memory)
        with opened(Manifest(lake), engine.value, master, settings, memory_bytes) as connection:
            answer = time_line(connection, workload, metric)
        typer.echo(lake_output.text_of(answer, format_.value), nl=False)
