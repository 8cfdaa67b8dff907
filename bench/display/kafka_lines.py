"""Prints trials in the format of Apache Kafka's kafka-producer-perf-test.

The format strings are those of `Stats.printWindow` and `Stats.printTotal` in Kafka's ProducerPerformance.java. As in
Kafka, latency runs from the send (it is the service latency), MB are MiB, and percentiles are whole ms. Windows are 5 s
of the measured phase without the warm-up, as with Kafka's --warmup-records. A window is printed at its end, with the
records acknowledged in it; the total is printed after the trial, from its files.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, TextIO

from highwater.bench.trials.plan import Plan
from highwater.bench.trials.progress import Observer, Outcomes
from highwater.results.histogram_log import mean_of, read_histogram
from highwater.results.models import TrialPlan, TrialSummary, Window
from highwater.results.reader import TrialResult
from highwater.spark_loadgen.model import Progress, Second

WINDOW_S: Final = 5
_MIB: Final = 1 << 20
_NS_PER_MS: Final = 1e6
_PERCENTILES: Final = (50, 95, 99, 99.9)


class KafkaLines(Observer):
    """Prints trials on standard output, and problems of a trial on standard error."""

    def __init__(self, stream: TextIO | None = None, complaints: TextIO | None = None) -> None:
        self._stream = stream or sys.stdout
        self._complaints = complaints or sys.stderr
        self._out = Path()
        self._told = ""
        self._told_s = 0
        self._outcomes = Outcomes()

    def run_started(self, plan: Plan, out: Path, master: str) -> None:
        self._out = out

    def trial_started(self, number: int, trial: TrialPlan) -> None:
        self._told, self._told_s = trial.trial_id, 0

    def load(self, progress: Progress) -> None:
        while len(window := progress.measured[self._told_s : self._told_s + WINDOW_S]) == WINDOW_S:
            self._told_s += WINDOW_S
            self._say(_live_line(window))

    def trial_ended(self, number: int, trial: TrialPlan, summary: TrialSummary | None) -> None:
        if summary is None or summary.verdict.state != "valid":
            text = "; ".join(self._outcomes.of(trial, summary))
            print(f"{trial.trial_id}: {text}", file=self._complaints, flush=True)
        if summary is not None:
            # Of trials that run at once, only one prints windows while it runs.
            told_s = self._told_s if trial.trial_id == self._told else 0
            for line in lines_of(TrialResult(self._out / "trials" / trial.trial_id, summary), told_s):
                self._say(line)

    def _say(self, line: str) -> None:
        print(line, file=self._stream, flush=True)


def _live_line(seconds: Sequence[Second]) -> str:
    timed = sum(second.timed for second in seconds)
    mean_ns = sum(second.service_sum_ns for second in seconds) / max(1, timed)
    max_ns = max(second.service_max_ns for second in seconds)
    return _window_line(seconds, mean_ns / _NS_PER_MS, max_ns / _NS_PER_MS)


def lines_of(trial: TrialResult, told_s: int = 0) -> Iterator[str]:
    """A line for each window of the measured phase that has not been printed yet, and the total."""
    measured = [window for window in trial.windows() if window.phase == "measure"]
    for start in range(told_s, len(measured), WINDOW_S):
        part = measured[start : start + WINDOW_S]
        mean_ms, max_ms, _ = _service_ms(trial, part)
        yield _window_line(part, mean_ms, max_ms)
    mean_ms, max_ms, percentiles_ms = _service_ms(trial, measured)
    p50, p95, p99, p999 = (int(value) for value in percentiles_ms)
    yield (
        f"{_sent(measured, 'f')}, {mean_ms:.2f} ms avg latency, {max_ms:.2f} ms max latency, "
        f"{p50} ms 50th, {p95} ms 95th, {p99} ms 99th, {p999} ms 99.9th."
    )


def _window_line(seconds: Sequence[Window | Second], mean_ms: float, max_ms: float) -> str:
    return f"{_sent(seconds, '.1f')}, {mean_ms:.1f} ms avg latency, {max_ms:.1f} ms max latency."


def _sent(windows: Sequence[Window | Second], rate_format: str) -> str:
    records, value_bytes = sum(w.acked for w in windows), sum(w.acked_bytes for w in windows)
    rate, mib_per_s = records / len(windows), value_bytes / len(windows) / _MIB
    return f"{records} records sent, {rate:{rate_format}} records/sec ({mib_per_s:.2f} MB/sec)"


def _service_ms(trial: TrialResult, windows: Sequence[Window]) -> tuple[float, float, list[float]]:
    """Mean, maximum and percentiles of the service latency in ms; zeros when nothing was timed."""
    path = trial.histogram_path("produce_service")
    histogram = read_histogram(path, windows[0].second, windows[-1].second + 1)
    if not histogram.get_total_count():
        return 0.0, 0.0, [0.0] * len(_PERCENTILES)
    at = histogram.get_percentile_to_value_dict(list(_PERCENTILES))
    percentiles_ms = [at[percentile] / _NS_PER_MS for percentile in _PERCENTILES]
    return mean_of(histogram) / _NS_PER_MS, histogram.get_max_value() / _NS_PER_MS, percentiles_ms
