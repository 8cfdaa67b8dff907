"""Summary, windows and histograms of a trial from the result of the load.

Counts belong to the second in which a thing happened, latencies to the second in which the record was due. Percentiles
of a summary are read back from the histogram log on disk, so the two cannot disagree.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from highwater.bench.host.cluster_use import with_cluster
from highwater.bench.host.use import host_use
from highwater.bench.storage.cache_share import cache_use, stored_ratio, writeback_use
from highwater.bench.storage.log_files import LogState
from highwater.bench.trials.evidence import Beside, evidence_in
from highwater.bench.trials.plan import PlannedTrial
from highwater.bench.trials.recovery import FaultMark, evidence_beside_faults, recoveries, undisturbed
from highwater.bench.trials.verdict import judge
from highwater.bench.workload.model import Workload
from highwater.bench.workload.values import FixedSize
from highwater.results.cluster import ClusterHostUse
from highwater.results.files import histogram_path, measured_latency
from highwater.results.histogram_log import histogram_of, write_histograms
from highwater.results.host import HostSample
from highwater.results.lifetime import Restart, Start
from highwater.results.metrics import metric
from highwater.results.models import (
    LATENCY_METRICS,
    AtOnce,
    Backlog,
    Delivery,
    EndToEnd,
    EventLine,
    Generator,
    HostProfileUse,
    PartitionLine,
    Phase,
    Produce,
    Reason,
    SloResult,
    SteadyState,
    SystemFacts,
    TelemetryUse,
    Transactions,
    TrialSummary,
    Verdict,
    Window,
)
from highwater.results.rebalance import Rebalances
from highwater.results.recovery import Recovery
from highwater.results.storage import CacheDrop, CacheUse, StorageTarget
from highwater.spark_loadgen.model import LoadResult, PartitionCounts

_MOST_ERRORS_SHOWN = 3


@dataclass(frozen=True, slots=True)
class TrialRecord:
    """Everything that was observed of one trial, before any of it is judged."""

    planned: PlannedTrial
    started_utc: str
    launcher: str
    result: LoadResult
    phases: Sequence[Phase]
    windows: Sequence[Window]
    host_samples: Sequence[HostSample]
    system_cpu_s: float | None
    """CPU time from before the load until after its drain; None where the host does not report it."""
    in_log_by_partition: Sequence[int]
    """Records in the log of each partition, in the order of `result.partitions`."""
    storage: StorageTarget
    log: LogState | None
    cache_drop: CacheDrop
    system: SystemFacts
    host_profile: HostProfileUse | None
    host_profile_faults: Sequence[Reason]
    tuning_fingerprint: str
    durability_trades: Sequence[str] = ()
    """What stood against crash safety while it ran (`highwater.tuning.trades`)."""
    doubts: Sequence[Reason] = ()
    """What was found before the trial that its verdict must know."""
    ceiling_per_s: float | None = None
    """The rate that the trial's producers reach without a broker, by calibration; None if unknown."""
    consumer_ceiling_per_s: float | None = None
    """The rate that its consumers reach when all records are written; likewise."""
    calibration_notes: Sequence[str] = ()
    """Why a calibration that was given says nothing of this trial."""
    faults: Sequence[FaultMark] = ()
    rebalances: Rebalances | None = None
    cluster_hosts: Sequence[ClusterHostUse] = ()
    """Hosts that carry an external cluster."""
    at_once: AtOnce | None = None
    start: Start | None = None
    restart: Restart | None = None
    telemetry: str | None = None
    """The name of the trial in what its tasks published; None if they published nothing."""

    @property
    def in_log(self) -> int:
        return sum(self.in_log_by_partition)

    @property
    def acked_by_partition(self) -> Sequence[int] | None:
        """The log's own counts, since producers do not know where their records went.

        None where the log holds anything but what was acknowledged: ends of transactions, duplicates, or too little.
        """
        whole = self.in_log == self.result.delivery.acked and not self.result.delivery.duplicated_in_log
        return self.in_log_by_partition if whole else None


