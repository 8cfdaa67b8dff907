"""When is a load steady? Judged over a sliding window of whole seconds. Pure: figures per second in, a finding out.

The criterion is that of fio and of SNIA's Solid State Storage Performance Test Specification: over the window, the
least-squares line through the rate changes by less than a limit, and the rate scatters by less than another. Latency
scatters far more than rates do, so it is held to be steady unless its line shows a change that scatter cannot explain;
of a median no scatter explains a large one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

# SNIA lets a window's extremes lie 20 % apart; normal scatter of 5 % does that in a window of 20 seconds. Hosts that
# broker and generator share scatter more, and the slope is what tells a warm-up.
RATE_SCATTER_MAX: Final = 0.10
# Changes of latency below this ratio are of no consequence, however clearly they show.
LATENCY_CHANGE_MAX: Final = 0.05
_STANDARD_ERRORS: Final = 2.0
# The more a latency scatters, the less a window tells of it. A median that changes by more than SNIA lets a window's
# extremes lie apart is not held to be steady for that.
MEDIAN_CHANGE_MAX: Final = 0.20


@dataclass(frozen=True, slots=True)
class Line:
    """The least-squares line through one window, as ratios of the window's mean."""

    change_ratio: float
    """From the first to the last second of the window; negative when it falls."""
    change_error_ratio: float
    """Standard error of `change_ratio`."""
    scatter_ratio: float
    """Standard deviation around the mean (coefficient of variation)."""


def fit(values: Sequence[float]) -> Line | None:
    """None when there is nothing to fit: fewer than three values, or a mean of 0."""
    row = np.asarray(values, dtype=np.float64)
    if len(row) < 3 or not (mean := float(row.mean())) > 0:
        return None
    at = np.arange(len(row)) - (len(row) - 1) / 2
    squares = float(at @ at)
    slope = float(at @ row) / squares
    residuals = row - mean - slope * at
    slope_error = math.sqrt(float(residuals @ residuals) / (len(row) - 2) / squares)
    span = len(row) - 1
    return Line(
        change_ratio=slope * span / mean,
        change_error_ratio=slope_error * span / mean,
        scatter_ratio=float(row.std(ddof=1)) / mean,
    )


@dataclass(frozen=True, slots=True)
class Finding:
    """What a window showed. `because` is empty when the load is steady, else one line."""

    change_ratio: float
    scatter_ratio: float
    because: str

    @property
    def steady(self) -> bool:
        return not self.because


def judge_window(
    rates: Sequence[Sequence[float]],
    median_latency: Sequence[float | None],
    tail_latency: Sequence[float | None],
    change_max: float,
) -> Finding:
    """Is the load steady in a window of seconds?

    rates: rows of records per second, one value per second of the window (acknowledged; received). Latencies per
    second, None where nothing was timed. change_max: how much the line through a rate may change from the window's
    first second to its last, as a ratio of the mean. The figures returned are of the worst rate.
    """
    findings = [_judge_rate(row, change_max) for row in rates]
    worst = max([finding for finding in findings if not finding.steady] or findings, key=lambda f: abs(f.change_ratio))
    if not worst.steady:
        return worst
    for latency, most in ((median_latency, MEDIAN_CHANGE_MAX), (tail_latency, math.inf)):
        timed = [value for value in latency if value is not None]
        line = fit(timed) if len(timed) == len(latency) else None
        if line is None:
            return replace(worst, because="some seconds of the window have no latency")
        explained = min(most, max(LATENCY_CHANGE_MAX, _STANDARD_ERRORS * line.change_error_ratio))
        if abs(line.change_ratio) > explained:
            text = f"a latency percentile changes by {line.change_ratio:+.0%} over the window (limit {explained:.0%})"
            return replace(worst, because=text)
    return worst


def _judge_rate(row: Sequence[float], change_max: float) -> Finding:
    line = fit(row)
    if line is None:
        return Finding(math.inf, math.inf, "nothing was acknowledged in the window")
    because = ""
    if abs(line.change_ratio) >= change_max:
        because = f"the rate changes by {line.change_ratio:+.1%} over the window (limit {change_max:.1%})"
    elif line.scatter_ratio >= RATE_SCATTER_MAX:
        because = f"the rate scatters by {line.scatter_ratio:.1%} (limit {RATE_SCATTER_MAX:.0%})"
    return Finding(line.change_ratio, line.scatter_ratio, because)
