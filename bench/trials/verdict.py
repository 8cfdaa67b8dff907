"""Whether a trial may be believed, judged before anybody looks at its speed. Pure: figures in, verdict out.

`invalid`: the figures must not be used (records lost, load not kept, generator too slow). `inconclusive`: nothing is
known to be wrong, but something that would make them wrong cannot be excluded.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import median_high
from typing import Final, Literal

from highwater.bench.workload.sections import Validity
from highwater.common.units import duration_ns_text, percent_text, rate_text, wait_text
from highwater.results.models import (
    Delivery,
    EndToEnd,
    Generator,
    Latency,
    Produce,
    Reason,
    SteadyState,
    Verdict,
    VerdictState,
)

# A percentile is read off the records beyond it; with fewer than this many it is an anecdote.
SAMPLES_BEYOND_PERCENTILE: Final = 10
# Below this change of the median, drift is of no consequence whatever its ratio.
DRIFT_OF_CONSEQUENCE_NS: Final = 1_000_000
# Fewer measured seconds than this cannot be split into thirds that mean anything.
SECONDS_TO_JUDGE_DRIFT: Final = 6

_TARGET_AT_FAULT: Final = "delivery."
_PERCENTILES: Final = {"p99": 0.99, "p999": 0.999, "p9999": 0.9999}
_HUMAN_PERCENTILE: Final = {"p99": "p99", "p999": "p99.9", "p9999": "p99.99"}


@dataclass(frozen=True, slots=True)
class Evidence:
    """All that a verdict rests on."""

    acks: str
    idempotent: bool
    drain_max_s: int
    offered_per_s: float | None
    """None in a closed loop."""
    achieved_per_s: float
    consumed_per_s: float
    """The rate of all groups together, in the measured phase or while they caught up, whichever was faster."""
    delivery: Delivery
    produce: Produce
    e2e: EndToEnd | None
    generator: Generator
    host_cpu_ratio: float | None
    """All CPUs of the host, measured phase; None when the system under test runs on another host."""
    produce_p50_ns_by_second: Sequence[int | None]
    """The median in each second of the measured phase; None for a second without samples."""
    client_errors: Sequence[str]
    host_profile: Sequence[Reason] = ()
    """What was wrong with the host profile that the trial is said to have run under."""
    canary: Sequence[Reason] = ()
    """What the canaries of the trial's block found (highwater.bench.runs.canary)."""
    steal_ratio: float | None = None
    """CPU time that the hypervisor gave to others, of all CPUs, measured phase; None when the host does not report."""
    promise: Literal["at_least_once", "exactly_once", "none"] = "at_least_once"
    """What the workload's checks hold the system to; none: consumers did not look."""
    ordered: bool = True
    """Whether order within a partition is part of the promise."""
    transactional: bool = False
    constant_rate: bool = True
    at_once: bool = False
    """It shared a processor with other trials, and meant to."""
    native: bool = False
    """A native client's load: totals, and a count that has to be exact."""
    steady: SteadyState | None = None
    """How a warm-up until steady ended; None when it was of a fixed length."""
    skipped_by_group: int = 0
    """Records that no member of the group under measurement received, between records that were received."""


def target_at_fault(reason: Reason) -> bool:
    """True when the system under test broke its promise, False when the measurement is what failed."""
    return reason.check.startswith(_TARGET_AT_FAULT)


def judge(evidence: Evidence, limits: Validity) -> Verdict:
    invalid = [
        *_delivery(evidence),
        *_load(evidence, limits),
        *_generator_was_the_limit(evidence, limits),
        *_unsteady(evidence),
        *evidence.host_profile,
    ]
    doubtful = [
        *_oversubscribed(evidence),
        *_ceilings(evidence, limits),
        *_host(evidence, limits),
        *_steal(evidence, limits),
        *evidence.canary,
        *_drift(evidence, limits),
    ]
    state: VerdictState = "invalid" if invalid else "inconclusive" if doubtful else "valid"
    return Verdict(state=state, reasons=[*invalid, *doubtful], notes=_notes(evidence, limits))


