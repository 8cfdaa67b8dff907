"""Carries a run out, one trial after another, and keeps the result directory true at every moment.

The agenda decides which trial is next. A failed trial is marked, and the next one runs. The manifest is written
whenever a trial changes its state, so a killed run leaves a directory that can be read and resumed.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from highwater.bench.environment import describe_environment, git_state, versions
from highwater.bench.host.usage import usage_of
from highwater.bench.runs.agenda import Agenda, BlockAgenda, FinishedCells, Skipped, TrialOutcome, decided_by
from highwater.bench.runs.canary import reasons as canary_reasons
from highwater.bench.runs.canary import take as take_canary
from highwater.bench.runs.launchers import told_settings
from highwater.bench.storage.areas import StorageAreas
from highwater.bench.storage.probe import QUICK_RUNTIME_S, RUNTIME_S, probe_targets
from highwater.bench.systems import StartSystem, start_system
from highwater.bench.systems.broker_client import BrokerClient
from highwater.bench.telemetry.control import ControlTopic
from highwater.bench.trials.concurrent_trials import ConcurrentTrials
from highwater.bench.trials.plan import Plan, PlannedTrial
from highwater.bench.trials.progress import Observer
from highwater.bench.trials.steps import StepClock, overhead_of
from highwater.bench.trials.stopping import StopRequest
from highwater.bench.trials.trial import Launcher, TrialRunner, now_utc
from highwater.bench.trials.verdict import target_at_fault
from highwater.common.errors import GeneratorError, StoppedError, TrialError, UsageError, is_full, text_of
from highwater.common.exit_codes import EXIT_DAMAGE, EXIT_INTERRUPTED, EXIT_INVALID, EXIT_OBJECTIVE, EXIT_OK, EXIT_USAGE
from highwater.results import checksums
from highwater.results.analysis.conclusions import analyse
from highwater.results.calibration import Calibration
from highwater.results.canary import BlockCanary
from highwater.results.models import (
    Manifest,
    Reason,
    ReplacedTrial,
    RunStatus,
    TrialPlan,
    TrialStatus,
    TrialSummary,
)
from highwater.results.storage import StorageProbes, TargetProbe
from highwater.results.writer import ResultWriter
from highwater.tuning.facts.model import Facts


@dataclass(frozen=True, slots=True)
class Surroundings:
    """How the run was started, for its manifest."""

    argv: list[str]
    directory: Path
    started_s: float = field(default_factory=time.monotonic)
    """time.monotonic() at the start of the command: the time before the first trial is overhead, too."""


@dataclass(frozen=True, slots=True)
class Earlier:
    """What is kept of an interrupted run: its manifest, and the trials that had ended.

    replaced: trials that are measured again, by id. They are not among the outcomes.
    """

    manifest: Manifest
    outcomes: Sequence[TrialOutcome]
    probes: Sequence[TargetProbe] = ()
    replaced: Mapping[str, ReplacedTrial] = field(default_factory=dict)


# Called after each block and at the end with all outcomes so far, and True when the run is complete; writes results.
Conclude = Callable[[Sequence[TrialOutcome], bool], None]
ExitCode = Callable[[Sequence[TrialOutcome]], int]


@dataclass(slots=True)
class Run:
    """One run of a plan. Tests replace `start` and `connect`.

    launcher: starts the load of trials and is named in the manifest. launcher_of: the launcher of a trial, if trials
    have different ones. finished_cells: called before each block, returns the cells that need no more trials; None:
    the workload's trials.stop_when decides. earlier: the run to resume. probes: fio's results of external hosts.
    telemetry: where load tasks publish their figures.
    """

    plan: Plan
    surroundings: Surroundings
    writer: ResultWriter
    launcher: Launcher
    facts: Facts
    areas: StorageAreas
    observer: Observer
    stop: StopRequest
    start: StartSystem = start_system
    connect: Callable[[str, Mapping[str, str]], BrokerClient] = BrokerClient
    launcher_of: Callable[[PlannedTrial], Launcher] | None = None
    finished_cells: FinishedCells | None = None
    earlier: Earlier | None = None
    probes: Sequence[TargetProbe] = ()
    calibration: Calibration | None = None
    telemetry: ControlTopic | None = None
    _manifest: Manifest = field(init=False)
    _outcomes: list[TrialOutcome] = field(default_factory=list, init=False)
    _canaries: list[BlockCanary] = field(default_factory=list, init=False)
    _probes: list[TargetProbe] = field(default_factory=list, init=False)
    _steps: StepClock = field(default_factory=StepClock, init=False)
    _trial_steps: list[dict[str, float]] = field(default_factory=list, init=False)

    def execute(self) -> Manifest:
        """Run every trial. Returns the manifest, which has the exit code. Raises UsageError when none can run."""
        stop_when = self.plan.specification.workload.trials.stop_when
        finished_cells = self.finished_cells
        if finished_cells is None and stop_when is not None:
            finished_cells = decided_by(stop_when, self.plan.seed)
        return self.drive(BlockAgenda(self.plan, finished_cells), self._write_analysis)

    def drive(self, agenda: Agenda, conclude: Conclude, exit_code: ExitCode | None = None) -> Manifest:
        """Run the trials that `agenda` chooses (see `execute`). `conclude` is called after every block.

        exit_code: computes the exit code of a complete run; None: from the verdicts of its trials.
        """
        self._steps.add("start_run", time.monotonic() - self.surroundings.started_s)
        self._begin(agenda)
        try:
            return self._through(agenda, conclude, exit_code or exit_code_of)
        except KeyboardInterrupt:
            self._finish("interrupted", EXIT_INTERRUPTED)
            raise
        except OSError as error:
            # An error between trials, such as a full disk. The manifest still records it if there is some space.
            with suppress(OSError):
                self._finish("interrupted", EXIT_INVALID if is_full(error) else EXIT_USAGE)
            raise

    def _through(self, agenda: Agenda, conclude: Conclude, exit_code: ExitCode) -> Manifest:
        self._probe_storage("before")
        trials = TrialRunner(
            specification=self.plan.specification,
            seed=self.plan.seed,
            writer=self.writer,
            launcher_of=self.launcher_of or (lambda _: self.launcher),
            facts=self.facts,
            areas=self.areas,
            observer=self.observer,
            stop=self.stop,
            start=self.start,
            connect=self.connect,
            calibration=self.calibration,
            telemetry=self.telemetry,
        )
        block = 0
        while (step := agenda.next(self._outcomes)) is not None:
            if isinstance(step, Skipped):
                self._mark(step.planned, "skipped", step.reason)
                self._ended(step.planned, None)
                continue
            if step[0].plan.block != block:
                if block:
                    self._steps.begin("analyse")
                    conclude(self._outcomes, False)
                self._steps.begin("canary")
                doubts = self._canary(step[0])
                self._steps.end()
                block = step[0].plan.block
                self._manifest = self._manifest.model_copy(update={"axes": agenda.axes})
            if not self._all(step, trials, doubts):
                return self._end("interrupted", EXIT_INTERRUPTED, conclude)
        self._probe_storage("after")
        return self._end("done", exit_code(self._outcomes), conclude)

    def _all(self, step: Sequence[PlannedTrial], trials: TrialRunner, doubts: Sequence[Reason]) -> bool:
        """Run one trial, or several at once; False when the user has stopped the run."""
        for planned in step:
            self.writer.clear_trial(planned.plan.trial_id)
            self._mark(planned, "running")
        self.observer.trial_started(len(self._outcomes) + 1, step[0].plan)
        if len(step) == 1:
            attempts = [_attempt(trials, step[0], StepClock(self.observer.step), doubts)]
        else:
            attempts = self._beside_one_another(step, trials, doubts)
        # Seconds in which several trials ran are counted once.
        self._trial_steps.append(attempts[0].clock.rounded())
        for attempt in attempts:
            self._write_down(attempt)
        for attempt in attempts:
            self._pass_on(attempt)
        for attempt in attempts:
            if isinstance(attempt.error, StoppedError):
                self.observer.trial_ended(len(self._outcomes) + 1, self._planned(attempt.planned), None)
                return False
        for attempt in attempts:
            self._ended(attempt.planned, attempt.summary)
        return True

    def _beside_one_another(
        self, step: Sequence[PlannedTrial], trials: TrialRunner, doubts: Sequence[Reason]
    ) -> list[_Attempt]:
        """Run each trial in a thread; only the first one reports progress."""
        concurrent = ConcurrentTrials([planned.plan.trial_id for planned in step], max(os.sched_getaffinity(0)))
        quiet = replace(trials, observer=Observer())
        running: list[Future[_Attempt]] = []
        with ThreadPoolExecutor(len(step), thread_name_prefix="trial") as threads:
            try:
                for number, planned in enumerate(step):
                    clock = StepClock(None if number else self.observer.step)
                    arguments = (quiet if number else trials, planned, clock, doubts, concurrent)
                    running.append(threads.submit(_attempt, *arguments))
            finally:
                for planned in step[len(running) :]:
                    concurrent.leave(planned.plan.trial_id)
            while not all(attempt.done() for attempt in running):
                # Signals reach the threads as a stop request; wait, so that the threads clean up.
                with suppress(KeyboardInterrupt):
                    wait(running)
        return [attempt.result() for attempt in running]

    def _write_down(self, attempt: _Attempt) -> None:
        planned, clock, error = attempt.planned, attempt.clock, attempt.error
        match error:
            case None:
                self._mark(planned, "done", clock=clock)
            case StoppedError():
                self._mark(planned, "interrupted", clock=clock)
            case TrialError():
                self._mark(planned, "failed", str(error), clock, generator_failed=isinstance(error, GeneratorError))
            case OSError():
                # An error of the instrument itself: errors of the system are TrialErrors.
                with suppress(OSError):
                    self._mark(planned, "failed", text_of(error, self.writer.directory), clock, generator_failed=True)
                    return
                # The disk of the results is full: delete the trial's files to make room for the manifest.
                self.writer.clear_trial(planned.plan.trial_id)
                self._mark(planned, "failed", text_of(error, self.writer.directory), clock, generator_failed=True)
            case UsageError():
                self._mark(planned, "failed", str(error), clock)
            case KeyboardInterrupt():
                # The error came after the measurement: the trial is complete, and a resumed run does not repeat it.
                whole = self.writer.has_summary(planned.plan.trial_id)
                self._mark(planned, "done" if whole else "interrupted", clock=clock)
            case _:
                self._mark(planned, "failed", repr(error), clock)

    def _pass_on(self, attempt: _Attempt) -> None:
        """Raise the error of an attempt if it ends the whole run."""
        match attempt.error:
            case None | StoppedError() | TrialError() | OSError():
                return
            case UsageError():
                self._finish("failed", EXIT_USAGE)
                if not self._outcomes:
                    self.writer.discard()
            case KeyboardInterrupt():
                pass
            case _:
                self._finish("failed", None)
        raise attempt.error

    def _ended(self, planned: PlannedTrial, summary: TrialSummary | None) -> None:
        plan = self._planned(planned)
        self._outcomes.append(TrialOutcome(plan, summary))
        self.observer.trial_ended(len(self._outcomes), plan, summary)

    def _canary(self, planned: PlannedTrial) -> list[Reason]:
        """Look at the host before a block; what it says of the trials of this block.

        Always on the storage of the first cell: readings of two disks say nothing about each other.
        """
        workload = self.plan.specification.cells[0].workload
        directory = self.areas.directories.get(workload.storage.target)
        try:
            reading = take_canary(directory)
        except OSError as error:
            # Most likely a storage error, which the trials will show, too.
            missing = f"the host could not be checked before this block: {text_of(error)}"
            return [Reason(check="canary.taken", value="no", limit="yes", text=missing)]
        self._canaries.append(BlockCanary(block=planned.plan.block, at_utc=now_utc(), reading=reading))
        self._write(self._manifest.model_copy(update={"canaries": list(self._canaries)}))
        return canary_reasons([item.reading for item in self._canaries], workload.validity.canary_ratio_max)

    def _probe_storage(self, moment: Literal["before", "after"]) -> None:
        """Probe the targets with fio. A target is probed if any of its cells has storage.probe."""
        storages = [cell.workload.storage for cell in self.plan.specification.cells]
        wanted = [storage.probe for storage in storages]
        file_counts = sorted({count for storage in storages for count in storage.probe_files})
        skipped = None
        if moment == "before" and self.earlier is None:
            self._probes += self.probes
        if not any(wanted):
            skipped = "storage.probe is false"
        elif not self.areas.directories:
            skipped = None if self._probes else "the system under test keeps its log elsewhere"
        else:
            self._steps.begin("probe_storage")
            quick = not self.plan.specification.workload.for_measurement
            runtime_s = QUICK_RUNTIME_S if quick else RUNTIME_S
            self._probes += probe_targets(self.areas, self.facts, moment, runtime_s, self.observer.step, file_counts)
            self._steps.end()
        self.writer.write_probes(StorageProbes(probes=self._probes, skipped=skipped))

    def _write_analysis(self, outcomes: Sequence[TrialOutcome], complete: bool) -> None:
        factors = {cell.name: cell.factors for cell in self.plan.specification.cells}
        summaries = [outcome.summary for outcome in outcomes if outcome.summary is not None]
        self.writer.write_analysis(analyse(factors, summaries, seed=self.plan.seed, complete=complete))

    # --- the manifest ------------------------------------------------------------------------------------------------

    def _begin(self, agenda: Agenda) -> None:
        if self.earlier is not None:
            self._outcomes += self.earlier.outcomes
            self._canaries += self.earlier.manifest.canaries
            self._probes += self.earlier.probes
            self.writer.forget_digests()
            self._write(self._taken_up(self.earlier))
            # The manifest comes first: after a kill in between, the next run knows what is left to move.
            for trial in self._manifest.trials:
                for before in trial.replaced:
                    self.writer.keep_replaced(trial.trial_id, before.kept_in)
        else:
            self._write(self._first_manifest(agenda))
            self._steps.begin("describe_environment")
            targets = [directory.parent for directory in self.areas.directories.values()]
            self.writer.write_environment(describe_environment(self.facts, self.launcher.versions(), targets))
            self._steps.end()
        self.observer.run_started(self.plan, self.writer.directory, self.launcher.master)

    def _first_manifest(self, agenda: Agenda) -> Manifest:
        specification = self.plan.specification
        workload = specification.workload
        return Manifest(
            name=workload.name,
            purpose=workload.purpose,
            for_measurement=workload.for_measurement,
            created_utc=now_utc(),
            finished_utc=None,
            status="running",
            exit_code=None,
            workload=workload.as_document(),
            workload_sha256=specification.sha256,
            workload_file=str(self._workload_file()),
            argv=self.surroundings.argv,
            cwd=str(self.surroundings.directory),
            git=git_state(self.surroundings.directory),
            seed=self.plan.seed,
            axes=agenda.axes,
            trials=[planned.plan for planned in agenda.planned],
            versions=versions(self.launcher.versions()),
            launcher=self.launcher.name,
            launcher_settings=told_settings(self.launcher.settings),
        )

    def _workload_file(self) -> Path:
        """The file to run again; a load in one line gets one in the result directory."""
        text = self.plan.specification.text
        return self.writer.write_workload(text) if text else self.plan.specification.file

    def _taken_up(self, earlier: Earlier) -> Manifest:
        ended = {outcome.plan.trial_id: outcome.plan for outcome in earlier.outcomes}
        return earlier.manifest.model_copy(
            update={
                "status": "running",
                "finished_utc": None,
                "exit_code": None,
                "overhead": None,
                "resumed_utc": [*earlier.manifest.resumed_utc, now_utc()],
                "trials": [
                    ended.get(plan.trial_id) or _planned_again(plan, earlier.replaced.get(plan.trial_id))
                    for plan in earlier.manifest.trials
                ],
            }
        )

    def _planned(self, planned: PlannedTrial) -> TrialPlan:
        """The trial's entry in the manifest."""
        return next(trial for trial in self._manifest.trials if trial.trial_id == planned.plan.trial_id)

    def _mark(
        self,
        planned: PlannedTrial,
        status: TrialStatus,
        error: str | None = None,
        clock: StepClock | None = None,
        *,
        generator_failed: bool = False,
    ) -> None:
        steps_s = clock.rounded() if clock else {}
        known = {"status": status, "error": error, "steps_s": steps_s, "generator_failed": generator_failed}
        trials = list(self._manifest.trials)
        trial_id = planned.plan.trial_id
        index = next((n for n, trial in enumerate(trials) if trial.trial_id == trial_id), len(trials))
        replaced = [before for trial in trials[index : index + 1] for before in trial.replaced]
        trials[index : index + 1] = [planned.plan.model_copy(update={**known, "replaced": replaced})]
        self._write(self._manifest.model_copy(update={"trials": trials}))

    def _end(self, status: RunStatus, exit_code: int, conclude: Conclude) -> Manifest:
        self._steps.begin("analyse")
        conclude(self._outcomes, status == "done")
        return self._finish(status, exit_code)

    def _finish(self, status: RunStatus, exit_code: int | None) -> Manifest:
        self._steps.end()
        wall_s = time.monotonic() - self.surroundings.started_s
        page = usage_of(self.observer.process_ids)
        self._write(
            self._manifest.model_copy(
                update={
                    "status": status,
                    "exit_code": exit_code,
                    "finished_utc": now_utc(),
                    "kept_data": self._kept_data(),
                    "live_page_cpu_s": None if page is None else round(page.cpu_s, 2),
                    "overhead": overhead_of(wall_s, [self._steps.seconds, *self._trial_steps]),
                }
            )
        )
        checksums.write(self.writer.directory)
        return self._manifest

    def _kept_data(self) -> dict[str, str]:
        if not self.areas.keep_data:
            return {}
        return {target: str(directory) for target, directory in self.areas.directories.items()}

    def _write(self, manifest: Manifest) -> None:
        self._manifest = manifest
        self.writer.write_manifest(manifest)


