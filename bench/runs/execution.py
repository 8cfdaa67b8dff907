"""Executes a plan into a result directory: lock, storage, launcher and signals of a run.

Everything created here is removed again, whatever happens, and a run that cannot start leaves no directory.
"""

from __future__ import annotations

import logging
import signal
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path

import typer

from highwater.bench.runs.agenda import FinishedCells
from highwater.bench.runs.launchers import LauncherChoice, check_slots, told_arguments
from highwater.bench.runs.preflight import preflight, storage_targets
from highwater.bench.runs.resume import check_same_launcher, earlier_run
from highwater.bench.runs.runner import Run, Surroundings
from highwater.bench.storage.areas import StorageAreas
from highwater.bench.telemetry.control import ControlTopic
from highwater.bench.telemetry.topics import check_control, control_of, make_topic
from highwater.bench.trials.host_profile import restore_after_a_killed_run
from highwater.bench.trials.plan import Plan, PlannedTrial
from highwater.bench.trials.progress import Observer
from highwater.bench.trials.stopping import StopRequest
from highwater.bench.trials.trial import Launcher
from highwater.common.errors import UsageError
from highwater.common.units import plural
from highwater.results.calibration import Calibration
from highwater.results.models import Manifest
from highwater.results.reader import RunResult
from highwater.results.run_lock import RunLock
from highwater.results.storage import TargetProbe
from highwater.results.writer import ResultWriter
from highwater.tuning.facts import collect


def run_plan(
    plan: Plan,
    out: Path,
    *,
    launcher: LauncherChoice | None = None,
    observer: Observer | None = None,
    keep_data: bool = False,
    resume: bool = False,
    retry_invalid: bool = False,
    finished_cells: FinishedCells | None = None,
    launcher_of: Callable[[PlannedTrial], Launcher] | None = None,
    drive: Callable[[Run], Manifest] | None = None,
    calibration: Calibration | None = None,
    probes: Sequence[TargetProbe] = (),
    telemetry: ControlTopic | None = None,
) -> Manifest:
    """Run a plan and write results to `out`. Returns the manifest, which has the exit code.

    resume: continue the run in `out` (`bench.runs.resume` checks what must be the same). retry_invalid: measure its
    invalid and failed trials again. drive: a function that runs the trials, if not block by block in the order of the
    plan. calibration: copied to `out`. telemetry: where load tasks publish live figures; default: as the workload says.
    For the other parameters see `Run`. Raises UsageError, ResultDirectoryError and LoadSetupError when the run cannot
    start, NotComparableError when `out` or the calibration is of another host.
    """
    started_s = time.monotonic()
    choice = launcher or LauncherChoice()
    if launcher_of is not None and plan.lanes > 1:
        raise ValueError("trials that run at once need a launcher each")
    observer = observer or Observer()
    # Until trials run there is nothing to keep: both signals end the run at once, and everything is cleaned up.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    # py4j logs a traceback of every Ctrl-C on the root logger, which without a handler prints it.
    logging.getLogger().addHandler(logging.NullHandler())
    stop = StopRequest()
    facts = collect()
    telemetry = telemetry or control_of(plan.specification)
    if telemetry is not None:
        check_control(telemetry, plan.specification)
        make_topic(telemetry.bootstrap_servers, telemetry.connection, telemetry.topic)
    if resume and not (out / "manifest.json").is_file():
        raise UsageError(f"--resume: {out} holds no run; begin one with --out {out}")
    writer = ResultWriter.reopen(out) if resume else ResultWriter(out)
    lock = RunLock.take(out)
    try:
        earlier = None
        if resume:
            earlier = earlier_run(out, plan, facts, trials_known=drive is None, retry_invalid=retry_invalid)
        if earlier is not None and retry_invalid:
            again = plural(len(earlier.replaced), "trial")
            typer.echo(f"measuring {again} again; the earlier attempts stay on record", err=True)
        for setting in restore_after_a_killed_run(facts):
            typer.echo(f"host profile of a killed run taken back: {setting}", err=True)
        calibration = calibration or (RunResult(out).calibration() if resume else None)
        found = preflight(plan, choice, facts, keep_data=keep_data, calibration=calibration, rates_known=drive is None)
        found.refuse()
        for warning in found.warnings:
            typer.echo(f"warning: {warning}", err=True)
        with StorageAreas(keep_data) as areas, observer:
            for target, path in storage_targets(plan).items():
                areas.add(target, path, plan.log_bytes(target, kept=keep_data))
            with ExitStack() as launchers:
                started, *beside = [launchers.enter_context(choice.open(plan)) for _ in range(plan.lanes)]
                check_slots(plan, started.slots, started.master)
                if earlier is not None:
                    check_same_launcher(earlier, started, out)
                if calibration is not None:
                    writer.write_calibration(calibration)
                with stop.taking_signals():
                    surroundings = Surroundings(told_arguments(sys.argv), Path.cwd(), started_s)
                    run = Run(
                        plan,
                        surroundings,
                        writer,
                        started,
                        facts,
                        areas,
                        observer,
                        stop,
                        launcher_of=launcher_of or _by_lane([started, *beside]),
                        finished_cells=finished_cells,
                        earlier=earlier,
                        calibration=calibration,
                        probes=probes,
                        telemetry=telemetry,
                    )
                    return (drive or Run.execute)(run)
    finally:
        lock.release()
        writer.remove_if_empty()


def _by_lane(launchers: Sequence[Launcher]) -> Callable[[PlannedTrial], Launcher]:
    """Trials that run at the same time have one launcher each; otherwise all share one."""
    return lambda planned: launchers[(planned.plan.order_in_block - 1) % len(launchers)]
