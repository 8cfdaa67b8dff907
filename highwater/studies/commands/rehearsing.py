"""Runs the rehearsal of a plan: says what the costs predict, then measures it with `bench run`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import typer

from highwater.bench.commands.common import parsed
from highwater.common.errors import UsageError
from highwater.common.quantities import parse_percent
from highwater.common.units import significant
from highwater.results.reader import RunResult
from highwater.studies.capacity.ceilings import Measured
from highwater.studies.capacity.load import Load
from highwater.studies.capacity.rehearsal import rehearsal_of
from highwater.studies.capacity.text import table
from highwater.studies.commands.running import bench_run
from highwater.tuning.facts import collect


def rehearsed(
    load: Load, measured: Measured, ceilings: RunResult, share: str, out: Path, storage: Sequence[str]
) -> RunResult:
    """Measure the topics of the load at `share` of their peaks. Raises UsageError if that cannot be.

    ceilings: whose system is measured again. out: the workload and its result directory go there.
    """
    ratio = parsed("--rehearse", parse_percent, share)
    if not 0 < ratio <= 1:
        raise UsageError(f"--rehearse {share}: a share of the load is more than 0% and at most 100%")
    _check_host(measured)
    rehearsal = rehearsal_of(load, measured, ceilings.manifest.workload["system"], ratio)
    rows = [(each.topic, str(each.brokers), f"{significant(each.predicted_cores)} cores") for each in rehearsal.topics]
    for line in table((f"rehearsal at {share}", "brokers", "predicted"), rows):
        typer.echo(line, err=True)
    run = bench_run(rehearsal.workload, out, "rehearsal", storage, what="the rehearsal")
    _check_valid(run, [each.cell for each in rehearsal.topics])
    return run


def _check_host(measured: Measured) -> None:
    """Raises UsageError if this host is plainly not of the class of the ceilings; `measured_of` compares all facts."""
    here = collect()
    for what, found, wanted in (
        ("processor", here.cpu_model, measured.host.cpu_model),
        ("number of processors", here.cpu_count, measured.host.cpu_count),
    ):
        if found != wanted:
            raise UsageError(
                f"--rehearse: this host's {what} is {found}, and {', '.join(measured.runs)} is of {wanted}: rehearse "
                "on a host like the measured one"
            )


def _check_valid(run: RunResult, cells: Sequence[str]) -> None:
    usable = {
        str(trial.summary.factors.get("variant")) for trial in run.trials if trial.summary.verdict.state != "invalid"
    }
    if missing := [cell for cell in cells if cell not in usable]:
        raise UsageError(
            f"{run.directory}: no valid trial of {', '.join(missing)}, so the rehearsal says nothing; highwater report "
            f"{run.directory} says why"
        )