@dataclass(frozen=True, slots=True)
class _Attempt:
    """The result of trying one trial; `summary` or `error` is None."""

    planned: PlannedTrial
    clock: StepClock
    summary: TrialSummary | None
    error: BaseException | None


def _attempt(
    trials: TrialRunner,
    planned: PlannedTrial,
    clock: StepClock,
    doubts: Sequence[Reason],
    concurrent: ConcurrentTrials | None = None,
) -> _Attempt:
    try:
        return _Attempt(planned, clock, trials.run(planned, clock, doubts, concurrent), None)
    except (TrialError, OSError) as error:
        return _Attempt(planned, clock, None, error)
    except BaseException as error:
        if concurrent:
            trials.stop.requested = True  # this error ends the run, so stop the other trials
        return _Attempt(planned, clock, None, error)
    finally:
        if concurrent:
            concurrent.leave(planned.plan.trial_id)


def _planned_again(plan: TrialPlan, before: ReplacedTrial | None) -> TrialPlan:
    replaced = plan.replaced if before is None else [*plan.replaced, before]
    return plan.model_copy(
        update={"status": "planned", "error": None, "generator_failed": False, "steps_s": {}, "replaced": replaced}
    )


def exit_code_of(outcomes: Sequence[TrialOutcome]) -> int:
    """The exit code of the trials: a fault of the system comes before an invalid trial, and that before an objective.

    A fault of the system in a trial that was measured again still counts.
    """
    if any(before.system_at_fault for outcome in outcomes for before in outcome.plan.replaced):
        return EXIT_DAMAGE
    summaries = [outcome.summary for outcome in outcomes if outcome.summary is not None]
    failed = [outcome.plan for outcome in outcomes if outcome.plan.status == "failed"]
    if any(not trial.generator_failed for trial in failed):
        return EXIT_DAMAGE
    invalid = [reason for s in summaries if s.verdict.state == "invalid" for reason in s.verdict.reasons]
    if any(map(target_at_fault, invalid)):
        return EXIT_DAMAGE
    if invalid or failed:
        return EXIT_INVALID
    measured = [summary for summary in summaries if summary.role == "measure"]
    return EXIT_OK if all(result.met for summary in measured for result in summary.slo) else EXIT_OBJECTIVE
