"""Calibrates the instrument on this host: its ceilings, and the noise of its figures.

It measures the ceilings of the load generator, loopback, and fio on the storage targets. With a workload it also runs
blocks of three trials: with plain processes, with Spark, and one of the two again. So Spark's effect is a paired
comparison, and the noise of every metric comes from A/A pairs.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from highwater.bench.calibrate.generator import measure_ceilings
from highwater.bench.calibrate.loopback import measure_loopback
from highwater.bench.runs.execution import run_plan
from highwater.bench.runs.launchers import LauncherChoice, LauncherKind
from highwater.bench.storage.probe import probe_target
from highwater.bench.storage.targets import describe_target, target_paths
from highwater.bench.trials.given_calibration import host_facts
from highwater.bench.trials.plan import Plan, PlannedTrial, make_plan
from highwater.bench.trials.progress import Observer
from highwater.bench.trials.trial import Launcher, now_utc
from highwater.bench.workload.specification import Cell, Specification
from highwater.bench.workload.values import TEMPORARY_TARGET
from highwater.common.errors import UsageError
from highwater.common.exit_codes import EXIT_OBJECTIVE, EXIT_OK
from highwater.results.analysis_file import Comparison, Noise
from highwater.results.calibration import Calibration
from highwater.results.reader import RunResult
from highwater.results.storage import TargetProbe
from highwater.results.writer import ResultWriter
from highwater.spark_loadgen.errors import LoadSetupError
from highwater.spark_loadgen.launcher import SparkLauncher
from highwater.spark_loadgen.process_launcher import ProcessLauncher
from highwater.tuning.facts import collect
from highwater.tuning.facts.model import Facts

PAIRS: Final = "pairs"
_LAUNCHER: Final = "launcher"


@dataclass(frozen=True, slots=True)
class Wanted:
    """What to calibrate.

    repeats: trials of each ceiling. pairs: blocks of trials of the workload; 0 for none.
    spark: the master to compare with plain processes; None = only A/A pairs of plain processes.
    seed: for the order and the payload of the pairs.
    """

    repeats: int = 5
    pairs: int = 5
    spark: str | None = "local[*]"
    seed: int = 1


def calibrate(
    specification: Specification | None,
    out: Path,
    wanted: Wanted,
    observer: Observer,
    tell: Callable[[str], None],
) -> tuple[Calibration, int]:
    """Measure and write `out`/calibration.json. Returns the calibration and the exit code of the pairs.

    Raises UsageError, ResultDirectoryError and LoadSetupError when it cannot start.
    """
    writer = ResultWriter(out)
    try:
        facts, notes = collect(), list[str]()
        with ProcessLauncher() as launcher:
            environment = host_facts(facts, launcher.versions())
            tell("loopback")
            loopback = measure_loopback()
            found = measure_ceilings(specification, launcher, wanted.repeats, tell)
            notes += found.notes
            tell("storage")
            storage = [*_storage(specification, facts)]
        noise, launchers, exit_code = _pairs(specification, out, wanted, observer, notes)
        if specification is not None and wanted.pairs and not noise:
            notes.append(f"the noise is not known: the trials in {PAIRS}/ are not valid, or fewer than a pair")
        calibration = Calibration(
            created_utc=now_utc(),
            workload=specification.workload.name if specification else None,
            workload_sha256=specification.sha256 if specification else None,
            environment=environment,
            ceilings=found.producers,
            consumer_ceilings=found.consumers,
            loopback=loopback,
            storage=storage,
            noise=noise,
            launchers=launchers,
            pairs=PAIRS if (out / PAIRS).is_dir() else None,
            notes=notes,
        )
        writer.write_calibration(calibration)
    finally:
        writer.remove_if_empty()
    return calibration, exit_code


# --- the storage -----------------------------------------------------------------------------------------------------


def _storage(specification: Specification | None, facts: Facts) -> Iterator[TargetProbe]:
    """Probe every target that a cell writes to; without a workload, the temporary directory."""
    if specification is None:
        paths, used = None, [TEMPORARY_TARGET]
    else:
        paths = target_paths(specification.workload)
        cells = [cell.workload for cell in specification.cells if cell.workload.system.kind != "external"]
        used = list(dict.fromkeys(workload.storage.target for workload in cells if workload.storage.probe))
    for name in used:
        path = Path(tempfile.gettempdir()) if paths is None else paths[name]
        yield probe_target(describe_target(name, path, facts), path, "alone")


# --- pairs of trials -------------------------------------------------------------------------------------------------


def _pairs(
    specification: Specification | None, out: Path, wanted: Wanted, observer: Observer, notes: list[str]
) -> tuple[list[Noise], list[Comparison], int]:
    if specification is None or not wanted.pairs:
        return [], [], 0
    with ExitStack() as stack:
        launchers: dict[str, Launcher] = {LauncherKind.PROCESS.value: stack.enter_context(ProcessLauncher())}
        if wanted.spark is not None:
            try:
                launchers[LauncherKind.SPARK.value] = stack.enter_context(SparkLauncher(master=wanted.spark))
            except (UsageError, LoadSetupError) as error:
                notes.append(f"Spark is not compared: {error}")

        def launcher_of(planned: PlannedTrial) -> Launcher:
            return launchers[str(planned.plan.factors[_LAUNCHER])]

        manifest = run_plan(
            make_plan(by_launcher(specification, list(launchers), wanted.pairs), wanted.seed),
            out / PAIRS,
            launcher=LauncherChoice(LauncherKind.PROCESS),
            observer=observer,
            launcher_of=launcher_of,
        )
    # An objective of the workload says nothing about the instrument.
    exit_code = manifest.exit_code if manifest.exit_code not in (None, EXIT_OBJECTIVE) else EXIT_OK
    analysis = RunResult(out / PAIRS).analysis()
    return (analysis.noise, analysis.comparisons, exit_code) if analysis is not None else ([], [], exit_code)


def plan_of_pairs(specification: Specification | None, wanted: Wanted) -> Plan | None:
    """The trials to run besides the ceilings, if Spark starts; None when there are none."""
    if specification is None or not wanted.pairs:
        return None
    launchers = [LauncherKind.PROCESS.value, *([LauncherKind.SPARK.value] if wanted.spark is not None else [])]
    return make_plan(by_launcher(specification, launchers, wanted.pairs), wanted.seed)


def by_launcher(specification: Specification, launchers: list[str], pairs: int) -> Specification:
    """The first cell of a workload, once for each launcher. With one launcher the cell is paired with itself."""
    workload = specification.cells[0].workload
    trials = workload.trials.model_copy(
        update={"n": pairs if len(launchers) > 1 else 2 * pairs, "a_a": True, "stop_when": None, "at_once": False}
    )
    # Storage has been probed already.
    storage = workload.storage.model_copy(update={"probe": False})
    alone = workload.model_copy(
        update={"trials": trials, "storage": storage, "matrix": {}, "exclude": [], "variants": {}}
    )
    cells = [Cell(f"{_LAUNCHER}={name}", {_LAUNCHER: name}, alone) for name in launchers]
    return Specification(specification.file, alone, {_LAUNCHER: list(launchers)}, cells)