def summarise(record: TrialRecord, trial_directory: Path) -> TrialSummary:
    """One trial in figures, with its verdict. Its histogram logs must be written: percentiles are read from them."""
    plan, workload, result = record.planned.plan, record.planned.cell.workload, record.result
    phases, measure = record.phases, record.phases[1]
    produce, e2e = produce_of(trial_directory, phases), end_to_end_of(result, trial_directory, phases)
    delivery = delivery_of(result, record.in_log)
    generator = generator_of(record)
    host = host_use(record.host_samples, measure.start_s, measure.end_s).model_copy(
        update={"system_cpu_s_per_gib": cpu_s_per_gib(record)}
    )
    recovery = recovery_of(record, delivery)
    summary = TrialSummary(
        trial_id=plan.trial_id,
        cell=plan.cell,
        factors=plan.factors,
        trial=plan.trial,
        block=plan.block,
        order_in_block=plan.order_in_block,
        role=plan.role,
        launcher=record.launcher,
        driver=workload.producers.driver,
        started_utc=record.started_utc,
        phases=list(phases),
        steady=SteadyState.of_report(result.steady) if result.steady else None,
        offered_per_s=None if result.closed_loop else mean_in(result.offered, measure),
        achieved_per_s=mean_in(result.acked, measure),
        achieved_bytes_per_s=mean_in(result.acked_bytes, measure),
        consumed_per_s=mean_in(result.received, measure),
        consumed_bytes_per_s=mean_in(result.received_bytes, measure),
        produce=produce,
        e2e=e2e,
        delivery=delivery,
        lag_max=max(result.lag, default=None) if result.generator.consumers else None,
        partition_skew_ratio=skew_of(record),
        backlog=Backlog.of_report(result.backlog) if result.backlog else None,
        transactions=transactions_of(result, trial_directory, phases),
        recovery=recovery,
        rebalances=record.rebalances,
        generator=generator,
        host=with_cluster(host, record.cluster_hosts),
        cluster_hosts=list(record.cluster_hosts),
        cache=cache_of(record),
        writeback=writeback_use(record.host_samples, record.log) if record.storage.device else None,
        storage=record.storage,
        system=record.system,
        host_profile=record.host_profile,
        tuning_fingerprint=record.tuning_fingerprint,
        durability_trades=list(record.durability_trades),
        at_once=record.at_once,
        start=record.start,
        restart=record.restart,
        verdict=Verdict(state="invalid", reasons=[]),  # until it is judged, from here on
    )
    return summary.model_copy(update={"verdict": _verdict(summary, record), "slo": slo_results(workload, summary)})


def cpu_s_per_gib(record: TrialRecord) -> float | None:
    """What a GiB of values costs the system, in or out: exact, because it is of all the load and not of samples."""
    moved_bytes = sum(record.result.acked_bytes) + sum(record.result.received_bytes)
    if record.system_cpu_s is None or not moved_bytes:
        return None
    return record.system_cpu_s / (moved_bytes / (1 << 30))


def slo_results(workload: Workload, summary: TrialSummary) -> list[SloResult]:
    """Every objective of the workload against the trial. One without a figure to hold against it is not met."""
    results = []
    for name, bound in workload.slo.items():
        value = metric(name).read(summary)
        met = value is not None and bound.met(value)
        results.append(SloResult(metric=name, bound=str(bound), value=value, met=met))
    return results


def phases_of(workload: Workload, result: LoadResult) -> list[Phase]:
    """What the load went through, in seconds since T0."""
    warmup_end_s = float(result.measure_start_s)
    measure_end_s = warmup_end_s + workload.phases.measure_s
    return [
        Phase(name="warmup", start_s=0.0, end_s=warmup_end_s),
        Phase(name="measure", start_s=warmup_end_s, end_s=measure_end_s),
        Phase(name="drain", start_s=measure_end_s, end_s=max(measure_end_s, float(len(result.received)))),
    ]


