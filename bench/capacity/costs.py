"""What bytes and batches cost a broker in CPU time: fitted to trials, without negative costs.

cpu = a·bytes produced + b·batches produced + c·bytes consumed + d·batches consumed + e·bytes replicated +
f·batches replicated, each per second, + g·brokers, which have something to do even without a load, + w·wake-ups.
Batches are what a request costs: a broker of small batches is busy with requests and not with bytes. A request that
arrives while the broker works waits for its turn; one that finds it idle must wake it up. The share of the time in
which a broker is idle is 1 − cpu / most, where most is the CPU time of a broker that is never idle, so that
wake-ups = batches · (1 − cpu / most). Without this term, trials by the clock say that a batch costs twice as much as
it does in a busy broker.

The costs are the non-negative least squares of relative errors over all trials. With eight unknowns every set of
positive costs can be tried, which finds the exact optimum and needs no further library.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields, replace
from typing import Final

import numpy as np

KINDS: Final = ("produced", "consumed", "replicated")
# How many times as large the largest batches must be as the smallest.
_APART: Final = 2


@dataclass(frozen=True, slots=True)
class Work:
    """What brokers did in a second. A replicated byte is written by one follower and read from one leader."""

    produced_bytes: float = 0.0
    produced_batches: float = 0.0
    consumed_bytes: float = 0.0
    consumed_batches: float = 0.0
    replicated_bytes: float = 0.0
    replicated_batches: float = 0.0
    brokers: float = 0.0
    """That did it."""

    @property
    def amounts(self) -> tuple[float, ...]:
        """In the order of the fields."""
        return (
            self.produced_bytes,
            self.produced_batches,
            self.consumed_bytes,
            self.consumed_batches,
            self.replicated_bytes,
            self.replicated_batches,
            self.brokers,
        )

    @property
    def batches(self) -> float:
        """Of all kinds."""
        return self.produced_batches + self.consumed_batches + self.replicated_batches

    def __add__(self, other: Work) -> Work:
        return Work(*(one + another for one, another in zip(self.amounts, other.amounts, strict=True)))

    def times(self, factor: float) -> Work:
        return Work(*(amount * factor for amount in self.amounts))

    def batches_of(self, kind: str) -> float:
        """kind: one of KINDS."""
        return float(getattr(self, f"{kind}_batches"))

    def kinds(self) -> list[str]:
        """Those of KINDS that there was any of."""
        return [kind for kind in KINDS if getattr(self, f"{kind}_bytes") > 0]


@dataclass(frozen=True, slots=True)
class Observation:
    """One trial: what the brokers did, and the CPU time that it took them, in CPU seconds per second."""

    work: Work
    cpu_cores: float
    batch_bytes: int


@dataclass(frozen=True, slots=True)
class Costs:
    """CPU seconds for each byte, batch and broker, in the order of the fields of Work; 0 where none is known."""

    cpu_s: tuple[float, ...]
    batch_bytes: dict[str, tuple[int, int]]
    """Kind -> the smallest and the largest batches that it was measured with. A kind that is not here is unknown."""
    wake_up_s: float = 0.0
    """CPU seconds that a batch costs more if it finds its broker idle."""
    most_cores: float = math.inf
    """CPU time of a broker that is never idle, in CPU seconds per second."""

    def cpu_cores(self, work: Work) -> float:
        """Of brokers that share the work evenly. Solves cpu = busy + wake_up_s · batches · (1 − cpu / most)."""
        busy = sum(cost * amount for cost, amount in zip(self.cpu_s, work.amounts, strict=True))
        waking = self.wake_up_s * work.batches
        return (busy + waking) / (1 + waking / (max(1.0, work.brokers) * self.most_cores))

    def times(self, factor: float) -> Costs:
        """All costs `factor` times as high, with the same CPU time at most."""
        return replace(self, cpu_s=tuple(cost * factor for cost in self.cpu_s), wake_up_s=self.wake_up_s * factor)


def measured_kinds(observations: Iterable[Observation]) -> dict[str, tuple[int, int]]:
    """Kinds of work with the range of their batches, if these differ enough to tell bytes and batches apart."""
    sizes: dict[str, set[int]] = {}
    for seen in observations:
        for kind in seen.work.kinds():
            sizes.setdefault(kind, set()).add(seen.batch_bytes)
    return {kind: (min(found), max(found)) for kind, found in sizes.items() if max(found) >= _APART * min(found)}


def fitted(observations: Sequence[Observation], most_cores: float) -> Costs:
    """The costs that explain the trials best. Trials of a kind of work that is not known are left out.

    most_cores: the CPU time of a broker that is never idle.
    """
    known = measured_kinds(observations)
    used = [seen for seen in observations if set(seen.work.kinds()) <= set(known) and seen.cpu_cores > 0]
    names = [field.name for field in fields(Work)]
    columns = [index for index, name in enumerate(names) if name == "brokers" or name.partition("_")[0] in known]
    cpu_s, wake_up_s = [0.0] * len(names), 0.0
    if used and known:
        amounts = np.array([seen.work.amounts for seen in used])[:, columns]
        wake_ups = np.array([[seen.work.batches * _idle_share(seen, most_cores)] for seen in used])
        rows = np.hstack([amounts, wake_ups]) / np.array([[seen.cpu_cores] for seen in used])
        *of_amounts, wake_up_s = _non_negative(rows)
        for index, cost in zip(columns, of_amounts, strict=True):
            cpu_s[index] = cost
    return Costs(tuple(cpu_s), known, wake_up_s, most_cores)


def _idle_share(seen: Observation, most_cores: float) -> float:
    """Of the time of the brokers of a trial, as a mean."""
    return max(0.0, 1 - seen.cpu_cores / (max(1.0, seen.work.brokers) * most_cores))


def _non_negative(rows: np.ndarray) -> list[float]:
    """x ≥ 0 that minimises |rows · x − 1|."""
    scale = np.abs(rows).max(axis=0)
    scale[scale == 0] = 1.0
    scaled, ones, count = rows / scale, np.ones(len(rows)), rows.shape[1]
    best = np.linalg.lstsq(scaled, ones, rcond=None)[0]
    if (best >= 0).all():  # as good as with negative costs, so nothing is better
        return [float(cost) for cost in best / scale]
    best, least = np.zeros(count), float(len(rows))
    for size in range(1, count):
        for chosen in itertools.combinations(range(count), size):
            part = scaled[:, chosen]
            found = np.linalg.lstsq(part, ones, rcond=None)[0]
            error = float(((part @ found - ones) ** 2).sum())
            if (found >= 0).all() and error < least - 1e-12:
                best, least = np.zeros(count), error
                best[list(chosen)] = found
    return [float(cost) for cost in best / scale]
