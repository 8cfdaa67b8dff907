"""Carries a plan out, one trial after another, and keeps the result directory true at every moment.

A trial is: fresh system, fresh topic, load, drain, count, verdict, files. When one fails, it is marked and the next one
runs. The manifest is written whenever a trial changes its state, so a killed run leaves a directory that can be read.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, Protocol

from bench.broker_client import BrokerClient
from bench.environment import describe_environment, git_state, versions
from bench.errors import StoppedError, TrialError, UsageError
from bench.exit_codes import EXIT_INTERRUPTED, EXIT_INVALID, EXIT_OK, EXIT_TARGET, EXIT_USAGE
from bench.host.sampler import HostSampler, host_use
from bench.load_plan import load_plan_of, refuse_unready
from bench.plan import Plan, PlannedTrial
from bench.progress import Observer
from bench.results import (
    Manifest,
    ResultWriter,
    RunStatus,
    StorageTarget,
    SystemFacts,
    TrialPlan,
    TrialStatus,
    TrialSummary,
)
from bench.stopping import StopRequest
from bench.storage import StorageAreas, describe_target, target_paths
from bench.summary import (
    client_errors,
    delivery_of,
    end_to_end_of,
    evidence_of,
    generator_of,
    mean_in,
    phases_of,
    produce_of,
    windows_of,
    write_histogram_logs,
)
from bench.systems import StartSystem, System, start_system
from bench.verdict import judge, target_at_fault
from spark_loadgen import LoadFailed, LoadPlan, LoadResult, LoadSetupError, Progress
from tuning.facts import Facts


class Launcher(Protocol):
    """What starts load: Spark, or a stand-in."""

    @property
    def master(self) -> str: ...
    @property
    def slots(self) -> int: ...
    def versions(self) -> Mapping[str, str]: ...
    def run(
        self,
        plan: LoadPlan,
        *,
        on_progress: Callable[[Progress], None] | None = None,
        should_stop: Callable[[], bool] | None = None,
    ) -> LoadResult: ...


@dataclass(frozen=True, slots=True)
class Surroundings:
    """How the run was asked for, to be written down beside its results."""

    argv: list[str]
    directory: Path


@dataclass(slots=True)
class Run:
    """One run of a plan. `start` and `connect` are replaced in tests."""

    plan: Plan
    surroundings: Surroundings
    writer: ResultWriter
    launcher: Launcher
    facts: Facts
    areas: StorageAreas
    observer: Observer
    stop: StopRequest
    start: StartSystem = start_system
    connect: Callable[[str], BrokerClient] = BrokerClient

    def execute(self) -> Manifest:
        """Run every trial; the manifest that comes back carries the exit code. Raises UsageError when none can run."""
        manifest = self._first_manifest()
        exit_codes = {EXIT_OK}
        self.writer.write_manifest(manifest)
        targets = [directory.parent for directory in self.areas.directories.values()]
        self.writer.write_environment(describe_environment(self.facts, self.launcher.versions(), targets))
        self.observer.run_started(self.plan, self.writer.directory, self.launcher.master)
        for index, planned in enumerate(self.plan.trials):
            self.observer.trial_started(index + 1, planned.plan)
            manifest = self._mark(manifest, index, "running")
            summary: TrialSummary | None = None
            try:
                summary = self._trial(planned)
            except StoppedError:
                manifest = self._mark(manifest, index, "interrupted")
                self.observer.trial_ended(index + 1, manifest.trials[index], None)
                return self._end(manifest, "interrupted", EXIT_INTERRUPTED)
            except (TrialError, OSError) as error:
                manifest = self._mark(manifest, index, "failed", str(error))
                exit_codes.add(EXIT_TARGET)
            except UsageError as error:
                self._end(self._mark(manifest, index, "failed", str(error)), "failed", EXIT_USAGE)
                if index == 0:
                    self.writer.discard()
                raise
            except BaseException as error:
                interrupted = isinstance(error, KeyboardInterrupt)
                manifest = self._mark(manifest, index, "interrupted" if interrupted else "failed", repr(error))
                self._end(
                    manifest, "interrupted" if interrupted else "failed", EXIT_INTERRUPTED if interrupted else None
                )
                raise
            else:
                manifest = self._mark(manifest, index, "done")
                exit_codes.add(_exit_code(summary))
            self.observer.trial_ended(index + 1, manifest.trials[index], summary)
        # A broken promise of the system outranks a measurement that failed.
        code = EXIT_TARGET if EXIT_TARGET in exit_codes else max(exit_codes)
        return self._end(manifest, "done", code)

    # --- one trial ---------------------------------------------------------------------------------------------------

    def _trial(self, planned: PlannedTrial) -> TrialSummary:
        self.stop.check()
        workload, trial_id = planned.cell.workload, planned.plan.trial_id
        started_utc = _now_utc()
        trial_directory = self.writer.trial_directory(trial_id)
        data_directory: Path | None = None
        storage = _EXTERNAL_STORAGE
        if workload.system.kind != "external":
            data_directory = self.areas.trial_directory(workload.storage.target, trial_id)
            storage = describe_target(workload.storage.target, data_directory, self.facts)
        try:
            self.observer.step("starting the system")
            with self.start(workload.system, data_directory, trial_directory / "system.log", self.stop.check) as system:
                client = self.connect(system.bootstrap_servers)
                topic = f"highwater-{secrets.token_hex(4)}-{planned.plan.block}-{planned.plan.order_in_block}"
                self.observer.step("making the topic")
                client.create_topic(topic, workload.topics.partitions, workload.topics.config)
                try:
                    self.stop.check()
                    self.observer.step("starting the load")
                    with HostSampler(system.process_ids, storage.device) as sampler:
                        result = self._load(self._load_plan(planned, system, topic), system)
                    return self._finish(planned, started_utc, result, sampler, system, storage, client, topic)
                finally:
                    if system.kind == "external":
                        client.delete_topic(topic)
        finally:
            if data_directory is not None:
                self.areas.release(data_directory)

    def _load_plan(self, planned: PlannedTrial, system: System, topic: str) -> LoadPlan:
        workload = planned.cell.workload
        return load_plan_of(
            workload,
            bootstrap_servers=system.bootstrap_servers,
            topic=topic,
            payload_file=self.plan.specification.payload_file(workload),
            # The trials of one block send the same values, so that cells differ in nothing but their factors.
            seed=self.plan.seed + planned.plan.block,
        )

    def _load(self, load_plan: LoadPlan, system: System) -> LoadResult:
        try:
            result = self.launcher.run(
                load_plan,
                on_progress=self.observer.load,
                should_stop=lambda: self.stop.requested or system.problem() is not None,
            )
        except (LoadFailed, LoadSetupError) as error:
            self.stop.check()
            if (problem := system.problem()) is not None:
                raise TrialError(problem) from None
            if isinstance(error, LoadSetupError):
                raise UsageError(str(error)) from None
            raise TrialError(str(error)) from None
        if (problem := system.problem()) is not None:
            raise TrialError(problem)
        return result

    def _finish(
        self,
        planned: PlannedTrial,
        started_utc: str,
        result: LoadResult,
        sampler: HostSampler,
        system: System,
        storage: StorageTarget,
        client: BrokerClient,
        topic: str,
    ) -> TrialSummary:
        workload, plan = planned.cell.workload, planned.plan
        trial_directory = self.writer.trial_directory(plan.trial_id)
        phases = phases_of(workload, result)
        windows = windows_of(result, phases)
        host_samples = sampler.samples(time.monotonic() - (time.time_ns() - result.t0_unix_ns) / 1e9)
        write_histogram_logs(result, trial_directory)
        if result.interrupted:
            self.writer.write_series(plan.trial_id, windows, host_samples)
            self.stop.check()
            raise TrialError(f"the load ended early: {'; '.join(client_errors(result.errors)) or 'no client error'}")
        self.observer.step("counting what is in the log")
        delivery = delivery_of(result, client.count_records(topic, workload.topics.partitions))
        produce, e2e = produce_of(trial_directory, phases), end_to_end_of(result, trial_directory, phases)
        generator = generator_of(result, f"spark {self.launcher.master}")
        measure = phases[1]
        host = host_use(host_samples, measure.start_s, measure.end_s)
        evidence = evidence_of(workload, result, phases, windows, produce, e2e, delivery, generator, host)
        summary = TrialSummary(
            trial_id=plan.trial_id,
            cell=plan.cell,
            factors=plan.factors,
            trial=plan.trial,
            block=plan.block,
            order_in_block=plan.order_in_block,
            started_utc=started_utc,
            phases=phases,
            offered_per_s=evidence.offered_per_s,
            achieved_per_s=evidence.achieved_per_s,
            achieved_bytes_per_s=mean_in(result.acked_bytes, measure),
            consumed_per_s=mean_in(result.received, measure),
            consumed_bytes_per_s=mean_in(result.received_bytes, measure),
            produce=produce,
            e2e=e2e,
            delivery=delivery,
            generator=generator,
            host=host,
            storage=storage,
            system=SystemFacts(
                kind=system.kind,
                version=system.version,
                command=system.command,
                effective_config=client.effective_config(),
            ),
            verdict=judge(evidence, workload.validity),
        )
        self.writer.write_trial(summary, windows, host_samples)
        return summary

    # --- the manifest ------------------------------------------------------------------------------------------------

    def _first_manifest(self) -> Manifest:
        specification = self.plan.specification
        workload = specification.workload
        return Manifest(
            name=workload.name,
            purpose=workload.purpose,
            for_measurement=workload.for_measurement,
            created_utc=_now_utc(),
            finished_utc=None,
            status="running",
            exit_code=None,
            workload=workload.as_document(),
            workload_sha256=specification.sha256,
            workload_file=str(specification.file),
            argv=self.surroundings.argv,
            cwd=str(self.surroundings.directory),
            git=git_state(self.surroundings.directory),
            seed=self.plan.seed,
            axes=specification.axes,
            trials=[planned.plan for planned in self.plan.trials],
            versions=versions(self.launcher.versions()),
        )

    def _mark(self, manifest: Manifest, index: int, status: TrialStatus, error: str | None = None) -> Manifest:
        trials: list[TrialPlan] = list(manifest.trials)
        trials[index] = trials[index].model_copy(update={"status": status, "error": error})
        return self._write(manifest.model_copy(update={"trials": trials}))

    def _end(self, manifest: Manifest, status: RunStatus, exit_code: int | None) -> Manifest:
        return self._write(
            manifest.model_copy(update={"status": status, "exit_code": exit_code, "finished_utc": _now_utc()})
        )

    def _write(self, manifest: Manifest) -> Manifest:
        self.writer.write_manifest(manifest)
        return manifest


_EXTERNAL_STORAGE: Final = StorageTarget(
    name="external",
    path="",
    device=None,
    medium="unknown",
    emulated=False,
    model=None,
    scheduler=None,
    filesystem=None,
    mount_options=[],
)


def check_slots(plan: Plan, launcher: Launcher) -> None:
    """A barrier stage that does not fit would wait for ever. Raises UsageError."""
    if plan.tasks > launcher.slots:
        raise UsageError(
            f"the workload needs {plan.tasks} load tasks at once and {launcher.master} has slots for {launcher.slots}; "
            f"use --master 'local[{plan.tasks}]' or a larger cluster, or lower producers.count and consumers.per_group"
        )


def prepare(plan: Plan, areas: StorageAreas) -> None:
    """Make the run's folders on the storage targets and find external clusters. Raises UsageError."""
    for trial in plan.trials:
        refuse_unready(trial.cell.workload)
    paths = target_paths(plan.specification.workload)
    used = dict.fromkeys(
        trial.cell.workload.storage.target for trial in plan.trials if trial.cell.workload.system.kind != "external"
    )
    for target in used:
        areas.add(target, paths[target], plan.log_bytes(target, kept=areas.keep_data))
    external = dict.fromkeys(
        servers for trial in plan.trials if (servers := trial.cell.workload.system.bootstrap_servers) is not None
    )
    for servers in external:
        BrokerClient(servers).check_reachable()


def _exit_code(summary: TrialSummary) -> int:
    if summary.verdict.state != "invalid":
        return EXIT_OK
    return EXIT_TARGET if any(map(target_at_fault, summary.verdict.reasons)) else EXIT_INVALID


def _now_utc() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
