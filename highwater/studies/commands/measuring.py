"""Measures for `highwater plan` with `bench run`: ceilings of this host, or a rehearsal of the load."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import psutil
import typer

from highwater.bench.commands.common import parsed
from highwater.bench.storage.fio import HOW_TO_INSTALL
from highwater.bench.systems.java import java_for
from highwater.common.errors import UsageError
from highwater.common.quantities import parse_duration_s, parse_percent
from highwater.common.units import significant
from highwater.results.reader import RunResult
from highwater.studies.capacity.ceilings import Measured
from highwater.studies.capacity.load import Load
from highwater.studies.capacity.measured import MOST_OTHER_WORK_RATIO
from highwater.studies.capacity.rehearsal import rehearsal_of
from highwater.studies.capacity.short_ceilings import short_ceilings
from highwater.studies.capacity.text import table
from highwater.studies.commands.running import bench_run
from highwater.tuning.facts import collect

# As long as a trial of the short form, more or less.
_LOOK_S: Final = 3.0


def measured_here(budget: str, directory: Path, storage: Sequence[str]) -> RunResult:
    """The result of so long a measurement, in `directory`.

    Raises UsageError if the host is busy, lacks fio or Java, or the run fails.
    """
    workload = short_ceilings(parsed("--measure", parse_duration_s, budget))
    if shutil.which("fio") is None:
        raise UsageError(f"--measure: {HOW_TO_INSTALL}")
    java_for("--measure")
    _check_quiet(psutil.cpu_percent(interval=_LOOK_S) / 100 * (psutil.cpu_count() or 1), psutil.cpu_count() or 1)
    return bench_run(workload, directory, "ceilings", storage or ["data=."], what="the measurement")


def _check_quiet(busy_cpus: float, cpus: int) -> None:
    """Raises UsageError if a broker could not show what it can use."""
    if busy_cpus > MOST_OTHER_WORK_RATIO * cpus:
        raise UsageError(
            f"--measure: other work takes {busy_cpus:.2g} of {cpus} processors, and a measurement bears "
            f"{MOST_OTHER_WORK_RATIO * cpus:.2g}: stop the other work, or plan from a reference host without --measure"
        )


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
