"""The axes of a chart: the position of a value between the two ends, and the labelled ticks."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final, Literal

from highwater.common.units import exact_text

Kind = Literal["linear", "log", "percentile", "category"]
_LOG_STEPS: Final = (1.0, 2.0, 5.0)
_MINUTE_S: Final = 60
_HOUR_S: Final = 3600
_DAY_S: Final = 86_400
_CLOCK_STEPS_S: Final = (
    *(1, 2, 5, 10, 20, 30),
    *(_MINUTE_S * many for many in (1, 2, 5, 10, 20, 30)),
    *(_HOUR_S * many for many in (1, 2, 4, 6, 12)),
    *(_DAY_S * many for many in (1, 2, 5, 10, 20, 30, 60, 90, 180)),
)
_MOST_CLOCK_TICKS: Final = 7
_MOST_DAYS_WITHOUT_YEAR: Final = 300
_FREE_END: Final = 0.03


@dataclass(frozen=True)
class Axis:
    """`low` and `high` are the values at the two ends; `unit` is written after a value that a reader points at."""

    label: str
    unit: str
    kind: Kind
    low: float
    high: float
    ticks: tuple[tuple[float, str], ...]

    def position(self, value: float) -> float:
        """0 at the low end, 1 at the high end; a value beyond an end is drawn at that end."""
        low, high, at = (self._transformed(v) for v in (self.low, self.high, min(max(value, self.low), self.high)))
        return (at - low) / (high - low)

    def _transformed(self, value: float) -> float:
        if self.kind == "log":
            return math.log10(value)
        if self.kind == "percentile":
            return -math.log10(1 - value / 100)
        return value


def linear(label: str, unit: str, values: Iterable[float], most_ticks: int = 6) -> Axis:
    """Return an axis from zero to the first round tick at or above the largest value."""
    top = max((v for v in values if math.isfinite(v)), default=0.0)
    if top <= 0:
        top = 1.0
    rough = top / (most_ticks - 1)
    magnitude = 10.0 ** math.floor(math.log10(rough))
    step = next(s * magnitude for s in (1, 2, 2.5, 5, 10) if s * magnitude >= rough * 0.999)
    count = math.ceil(top / step * 0.999)
    ticks = tuple((i * step, exact_text(i * step)) for i in range(count + 1))
    return Axis(label, unit, "linear", 0.0, count * step, ticks)


def around(label: str, unit: str, values: Iterable[float], most_ticks: int = 5) -> Axis:
    """Between the round ticks around the values, a tenth of their middle at least, so that noise looks small."""
    known = [v for v in values if math.isfinite(v)] or [0.0]
    low, high = min(known), max(known)
    least = 0.1 * abs(low + high) / 2 or 1.0
    if high - low < least:
        low, high = (low + high - least) / 2, (low + high + least) / 2
    rough = (high - low) / (most_ticks - 1)
    magnitude = 10.0 ** math.floor(math.log10(rough))
    step = next(s * magnitude for s in (1, 2, 2.5, 5, 10) if s * magnitude >= rough * 0.999)
    first, last = math.floor(low / step * 1.000001), math.ceil(high / step * 0.999999)
    ticks = tuple((i * step, exact_text(round(i * step, 10))) for i in range(first, last + 1))
    return Axis(label, unit, "linear", first * step, last * step, ticks)


def numbered(label: str, last: int, most_ticks: int = 10, first: int = 1) -> Axis:
    """Numbers of things from `first`, 0 or 1, to `last`, with half of a step of room at each end."""
    step = next(m * 10**e for e in range(9) for m in (1, 2, 5) if last <= most_ticks * m * 10**e)
    ticks = tuple((float(n), exact_text(n)) for n in range(first if step == 1 else first * step, last + 1, step))
    return Axis(label, "", "linear", first - 0.5, last + 0.5, ticks)


def categories(label: str, names: Sequence[str]) -> Axis:
    """One position for each name: the n-th name at n, counted from 0."""
    return Axis(label, "", "category", -0.5, len(names) - 0.5, tuple((float(i), n) for i, n in enumerate(names)))


def seconds(label: str, start_s: float, end_s: float, most_ticks: int = 6) -> Axis:
    """Time since T0 from `start_s` to `end_s`, with ticks at round numbers of seconds or minutes."""
    span = max(end_s - start_s, 1.0)
    steps = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 43200, 86400)
    step = next((s for s in steps if span / s <= most_ticks), steps[-1])
    first = math.ceil(start_s / step) * step
    ticks = tuple((float(t), exact_text(t)) for t in range(first, math.floor(start_s + span) + 1, step))
    return Axis(label, "s", "linear", start_s, start_s + span, ticks)


def clock(from_s: float, to_s: float) -> Axis:
    """Unix time in UTC. A tick at midnight has the day in the place of the hour."""
    step = next((each for each in _CLOCK_STEPS_S if (to_s - from_s) / each <= _MOST_CLOCK_TICKS), _CLOCK_STEPS_S[-1])
    first = math.ceil(from_s / step) * step
    has_years = to_s - from_s > _MOST_DAYS_WITHOUT_YEAR * _DAY_S
    # The label of a tick at the very end would be cut off.
    last = to_s - _FREE_END * (to_s - from_s)
    ticks = tuple((float(at), _clock_label(at, step, has_years)) for at in range(first, int(last) + 1, step))
    begin, end = (datetime.fromtimestamp(at, UTC) for at in (from_s, to_s))
    days = f"{begin:%-d %B %Y}" if begin.date() == end.date() else f"{begin:%-d %B %Y} – {end:%-d %B %Y}"
    return Axis(f"{days}, UTC", "s", "linear", from_s, to_s, ticks)


def _clock_label(at_s: int, step_s: int, has_years: bool) -> str:
    at = datetime.fromtimestamp(at_s, UTC)
    if has_years:
        return f"{at:%-d %b %Y}"
    if at_s % _DAY_S == 0:
        return f"{at:%-d %b}"
    return f"{at:%H:%M:%S}" if step_s < _MINUTE_S else f"{at:%H:%M}"


def logarithmic(label: str, unit: str, values: Iterable[float]) -> Axis:
    """Return an axis of a decade at least, between round values around all, so that noise looks small."""
    positive = [v for v in values if v > 0 and math.isfinite(v)] or [1.0]
    low, high = _log_floor(min(positive)), _log_ceiling(max(positive))
    while high / low < 9.99:
        if min(positive) / low <= high / max(positive):
            low = _log_floor(low * 0.999)
        else:
            high = _log_ceiling(high * 1.001)
    decades = math.log10(high / low)
    mantissas = _LOG_STEPS if decades <= 2.5 else (1.0,)
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    marks = [m * 10.0**e for e in range(first, last + 1) for m in mantissas]
    if len([m for m in marks if low * 0.999 <= m <= high * 1.001]) > 8:
        marks = marks[::2]
    ticks = tuple((m, exact_text(m)) for m in marks if low * 0.999 <= m <= high * 1.001)
    return Axis(label, unit, "log", low, high, ticks)


def percentile(label: str, highest: float) -> Axis:
    """Each further nine of the percentile has the same width: x = log10(1 / (1 − p)), as in HdrHistogram's plots."""
    nines = [0.0, 50.0, 90.0, 99.0, 99.9, 99.99, 99.999, 99.9999, 99.99999]
    shown = [p for p in nines if p <= highest]
    end = max(highest, 90.0)
    ticks = tuple((p, f"{exact_text(p)} %") for p in shown)
    return Axis(label, "%", "percentile", 0.0, end, ticks)


def _log_floor(value: float) -> float:
    exponent = math.floor(math.log10(value))
    return max(c for c in _log_candidates(exponent) if c <= value * 1.0001)


def _log_ceiling(value: float) -> float:
    exponent = math.floor(math.log10(value))
    return min(c for c in _log_candidates(exponent) if c >= value * 0.9999)


def _log_candidates(exponent: int) -> list[float]:
    return [m * 10.0**e for e in (exponent - 1, exponent, exponent + 1) for m in _LOG_STEPS]
