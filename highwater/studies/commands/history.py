"""`bench history add|list|changes|ack`: results over time; the room `reports` brings `report`.

Imports are late so that --help is fast.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from highwater.bench.commands.common import AsJson, one_line_errors, parsed
from highwater.common.late_commands import LateGroup
from highwater.studies.lake.extra import named_extra

if TYPE_CHECKING:
    from highwater.studies.history.detection import Detection
    from highwater.studies.history.series import Change, Series

app = typer.Typer(cls=LateGroup, no_args_is_help=True, help="Results over time, and where they changed.")

_History = Annotated[Path, typer.Option("--history", metavar="DIR", help="The directory of the history.")]
_Workload = Annotated[str | None, typer.Option(metavar="NAME", help="The series of this workload.")]
_Environment = Annotated[str | None, typer.Option(metavar="KEY", help="The series of this environment key or prefix.")]
_Lake = Annotated[
    Path | None, typer.Option("--lake", metavar="DIR", help="Take the runs from this lake instead of a history.")
]
_DEFAULT_HISTORY = Path("history")


@app.command()
def add(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="Result directory.")],
    history: _History = _DEFAULT_HISTORY,
    branch: Annotated[str, typer.Option(metavar="NAME", help="Branch that was measured.")] = "",
    commit: Annotated[
        str | None, typer.Option(metavar="SHA", help="Commit that was measured; default: the run's own.")
    ] = None,
    new_environment: Annotated[
        bool, typer.Option("--new-environment", help="Begin a new series for the new environment key.")
    ] = False,
) -> None:
    """Append a run to the history of its workload.

    Exit code 5 when the history was measured under other conditions.
    """
    with one_line_errors():
        from highwater.common.units import plural
        from highwater.results.reader import RunResult
        from highwater.studies.history.series import add as append
        from highwater.studies.history.series import doubts

        result = RunResult(directory)
        series = append(result, history, branch=branch, commit=commit, new_environment=new_environment)
        typer.echo(f"{series.path}: {plural(len(series.rows()), 'run')}")
        for doubt in doubts(result, series):
            typer.echo(f"note: {doubt}")


@app.command("list")
def list_(
    history: _History = _DEFAULT_HISTORY,
    lake: _Lake = None,
    everything: Annotated[bool, typer.Option("--all", help="Show every metric, not only the headline ones.")] = False,
    otava: Annotated[
        str | None, typer.Option(metavar="PATH", help="Apache Otava's program; default: the one that is installed.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show each series: its runs, the last change, and the values of each metric as a spark line.

    Change points are looked for if Apache Otava is installed; nothing is installed.
    """
    with one_line_errors():
        from highwater.studies.history.detection import Rules, detect, shown_columns
        from highwater.studies.history.otava import otava_present

        rules = Rules.of_file(None)
        found = []
        for series in _series(history, lake):
            columns = series.columns() if everything else shown_columns(series, rules, brief=True)
            found.append((series, columns, detect(series, rules, columns, partial(otava_present, otava))))
        if as_json:
            typer.echo(json.dumps([_series_as_json(*item) for item in found], indent=2))
            return
        for item in found:
            _print_series(*item)
        if not found:
            verb = "history" if lake is None else "lake"
            typer.echo(f"{lake or history}: nothing stored yet; start with: highwater bench {verb} add DIR")