def _delivery(evidence: Evidence) -> list[Reason]:
    delivery, reasons = evidence.delivery, []

    def found(check: str, value: int, text: str) -> None:
        if value:
            reasons.append(Reason(check=check, value=value, limit=0, text=text))

    errors = f" ({'; '.join(evidence.client_errors)})" if evidence.client_errors else ""
    found("delivery.corrupt", delivery.corrupt, f"{delivery.corrupt} records came back changed")
    found("delivery.failed", delivery.failed, f"{delivery.failed} records were given up by the client{errors}")
    if evidence.promise == "none":
        return reasons
    found(
        "delivery.aborted_received",
        delivery.aborted_received,
        f"{delivery.aborted_received} records of aborted transactions were given to consumers that read committed only",
    )
    # A member reports what it received before it stores the offsets: no death of a member explains a gap.
    found(
        "delivery.skipped",
        evidence.skipped_by_group,
        f"{evidence.skipped_by_group} records were given to no member of the group under measurement, "
        "though later ones of their partitions were",
    )
    if evidence.acks == "0":
        # Nobody promised to keep these; a loss voids the figures without being the broker's fault.
        found(
            "loss.unacknowledged",
            delivery.lost,
            f"{delivery.lost} records were lost; acks 0 allows that, figures do not",
        )
    else:
        # The ends of transactions take offsets of their own, and without a reader it is unknown what a producer that
        # is not idempotent sent again: such a log only has a lower bound.
        promised = delivery.acked + delivery.duplicated_in_log
        at_least = evidence.transactional or _may_repeat_unseen(evidence)
        held = delivery.in_log >= promised if at_least else delivery.in_log == promised
        # Only what lay ahead of a consumer at its end can be excused: what it read past and did not get is lost,
        # whatever the broker counts.
        unread = min(delivery.lost, delivery.unread) if held else 0
        if unread:
            found(
                "drain.unread",
                unread,
                f"{unread} acknowledged records were not read within {wait_text(evidence.drain_max_s)}, "
                "though the broker holds them; raise phases.drain, add consumers, or lower load.rate",
            )
        lost = delivery.lost - unread
        counted = ", though the broker counts them in its log" if held else ""
        found("delivery.lost", lost, f"{lost} acknowledged records were lost{counted}{errors}")
        if not held:
            reasons.append(
                Reason(
                    check="delivery.in_log",
                    value=delivery.in_log,
                    limit=promised,
                    text=f"the broker's log holds {delivery.in_log} records, and {delivery.acked} were acknowledged"
                    + (f" with {delivery.duplicated_in_log} duplicates" if delivery.duplicated_in_log else ""),
                )
            )
    if evidence.ordered:
        found(
            "delivery.reordered",
            delivery.reordered,
            f"{delivery.reordered} records came back out of order; with several requests in flight a retry may do that "
            "unless enable.idempotence is true",
        )
    if evidence.idempotent or evidence.promise == "exactly_once":
        because = (
            "although the producer is idempotent" if evidence.idempotent else "and checks.delivery is exactly_once"
        )
        found(
            "delivery.duplicated",
            delivery.duplicated,
            f"{delivery.duplicated} records came back twice {because}",
        )
    return reasons


def _may_repeat_unseen(evidence: Evidence) -> bool:
    return not evidence.idempotent and evidence.generator.consumers == 0 and not evidence.native


def _load(evidence: Evidence, limits: Validity) -> Iterator[Reason]:
    if evidence.offered_per_s is None:
        return
    ratio = evidence.achieved_per_s / evidence.offered_per_s if evidence.offered_per_s else 0.0
    if ratio < limits.achieved_ratio_min:
        yield Reason(
            check="load.achieved_ratio",
            value=round(ratio, 4),
            limit=limits.achieved_ratio_min,
            text=f"of {rate_text(evidence.offered_per_s)} offered, {rate_text(evidence.achieved_per_s)} were acked "
            f"({percent_text(ratio, 4)}, limit {percent_text(limits.achieved_ratio_min, 4)}): "
            "latency is then that of a growing queue; lower load.rate",
        )


