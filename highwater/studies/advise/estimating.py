"""What trials of candidates in blocks say of each candidate: a cost with its error. Pure.

Costs are logarithms, so that a difference is a ratio. A trial is the cost of its candidate, plus what its block does to
all trials in it, plus noise: y = candidate + block + noise, fitted by least squares with Huber's weights (Robust
Estimation of a Location Parameter, 1964), so that one disturbed trial moves little. The noise is pooled over all
candidates and the A/A pairs: a candidate with one trial has an error as well.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from highwater.studies.advise.space import Candidate

# Before there are residuals: the noise of p99 from trial to trial, as docs/results/tuning-proofs.md has it, as if from
# so many trials.
PRIOR_NOISE: Final = 0.1
_PRIOR_TRIALS: Final = 3
_HUBER: Final = 1.345
_ROUNDS: Final = 8
_TINY: Final = 1e-300
_EXACT: Final = 1e-9
# Of a normal distribution.
_MEDIAN_TO_DEVIATION: Final = 1.4826

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Observation:
    """One trial that can be used. cost: a logarithm, lower is better."""

    candidate: Candidate
    block: int
    cost: float


@dataclass(frozen=True)
class Estimates:
    """Costs of candidates against each other."""

    costs: Mapping[Candidate, float]
    trials: Mapping[Candidate, int]
    noise: float
    """Standard deviation of a trial, as a logarithm."""
    _place: Mapping[Candidate, int]
    _covariance: Floats

    def difference(self, one: Candidate, other: Candidate) -> tuple[float, float]:
        """(cost of `one` − cost of `other`, standard error)."""
        first, second = self._place[one], self._place[other]
        matrix = self._covariance
        variance = matrix[first, first] + matrix[second, second] - 2 * matrix[first, second]
        return self.costs[one] - self.costs[other], float(np.sqrt(max(variance, 0.0)))


def estimate(observations: Sequence[Observation], twin_differences: Sequence[float] = ()) -> Estimates:
    """Fit the model. twin_differences: costs of the second trial of each A/A pair minus the first; noise only."""
    candidates = list(dict.fromkeys(item.candidate for item in observations))
    blocks = sorted({item.block for item in observations})
    place = {candidate: index for index, candidate in enumerate(candidates)}
    rows = len(observations)
    design = np.zeros((rows, len(candidates) + len(blocks)))
    measured = np.array([item.cost for item in observations], np.float64)
    for row, item in enumerate(observations):
        design[row, place[item.candidate]] = 1.0
        design[row, len(candidates) + blocks.index(item.block)] = 1.0
    weights: Floats = np.ones(rows)
    free = rows - int(np.linalg.matrix_rank(design)) if rows else 0
    noise = PRIOR_NOISE
    solution: Floats = np.zeros(design.shape[1])
    for _ in range(_ROUNDS):
        root = np.sqrt(weights)
        solution = np.asarray(np.linalg.lstsq(design * root[:, None], measured * root, rcond=None)[0], np.float64)
        residuals: Floats = measured - design @ solution
        noise = _noise(residuals, weights, free, twin_differences)
        reach = _HUBER * min(noise, _middle_noise(residuals))
        weights = np.asarray(np.minimum(1.0, reach / np.maximum(np.abs(residuals), _TINY)), np.float64)
    inverse = np.linalg.pinv(design.T @ (design * weights[:, None]))
    costs = {candidate: float(solution[index]) for candidate, index in place.items()}
    trials = dict.fromkeys(candidates, 0)
    for item in observations:
        trials[item.candidate] += 1
    return Estimates(costs, trials, noise, place, np.asarray(inverse * noise**2, np.float64))


def _middle_noise(residuals: Floats) -> float:
    """The noise by the median of the residuals, which a few disturbed trials do not move; with the prior."""
    sizes = np.abs(residuals)
    sizes = sizes[sizes > _EXACT]  # the only trial of a candidate has no residual
    if not len(sizes):
        return PRIOR_NOISE
    middle = _MEDIAN_TO_DEVIATION * float(np.median(sizes))
    return float(np.sqrt((len(sizes) * middle**2 + _PRIOR_TRIALS * PRIOR_NOISE**2) / (len(sizes) + _PRIOR_TRIALS)))


def _noise(residuals: Floats, weights: Floats, free: int, twin_differences: Sequence[float]) -> float:
    """The pooled standard deviation of one trial. free: the degrees of freedom of the residuals."""
    squares = float(np.sum(weights * residuals**2)) + sum(difference**2 for difference in twin_differences) / 2
    degrees = free + len(twin_differences) + _PRIOR_TRIALS
    return float(np.sqrt((squares + _PRIOR_TRIALS * PRIOR_NOISE**2) / degrees))
