"""One trial whose load is a native client's: load, log, count, figures of totals, verdict, files.

A native client knows its totals, and wire_load its latencies. What it does not know is absent from the summary: there
are no seconds, no lateness of sends, no fate of single records. The count is checked: all that was sent was
acknowledged (or the trial fails), and the broker's end offsets give the same number (or the verdict is invalid).
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np

from highwater.bench.host.sampler import HostSampler
from highwater.bench.host.use import host_use
from highwater.bench.storage.cache_share import writeback_use
from highwater.bench.storage.log_files import LogState
from highwater.bench.storage.trial_storage import TrialStorage
from highwater.bench.systems import System
from highwater.bench.systems.broker_client import BrokerClient
from highwater.bench.trials.evidence import Beside, evidence_in
from highwater.bench.trials.host_profile import AppliedProfile
from highwater.bench.trials.lifetime import Restarted, SystemStart
from highwater.bench.trials.native_load import NativeLoad, NativeResult
from highwater.bench.trials.observed import process_groups, restart_of, system_facts
from highwater.bench.trials.plan import PlannedTrial
from highwater.bench.trials.steps import LOAD, StepClock
from highwater.bench.trials.summary import produce_of, slo_results
from highwater.bench.trials.verdict import judge
from highwater.bench.workload.model import Workload
from highwater.common.errors import TrialError, text_of
from highwater.results.files import histogram_path
from highwater.results.histogram import Histogram
from highwater.results.histogram_log import histogram_of, write_histograms
from highwater.results.host import HostSample
from highwater.results.models import (
    LATENCY_METRICS,
    Delivery,
    EventLine,
    Generator,
    LoadTask,
    PartitionLine,
    Phase,
    Reason,
    TrialSummary,
    Verdict,
)
from highwater.results.writer import ResultWriter

NATIVE: Final = "native"
_GIB: Final = 1 << 30


@dataclass(frozen=True, slots=True)
class NativeTrial:
    """A trial whose system runs and has its topic."""

    planned: PlannedTrial
    started_utc: str
    system: System
    storage: TrialStorage
    client: BrokerClient
    topic: str
    profile: AppliedProfile
    doubts: Sequence[Reason]
    others: tuple[int, ...] = ()
    """Processes of this command that are no part of the load."""

    def run(
        self, writer: ResultWriter, steps: StepClock, system_start: SystemStart, checkpoint: Callable[[], None]
    ) -> TrialSummary:
        """Load, count, judge and write. Raises TrialError for a load that does not add up."""
        workload, trial_id = self.planned.cell.workload, self.planned.plan.trial_id
        trial_directory = writer.trial_directory(trial_id)
        steps.begin(LOAD, f"{workload.producers.driver} is at work")
        load = NativeLoad(
            workload,
            self.system,
            self.client,
            self.topic,
            self.storage.directories,
            self.storage.directories[0],
            checkpoint,
        )
        with HostSampler(process_groups(self.system, self.others), self.storage.target.device) as sampler:
            result = load.run()
        self.profile.end()
        samples = sampler.samples(result.t0_monotonic_s)
        start = system_start.figures()
        steps.begin("look_at_log", "writing out what the disk does not have yet")
        try:
            log = self.storage.look([self.topic])
        except OSError as error:
            raise TrialError(f"the log cannot be read or written out: {text_of(error)}") from error
        restarted = restart_of(workload, self.system, [self.topic], self.storage, steps, checkpoint)
        steps.begin("count", "counting what is in the log")
        in_log = self._in_log(restarted)
        steps.begin("write", "writing the results")
        phases = phases_of(result)
        write_latencies(result, phases, trial_directory)
        summary = self._summary(result, phases, samples, log, in_log, trial_directory)
        summary = summary.model_copy(update={"start": start, "restart": restarted.figures if restarted else None})
        summary = summary.model_copy(
            update={"verdict": self._verdict(summary, log), "slo": slo_results(workload, summary)}
        )
        events = [EventLine(at_s=phase.start_s, kind="phase", text=phase.name) for phase in phases]
        writer.write_trial(summary, [], samples, self._partition_lines(workload, result, in_log), events)
        return summary

    def _in_log(self, restarted: Restarted | None) -> list[int]:
        if restarted is not None:
            return restarted.in_log[0]
        return self.client.records_by_partition(self.topic, self.planned.cell.workload.topics.partitions)

    def _partition_lines(self, workload: Workload, result: NativeResult, in_log: Sequence[int]) -> list[PartitionLine]:
        """None where a consumer read: it does not report how much of which partition."""
        if result.consumed is not None or sum(in_log) != result.produced.records:
            return []
        value_bytes = result.produced.size_bytes // result.produced.records
        return [
            PartitionLine(
                topic=self.topic,
                partition=partition,
                acked=records,
                acked_bytes=records * value_bytes,
                received=0,
                e2e_p50_ns=None,
                e2e_p99_ns=None,
                e2e_max_ns=None,
            )
            for partition, records in enumerate(in_log)
        ]

    def _summary(
        self,
        result: NativeResult,
        phases: Sequence[Phase],
        samples: Sequence[HostSample],
        log: LogState | None,
        in_log: Sequence[int],
        trial_directory: Path,
    ) -> TrialSummary:
        plan, workload = self.planned.plan, self.planned.cell.workload
        produced, consumed = result.produced, result.consumed
        measured = consumed or produced
        start_s, end_s = result.measured_s
        host = host_use(samples, start_s, end_s)
        if (cpu_s := result.system_cpu_s) is not None:
            # Exact, where seconds of the host lie beside a load that is no whole number of them.
            exact = {
                "system_cpu_ratio": cpu_s / (end_s - start_s),
                "system_cpu_s_per_gib": cpu_s / (measured.size_bytes / _GIB),
            }
            host = host.model_copy(update=exact)
        return TrialSummary(
            trial_id=plan.trial_id,
            cell=plan.cell,
            factors=plan.factors,
            trial=plan.trial,
            block=plan.block,
            order_in_block=plan.order_in_block,
            role=plan.role,
            launcher=NATIVE,
            driver=workload.producers.driver,
            started_utc=self.started_utc,
            phases=list(phases),
            offered_per_s=None if workload.load.rate_per_s is None else float(workload.load.rate_per_s),
            achieved_per_s=produced.records_per_s,
            achieved_bytes_per_s=produced.bytes_per_s,
            consumed_per_s=consumed.records_per_s if consumed else 0.0,
            consumed_bytes_per_s=consumed.bytes_per_s if consumed else 0.0,
            produce=produce_of(trial_directory, phases),
            e2e=None,
            delivery=_delivery(result, sum(in_log)),
            generator=_generator(result),
            host=host,
            writeback=writeback_use(samples, log) if self.storage.target.device else None,
            host_profile=self.profile.use,
            tuning_fingerprint=self.profile.fingerprint,
            durability_trades=list(self.profile.durability_trades),
            storage=self.storage.target,
            system=system_facts(self.system, self.client, self.topic, workload.topics.replication, {}),
            cold_read_bytes_per_s=result.cold_read_bytes_per_s,
            verdict=Verdict(state="invalid", reasons=[]),  # until it is judged
        )

    def _verdict(self, summary: TrialSummary, log: LogState | None) -> Verdict:
        errors = ["the storage of the log is full"] if log is not None and log.disk_full else []
        workload = self.planned.cell.workload
        beside = Beside(self.profile.faults, self.doubts, errors)
        verdict = judge(evidence_in(summary, [], workload, beside), workload.validity)
        delivery = summary.delivery
        counted = f"counted by offsets: {delivery.in_log} of {delivery.acked} acknowledged records are in the log"
        if workload.restart is not None:
            counted += " after the restart"
        read = [f"the consumer read {delivery.received} of them"] if delivery.received else []
        return verdict.model_copy(update={"notes": [counted, *read, *verdict.notes]})


def phases_of(result: NativeResult) -> list[Phase]:
    """The warm-up ends where the measured load begins, which may be after what a consumer then reads was sent."""
    start_s, end_s = (round(at_s, 3) for at_s in result.measured_s)  # as a histogram log has it
    return [
        Phase(name="warmup", start_s=0.0, end_s=start_s),
        Phase(name="measure", start_s=start_s, end_s=end_s),
        Phase(name="drain", start_s=end_s, end_s=end_s),
    ]


def write_latencies(result: NativeResult, phases: Sequence[Phase], trial_directory: Path) -> None:
    """One interval for the whole measured load, which is all that is known of when; empty logs of what is not timed."""
    for name in LATENCY_METRICS:
        path = histogram_path(trial_directory, name)
        if name != "produce_response" or result.produced.latencies is None or result.consumed is not None:
            write_histograms(path, {})
            continue
        found = Histogram.of_values(np.fromfile(result.produced.latencies, np.int64))
        write_histograms(path, {phases[1].start_s: histogram_of(found.indices, found.counts)})


def _delivery(result: NativeResult, in_log: int) -> Delivery:
    """Clients that miss an acknowledgement or a record end the trial, so that only counts are left to compare."""
    return Delivery(
        sent=result.produced.records,
        acked=result.produced.records,
        failed=0,
        received=result.consumed.records if result.consumed else 0,
        lost=0,
        duplicated=0,
        reordered=0,
        corrupt=0,
        in_log=in_log,
        checked=False,
    )


def _generator(result: NativeResult) -> Generator:
    produced, consumed = result.produced, result.consumed
    measured = consumed or produced
    host, processors = socket.gethostname(), len(os.sched_getaffinity(0))
    tasks = [
        LoadTask(
            task=number,
            role=role,
            host=host,
            pid=os.getpid(),
            cpu_count=processors,
            cpu_ratio_max=load.cpu_s / load.seconds,
            sent=load.records if role == "producer" else 0,
            acked=load.records if role == "producer" else 0,
            failed=0,
            received=load.records if role == "consumer" else 0,
            first_send_delay_ns=None,
            backpressure=0,
        )
        for number, (role, load) in enumerate((("producer", produced), ("consumer", consumed)))
        if load is not None
    ]
    return Generator(
        launcher=NATIVE,
        producers=1,
        consumers=1 if consumed else 0,
        slots=processors,
        oversubscribed=False,
        cpu_ratio_max=measured.cpu_s / measured.seconds,
        producer_cpu_ns_per_record=produced.cpu_s * 1e9 / produced.records,
        consumer_cpu_ns_per_record=consumed.cpu_s * 1e9 / consumed.records if consumed else 0.0,
        start_skew_ns=0,
        clock_spread_ns=0,
        produce_sampled_one_in=1 if produced.latencies else None,
        tasks=tasks,
    )