def _generator_was_the_limit(evidence: Evidence, limits: Validity) -> Iterator[Reason]:
    if evidence.offered_per_s is None:
        return
    delay_ns = evidence.produce.send_delay_ns.p99
    if delay_ns > limits.send_delay_p99_ns:
        yield Reason(
            check="generator.send_delay_p99_ns",
            value=delay_ns,
            limit=limits.send_delay_p99_ns,
            text=f"records left late: p99 {duration_ns_text(delay_ns)} after their time (limit "
            f"{duration_ns_text(limits.send_delay_p99_ns)}); use more producers or a quieter host, or lower load.rate",
        )
    cpu = evidence.generator.cpu_ratio_max
    if cpu > limits.generator_cpu_ratio_max:
        more = evidence.generator.producers + 1
        yield Reason(
            check="generator.cpu_ratio_max",
            value=round(cpu, 3),
            limit=limits.generator_cpu_ratio_max,
            text=f"the busiest task used {percent_text(cpu)} of a core "
            f"(limit {percent_text(limits.generator_cpu_ratio_max)}): "
            f"the generator was measured, not the system; set producers.count to {more} or lower load.rate",
        )


def _unsteady(evidence: Evidence) -> Iterator[Reason]:
    steady = evidence.steady
    if steady is not None and not steady.attained:
        yield Reason(
            check="steady.not_attained",
            value=round(steady.at_s, 1),
            limit=round(steady.at_s, 1),
            text=f"never steady within {steady.at_s:.0f} s of warm-up: {steady.because}; raise phases.warmup.max"
            + (", or lower load.rate" if evidence.offered_per_s is not None else ""),
        )


def _oversubscribed(evidence: Evidence) -> Iterator[Reason]:
    generator = evidence.generator
    if generator.oversubscribed and not evidence.at_once:
        yield Reason(
            check="generator.oversubscribed",
            value=generator.slots,
            limit="cores of the host",
            text=f"{generator.slots} task slots share fewer cores, so load tasks wait for each other; "
            "use fewer producers and consumers, or more cores (a Spark cluster: --master)",
        )


def _ceilings(evidence: Evidence, limits: Validity) -> Iterator[Reason]:
    """Reasons by the ceilings of the load generator's tasks, where they were calibrated."""
    generator, limit = evidence.generator, limits.generator_ceiling_ratio_max
    for check, per_s, ceiling_per_s, reach, remedy in (
        (
            "generator.ceiling_ratio",
            evidence.achieved_per_s,
            generator.ceiling_per_s,
            "these producers reach without a broker",
            "use more producers on more cores, or lower load.rate",
        ),
        (
            "generator.consumer_ceiling_ratio",
            evidence.consumed_per_s,
            generator.consumer_ceiling_per_s,
            "these consumers reach when all records are written",
            "use more consumers on more cores (consumers.per_group)",
        ),
    ):
        if ceiling_per_s and (ratio := per_s / ceiling_per_s) > limit:
            yield Reason(
                check=check,
                value=round(ratio, 3),
                limit=limit,
                text=f"{rate_text(per_s)} are {percent_text(ratio)} of what {reach} "
                f"({rate_text(ceiling_per_s)} calibrated, limit {percent_text(limit)}): "
                f"the system may be faster than the generator; {remedy}",
            )


def _host(evidence: Evidence, limits: Validity) -> Iterator[Reason]:
    busy = evidence.host_cpu_ratio
    if busy is not None and busy > limits.host_cpu_ratio_max:
        yield Reason(
            check="host.cpu_ratio",
            value=round(busy, 3),
            limit=limits.host_cpu_ratio_max,
            text=f"the host's CPUs were {percent_text(busy)} busy (limit {percent_text(limits.host_cpu_ratio_max)}): "
            "broker, generator and other work waited for each other; stop other work, or lower load.rate",
        )


def _steal(evidence: Evidence, limits: Validity) -> Iterator[Reason]:
    stolen = evidence.steal_ratio
    if stolen is not None and stolen > limits.steal_ratio_max:
        yield Reason(
            check="host.steal_ratio",
            value=round(stolen, 4),
            limit=limits.steal_ratio_max,
            text=f"the hypervisor gave {percent_text(stolen)} of the CPU time to others "
            f"(limit {percent_text(limits.steal_ratio_max)}); measure on a host that is not shared, or at another time",
        )


