"""What a run or a search was asked to do, and the plan of it: shown, checked, and not started."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from highwater.bench.runs.launchers import LauncherChoice
    from highwater.bench.runs.preflight import Preflight
    from highwater.bench.runs.runner import Earlier
    from highwater.bench.trials.plan import Plan, Price
    from highwater.results.calibration import Calibration
    from highwater.results.storage import TargetProbe
    from highwater.tuning.facts.model import Facts


@dataclass(frozen=True, slots=True)
class Asked:
    """A plan and the options it is to run with. rates_known: as for `preflight`."""

    plan: Plan
    launcher: LauncherChoice
    out: Path | None = None
    resume: Path | None = None
    retry_invalid: bool = False
    keep_data: bool = False
    calibration: Calibration | None = None
    probes: Sequence[TargetProbe] = ()
    rates_known: bool = True

    @property
    def directory(self) -> Path:
        """The result directory. Raises UsageError unless exactly one of `out` and `resume` is given."""
        from highwater.common.errors import UsageError

        if self.out is not None and self.resume is not None:
            raise UsageError("--out begins a run and --resume goes on with one; give one of them")
        directory = self.out or self.resume
        if directory is None:
            raise UsageError("name a result directory with --out DIR (or go on with an interrupted run: --resume DIR)")
        if self.retry_invalid and self.resume is None:
            raise UsageError("--retry-invalid is for a run that was begun: add --resume DIR")
        return directory


def show(
    asked: Asked,
    price: Price | None = None,
    *,
    as_json: bool,
    first_line: str = "",
    document: Mapping[str, object] = MappingProxyType({}),
    lines: Sequence[str] = (),
) -> None:
    """Print the plan, and then all that would keep it from running. Raises typer.Exit if anything would.

    document, lines: what else is known of the plan, as JSON and for people.
    """
    from highwater.bench.display.tables import plan_as_json, print_plan
    from highwater.common.command_errors import report_error
    from highwater.common.errors import NotComparableError
    from highwater.common.exit_codes import EXIT_ENVIRONMENT, EXIT_USAGE
    from highwater.tuning.facts import collect

    found, earlier = _checked(asked, collect())
    if as_json:
        refused = {"refusals": [str(error) for error in found.refusals], "warnings": found.warnings}
        told = {**plan_as_json(asked.plan, price), **_told_file(asked.plan), **document, **refused}
        typer.echo(json.dumps(told, indent=2))
    else:
        if first_line:
            typer.echo(first_line)
        tell_workload(asked.plan, err=False)
        print_plan(asked.plan, price)
        for line in lines:
            typer.echo(line)
        if earlier is not None:
            typer.echo(_left(asked.plan, earlier))
        for warning in found.warnings:
            typer.echo(f"warning: {warning}", err=True)
        for error in found.refusals:
            report_error(str(error))
    if found.refusals:
        elsewhere = all(isinstance(error, NotComparableError) for error in found.refusals)
        raise typer.Exit(EXIT_ENVIRONMENT if elsewhere else EXIT_USAGE)


def tell_workload(plan: Plan, *, err: bool) -> None:
    """Print the workload file that says the same as a load in one line. err: on standard error."""
    if text := plan.specification.text:
        typer.echo(f"# These options as a workload file:\n{text}", err=err)


def _told_file(plan: Plan) -> dict[str, str]:
    return {"workload_file": plan.specification.text} if plan.specification.text else {}


def _left(plan: Plan, earlier: Earlier) -> str:
    """`left: 3 of 15 trials, about 40 s; measured again: 002-acks=all, 005-acks=1`"""
    from highwater.common.units import plural, wait_text

    ended = {outcome.plan.trial_id for outcome in earlier.outcomes}
    left_s = [
        duration_s
        for trial, duration_s in zip(plan.trials, plan.durations_s, strict=True)
        if trial.plan.trial_id not in ended
    ]
    again = f"; measured again: {', '.join(earlier.replaced)}" if earlier.replaced else ""
    return f"left: {len(left_s)} of {plural(len(plan.trials), 'trial')}, about {wait_text(sum(left_s))}{again}"


def _checked(asked: Asked, facts: Facts) -> tuple[Preflight, Earlier | None]:
    """What stands against it, and of `resume` what is kept."""
    from highwater.bench.runs.preflight import preflight
    from highwater.bench.runs.resume import earlier_run
    from highwater.bench.telemetry.topics import check_control, control_of
    from highwater.results.reader import RunResult
    from highwater.results.writer import ResultWriter

    calibration = asked.calibration
    if asked.resume is not None and calibration is None:
        calibration = RunResult(asked.resume).calibration()
    found = preflight(
        asked.plan,
        asked.launcher,
        facts,
        keep_data=asked.keep_data,
        calibration=calibration,
        rates_known=asked.rates_known,
    )
    control = found.ask(partial(control_of, asked.plan.specification))
    if control is not None:
        found.ask(partial(check_control, control, asked.plan.specification))
    if asked.out is not None:
        found.ask(partial(ResultWriter.check, asked.out))
    if asked.resume is None:
        return found, None
    options = {"trials_known": asked.rates_known, "retry_invalid": asked.retry_invalid}
    return found, found.ask(partial(earlier_run, asked.resume, asked.plan, facts, **options))
