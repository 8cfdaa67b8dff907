"""From what the load generator brought back to what the result directory holds: histograms, windows, summary.

Counts belong to the second in which a thing happened, latencies to the second in which the record was due. Percentiles
of a summary are read back from the histogram log on disk, so the two cannot disagree.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from bench.client_properties import as_text, to_librdkafka
from bench.histogram_log import histogram_of, write_histograms
from bench.results import (
    METRICS,
    Delivery,
    EndToEnd,
    Generator,
    HostUse,
    Phase,
    Produce,
    Window,
    histogram_path,
    measured_latency,
)
from bench.verdict import Evidence
from bench.workload import Workload
from spark_loadgen import LoadResult

_MOST_ERRORS_SHOWN = 3


def phases_of(workload: Workload, result: LoadResult) -> list[Phase]:
    """What the load went through, in seconds since T0."""
    warmup_end_s = float(workload.phases.warmup_max_s)
    measure_end_s = warmup_end_s + workload.phases.measure_s
    return [
        Phase(name="warmup", start_s=0.0, end_s=warmup_end_s),
        Phase(name="measure", start_s=warmup_end_s, end_s=measure_end_s),
        Phase(name="drain", start_s=measure_end_s, end_s=max(measure_end_s, float(len(result.received)))),
    ]


def mean_in(row: Sequence[int], phase: Phase) -> float:
    """Per second, over a phase."""
    return sum(row[int(phase.start_s) : int(phase.end_s)]) / (phase.end_s - phase.start_s)


def write_histogram_logs(result: LoadResult, trial_directory: Path) -> None:
    for metric in METRICS:
        series = result.histograms.get(metric, {})
        histograms = {second: histogram_of(item.indices, item.counts) for second, item in series.items()}
        write_histograms(histogram_path(trial_directory, metric), histograms)


def windows_of(result: LoadResult, phases: Sequence[Phase]) -> list[Window]:
    """One line per second; the last belongs to whatever happened last."""

    def at(row: Sequence[int], second: int) -> int:
        return row[second] if second < len(row) else 0

    def percentiles(metric: str, second: int) -> tuple[int | None, int | None, int | None]:
        histogram = result.histograms.get(metric, {}).get(second)
        if histogram is None or not histogram.count:
            return None, None, None
        return histogram.percentile(50), histogram.percentile(99), histogram.max

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
    delivery = result.delivery
    return Delivery(
        sent=delivery.sent,
        acked=delivery.acked,
        failed=delivery.failed,
        received=delivery.received,
        lost=delivery.lost,
        duplicated=delivery.duplicated,
        reordered=delivery.reordered,
        corrupt=delivery.corrupt,
        in_log=in_log,
        unread=delivery.unread,
    )


def generator_of(result: LoadResult, launcher: str) -> Generator:
    generator = result.generator
    return Generator(
        launcher=launcher,
        producers=generator.producers,
        consumers=generator.consumers,
        slots=generator.slots,
        oversubscribed=generator.oversubscribed,
        cpu_ratio_max=generator.cpu_ratio_max,
        producer_cpu_ns_per_record=generator.producer_cpu_ns_per_record,
        consumer_cpu_ns_per_record=generator.consumer_cpu_ns_per_record,
        start_skew_ns=generator.start_skew_ns,
        clock_spread_ns=generator.clock_spread_ns,
    )


def client_errors(errors: dict[str, int]) -> list[str]:
    """The commonest errors of the clients, with their counts."""
    commonest = sorted(errors.items(), key=lambda item: -item[1])[:_MOST_ERRORS_SHOWN]
    return [f"{text} ×{count}" for text, count in commonest]


def evidence_of(
    workload: Workload,
    result: LoadResult,
    phases: Sequence[Phase],
    windows: Sequence[Window],
    produce: Produce,
    e2e: EndToEnd | None,
    delivery: Delivery,
    generator: Generator,
    host: HostUse,
) -> Evidence:
    client = {name: as_text(value) for name, value in to_librdkafka("producer", workload.producers.client).items()}
    measure = phases[1]
    return Evidence(
        acks=client.get("acks", client.get("request.required.acks", "all")),
        idempotent=client.get("enable.idempotence", "false") == "true",
        drain_max_s=workload.phases.drain_max_s,
        offered_per_s=mean_in(result.offered, measure),
        achieved_per_s=mean_in(result.acked, measure),
        delivery=delivery,
        produce=produce,
        e2e=e2e,
        generator=generator,
        host_cpu_ratio=None if host.system_cpu_ratio is None else host.cpu_ratio,
        produce_p50_ns_by_second=[window.produce_p50_ns for window in windows if window.phase == "measure"],
        client_errors=client_errors(result.errors),
    )
