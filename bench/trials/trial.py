"""Runs one trial: fresh system and topics, load, drain, count, verdict, files, clean-up."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol

from highwater.bench.host.cluster_sampler import ClusterSampler
from highwater.bench.host.cluster_use import cluster_host_use
from highwater.bench.host.sampler import HostSampler
from highwater.bench.storage.areas import StorageAreas
from highwater.bench.storage.trial_storage import TrialStorage, log_directories
from highwater.bench.systems import StartSystem, System
from highwater.bench.systems.bare_loop import BareLoop
from highwater.bench.systems.broker_client import BrokerClient
from highwater.bench.telemetry.control import ControlTopic
from highwater.bench.telemetry.publishing import THIS_HOST, Sampled, TrialTelemetry
from highwater.bench.trials.concurrent_trials import ConcurrentTrials
from highwater.bench.trials.faults import FaultInjector
from highwater.bench.trials.given_calibration import calibration_for, ceiling_per_s, consumer_ceiling_per_s
from highwater.bench.trials.host_profile import AppliedProfile, applied_profile
from highwater.bench.trials.lifetime import SystemStart
from highwater.bench.trials.load_plan import load_plan_of
from highwater.bench.trials.native_load import spread_evenly
from highwater.bench.trials.native_trial import NativeTrial
from highwater.bench.trials.observed import process_groups, restart_of, system_facts
from highwater.bench.trials.plan import PlannedTrial
from highwater.bench.trials.progress import Observer
from highwater.bench.trials.steps import LOAD, StepClock
from highwater.bench.trials.stopping import StopRequest
from highwater.bench.trials.summary import (
    TrialRecord,
    client_errors,
    event_lines,
    partition_lines,
    phases_of,
    summarise,
    windows_of,
    write_histogram_logs,
)
from highwater.bench.trials.watched_group import WatchedGroup
from highwater.bench.workload.command_config import told_of
from highwater.bench.workload.model import Workload
from highwater.bench.workload.specification import Specification
from highwater.common.bench_topics import TOKEN_BYTES, topic_names
from highwater.common.errors import GeneratorError, TrialError, UsageError, text_of
from highwater.results.calibration import Calibration
from highwater.results.models import AtOnce, EventLine, Phase, Reason, TrialSummary
from highwater.results.rebalance import Rebalances
from highwater.results.writer import ResultWriter
from highwater.spark_loadgen.errors import LoadFailed, LoadSetupError
from highwater.spark_loadgen.model import LoadPlan, LoadResult, Progress
from highwater.tuning.facts.model import Facts


class Launcher(Protocol):
    """What starts load: Spark, plain processes, or a stand-in."""

    @property
    def name(self) -> str:
        """For the results: `spark local[4]`, `processes`."""
        ...

    @property
    def master(self) -> str: ...
    @property
    def settings(self) -> Mapping[str, str]:
        """What it was given over its own."""
        ...

    @property
    def slots(self) -> int: ...
    def versions(self) -> Mapping[str, str]: ...
    def run(
        self,
        plan: LoadPlan,
        *,
        on_progress: Callable[[Progress], None] | None = None,
        should_stop: Callable[[], bool] | None = None,
        may_start: Callable[[], bool] | None = None,
    ) -> LoadResult: ...


@dataclass(frozen=True, slots=True)
class TrialRunner:
    """What all trials of a run share. `start` and `connect` are replaced in tests."""

    specification: Specification
    seed: int
    writer: ResultWriter
    launcher_of: Callable[[PlannedTrial], Launcher]
    facts: Facts
    areas: StorageAreas
    observer: Observer
    stop: StopRequest
    start: StartSystem
    connect: Callable[[str, Mapping[str, str]], BrokerClient]
    calibration: Calibration | None = None
    telemetry: ControlTopic | None = None
    """Where load tasks publish their figures; None: nowhere."""

    def run(
        self,
        planned: PlannedTrial,
        steps: StepClock,
        doubts: Sequence[Reason] = (),
        concurrent: ConcurrentTrials | None = None,
    ) -> TrialSummary:
        """Run one trial and write its files. `steps` records what it spends its time on; `doubts` go to its verdict.

        concurrent: the trials that run at the same time in other threads; None when there are none.

        Raises TrialError when the system or the load failed, UsageError when no trial of this kind can run,
        StoppedError when the user asked to stop.
        """
        self.stop.check()
        workload, trial_id = planned.cell.workload, planned.plan.trial_id
        started_utc = now_utc()
        trial_directory = self.writer.trial_directory(trial_id)
        try:
            steps.begin("start_system", "starting the system")
            with (
                concurrent.one_processor() if concurrent else nullcontext(),
                applied_profile(workload.host, self.facts, log_directories(workload, self.areas)) as profile,
                TrialStorage(workload, trial_id, self.areas, profile.facts) as storage,
                self._started_system(workload, storage, trial_directory) as (system, system_start),
            ):
                storage.take(system.process_ids)
                client = self._client(system, workload)
                topics = self._topic_names(planned)
                steps.begin("make_topics", "making the topics")
                with system_start.making_topics(len(topics) * workload.topics.partitions):
                    self._make_topics(client, topics, planned, system)
                try:
                    system_start.rest(workload.phases.rest_s or 0, self.stop.check)
                    self.stop.check()
                    if workload.producers.native:
                        native = NativeTrial(
                            *(planned, started_utc, system, storage, client, topics[0], profile, doubts),
                            self.observer.process_ids,
                        )
                        return native.run(self.writer, steps, system_start, self.stop.check_at_once)
                    launcher = self.launcher_of(planned)
                    telemetry = self._telemetry_of(planned)
                    load_plan = self._load_plan(planned, system, topics, telemetry)
                    if concurrent:
                        steps.begin("meet", "waiting for the trials beside it")
                        concurrent.add_system(trial_id, system)
                        concurrent.arrive_and_wait(trial_id, "started", self.stop.check)
                    others = self.observer.process_ids
                    if concurrent:
                        others += tuple(concurrent.other_process_ids(trial_id))
                    steps.begin("start_load", "starting the load")
                    with telemetry or nullcontext(), self._group(load_plan, workload) as group:
                        group.form(self.stop.check)
                        with (
                            ClusterSampler(workload.system.external) as cluster,
                            HostSampler(process_groups(system, others), storage.target.device) as sampler,
                        ):
                            hosts: dict[str, Sampled] = {THIS_HOST: sampler, **cluster.hosts}
                            self.observer.hosts_sampled(hosts)

                            def processes_changed(new_process_ids: Sequence[int]) -> None:
                                sampler.regroup(process_groups(system, others))
                                storage.take(new_process_ids)

                            injector = FaultInjector(
                                workload.faults,
                                system.nodes,
                                client,
                                topics[0],
                                workload.phases.measure_s,
                                load_plan.seed,
                                processes_changed,
                            )

                            def may_start() -> bool:
                                if concurrent and not concurrent.arrive(trial_id, "ready"):
                                    return False
                                sampler.load_begins()
                                return True

                            def progressed(progress: Progress) -> None:
                                injector.progressed(progress)
                                group.progressed(progress)
                                self.observer.load(progress)
                                if telemetry is not None:
                                    objectives = {name: str(bound) for name, bound in workload.slo.items()}
                                    telemetry.progressed(progress, load_plan, planned.cell.name, objectives, hosts)

                            result = self._load(
                                launcher, load_plan, system, storage, injector, group, client, may_start, progressed
                            )
                            rebalances = (
                                None
                                if result.interrupted
                                else group.figures(result.acked, phases_of(workload, result)[1].end_s)
                            )
                        # Only now: a sampler may take one more second between the end of the load and its own.
                        if telemetry is not None:
                            telemetry.ended(result, hosts)
                    if not result.interrupted:
                        injector.finish(self.stop.check)
                    if concurrent:
                        concurrent.arrive_and_wait(trial_id, "loaded", self.stop.check)
                        doubts = [*doubts, *concurrent.doubts(trial_id)]
                    profile.end()
                    _account(steps, result, phases_of(workload, result))
                    ran = _Ran(
                        planned,
                        started_utc,
                        launcher.name,
                        system,
                        storage,
                        client,
                        topics,
                        profile,
                        doubts,
                        load_plan,
                        injector,
                        rebalances,
                        group.events(),
                        concurrent.facts(trial_id) if concurrent else None,
                        system_start,
                    )
                    return self._finish(ran, result, sampler, cluster, steps)
                finally:
                    if system.kind == "external":
                        for topic in topics:
                            client.delete_topic(topic)
                    steps.begin("stop_system", "stopping the system, giving its space back")
        finally:
            steps.end()

    @contextmanager
    def _started_system(
        self, workload: Workload, storage: TrialStorage, trial_directory: Path
    ) -> Iterator[tuple[System, SystemStart]]:
        """The system from its start to its end, with the notes of how it comes up."""
        started_s = time.monotonic()
        with self.start(workload.system, storage.directories, trial_directory, self.stop.check) as system:
            yield system, SystemStart(started_s, system)

    def _client(self, system: System, workload: Workload) -> BrokerClient:
        if isinstance(system, BareLoop):
            return system.client
        return self.connect(system.bootstrap_servers, self.specification.command_config(workload))

    def _topic_names(self, planned: PlannedTrial) -> tuple[str, ...]:
        token = secrets.token_hex(TOKEN_BYTES)
        plan = planned.plan
        return topic_names(token, plan.block, plan.order_in_block, planned.cell.workload.topics.count)

    def _make_topics(
        self, client: BrokerClient, topics: tuple[str, ...], planned: PlannedTrial, system: System
    ) -> None:
        workload = planned.cell.workload
        wanted = workload.topics
        if workload.producers.native and (assignment := spread_evenly(system, wanted.partitions)):
            client.create_topic(topics[0], wanted.partitions, wanted.config, assignment=assignment)
            return
        for topic in topics:
            client.create_topic(topic, wanted.partitions, wanted.config, replication=wanted.replication)

    def _telemetry_of(self, planned: PlannedTrial) -> TrialTelemetry | None:
        if self.telemetry is None:
            return None
        return TrialTelemetry(self.telemetry, self.specification.workload.name, planned.plan.trial_id)

    def _load_plan(
        self,
        planned: PlannedTrial,
        system: System,
        topics: tuple[str, ...],
        telemetry: TrialTelemetry | None,
    ) -> LoadPlan:
        workload = planned.cell.workload
        return load_plan_of(
            workload,
            bootstrap_servers=system.bootstrap_servers,
            topics=topics,
            payload_file=self.specification.payload_file(workload),
            # The trials of one block send the same values, so that cells differ in nothing but their factors.
            seed=self.seed + planned.plan.block,
            connection=self.specification.command_config(workload),
            telemetry=telemetry.target if telemetry is not None else None,
            traces=self.specification.traces(workload),
        )

    def _group(self, load_plan: LoadPlan, workload: Workload) -> WatchedGroup:
        return WatchedGroup(
            workload.rebalance,
            load_plan.topics,
            load_plan.partitions,
            load_plan.bootstrap_servers,
            load_plan.connection,
        )

    def _load(
        self,
        launcher: Launcher,
        load_plan: LoadPlan,
        system: System,
        storage: TrialStorage,
        injector: FaultInjector,
        group: WatchedGroup,
        client: BrokerClient,
        may_start: Callable[[], bool],
        on_progress: Callable[[Progress], None],
    ) -> LoadResult:
        def should_stop() -> bool:
            injector.run_due()
            group.run_due()
            self.stop.check_at_once()
            return self.stop.requested or (injector.problem or group.problem() or system.problem()) is not None

        try:
            result = launcher.run(load_plan, on_progress=on_progress, should_stop=should_stop, may_start=may_start)
        except (LoadFailed, LoadSetupError) as error:
            self.stop.check()
            if (problem := injector.problem or _problem(system, storage)) is not None:
                raise TrialError(problem) from None
            if isinstance(error, LoadSetupError):
                # Tasks that do not reach a broker that we do not reach either have no mistake to put right.
                if not client.answers():
                    raise TrialError(str(error)) from None
                raise UsageError(str(error)) from None
            raise GeneratorError(str(error)) from None
        if (problem := injector.problem or _problem(system, storage) or group.problem()) is not None:
            raise TrialError(problem)
        return result

    def _finish(
        self, ran: _Ran, result: LoadResult, sampler: HostSampler, cluster: ClusterSampler, steps: StepClock
    ) -> TrialSummary:
        workload, trial_id = ran.planned.cell.workload, ran.planned.plan.trial_id
        trial_directory = self.writer.trial_directory(trial_id)
        phases = phases_of(workload, result)
        windows = windows_of(result, phases)
        t0_monotonic_s = time.monotonic() - (time.time_ns() - result.t0_unix_ns) / 1e9
        host_samples = sampler.samples(t0_monotonic_s)
        cluster_samples = {name: host.samples(t0_monotonic_s) for name, host in cluster.hosts.items()}
        if result.interrupted:
            write_histogram_logs(result, trial_directory)
            self.writer.write_series(trial_id, windows, host_samples, cluster_samples)
            self.stop.check()
            raise TrialError(f"the load ended early: {'; '.join(client_errors(result.errors)) or 'no client error'}")
        steps.begin("look_at_log", "writing out what the disk does not have yet")
        try:
            log = ran.storage.look(ran.topics)
        except OSError as error:
            raise TrialError(f"the log cannot be read or written out: {text_of(error)}") from error
        start = ran.system_start.figures()
        restarted = restart_of(workload, ran.system, ran.topics, ran.storage, steps, self.stop.check)
        steps.begin("count", "counting what is in the log")
        in_log = (
            restarted.in_log
            if restarted
            else [ran.client.records_by_partition(topic, workload.topics.partitions) for topic in ran.topics]
        )
        connection = told_of(ran.load_plan.connection)
        facts = system_facts(ran.system, ran.client, ran.topics[0], workload.topics.replication, connection)
        steps.begin("write", "writing the results")
        calibration, calibration_notes = calibration_for(self.calibration, result)
        write_histogram_logs(result, trial_directory)
        record = TrialRecord(
            planned=ran.planned,
            started_utc=ran.started_utc,
            launcher=ran.launcher,
            result=result,
            phases=phases,
            windows=windows,
            host_samples=host_samples,
            system_cpu_s=cluster.system_cpu_s() if cluster.hosts else sampler.system_cpu_s(),
            in_log_by_partition=[count for counts in in_log for count in counts],
            storage=ran.storage.target,
            log=log,
            cache_drop=ran.storage.drop,
            system=facts,
            host_profile=ran.profile.use,
            host_profile_faults=ran.profile.faults,
            tuning_fingerprint=ran.profile.fingerprint,
            durability_trades=[*ran.profile.durability_trades, *_trades_of(cluster)],
            doubts=ran.doubts,
            at_once=ran.at_once,
            ceiling_per_s=ceiling_per_s(calibration, ran.load_plan),
            consumer_ceiling_per_s=consumer_ceiling_per_s(calibration, ran.load_plan),
            calibration_notes=calibration_notes,
            faults=ran.injector.marks(result.t0_unix_ns),
            rebalances=ran.rebalances,
            cluster_hosts=[
                cluster_host_use(name, host.described, cluster_samples[name], phases[1], host.problem)
                for name, host in cluster.hosts.items()
            ],
            start=start,
            restart=restarted.figures if restarted else None,
            telemetry=ran.load_plan.telemetry.trial if ran.load_plan.telemetry else None,
        )
        summary = summarise(record, trial_directory)
        events = event_lines(result, phases, [*ran.injector.events(result.t0_unix_ns), *ran.membership])
        self.writer.write_trial(summary, windows, host_samples, partition_lines(record), events, cluster_samples)
        return summary


def _problem(system: System, storage: TrialStorage) -> str | None:
    """Why the system runs no longer, and what we did to it; None while it runs."""
    problem = system.problem()
    reason = storage.problem() if problem else None
    return f"{reason} ({problem})" if reason else problem


def _trades_of(cluster: ClusterSampler) -> list[str]:
    """Each with the hosts that have it, unless all do."""
    found: dict[str, list[str]] = {}
    for name, host in cluster.hosts.items():
        for trade in host.described.durability_trades:
            found.setdefault(trade, []).append(name)
    return [
        trade if len(names) == len(cluster.hosts) else f"{trade} ({', '.join(names)})" for trade, names in found.items()
    ]


@dataclass(frozen=True, slots=True)
class _Ran:
    """A trial whose load is over and whose system still runs."""

    planned: PlannedTrial
    started_utc: str
    launcher: str
    system: System
    storage: TrialStorage
    client: BrokerClient
    topics: tuple[str, ...]
    profile: AppliedProfile
    doubts: Sequence[Reason]
    load_plan: LoadPlan
    injector: FaultInjector
    rebalances: Rebalances | None
    membership: Sequence[EventLine]
    at_once: AtOnce | None
    system_start: SystemStart


def _account(steps: StepClock, result: LoadResult, phases: Sequence[Phase]) -> None:
    """Part what `start_load` took, from asking the launcher to its answer, into set-up, load, and drain."""
    steps.end()
    since_t0_s = (time.time_ns() - result.t0_unix_ns) / 1e9
    load_s = min(phases[1].end_s, since_t0_s)
    steps.split("start_load", {LOAD: load_s, "drain": since_t0_s - load_s})


def now_utc() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
