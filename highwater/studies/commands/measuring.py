"""Measures a short form of the ceilings on this host with `bench run`, if the host is quiet."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import psutil

from highwater.bench.commands.common import parsed
from highwater.bench.storage.fio import HOW_TO_INSTALL
from highwater.bench.systems.java import java_for
from highwater.common.errors import UsageError
from highwater.common.quantities import parse_duration_s
from highwater.results.reader import RunResult
from highwater.studies.capacity.measured import MOST_OTHER_WORK_RATIO
from highwater.studies.capacity.short_ceilings import short_ceilings
from highwater.studies.commands.running import bench_run

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
