"""Decides whether a load is steady, over a sliding window of whole seconds. Pure.

fio and SNIA's Solid State Storage Performance Test Specification use the same criterion: over the window, the
least-squares line through the rate changes by less than one limit, and the rate scatters by less than another.
Latency scatters far more than rates do. So latency counts as steady unless its line changes by more than its scatter
explains; and no scatter explains a large change of the median.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from highwater.common.units import change_text, percent_text

# SNIA allows a window's extremes to lie 20 % apart; a normal scatter of 5 % reaches that in 20 seconds. Rates scatter
# more on a host that runs both broker and generator, and it is the slope that shows a warm-up.
RATE_SCATTER_MAX: Final = 0.10
# Changes of latency below this ratio do not matter, however clear they are.
LATENCY_CHANGE_MAX: Final = 0.05
_STANDARD_ERRORS: Final = 2.0
# The more a latency scatters, the larger the change that scatter explains. This limit, which is SNIA's for a window's
# extremes, bounds that for the median.
MEDIAN_CHANGE_MAX: Final = 0.20


@dataclass(frozen=True, slots=True)
class Line:
    """The least-squares line through one window, as ratios of the window's mean."""

    change_ratio: float
    """The change from the first to the last second of the window; negative when it falls."""
    change_error_ratio: float
    """Standard error of `change_ratio`."""
    scatter_ratio: float
    """Standard deviation around the mean (coefficient of variation)."""


def fit(values: Sequence[float]) -> Line | None:
    """Fit the line. None for fewer than three values or a mean of 0."""
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
    """The judgement of one window. because: one line that says why the load is not steady; empty when it is."""

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
    """Judge whether the load is steady over a window of seconds.

    rates: rows of records per second (acknowledged; received), one value per second of the window.
    median_latency, tail_latency: one value per second; None where no record was timed.
    change_max: largest change of the line through a rate over the window, as a ratio of the mean.
    The ratios of the finding are those of the worst rate.
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
            change = f"a latency percentile changes by {change_text(1 + line.change_ratio)} over the window"
            return replace(worst, because=f"{change} (limit {percent_text(explained)})")
    return worst


def _judge_rate(row: Sequence[float], change_max: float) -> Finding:
    line = fit(row)
    if line is None:
        return Finding(math.inf, math.inf, "nothing was acknowledged in the window")
    because = ""
    if abs(line.change_ratio) >= change_max:
        change = f"the rate changes by {change_text(1 + line.change_ratio)} over the window"
        because = f"{change} (limit {percent_text(change_max)})"
    elif line.scatter_ratio >= RATE_SCATTER_MAX:
        because = f"the rate scatters by {percent_text(line.scatter_ratio)} (limit {percent_text(RATE_SCATTER_MAX)})"
    return Finding(line.change_ratio, line.scatter_ratio, because)
