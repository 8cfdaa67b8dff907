"""`bench history add|list|changes|ack`: results over time.

Imports are late so that --help is fast.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from highwater.bench.commands.common import AsJson, one_line_errors

if TYPE_CHECKING:
    from highwater.bench.history.series import Change

app = typer.Typer(no_args_is_help=True, help="Results over time, and where they changed.")

_History = Annotated[Path, typer.Option("--history", metavar="DIR", help="The directory of the history.")]
_Workload = Annotated[str | None, typer.Option(metavar="NAME", help="The series of this workload.")]
_Environment = Annotated[str | None, typer.Option(metavar="KEY", help="The series of this environment key or prefix.")]
_DEFAULT_HISTORY = Path("history")
# The floor of metrics for which the policy has none.
_FLOOR = "5%"


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
        from highwater.bench.history.series import add as append
        from highwater.bench.results import RunResult

        series = append(RunResult(directory), history, branch=branch, commit=commit, new_environment=new_environment)
        typer.echo(f"{series.path}: {len(series.rows())} runs")


@app.command("list")
def list_(history: _History = _DEFAULT_HISTORY, as_json: AsJson = False) -> None:
    """List the series of the history: workloads, environments, runs."""
    with one_line_errors():
        from highwater.bench.history.series import all_series

        found: list[dict[str, Any]] = []
        for series in all_series(history):
            rows = series.rows()
            found.append(
                {
                    "workload": series.workload,
                    "environment": series.environment,
                    "runs": len(rows),
                    "first": rows[0]["time"] if rows else None,
                    "last": rows[-1]["time"] if rows else None,
                    "metrics": series.columns(),
                    "acknowledged": len(series.acknowledgements()),
                }
            )
        if as_json:
            typer.echo(json.dumps(found, indent=2))
            return
        for item in found:
            typer.echo(
                f"{item['workload']}  environment {item['environment']}  {item['runs']} runs  "
                f"{item['first']} to {item['last']}  {item['acknowledged']} acknowledged"
            )
        if not found:
            typer.echo(f"{history}: nothing kept yet; begin with: highwater bench history add DIR")


@app.command()
def changes(
    history: _History = _DEFAULT_HISTORY,
    workload: _Workload = None,
    environment: _Environment = None,
    metric: Annotated[
        list[str] | None, typer.Option("--metric", metavar="NAME", help="Only this metric; repeatable.")
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

    Exit code 10 when a change for the worse is not acknowledged.
    """
    with one_line_errors():
        from highwater.bench.exit_codes import EXIT_REGRESSION
        from highwater.bench.gate.policy import default_policy, load_policy, metrics_of
        from highwater.bench.history.otava import change_points, otava_command
        from highwater.bench.history.series import FindChanges, chosen, metric_of
        from highwater.bench.metrics import metric as known_metric
        from highwater.bench.units import parse_percent

        held_to = default_policy() if policy is None else load_policy(policy)
        floors = {} if magnitude else {name: gated.floor_ratio for name, gated in held_to.gate.items()}
        least = _percent(magnitude or _FLOOR, parse_percent)
        series = chosen(history, workload, environment)
        wanted = [known_metric(name).name for name in metric or []] or metrics_of(held_to)
        columns = [name for name in series.columns() if metric_of(name) in wanted]
        command: list[str] = []

        def find(values: Any, magnitude_ratio: float) -> Any:
            # Late, because Otava may have to be installed.
            command[:] = command or otava_command(otava)
            return change_points(command, values, magnitude_ratio)

        finder: FindChanges = find
        better = {name: gated.better for name, gated in held_to.gate.items() if gated.better}
        found = series.changes(finder, lambda name: floors.get(name, least), columns, better)
        if as_json:
            typer.echo(json.dumps([_as_json(change) for change in found], indent=2))
        else:
            for change in found:
                typer.echo(_line(change))
            if not found:
                typer.echo(f"{series.path}: no change point in {len(series.rows())} runs")
        if any(change.is_worse and change.acknowledged is None for change in found):
            raise typer.Exit(EXIT_REGRESSION)


@app.command()
def ack(
    metric: Annotated[str, typer.Argument(metavar="METRIC", help="Column of the history.")],
    place: Annotated[
        str, typer.Argument(metavar="COMMIT|TIME", help="First run after the change; a unique prefix is enough.")
    ],
    reason: Annotated[str, typer.Option(metavar="TEXT", help="Why the change is accepted.")],
    history: _History = _DEFAULT_HISTORY,
    workload: _Workload = None,
    environment: _Environment = None,
) -> None:
    """Acknowledge a change: it is still reported but no longer fails. The history itself is not changed."""
    with one_line_errors():
        from datetime import UTC, datetime

        from highwater.bench.errors import UsageError
        from highwater.bench.history.series import Acknowledgement, chosen

        if not reason.strip():
            raise UsageError("--reason: say why the change is accepted")
        series = chosen(history, workload, environment)
        series.acknowledge(Acknowledgement(metric, place, reason, datetime.now(UTC).isoformat(timespec="seconds")))
        typer.echo(f"{series.path}: {metric} at {place}: {reason}")


def _percent(text: str, parse: Any) -> float:
    from highwater.bench.errors import UsageError

    try:
        return float(parse(text))
    except ValueError as error:
        raise UsageError(f"--magnitude: {error}") from None


def _line(change: Change) -> str:
    from highwater.bench.history.series import metric_of
    from highwater.bench.metrics import METRICS, value_text
    from highwater.common.units import change_text

    definition = METRICS.get(metric_of(change.column))
    unit = definition.unit if definition else ""
    word = "worse" if change.is_worse else "better" if change.better != "none" else "differs"
    point = change.point
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