def cache_of(record: TrialRecord) -> CacheUse | None:
    """Over the measured phase, or while a backlog was read; None without consumers, or where the log is elsewhere."""
    workload, result, log = record.planned.cell.workload, record.result, record.log
    if workload.system.kind == "external" or not result.generator.consumers:
        return None
    measure, drain = record.phases[1:]
    start_s, end_s = measure.start_s, measure.end_s
    if result.backlog is not None:
        start_s = measure.end_s if result.backlog.built_at_s is None else result.backlog.built_at_s
        end_s = drain.end_s if result.backlog.caught_up_at_s is None else result.backlog.caught_up_at_s
    return cache_use(
        record.host_samples,
        result.received_bytes,
        start_s,
        end_s,
        stored_ratio=stored_ratio(
            log.log_bytes if log else None,
            sum(result.acked_bytes),
            workload.topics.replication,
            whole=record.in_log == result.delivery.acked,
        ),
        log=log,
        limit_bytes=workload.storage.cache_limit_bytes,
        drop=record.cache_drop,
    )


def mean_in(row: Sequence[int], phase: Phase) -> float:
    """Per second, over a phase."""
    return sum(row[int(phase.start_s) : int(phase.end_s)]) / (phase.end_s - phase.start_s)


def write_histogram_logs(result: LoadResult, trial_directory: Path) -> None:
    for name in (*LATENCY_METRICS, *(("txn_commit",) if result.transactions is not None else ())):
        series = result.histograms.get(name, {})
        histograms = {second: histogram_of(item.indices, item.counts) for second, item in series.items()}
        write_histograms(histogram_path(trial_directory, name), histograms)


def windows_of(result: LoadResult, phases: Sequence[Phase]) -> list[Window]:
    """One line per second; the last belongs to whatever happened last."""

    def at(row: Sequence[int], second: int) -> int:
        return row[second] if second < len(row) else 0

    def percentiles(metric: str, second: int) -> tuple[int | None, int | None, int | None]:
        histogram = result.histograms.get(metric, {}).get(second)
        if histogram is None or not histogram.count:
            return None, None, None
        return histogram.percentile(50), histogram.percentile(99), histogram.max

    lag = result.lag if result.generator.consumers else []
    windows = []
    for second in range(max(len(result.offered), len(result.acked), len(result.received))):
        produce_p50_ns, produce_p99_ns, produce_max_ns = percentiles("produce_response", second)
        e2e_p50_ns, e2e_p99_ns, e2e_max_ns = percentiles("e2e_response", second)
        cpu = result.generator_cpu_ratio_max
        windows.append(
            Window(
                second=second,
                phase=_phase_at(second, phases),
                offered=at(result.offered, second),
                sent=at(result.sent, second),
                acked=at(result.acked, second),
                acked_bytes=at(result.acked_bytes, second),
                failed=at(result.failed, second),
                received=at(result.received, second),
                received_bytes=at(result.received_bytes, second),
                produce_p50_ns=produce_p50_ns,
                produce_p99_ns=produce_p99_ns,
                produce_max_ns=produce_max_ns,
                e2e_p50_ns=e2e_p50_ns,
                e2e_p99_ns=e2e_p99_ns,
                e2e_max_ns=e2e_max_ns,
                generator_cpu_ratio_max=cpu[second] if second < len(cpu) else None,
                lag=lag[second] if second < len(lag) else None,
            )
        )
    return windows


def _phase_at(second: int, phases: Sequence[Phase]) -> Literal["warmup", "measure", "drain"]:
    return next((phase.name for phase in phases if phase.start_s <= second < phase.end_s), "drain")


def produce_of(trial_directory: Path, phases: Sequence[Phase]) -> Produce:
    return Produce(
        response_ns=measured_latency(trial_directory, "produce_response", phases),
        service_ns=measured_latency(trial_directory, "produce_service", phases),
        send_delay_ns=measured_latency(trial_directory, "send_delay", phases),
    )


def end_to_end_of(result: LoadResult, trial_directory: Path, phases: Sequence[Phase]) -> EndToEnd | None:
    if not result.generator.consumers:
        return None
    return EndToEnd(
        response_ns=measured_latency(trial_directory, "e2e_response", phases),
        clock=result.e2e_clock,
        negative_samples=result.negative_samples,
    )


def delivery_of(result: LoadResult, in_log: int) -> Delivery:
    checked = result.delivery.checked and result.generator.consumers > 0
    return Delivery.of_report(result.delivery, in_log=in_log, checked=checked)