def _drift(evidence: Evidence, limits: Validity) -> Iterator[Reason]:
    medians = [value for value in evidence.produce_p50_ns_by_second if value is not None]
    if not evidence.constant_rate or len(medians) < SECONDS_TO_JUDGE_DRIFT:
        return
    third = len(medians) // 3
    first, last = median_high(medians[:third]), median_high(medians[-third:])
    low, high = sorted((first, last))
    if high > limits.drift_ratio_max * max(low, 1) and high - low >= DRIFT_OF_CONSEQUENCE_NS:
        yield Reason(
            check="steady.drift_ratio",
            value=round(high / max(low, 1), 2),
            limit=limits.drift_ratio_max,
            text=f"never steady: the median latency went from {duration_ns_text(first)} in the first third of the "
            f"measured phase to {duration_ns_text(last)} in the last; lengthen phases.warmup, or lower load.rate",
        )


def _notes(evidence: Evidence, limits: Validity) -> list[str]:
    delivery, notes = evidence.delivery, []
    if evidence.offered_per_s is None:
        if evidence.produce.response_ns.count or not evidence.native:
            notes.append(
                "closed loop: nothing was due, so produce latency runs from the send and hides what waited before it"
            )
        cpu = evidence.generator.cpu_ratio_max
        if cpu > limits.generator_cpu_ratio_max:
            notes.append(
                f"generator-bound: the busiest task used {percent_text(cpu)} of a core; the system may be faster"
            )
    if evidence.transactional:
        notes.append("transactions: their ends take offsets too, so the log's count is a lower bound only")
    if evidence.promise == "none":
        notes.append("checks.delivery: none; whether records were lost, doubled or changed is not known")
    if evidence.acks == "0":
        notes.append("acks 0: acknowledged means handed to the socket; produce latency excludes the broker")
        if delivery.in_log != delivery.acked:
            notes.append(f"acks 0: the log holds {delivery.in_log} of {delivery.acked} records sent")
    if _may_repeat_unseen(evidence) and delivery.in_log > delivery.acked:
        notes.append(
            f"the log holds {delivery.in_log - delivery.acked} records more than were acknowledged: sent again, as "
            "delivery is at least once when enable.idempotence is off"
        )
    if delivery.duplicated and not evidence.idempotent:
        notes.append(f"{delivery.duplicated} duplicates: delivery is at least once when enable.idempotence is off")
    if ceiling_per_s := evidence.generator.ceiling_per_s:
        share = evidence.achieved_per_s / ceiling_per_s
        notes.append(f"{percent_text(share)} of the generator's own ceiling, {rate_text(ceiling_per_s)} by calibration")
    if consumer_ceiling_per_s := evidence.generator.consumer_ceiling_per_s:
        share = evidence.consumed_per_s / consumer_ceiling_per_s
        notes.append(
            f"{percent_text(share)} of its consumers' own ceiling, {rate_text(consumer_ceiling_per_s)} by calibration"
        )
    if evidence.e2e and evidence.e2e.clock != "same_host_monotonic":
        error, drift = (
            duration_ns_text(evidence.generator.clock_error_ns),
            duration_ns_text(evidence.generator.clock_drift_ns),
        )
        notes.append(
            f"end-to-end latency compares clocks of several hosts, to ±{error}; an offset moved by {drift} meanwhile"
        )
    if evidence.e2e and evidence.e2e.negative_samples:
        notes.append(f"{evidence.e2e.negative_samples} records seem received before their time; left out of end-to-end")
    untimed = evidence.native and not evidence.produce.response_ns.count
    metrics = [] if untimed else [("produce", evidence.produce.response_ns)]
    if evidence.e2e:
        metrics.append(("end-to-end", evidence.e2e.response_ns))
    for name, latency in metrics:
        if thin := _thin_percentiles(latency):
            notes.append(f"{name} {thin}: fewer than {SAMPLES_BEYOND_PERCENTILE} of {latency.count} samples lie beyond")
    return notes


def _thin_percentiles(latency: Latency) -> str:
    return ", ".join(
        _HUMAN_PERCENTILE[name]
        for name, share in _PERCENTILES.items()
        if round(latency.count * (1 - share), 6) < SAMPLES_BEYOND_PERCENTILE
    )
