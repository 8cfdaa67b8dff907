"""Merges the tasks' outcomes exactly: counts by sum, histograms by bucket, delivery by record."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence

from highwater.results.histogram import Histogram, merge_series
from highwater.spark_loadgen.backlog import backlog_report, lag_of
from highwater.spark_loadgen.consumer import ConsumerReport, reads_committed
from highwater.spark_loadgen.coordination import DriverReport
from highwater.spark_loadgen.delivery import Delivery, Sent, merge_delivery
from highwater.spark_loadgen.errors import LoadFailed
from highwater.spark_loadgen.model import (
    GeneratorReport,
    LoadPlan,
    LoadResult,
    PartitionCounts,
    TaskReport,
    TelemetryReport,
    TransactionReport,
)
from highwater.spark_loadgen.producer_metrics import ProducerReport
from highwater.spark_loadgen.sampling import sampling_stride
from highwater.spark_loadgen.task import TaskOutcome
from highwater.spark_loadgen.windows import SECOND_NS, max_rows, sum_windows


def merge_outcomes(
    plan: LoadPlan,
    outcomes: Sequence[TaskOutcome],
    driver: DriverReport,
    t0_unix_ns: int,
    slots: int,
    *,
    interrupted: bool,
) -> LoadResult:
    """outcomes: one per task in order of task numbers, each with its report. Raises LoadFailed."""
    _check_measured_phase(outcomes, driver)
    producers = [o.report for o in outcomes if isinstance(o.report, ProducerReport)]
    consumers = [o.report for o in outcomes if isinstance(o.report, ConsumerReport)]
    reports: list[ProducerReport | ConsumerReport] = [*producers, *consumers]
    rows = sum_windows(report.windows for report in reports)
    end_s = driver.measure_start_s + plan.measure_s
    seconds = max(end_s, rows.seconds)
    rows.lengthen(seconds)
    cpu_ratio = max_rows(report.cpu_ratio for report in reports)
    cpu_ratio = cpu_ratio[:seconds] + [0.0] * (seconds - len(cpu_ratio))
    histograms = {
        metric: merge_series(report.histograms[metric] for report in producers) for metric in producers[0].histograms
    }
    histograms["e2e_response"] = merge_series(report.e2e_response for report in consumers)
    errors: Counter[str] = Counter()
    for report in reports:
        errors.update(report.errors)
    return LoadResult(
        t0_unix_ns=t0_unix_ns,
        offered=_offered(plan, end_s, seconds) or list(rows.sent),
        sent=rows.sent,
        acked=rows.acked,
        acked_bytes=rows.acked_bytes,
        failed=rows.failed,
        received=rows.received,
        received_bytes=rows.received_bytes,
        generator_cpu_ratio_max=cpu_ratio,
        histograms=histograms,
        delivery=_delivery(plan, producers, consumers),
        e2e_clock=driver.e2e_clock,
        negative_samples=sum(report.negative_samples for report in consumers),
        generator=_generator(plan, outcomes, driver, slots),
        interrupted=interrupted,
        errors=dict(errors.most_common()),
        measure_start_s=float(driver.measure_start_s),
        closed_loop=plan.schedule is None,
        transactions=_transactions(producers),
        steady=driver.steady,
        backlog=backlog_report(
            plan, driver.consumer_start, sum_windows(r.tenths for r in reports if r.tenths is not None), consumers
        ),
        lag=lag_of(rows, plan.groups),
        partitions=_partitions(plan, consumers),
        events=driver.events,
        telemetry=_telemetry(outcomes),
    )


def _check_measured_phase(outcomes: Sequence[TaskOutcome], driver: DriverReport) -> None:
    """Raise LoadFailed if a task missed the start of the measured phase: its load then differs from the plan."""
    for outcome in outcomes:
        if outcome.measure_start_s != driver.measure_start_s:
            raise LoadFailed(
                f"{outcome.role} {outcome.number} on {outcome.host} lost its connection to the driver before "
                f"the load was steady: it measured from second {outcome.measure_start_s}, not {driver.measure_start_s}"
            )


def _offered(plan: LoadPlan, end_s: int, seconds: int) -> list[int]:
    """Per second; empty for a closed loop."""
    if plan.arrivals is None:
        return []
    schedule = plan.arrivals.until(end_s * SECOND_NS)
    return [sum(schedule.offered_in_second(s, w) for w in range(plan.producers)) for s in range(seconds)]


def _delivery(plan: LoadPlan, producers: Sequence[ProducerReport], consumers: Sequence[ConsumerReport]) -> Delivery:
    groups = [[report for report in consumers if report.group == group] for group in range(plan.groups)]
    groups = [reports for reports in groups if reports]
    unread = [[report.unread for report in reports] for reports in groups]
    return merge_delivery(
        producers=[Sent(p.sent, p.failed_sequences, p.aborted_sequences) for p in producers],
        acked=sum(report.acked for report in producers),
        groups=[[report.received for report in reports] for reports in groups],
        unread=[None if None in left else sum(count for count in left if count) for left in unread],
        committed_only=reads_committed(plan),
        checked=plan.check_delivery,
    )


def _transactions(producers: Sequence[ProducerReport]) -> TransactionReport | None:
    reports = [report.transactions for report in producers if report.transactions is not None]
    if not reports:
        return None
    return TransactionReport(
        committed=sum(report.committed for report in reports),
        aborted=sum(report.aborted for report in reports),
        failed=sum(report.failed for report in reports),
    )


def _telemetry(outcomes: Sequence[TaskOutcome]) -> TelemetryReport | None:
    reports = [outcome.telemetry for outcome in outcomes if outcome.telemetry is not None]
    if not reports:
        return None
    return TelemetryReport(
        messages=sum(report.messages for report in reports),
        message_bytes=sum(report.message_bytes for report in reports),
        skipped=sum(report.skipped for report in reports),
        unsent=sum(report.unsent for report in reports),
        cpu_ns=sum(report.cpu_ns for report in reports),
    )


def _partitions(plan: LoadPlan, consumers: Sequence[ConsumerReport]) -> list[PartitionCounts]:
    received: Counter[tuple[str, int]] = Counter()
    e2e: defaultdict[tuple[str, int], list[Histogram]] = defaultdict(list)
    for report in consumers:
        received.update(dict(zip(report.partitions, report.received_by_partition, strict=True)))
        for position, encoded in report.e2e_by_partition.items():
            e2e[report.partitions[position]].append(Histogram.decode(encoded))
    return [
        PartitionCounts(
            topic=topic,
            partition=partition,
            received=received[topic, partition],
            e2e=Histogram.merged(e2e[topic, partition]),
        )
        for topic in plan.topics
        for partition in range(plan.partitions)
    ]


def _generator(plan: LoadPlan, outcomes: Sequence[TaskOutcome], driver: DriverReport, slots: int) -> GeneratorReport:
    producers = [o.report for o in outcomes if isinstance(o.report, ProducerReport)]
    consumers = [o.report for o in outcomes if isinstance(o.report, ConsumerReport)]
    measured = slice(driver.measure_start_s, driver.measure_start_s + plan.measure_s)
    sent = sum(sum(report.windows.sent[measured]) for report in producers)
    # Consumers that waited may read little or nothing in the measured phase.
    reading = measured if driver.consumer_start is None else slice(None)
    received = sum(sum(report.windows.received[reading]) for report in consumers)
    first_delays = [r.first_send_delay_ns for r in producers if r.first_send_delay_ns is not None]
    tasks = [_details(outcome, measured) for outcome in outcomes]
    tasks_on = Counter(outcome.host for outcome in outcomes)
    return GeneratorReport(
        producers=plan.producers,
        consumers=plan.consumers,
        slots=slots,
        oversubscribed=any(tasks_on[o.host] > o.cpu_count for o in outcomes),
        cpu_ratio_max=max(task.cpu_ratio_max for task in tasks),
        producer_cpu_ns_per_record=sum(sum(r.cpu_ns[measured]) for r in producers) / max(1, sent),
        consumer_cpu_ns_per_record=sum(sum(r.cpu_ns[reading]) for r in consumers) / max(1, received),
        start_skew_ns=max(first_delays) - min(first_delays) if first_delays else 0,
        clock_spread_ns=driver.clock_spread_ns,
        produce_sampled_one_in=sampling_stride(plan),
        tasks=tasks,
        clock_error_ns=driver.clock_error_ns,
        clock_drift_ns=0
        if driver.e2e_clock == "same_host_monotonic"
        else max(abs(o.clock_drift_ns) for o in outcomes if o.clock_drift_ns is not None),
    )


def _details(outcome: TaskOutcome, measured: slice) -> TaskReport:
    report = outcome.report
    assert report is not None
    produced = report if isinstance(report, ProducerReport) else None
    return TaskReport(
        task=outcome.number,
        role=outcome.role,
        host=outcome.host,
        pid=outcome.pid,
        cpu_count=outcome.cpu_count,
        cpu_ratio_max=max(report.cpu_ratio[measured], default=0.0),
        sent=produced.sent if produced else 0,
        acked=produced.acked if produced else 0,
        failed=len(produced.failed_sequences) if produced else 0,
        received=report.received.received if isinstance(report, ConsumerReport) else 0,
        first_send_delay_ns=produced.first_send_delay_ns if produced else None,
        backpressure=produced.backpressure if produced else 0,
    )