def recovery_of(record: TrialRecord, delivery: Delivery) -> Recovery | None:
    result = record.result
    if not record.faults:
        return None
    return Recovery(
        faults=recoveries(
            record.faults,
            record.windows,
            record.phases[1],
            closed_loop=result.closed_loop,
            consumers=result.generator.consumers > 0,
        ),
        lost=delivery.lost,
        duplicated=delivery.duplicated,
        reordered=delivery.reordered,
    )


def skew_of(record: TrialRecord) -> float | None:
    """Busiest partition ÷ mean partition, by records acknowledged; by records received where those are not known."""
    counts = record.acked_by_partition or [partition.received for partition in record.result.partitions]
    return max(counts) * len(counts) / sum(counts) if sum(counts) else None


def partition_lines(record: TrialRecord) -> list[PartitionLine]:
    partitions, size = record.result.partitions, record.planned.cell.workload.records.size
    value_bytes = size.size_bytes if isinstance(size, FixedSize) else None
    counts: Sequence[int | None] = record.acked_by_partition or [None] * len(partitions)

    def percentile(partition: PartitionCounts, percent: float) -> int | None:
        return partition.e2e.percentile(percent) if partition.e2e.count else None

    return [
        PartitionLine(
            topic=partition.topic,
            partition=partition.partition,
            acked=acked,
            acked_bytes=None if acked is None or value_bytes is None else acked * value_bytes,
            received=partition.received,
            e2e_p50_ns=percentile(partition, 50),
            e2e_p99_ns=percentile(partition, 99),
            e2e_max_ns=partition.e2e.max if partition.e2e.count else None,
        )
        for partition, acked in zip(partitions, counts, strict=True)
    ]


def event_lines(result: LoadResult, phases: Sequence[Phase], done: Sequence[EventLine] = ()) -> list[EventLine]:
    """What the load reported, where its phases began, and what was done to the system or a group; in order of time."""
    began = [EventLine(at_s=phase.start_s, kind="phase", text=phase.name) for phase in phases]
    during = [EventLine.of_report(event) for event in result.events]
    return sorted([*began, *during, *done], key=lambda event: event.at_s)


def transactions_of(result: LoadResult, trial_directory: Path, phases: Sequence[Phase]) -> Transactions | None:
    report = result.transactions
    if report is None:
        return None
    commit_ns = measured_latency(trial_directory, "txn_commit", phases) if report.committed else None
    return Transactions.of_report(report, commit_ns=commit_ns)


def _verdict(summary: TrialSummary, record: TrialRecord) -> Verdict:
    disk_full = record.log is not None and record.log.disk_full
    errors = [*client_errors(record.result.errors), *(["the storage of the log is full"] if disk_full else [])]
    workload = record.planned.cell.workload
    beside = Beside(record.host_profile_faults, record.doubts, errors)
    evidence = evidence_in(summary, record.windows, workload, beside)
    if summary.recovery is not None:
        seconds = undisturbed(summary.recovery.faults, record.phases[1])
        evidence = evidence_beside_faults(evidence, record.result, record.windows, record.host_samples, seconds)
    verdict = judge(evidence, workload.validity)
    return verdict.model_copy(update={"notes": [*verdict.notes, *record.calibration_notes]})


def generator_of(record: TrialRecord) -> Generator:
    return Generator.of_report(
        record.result.generator,
        launcher=record.launcher,
        ceiling_per_s=record.ceiling_per_s,
        consumer_ceiling_per_s=record.consumer_ceiling_per_s,
        telemetry=_telemetry_of(record),
    )


def _telemetry_of(record: TrialRecord) -> TelemetryUse | None:
    report = record.result.telemetry
    if report is None or record.telemetry is None:
        return None
    return TelemetryUse.of_report(report, trial=record.telemetry, cpu_s=report.cpu_ns / 1e9)


def client_errors(errors: dict[str, int]) -> list[str]:
    """The commonest errors of the clients, with their counts."""
    commonest = sorted(errors.items(), key=lambda item: -item[1])[:_MOST_ERRORS_SHOWN]
    return [f"{text} ×{count}" for text, count in commonest]
