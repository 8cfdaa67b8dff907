"""HdrHistogram's own HistogramLogProcessor on our histogram logs."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from highwater.results.histogram_log import empty_histogram, write_histograms
from highwater.results.models import LATENCY_METRICS, Latency, Metric, TrialSummary
from highwater.results.reader import RunResult
from tests.compat.apache_kafka.tools import jars_4
from tests.compat.instrument.case import case, judged_run, printed_by, temporary_directory

PERCENTILES: Final = ("p50", "p90", "p99", "p999", "p9999", "max")
# The last line of its log: count, then the percentiles above, of all intervals so far.
_TOTALS: Final = re.compile(r"T:(?P<count>\d+) \( (?P<values>[\d. ]+) \)")
_MEAN: Final = re.compile(r"#\[Mean\s+=\s+(?P<mean>[\d.]+)")


def processed(log: Path, start_s: float, end_s: float) -> tuple[int, list[int], float]:
    """Count, percentiles and mean of the intervals that begin in [start_s, end_s), as Java's HdrHistogram has them."""
    # Kafka's tools bring HdrHistogram along. Its `-end` takes an interval that begins at that very instant as well.
    base = temporary_directory() / "processed"
    printed_by(
        "java", "-XX:TieredStopAtLevel=1", "-cp", f"{jars_4()}/*", "org.HdrHistogram.HistogramLogProcessor",
        "-i", log, "-o", base, "-start", str(start_s), "-end", str(end_s - 0.5), "-outputValueUnitRatio", "1",
    )  # fmt: skip
    *_, totals = _TOTALS.finditer(base.read_text("ascii"))
    *_, mean = _MEAN.finditer(base.with_name("processed.hgrm").read_text("ascii"))
    return int(totals["count"]), [int(float(value)) for value in totals["values"].split()], float(mean["mean"])


@case
def hdrhistogram_of_java_prints_our_percentiles() -> None:
    """Of each metric of one trial: count, p50 to p99.99 and maximum to the nanosecond, the mean to its 3 decimals."""
    trial = RunResult(judged_run()).trials[0]
    (measured,) = [phase for phase in trial.summary.phases if phase.name == "measure"]
    for metric in LATENCY_METRICS:
        ours = latency_of(trial.summary, metric)
        theirs = processed(trial.histogram_path(metric), measured.start_s, measured.end_s)
        assert ours.count > 0, metric
        assert theirs[:2] == (ours.count, [getattr(ours, name) for name in PERCENTILES]), f"{metric}: {theirs} {ours}"
        assert abs(theirs[2] - ours.mean) < 0.001, f"{metric}: {theirs[2]} {ours.mean}"


def latency_of(summary: TrialSummary, metric: Metric) -> Latency:
    if metric == "e2e_response":
        assert summary.e2e is not None
        return summary.e2e.response_ns
    latency: Latency = getattr(summary.produce, f"{metric.removeprefix('produce_')}_ns")
    return latency


@case
def hdrhistogram_of_java_cuts_the_same_seconds() -> None:
    """Also of a log that begins with seconds in which nothing happened."""
    log = temporary_directory() / "late.hlog"
    seconds = {}
    for second in (3, 4, 5):
        seconds[second] = empty_histogram()
        seconds[second].record_value(second * 1_000, second)
    write_histograms(log, seconds)
    assert processed(log, 4, 5)[0] == 4
