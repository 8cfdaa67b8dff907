"""Figures from sums: each second joined with its hosts, its objectives, and whether they are met. Pure.

Percentiles are those of `latency_of`, so a figure of the measured phase is the one that the summary of the trial will
have, as soon as all messages are there.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from highwater.results.bounds import Bound, parse_bound
from highwater.results.files import latency_of
from highwater.results.histogram import Histogram
from highwater.results.models import Latency
from highwater.spark_loadgen.backlog import lag_of
from highwater.spark_loadgen.windows import Windows
from highwater.studies.telemetry.rows import CPU_UNITS
from highwater.studies.telemetry.sums import TrialSums

State = Literal["waiting", "held", "missed", "open"]
_LATENCIES: Final = {
    "produce": "produce_response",
    "produce.service": "produce_service",
    "send_delay": "send_delay",
    "e2e": "e2e_response",
    "txn.commit": "txn_commit",
}
_RATES: Final = {
    "produce.achieved_per_s": "acked",
    "produce.achieved_bytes_per_s": "acked_bytes",
    "consume.per_s": "received",
    "consume.bytes_per_s": "received_bytes",
}
_OTHERS: Final = ("lag.max", "errors", "generator.cpu_ratio")


@dataclass(frozen=True, slots=True)
class SecondFigures:
    """One second since T0, of all tasks, and the hosts in it (the known fields of HostSample).

    closed: every task has reported it, or it is older than the watermark. A figure of a closed second changes only if
    records of it are reported late. objectives: metric -> its value in this second; met: whether that is in bounds.
    """

    second: int
    phase: Literal["warmup", "measure", "drain"]
    closed: bool
    sent: int
    acked: int
    acked_bytes: int
    failed: int
    received: int
    received_bytes: int
    lag: int | None
    generator_cpu_ratio_max: float | None
    latencies: Mapping[str, Mapping[str, float]]
    hosts: Mapping[str, Mapping[str, float]]
    objectives: Mapping[str, float | None]
    met: Mapping[str, bool | None]


@dataclass(frozen=True, slots=True)
class ObjectiveFigures:
    """One objective over the closed seconds of the measured phase.

    value: over the whole measured phase so far, as the summary of the trial has it; met: by this value; None where it
    is not known yet, or only at the end of the trial (`live` is False). now: value of the latest second, and now_met.
    held_s: how many of the latest seconds have each met the bound. missed_seconds: how many have not.
    worst_second, worst: the second that is furthest on the wrong side, or nearest to it.
    headroom_ratio: distance of `value` from the bound, as a share of the bound; negative if missed.
    """

    metric: str
    bound: str
    live: bool
    value: float | None = None
    met: bool | None = None
    now: float | None = None
    now_met: bool | None = None
    held_s: int = 0
    missed_seconds: int = 0
    worst_second: int | None = None
    worst: float | None = None
    headroom_ratio: float | None = None


@dataclass(frozen=True, slots=True)
class TrialFigures:
    """A trial so far. closed_s: seconds since T0 that are closed; measured_s: closed seconds of the measured phase.

    state: `held` and `missed` are about the objectives so far, `open` is a trial without live objectives, `waiting`
    one whose measured phase has no closed second yet.
    """

    trial: str
    state: State
    ended: bool
    closed_s: int
    measured_s: int
    latencies: Mapping[str, Latency]
    achieved_per_s: float | None
    consumed_per_s: float | None
    objectives: Sequence[ObjectiveFigures]
    messages: int
    missing: int
    skipped: int
    late: int
    late_seconds: int


def trial_figures(sums: TrialSums) -> TrialFigures:
    """The figures of the measured phase so far."""
    view = _View(sums)
    measured = view.measured
    objectives = [_objective(view, name, bound) for name, bound in view.bounds]
    known = [one.met for one in objectives if one.met is not None]
    state: State = "waiting" if not measured else "open" if not known else "held" if all(known) else "missed"
    return TrialFigures(
        trial=sums.name,
        state=state,
        ended=sums.has_ended,
        closed_s=sums.closed,
        measured_s=len(measured),
        latencies={metric: latency_of(view.merged(metric, measured), "") for metric in sorted(sums.histograms)},
        achieved_per_s=view.rate("acked", measured),
        consumed_per_s=view.rate("received", measured) if sums.trial and sums.trial.consumers else None,
        objectives=objectives,
        messages=sum(row.messages for row in sums.tasks.values()),
        missing=sum(row.missing for row in sums.tasks.values()),
        skipped=sum(row.skipped for row in sums.tasks.values()),
        late=sums.late,
        late_seconds=len(sums.late_seconds),
    )


def second_figures(sums: TrialSums, seconds: Iterable[int]) -> list[SecondFigures]:
    """The figures of these seconds, joined with the samples of all hosts in them."""
    view = _View(sums)
    return [view.second(second) for second in sorted(seconds)]


class _View:
    """Sums with what is derived from them once."""

    def __init__(self, sums: TrialSums) -> None:
        self.sums = sums
        slo = sums.trial.slo if sums.trial is not None else {}
        self.bounds = [(name, parse_bound(text)) for name, text in slo.items()]
        self._windows = Windows()
        for name, row in sums.counts.items():
            for second, amount in row.items():
                self._windows.add(name, second, amount)  # type: ignore[arg-type]
        self._windows.lengthen(sums.seconds)
        self._lag = lag_of(self._windows, sums.trial.groups) if sums.trial is not None else []

    @property
    def measured(self) -> range:
        """The closed seconds of the measured phase."""
        start, note = self.sums.measure_start_s, self.sums.trial
        if start is None or note is None:
            return range(0)
        return range(start, max(start, min(self.sums.closed, start + note.measure_s)))

    def merged(self, metric: str, seconds: range) -> Histogram:
        series = self.sums.histograms.get(metric, {})
        return Histogram.merged(series[second] for second in seconds if second in series)

    def rate(self, name: str, seconds: range) -> float | None:
        """Mean per second."""
        if not seconds:
            return None
        row: list[int] = getattr(self._windows, name)
        return sum(row[seconds.start : seconds.stop]) / len(seconds)

    def so_far(self, metric: str) -> float | None:
        """What the summary would say now: of the measured phase, but lag and errors are of the whole load."""
        return self._value(metric, self.measured, range(self.sums.closed))

    def in_second(self, metric: str, second: int) -> float | None:
        one = range(second, second + 1)
        return self._value(metric, one, one)

    def _value(self, metric: str, seconds: range, load: range) -> float | None:
        """None if nothing was recorded in these seconds."""
        if metric in _RATES:
            return self.rate(_RATES[metric], seconds)
        match metric:
            case "lag.max":
                return max(self._lag[load.start : load.stop], default=None)
            case "errors":
                return sum(self._windows.failed[load.start : load.stop])
            case "generator.cpu_ratio":
                known = [self.sums.cpu[second] for second in seconds if second in self.sums.cpu]
                return max(known) / CPU_UNITS if known else None
        prefix, _, percentile = metric.rpartition(".")
        histogram = self.merged(_LATENCIES[prefix], seconds)
        return float(getattr(latency_of(histogram, ""), percentile)) if histogram.count else None

    def second(self, second: int) -> SecondFigures:
        windows, sums = self._windows, self.sums
        cpu = sums.cpu.get(second)
        objectives = {name: self.in_second(name, second) for name, _ in self.bounds if is_live(name)}
        return SecondFigures(
            second=second,
            phase=self._phase(second),
            closed=second < sums.closed,
            sent=windows.at("sent", second),
            acked=windows.at("acked", second),
            acked_bytes=windows.at("acked_bytes", second),
            failed=windows.at("failed", second),
            received=windows.at("received", second),
            received_bytes=windows.at("received_bytes", second),
            lag=self._lag[second] if second < len(self._lag) else None,
            generator_cpu_ratio_max=None if cpu is None else cpu / CPU_UNITS,
            latencies={
                metric: latency_of(series[second], "").model_dump(exclude={"hist"})
                for metric, series in sorted(sums.histograms.items())
                if second in series
            },
            hosts={host: samples[second] for host, samples in sorted(sums.hosts.items()) if second in samples},
            objectives=objectives,
            met={
                name: None if (value := objectives[name]) is None else bound.met(value)
                for name, bound in self.bounds
                if name in objectives
            },
        )

    def _phase(self, second: int) -> Literal["warmup", "measure", "drain"]:
        start, note = self.sums.measure_start_s, self.sums.trial
        if start is None or note is None or second < start:
            return "warmup"
        return "measure" if second < start + note.measure_s else "drain"


def is_live(metric: str) -> bool:
    """Whether the metric is known while the load runs; others are known at the end of the trial."""
    prefix, _, percentile = metric.rpartition(".")
    of_latency = prefix in _LATENCIES and percentile in ("p50", "p90", "p99", "p999", "p9999", "max")
    return of_latency or metric in _RATES or metric in _OTHERS


def _objective(view: _View, metric: str, bound: Bound) -> ObjectiveFigures:
    if not is_live(metric):
        return ObjectiveFigures(metric, str(bound), live=False)
    seconds = view.measured
    value = view.so_far(metric) if seconds else None
    if value is None:
        return ObjectiveFigures(metric, str(bound), live=True)
    by_second = {second: view.in_second(metric, second) for second in seconds}
    known = {second: found for second, found in by_second.items() if found is not None}
    held_s = 0
    for second in reversed(seconds):
        if (found := by_second[second]) is None or not bound.met(found):
            break
        held_s += 1
    upper = bound.comparison in ("<", "<=", "==")
    worst_second = (max if upper else min)(known, key=lambda second: known[second], default=None)
    now = by_second[seconds[-1]]
    return ObjectiveFigures(
        metric=metric,
        bound=str(bound),
        live=True,
        value=value,
        met=bound.met(value),
        now=now,
        now_met=None if now is None else bound.met(now),
        held_s=held_s,
        missed_seconds=sum(not bound.met(found) for found in known.values()),
        worst_second=worst_second,
        worst=None if worst_second is None else known[worst_second],
        headroom_ratio=None
        if not bound.value
        else (bound.value - value if upper else value - bound.value) / bound.value,
    )
