"""A Gaussian process over the candidates: what trials of some say of others, with their noise. Pure.

Trials are few and noisy, so what the neighbours of a candidate showed counts as well as its own trials (Rasmussen and
Williams, Gaussian Processes for Machine Learning, 2006). The kernel is a sum of one kernel for each setting and of
their product: settings act mostly by themselves, and some act together (Duvenaud, Nickisch and Rasmussen, Additive
Gaussian Processes, 2011). Length scales, relevances and the share of the product are drawn from their priors, and
predictions averaged over the draws by their evidence; for so few trials that is steadier than one maximum.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import NormalDist
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from highwater.studies.advise.space import Candidate, Space

_DRAWS: Final = 64
_KEPT: Final = 8
_JITTER: Final = 1e-6
_STANDARD: Final = NormalDist()

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class _Hyperparameters:
    """relevance: of each setting. together: the share of the product."""

    relevance: Floats
    length: float
    together: float
    scale: float


@dataclass(frozen=True, slots=True)
class _Draw:
    """Hyperparameters, with what is solved once for all predictions."""

    chosen: _Hyperparameters
    inverse: Floats
    """The inverse of the Cholesky factor."""
    solved: Floats


@dataclass(frozen=True)
class Surrogate:
    """Fitted to measured candidates; predicts any candidate of the space."""

    space: Space
    _points: Floats
    _centre: float
    _draws: Sequence[_Draw]
    _shares: Floats
    lowest: float = 0.0
    """The lowest cost that is predicted of a measured candidate."""

    def predict(self, candidates: Sequence[Candidate]) -> tuple[Floats, Floats]:
        """(mean, standard deviation) of the cost of each candidate, without the noise of a trial."""
        others = _coordinates(self.space, candidates)
        mean, square = np.zeros(len(candidates)), np.zeros(len(candidates))
        similarities = _similarities(self.space, others, self._points)
        for draw, share in zip(self._draws, self._shares, strict=True):
            cross = _kernel(similarities, draw.chosen)
            middle = cross @ draw.solved
            explained = draw.inverse @ cross.T
            variance = np.maximum(draw.chosen.scale - np.sum(explained**2, axis=0), _JITTER)
            mean += share * middle
            square += share * (variance + middle**2)
        return mean + self._centre, np.sqrt(np.maximum(square - mean**2, _JITTER))

    def likeness(self, candidate: Candidate, others: Sequence[Candidate]) -> Floats:
        """How much a trial of a candidate predicts of each other one: 1 for the candidate itself."""
        draw = self._draws[0]
        one, other = _coordinates(self.space, [candidate]), _coordinates(self.space, others)
        kernel = _kernel(_similarities(self.space, one, other), draw.chosen)
        return np.asarray(kernel[0] / draw.chosen.scale, np.float64)


def expected_improvement(mean: Floats, deviation: Floats, below: float) -> Floats:
    """How far each cost is expected to be below the cost `below`; 0 where it is above."""
    z = (below - mean) / deviation
    expected = deviation * (z * np.vectorize(_STANDARD.cdf)(z) + np.vectorize(_STANDARD.pdf)(z))
    return np.asarray(expected, np.float64)


def fit(space: Space, costs: Mapping[Candidate, float], deviations: Mapping[Candidate, float], seed: int) -> Surrogate:
    """costs: of measured candidates of the space, at least one. deviations: the standard error of each."""
    measured = np.array(list(costs.values()))
    noise = np.array([deviations[candidate] ** 2 for candidate in costs])
    spread = max(float(np.var(measured)) - float(np.mean(noise)), float(np.mean(noise)) / 4, 1e-4)
    generator = np.random.default_rng(seed % 2**32)
    drawn = [
        _Hyperparameters(
            generator.dirichlet(np.full(len(space.settings), 0.7)),
            float(np.exp(generator.uniform(np.log(0.2), np.log(1.2)))),
            float(generator.choice((0.05, 0.3, 0.7))),
            spread * float(np.exp(generator.uniform(np.log(0.7), np.log(4.0)))),
        )
        for _ in range(_DRAWS)
    ]
    points = _coordinates(space, list(costs))
    centre = float(np.average(measured, weights=1 / np.maximum(noise, _JITTER)))
    centred = measured - centre
    similarities = _similarities(space, points, points)
    found: list[tuple[float, _Hyperparameters, Any, Any]] = []
    for chosen in drawn:
        noisy = _kernel(similarities, chosen) + np.diag(noise + _JITTER)
        factor = np.linalg.cholesky(noisy)
        half = np.linalg.solve(factor, centred)
        evidence = -0.5 * float(half @ half) - float(np.sum(np.log(np.diag(factor))))
        found.append((evidence, chosen, factor, half))
    found.sort(key=lambda item: -item[0])
    kept = found[:_KEPT]
    shares = np.exp(np.array([evidence for evidence, *_ in kept]) - kept[0][0])
    draws = []
    for _, chosen, factor, half in kept:
        inverse = np.asarray(np.linalg.inv(factor), np.float64)
        draws.append(_Draw(chosen, inverse, inverse.T @ half))
    surrogate = Surrogate(space, points, centre, draws, shares / shares.sum())
    return replace(surrogate, lowest=float(surrogate.predict(list(costs))[0].min()))


def _coordinates(space: Space, candidates: Sequence[Candidate]) -> Floats:
    """Ordered values between 0 and 1, others by their number."""
    rows = []
    for candidate in candidates:
        places = space.indexes(candidate)
        rows.append(
            [
                place / max(len(setting.values) - 1, 1) if setting.ordered else float(place)
                for setting, place in zip(space.settings, places, strict=True)
            ]
        )
    return np.array(rows, np.float64).reshape(len(rows), len(space.settings))


def _similarities(space: Space, one: Floats, other: Floats) -> Floats:
    """Squared distances by setting, pair by pair: settings × one × other. Values without an order are 0 or 1 apart."""
    distances = one.T[:, :, None] - other.T[:, None, :]
    ordered = np.array([setting.ordered for setting in space.settings])[:, None, None]
    return np.asarray(np.where(ordered, distances**2, (distances != 0) * 0.5), np.float64)


def _kernel(squares: Floats, chosen: _Hyperparameters) -> Floats:
    wide = 2 * chosen.length**2
    alone = np.tensordot(chosen.relevance, np.exp(-squares / wide), axes=1)
    # In the product a setting of little relevance counts little, too.
    strength = np.minimum(chosen.relevance * len(chosen.relevance), 2.0)
    product = np.exp(-np.tensordot(strength, squares, axes=1) / wide)
    return np.asarray(chosen.scale * ((1 - chosen.together) * alone + chosen.together * product), np.float64)
