"""Adds up what the tasks brought back, exactly: counts by sum, histograms by bucket, deliveries by record."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from spark_loadgen.consumer import ConsumerReport
from spark_loadgen.delivery import merge_delivery
from spark_loadgen.histogram import merge_series
from spark_loadgen.model import Generator, LoadPlan, LoadResult, TaskDetails
from spark_loadgen.producer import ProducerReport, sampling_stride
from spark_loadgen.task import Outcome
from spark_loadgen.windows import Windows, max_rows, sum_rows

_PRODUCE_METRICS = ("produce_response", "produce_service", "send_delay")


def merge_outcomes(plan: LoadPlan, outcomes: Sequence[Outcome], slots: int, *, interrupted: bool) -> LoadResult:
    """`outcomes`: one of each task, in order of tasks, every one with its report."""
    producers = [o.report for o in outcomes if isinstance(o.report, ProducerReport)]
    consumers = [o.report for o in outcomes if isinstance(o.report, ConsumerReport)]
    reports: list[ProducerReport | ConsumerReport] = [*producers, *consumers]
    windows = [report.windows for report in reports]
    rows = Windows(
        sent=sum_rows(w.sent for w in windows),
        acked=sum_rows(w.acked for w in windows),
        acked_bytes=sum_rows(w.acked_bytes for w in windows),
        failed=sum_rows(w.failed for w in windows),
        received=sum_rows(w.received for w in windows),
        received_bytes=sum_rows(w.received_bytes for w in windows),
    )
    seconds = max(plan.schedule_s, rows.seconds)
    rows.lengthen(seconds)
    cpu_ratio = max_rows(report.cpu_ratio for report in reports)
    cpu_ratio = cpu_ratio[:seconds] + [0.0] * (seconds - len(cpu_ratio))
    schedule = plan.arrivals
    histograms = {
        metric: merge_series(report.histograms[metric] for report in producers) for metric in _PRODUCE_METRICS
    }
    histograms["e2e_response"] = merge_series(report.e2e_response for report in consumers)
    errors: Counter[str] = Counter()
    for report in reports:
        errors.update(report.errors)
    return LoadResult(
        t0_unix_ns=outcomes[0].t0_unix_ns,
        offered=[sum(schedule.offered_in_second(s, w) for w in range(plan.producers)) for s in range(seconds)]
        if schedule
        else list(rows.sent),
        sent=rows.sent,
        acked=rows.acked,
        acked_bytes=rows.acked_bytes,
        failed=rows.failed,
        received=rows.received,
        received_bytes=rows.received_bytes,
        generator_cpu_ratio_max=cpu_ratio,
        histograms=histograms,
        delivery=merge_delivery(
            sent=[report.sent for report in producers],
            acked=sum(report.acked for report in producers),
            failed_sequences=[report.failed_sequences for report in producers],
            reports=[report.received for report in consumers],
            unread=sum(report.unread for report in consumers),
        ),
        e2e_clock=outcomes[0].e2e_clock,
        negative_samples=sum(report.negative_samples for report in consumers),
        generator=_generator(plan, outcomes, producers, consumers, slots),
        interrupted=interrupted,
        errors=dict(errors.most_common()),
        measure_start_s=plan.warmup_max_s,
        closed_loop=schedule is None,
    )


def _generator(
    plan: LoadPlan,
    outcomes: Sequence[Outcome],
    producers: Sequence[ProducerReport],
    consumers: Sequence[ConsumerReport],
    slots: int,
) -> Generator:
    measured = slice(plan.warmup_max_s, plan.schedule_s)
    sent = sum(sum(report.windows.sent[measured]) for report in producers)
    received = sum(sum(report.windows.received[measured]) for report in consumers)
    first_delays = [r.first_send_delay_ns for r in producers if r.first_send_delay_ns is not None]
    tasks = [_details(outcome, measured) for outcome in outcomes]
    tasks_on = Counter(outcome.executor_host for outcome in outcomes)
    return Generator(
        producers=plan.producers,
        consumers=plan.consumers,
        slots=slots,
        oversubscribed=any(tasks_on[o.executor_host] > o.cpu_count for o in outcomes),
        cpu_ratio_max=max(task.cpu_ratio_max for task in tasks),
        producer_cpu_ns_per_record=sum(sum(r.cpu_ns[measured]) for r in producers) / max(1, sent),
        consumer_cpu_ns_per_record=sum(sum(r.cpu_ns[measured]) for r in consumers) / max(1, received),
        start_skew_ns=max(first_delays) - min(first_delays) if first_delays else 0,
        clock_spread_ns=max(outcome.clock_spread_ns for outcome in outcomes),
        produce_sampled_one_in=sampling_stride(plan),
        tasks=tasks,
    )


def _details(outcome: Outcome, measured: slice) -> TaskDetails:
    report = outcome.report
    assert report is not None
    produced = report if isinstance(report, ProducerReport) else None
    return TaskDetails(
        task=outcome.task,
        role=outcome.role,
        executor_host=outcome.executor_host,
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
