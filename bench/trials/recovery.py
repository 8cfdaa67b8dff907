"""How a system came back from faults, read off the seconds of a trial. Pure: seconds and faults in, figures out.

A fault is judged from the second it falls into until the second of the next fault, or the end of the measured phase.
The rate is back at a share of what is offered in the first second, after one below it, from which on it stays there for
`SETTLED_S` seconds. A dip that begins when the broker serves again, or later, counts for neither. A second is
disturbed from the fault until 90 % are back and the broker serves again: guards of the load (achieved, lateness,
generator, host, drift) judge the other seconds only.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from highwater.bench.host.use import host_use
from highwater.bench.trials.verdict import Evidence
from highwater.bench.workload.faults import QUIET_S, FaultKind
from highwater.results.histogram import Histogram
from highwater.results.host import HostSample
from highwater.results.models import Phase, Window
from highwater.results.recovery import FaultRecovery
from highwater.spark_loadgen.model import LoadResult

SETTLED_S: Final = QUIET_S
HALF: Final = 0.5
NINETY: Final = 0.9


@dataclass(frozen=True, slots=True)
class FaultMark:
    """A fault as it happened. Times are seconds since T0; back_s is None when the broker never came back."""

    do: FaultKind
    node: int
    role: str
    at_s: float
    back_s: float | None
    ended_s: float | None = None
    """When a broker that was asked to end, and stays away for a while, had ended."""


def recoveries(
    marks: Sequence[FaultMark], windows: Sequence[Window], measure: Phase, *, closed_loop: bool, consumers: bool
) -> list[FaultRecovery]:
    """marks: in order of time. windows: one per second since T0, at least to the end of the measured phase."""
    if not marks:
        return []
    quiet = windows[int(measure.start_s) : int(marks[0].at_s)]
    before_per_s = statistics.median([window.acked for window in quiet]) if closed_loop and quiet else None
    p99s_before = [window.produce_p99_ns for window in quiet if window.produce_p99_ns is not None]
    p99_before_ns = statistics.median(p99s_before) if p99s_before else None
    ends = [int(mark.at_s) for mark in marks[1:]] + [int(measure.end_s)]
    return [
        _recovery(mark, windows[int(mark.at_s) : end], before_per_s, p99_before_ns, consumers=consumers)
        for mark, end in zip(marks, ends, strict=True)
    ]


def undisturbed(found: Sequence[FaultRecovery], measure: Phase) -> list[int]:
    """The seconds of the measured phase that guards of the load judge."""
    disturbed = {second for fault in found for second in range(int(fault.at_s), fault.disturbed_until_s)}
    return [second for second in range(int(measure.start_s), int(measure.end_s)) if second not in disturbed]


def evidence_beside_faults(
    evidence: Evidence,
    result: LoadResult,
    windows: Sequence[Window],
    host_samples: Sequence[HostSample],
    seconds: Sequence[int],
) -> Evidence:
    """What a verdict rests on when guards of the load judge these seconds only. What delivery promises holds always."""
    judged = set(seconds)

    def mean(row: Sequence[int]) -> float:
        return sum(row[second] for second in seconds) / len(seconds)

    delay = Histogram.merged(
        [found for second, found in result.histograms.get("send_delay", {}).items() if second in judged]
    )
    send_delay = evidence.produce.send_delay_ns
    if delay.count:
        send_delay = send_delay.model_copy(update={"p99": delay.percentile(99)})
    cpu = [ratio for second, ratio in enumerate(result.generator_cpu_ratio_max) if second in judged]
    host = host_use([sample for sample in host_samples if sample.second in judged], 0, math.inf)
    return replace(
        evidence,
        offered_per_s=None if evidence.offered_per_s is None else mean(result.offered),
        achieved_per_s=mean(result.acked),
        produce=evidence.produce.model_copy(update={"send_delay_ns": send_delay}),
        generator=evidence.generator.model_copy(update={"cpu_ratio_max": max(cpu, default=0.0)}),
        host_cpu_ratio=None if evidence.host_cpu_ratio is None else host.cpu_ratio,
        steal_ratio=host.steal_ratio,
        produce_p50_ns_by_second=[window.produce_p50_ns for window in windows if window.second in judged],
    )


def _recovery(
    mark: FaultMark,
    judged: Sequence[Window],
    before_per_s: float | None,
    p99_before_ns: float | None,
    *,
    consumers: bool,
) -> FaultRecovery:
    first = int(mark.at_s)
    shares = [_share(window, before_per_s) for window in judged]
    serves = len(judged) if mark.back_s is None else min(len(judged), int(mark.back_s) - first)
    ninety = _back(shares, NINETY, max(serves, SETTLED_S))
    half = _back(shares, HALF, len(shares) if ninety is None else ninety)
    if mark.back_s is None:
        settled = ninety
    else:
        after = _back([*([0.0] * serves), *shares[serves:]], NINETY, serves)
        settled = None if ninety is None or after is None else max(ninety, after)
    waits_ns = [window.produce_max_ns for window in judged if window.produce_max_ns is not None]
    return FaultRecovery(
        do=mark.do,
        node=mark.node,
        role=mark.role,
        at_s=mark.at_s,
        back_s=mark.back_s,
        ended_after_s=None if mark.ended_s is None else round(mark.ended_s - mark.at_s, 3),
        judged_until_s=first + len(judged),
        disturbed_until_s=first + (len(judged) if settled is None else settled),
        reference_per_s=before_per_s,
        no_ack_s=sum(window.acked == 0 for window in judged),
        to_half_s=_since(mark, half),
        to_ninety_s=_since(mark, ninety),
        longest_wait_s=max(waits_ns) / 1e9 if waits_ns else None,
        p99_extra_s2=_p99_extra_s2(judged, p99_before_ns),
        consumer_gap_s=_longest_run([window.received == 0 for window in judged]) if consumers else None,
    )


def _share(window: Window, before_per_s: float | None) -> float:
    """Acknowledged, of what was due (in a closed loop: of what was acknowledged before the faults)."""
    due = window.offered if before_per_s is None else before_per_s
    return window.acked / due if due else 1.0


def _back(shares: Sequence[float], share: float, dips_within: int) -> int | None:
    """Seconds from the first to the one from which on `share` is held; 0 when it always is, None when it never is.

    A dip that begins `dips_within` seconds after the first, or later, is not the fault's.
    """
    below = next((second for second, value in enumerate(shares[:dips_within]) if value < share), None)
    if below is None:
        return 0
    for second in range(below + 1, len(shares) - SETTLED_S + 1):
        if all(value >= share for value in shares[second : second + SETTLED_S]):
            return second
    return None


def _since(mark: FaultMark, seconds: int | None) -> float | None:
    return None if seconds is None else max(0.0, round(int(mark.at_s) + seconds - mark.at_s, 3))


def _p99_extra_s2(judged: Sequence[Window], before_ns: float | None) -> float | None:
    if before_ns is None:
        return None
    extra_ns = [max(0.0, window.produce_p99_ns - before_ns) for window in judged if window.produce_p99_ns is not None]
    return sum(extra_ns) / 1e9


def _longest_run(flags: Sequence[bool]) -> int:
    longest = run = 0
    for flag in flags:
        run = run + 1 if flag else 0
        longest = max(longest, run)
    return longest
