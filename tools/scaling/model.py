"""A model of throughput against processes: the universal scalability law (Gunther 2007). Pure.

    X(N) = r N / (1 + a (N - 1) + b N (N - 1))

r is the rate of one process, `a` the contention (the part of the work that cannot be done beside each other), `b` the
coherence (what each process waits for each other one). N / X is linear in its three terms, so least squares find them;
neither `a` nor `b` is below zero.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random

import numpy as np


@dataclass(frozen=True, slots=True)
class ScalingLaw:
    rate_of_one: float
    contention: float
    coherence: float

    def rate(self, processes: float) -> float:
        lost = self.contention * (processes - 1) + self.coherence * processes * (processes - 1)
        return self.rate_of_one * processes / (1 + lost)

    @property
    def bends_at(self) -> float:
        """The number of processes above which more of them make less; infinite where nothing is lost to coherence."""
        if self.coherence <= 0:
            return math.inf
        return math.sqrt(max(1 - self.contention, 0) / self.coherence)


def fit(rates: Mapping[int, Sequence[float]]) -> ScalingLaw:
    """Find the law of measured rates, by number of processes; at least three numbers.

    Each rate counts by its relative error: a large one is no surer than a small one.
    """
    if len(rates) < 3:
        raise ValueError(f"three unknowns need three numbers of processes, not {len(rates)}")
    counts = np.array([count for count, measured in rates.items() for _ in measured], dtype=float)
    costs = counts / np.array([rate for measured in rates.values() for rate in measured])
    terms = np.stack([np.ones_like(counts), counts - 1, counts * (counts - 1)], axis=1)
    kept = [0, 1, 2]
    while True:
        found, *_ = np.linalg.lstsq(terms[:, kept] / costs[:, None], np.ones_like(costs), rcond=None)
        least = min(range(len(kept)), key=lambda place: found[place])
        if kept[least] == 0 or found[least] >= 0:
            break
        del kept[least]
    values = dict(zip(kept, map(float, found), strict=True))
    base = values[0]
    return ScalingLaw(1 / base, values.get(1, 0.0) / base, values.get(2, 0.0) / base)


def interval(
    rates: Mapping[int, Sequence[float]], processes: int, *, draws: int = 1000, seed: int = 1
) -> tuple[float, float]:
    """Return where 95 % of the laws of resampled rounds have the rate of so many processes: a bootstrap."""
    random = Random(seed)
    found = sorted(
        fit({count: random.choices(measured, k=len(measured)) for count, measured in rates.items()}).rate(processes)
        for _ in range(draws)
    )
    return found[round(0.025 * (draws - 1))], found[round(0.975 * (draws - 1))]
