"""What each setting does to a figure, from trials in which many were on at once. Pure.

The logarithm of the figure is a sum: a level, a slow drift of the host over the run, and the effect of each setting
that is on. Least squares give the effects, Student's t their intervals. Trials far from the rest are moved towards it
first (Huber's pseudo-values; Robust Statistics, 1981, section 7.8): far from a sum of those effects that stand out, as
a sum of all of them would follow a single wild trial. A simulation in the tests holds the intervals to their promise.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from highwater.results.analysis.statistics import CONFIDENCE, LEAST_FOR_INTERVAL, student_t_cdf, student_t_quantile

# Of trials in a run, a drift up to the third power of time is no noise.
_DRIFT_POWER: Final = 3
# In spreads of the noise: Huber's constant, and where an effect stands out.
_FAR: Final = 2.0
_STANDS_OUT: Final = 2.0
_ROUNDS: Final = 6
# The median absolute deviation of a normal distribution is its standard deviation divided by this.
_MAD: Final = 1.4826
# Of a setting; with less its effect cannot be separated from those of all others.
_LEAST_INFORMATION: Final = 1.0

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class MeasuredTrial:
    """A trial: what was on, when it ran (any unit), and its figure."""

    on: frozenset[str]
    at: float
    value: float


@dataclass(frozen=True, slots=True)
class LogEstimate:
    """The logarithm of on ÷ off, and its standard error with the degrees of freedom of the noise."""

    log_ratio: float
    error: float
    degrees: int

    @property
    def ratio(self) -> float:
        return math.exp(self.log_ratio)

    @property
    def interval(self) -> tuple[float, float]:
        reach = student_t_quantile(0.5 + CONFIDENCE / 2, self.degrees) * self.error
        return math.exp(self.log_ratio - reach), math.exp(self.log_ratio + reach)

    def p_value(self, delta_ratio: float) -> float:
        """The two-sided probability of so large an estimate if the effect is not beyond delta."""
        delta, size = math.log1p(delta_ratio), abs(self.log_ratio)
        above = sum(1 - student_t_cdf((size - edge) / self.error, self.degrees) for edge in (delta, -delta))
        return min(max(above, 0.0), 1.0)


def estimates(trials: Sequence[MeasuredTrial], settings: Sequence[str]) -> dict[str, LogEstimate]:
    """The effect of each setting; none for those that these trials do not separate, and for all with too few trials."""
    known = [trial for trial in trials if trial.value > 0]
    if len(known) <= _DRIFT_POWER:
        return {}
    columns = np.column_stack([[float(name in trial.on) for trial in known] for name in settings])
    model = np.column_stack([columns, _drift(np.array([trial.at for trial in known]))])
    degrees = len(known) - int(np.linalg.matrix_rank(model))
    if degrees < LEAST_FOR_INTERVAL:
        return {}
    informations = [_information(model, column) for column in range(len(settings))]
    spread = np.array([1 / math.sqrt(max(information, _LEAST_INFORMATION)) for information in informations])
    values, inside = _pseudo_values(model, np.log([trial.value for trial in known]), spread, degrees)
    found, noise = _fitted(model, values, degrees)
    # Equal trials have no noise; a figure that is always the same still has an interval of some width.
    error = max(noise / inside, 1e-9)
    return {
        name: LogEstimate(float(found[column]), error * float(spread[column]), degrees)
        for column, name in enumerate(settings)
        if informations[column] > _LEAST_INFORMATION
    }


def _information(model: Floats, column: int) -> float:
    """What is left of a column beside all others, in trials: the noise of its effect is that of a trial ÷ its root."""
    wanted, others = model[:, column], np.delete(model, column, axis=1)
    rest = wanted - others @ np.linalg.lstsq(others, wanted, rcond=None)[0]
    return float(rest @ rest)


def _drift(at: Floats) -> Floats:
    """The level, and powers of time from −1 to 1."""
    low, high = float(at.min()), float(at.max())
    time = 2 * (at - low) / (high - low) - 1 if high > low else np.zeros_like(at)
    return np.asarray(np.polynomial.legendre.legvander(time, _DRIFT_POWER if high > low else 0), np.float64)


def _fitted(model: Floats, values: Floats, degrees: int) -> tuple[Floats, float]:
    """Effects, and the standard deviation of the noise."""
    found = np.linalg.lstsq(model, values, rcond=None)[0]
    rest = values - model @ found
    return np.asarray(found, np.float64), math.sqrt(float(rest @ rest) / degrees)


def _pseudo_values(model: Floats, logs: Floats, spread: Floats, degrees: int) -> tuple[Floats, float]:
    """The values with those far away moved, and the share of those that were not."""
    values, inside, count = logs, 1.0, len(spread)
    for _ in range(_ROUNDS):
        found, noise = _fitted(model, values, degrees)
        stands_out = np.abs(found[:count]) > _STANDS_OUT * noise * spread
        kept = model[:, np.concatenate([stands_out, np.ones(model.shape[1] - count, bool)])]
        fit = kept @ np.linalg.lstsq(kept, values, rcond=None)[0]
        rest = logs - fit
        scale = _MAD * float(np.median(np.abs(rest - np.median(rest))))
        reach = _FAR * scale * math.sqrt(len(logs) / (len(logs) - kept.shape[1]))
        values = fit + np.clip(rest, -reach, reach)
        inside = max(float(np.mean(np.abs(rest) <= reach)), 0.5)
    return values, inside