@app.command()
def changes(
    history: _History = _DEFAULT_HISTORY,
    lake: _Lake = None,
    workload: _Workload = None,
    environment: _Environment = None,
    metric: Annotated[
        list[str] | None, typer.Option("--metric", metavar="NAME", help="Show only this metric; may be repeated.")
    ] = None,
    policy: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Gate policy with the metrics and their floors."),
    ] = None,
    magnitude: Annotated[
        str | None, typer.Option(metavar="PERCENT", help="Smallest change that matters; overrides the policy's floors.")
    ] = None,
    otava: Annotated[
        str | None, typer.Option(metavar="PATH", help="Apache Otava's program; default: install it into the cache.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Find change points with Apache Otava (p 0.001) that are larger than the policy's floor and the A/A noise.

    With too few runs to detect a change, it says so and installs nothing. Exit code 10 when a change for the worse
    is not acknowledged.
    """
    with one_line_errors():
        from highwater.common.exit_codes import EXIT_REGRESSION
        from highwater.common.quantities import parse_percent
        from highwater.common.units import plural
        from highwater.results.metrics import metric as known_metric
        from highwater.studies.history.detection import Rules, detect
        from highwater.studies.history.otava import otava_command

        rules = replace(
            Rules.of_file(policy),
            floor_ratio=None if magnitude is None else parsed("--magnitude", parse_percent, magnitude),
            metrics=[known_metric(name).name for name in metric or []],
        )
        series = _chosen(history, lake, workload, environment)
        detection = detect(series, rules, rules.columns(series), partial(otava_command, otava))
        found = detection.changes
        if as_json:
            typer.echo(json.dumps([_as_json(change) for change in found], indent=2))
        else:
            for change in found:
                typer.echo(_line(change))
            if not found:
                nothing = f"no change point in {plural(len(series.rows()), 'run')}"
                typer.echo(f"{series.path}: {detection.not_looked or nothing}")
        if any(change.is_worse and change.acknowledged is None for change in found):
            raise typer.Exit(EXIT_REGRESSION)


@app.command()
def ack(
    metric: Annotated[str, typer.Argument(metavar="METRIC", help="Column of the history.")],
    place: Annotated[
        str, typer.Argument(metavar="COMMIT|TIME", help="First run after the change; a unique prefix is enough.")
    ],
    reason: Annotated[str, typer.Option(metavar="TEXT", help="Reason for accepting the change.")],
    history: _History = _DEFAULT_HISTORY,
    lake: _Lake = None,
    workload: _Workload = None,
    environment: _Environment = None,
) -> None:
    """Acknowledge a change: it is still reported but no longer fails. The history itself is not changed."""
    with one_line_errors():
        from datetime import UTC, datetime

        from highwater.common.errors import UsageError
        from highwater.studies.history.series import Acknowledgement

        if not reason.strip():
            raise UsageError("--reason: say why the change is accepted")
        series = _chosen(history, lake, workload, environment)
        series.acknowledge(Acknowledgement(metric, place, reason, datetime.now(UTC).isoformat(timespec="seconds")))
        typer.echo(f"{series.path}: {metric} at {place}: {reason}")


def _series(history: Path, lake: Path | None) -> Sequence[Series]:
    """Every series of a history, or of a lake if one is named. Raises UsageError."""
    if lake is None:
        from highwater.studies.history.series import all_series

        return list(all_series(history))
    with named_extra():
        from highwater.studies.lake.manifest import Manifest
        from highwater.studies.lake.series import series_of

        return series_of(Manifest(lake))


def _chosen(history: Path, lake: Path | None, workload: str | None, environment: str | None) -> Series:
    from highwater.studies.history.series import chosen, chosen_of

    if lake is None:
        return chosen(history, workload, environment)
    return chosen_of(_series(history, lake), lake, workload, environment)


def _print_series(series: Series, columns: Sequence[str], detection: Detection) -> None:
    """The answer of a series, then a row for each column."""
    from rich.console import Console
    from rich.markup import escape

    from highwater.common.figure_table import FigureTable
    from highwater.results.metrics import value_text
    from highwater.studies.history.detection import sentence, unit_of
    from highwater.studies.history.series import cell_of, metric_of
    from highwater.studies.history.spark import CHANGE, spark_line

    console = Console(highlight=False)
    console.print(f"[bold]{escape(series.workload)}[/]  [dim]environment {series.environment}[/]")
    console.print(escape(sentence(series, columns, detection)))
    rows = series.rows()
    times = [row["time"] for row in rows]
    for cell in dict.fromkeys(map(cell_of, columns)):
        if cell:
            console.print(f"[bold]{escape(cell)}[/]")
        table = FigureTable()
        table.add_names("metric")
        table.add_figures("oldest to newest run", justify="left")
        table.add_figures("lowest", "highest", "last")
        for column in (name for name in columns if cell_of(name) == cell):
            values = [float(row[column]) if row.get(column) else None for row in rows]
            known = [value for value in values if value is not None]
            if known:
                at = {times.index(change.time) for change in detection.changes if change.column == column}
                figures = (value_text(value, unit_of(column)) for value in (min(known), max(known), known[-1]))
                table.add_row(escape(metric_of(column)), spark_line(values, at), *figures)
        table.print_to(console)
    if detection.changes:
        console.print(f"[dim]{CHANGE} change point[/]")
    if hidden := len({*map(metric_of, series.columns())} - {*map(metric_of, columns)}):
        console.print(f"[dim]{hidden} more metrics with --all[/]")


def _series_as_json(series: Series, columns: Sequence[str], detection: Detection) -> dict[str, Any]:
    from highwater.studies.history.detection import sentence

    rows = series.rows()
    return {
        "workload": series.workload,
        "environment": series.environment,
        "answer": sentence(series, columns, detection),
        "runs": len(rows),
        "first": rows[0]["time"] if rows else None,
        "last": rows[-1]["time"] if rows else None,
        "metrics": series.columns(),
        "values": {name: [float(row[name]) if row.get(name) else None for row in rows] for name in columns},
        "changes": [_as_json(change) for change in detection.changes],
        "not_looked": detection.not_looked,
        "acknowledged": len(series.acknowledgements()),
    }


def _line(change: Change) -> str:
    from highwater.common.units import change_text
    from highwater.results.metrics import value_text
    from highwater.studies.history.detection import unit_of

    unit, point = unit_of(change.column), change.point
    word = "worse" if change.is_worse else "better" if change.better != "none" else "differs"
    text = (
        f"{change.time} {change.commit[:12] or '-'} {change.column}: {value_text(point.before, unit)} → "
        f"{value_text(point.after, unit)} ({change_text(point.ratio)}, {word})"
    )
    if change.workload_changed:
        text += "; the workload file changed with this run"
    return text + (f"; acknowledged: {change.acknowledged}" if change.acknowledged is not None else "")


def _as_json(change: Change) -> dict[str, Any]:
    return {
        "metric": change.column,
        "time": change.time,
        "commit": change.commit,
        "before": change.point.before,
        "after": change.point.after,
        "ratio": change.point.ratio,
        "p_value": change.point.p_value,
        "better": change.better,
        "worse": change.is_worse,
        "acknowledged": change.acknowledged,
        "workload_changed": change.workload_changed,
    }
