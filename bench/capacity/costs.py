"""What work costs a broker in CPU time: fitted to trials, without negative costs.

cpu = Σ cost · amount + (w · batches + v · bytes) · (1 − cpu / most), where the amounts are the fields of Work, each in
a second, and most is the CPU time of a broker that is never idle.

Batches are what a request costs: a broker of small batches is busy with requests and not with bytes. A request that
arrives while the broker works waits for its turn; one that finds it idle must wake it up, and a large one does so with
each of its pieces. 1 − cpu / most is the share of the time in which a broker is idle. Without w, trials by the clock
say that a batch costs twice as much as it does in a busy broker; without v, that a byte does.

A fetch of a session looks at all partitions of the session, whether they have records or not.

The costs are the non-negative least squares of relative errors over all trials.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields, replace
from typing import Final

import numpy as np
from scipy.optimize import nnls

KINDS: Final = ("produced", "consumed", "replicated")
REPLAYED: Final = "replayed_bytes"
SYNCED: Final = "synced_batches"
OF_SOME: Final = (REPLAYED, SYNCED)
"""Fields of Work that only some loads have any of."""
# How many times as large the largest batches must be as the smallest.
_APART: Final = 2
# Of one broker. Fewer partitions than this are lost in what a broker costs anyway, and in the memory that it has.
MANY_PARTITIONS: Final = 100


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
    partitions: float = 0.0
    """Replicas of partitions that the brokers hold."""
    replayed_bytes: float = 0.0
    """Read from the disk for readers that are far behind: their requests are large, whatever the batches are."""
    synced_batches: float = 0.0
    """Batches of all copies that were on the disk before they were acknowledged (flush.messages=1)."""
    looked_at_for_followers: float = 0.0
    """Partitions that fetches looked at beside those that had a batch for them: see `looked_at`."""
    looked_at_for_readers: float = 0.0

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
            self.partitions,
            self.replayed_bytes,
            self.synced_batches,
            self.looked_at_for_followers,
            self.looked_at_for_readers,
        )

    @property
    def batches(self) -> float:
        """Produced, consumed and replicated ones."""
        return self.produced_batches + self.consumed_batches + self.replicated_batches

    @property
    def bytes(self) -> float:
        """Of those batches."""
        return self.produced_bytes + self.consumed_bytes + self.replicated_bytes

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
    known: frozenset[str]
    """The fields of Work that trials tell a cost of."""
    batch_bytes: dict[str, tuple[int, int]]
    """Kind -> the smallest and the largest batches that it was measured with. A kind that is not here is unknown."""
    waking_batch_s: float = 0.0
    """CPU seconds that a batch costs more if it finds its broker idle."""
    waking_byte_s: float = 0.0
    """CPU seconds that a byte of it costs more then."""
    most_cores: float = math.inf
    """CPU time of a broker that is never idle, in CPU seconds per second."""

    def cpu_cores(self, work: Work) -> float:
        """Of brokers that share the work evenly. Solves cpu = busy + waking · (1 − cpu / most)."""
        busy = sum(cost * amount for cost, amount in zip(self.cpu_s, work.amounts, strict=True))
        waking = self.waking_batch_s * work.batches + self.waking_byte_s * work.bytes
        return (busy + waking) / (1 + waking / (max(1.0, work.brokers) * self.most_cores))

    def knows(self, work: Work) -> bool:
        """Whether trials tell what all of it costs. A few partitions are part of what a broker costs."""
        wanted = (*(f"{kind}_batches" for kind in work.kinds()), *(name for name in OF_SOME if getattr(work, name) > 0))
        return set(wanted) <= self.known

    def times(self, factor: float) -> Costs:
        """All costs `factor` times as high, with the same CPU time at most."""
        return replace(
            self,
            cpu_s=tuple(cost * factor for cost in self.cpu_s),
            waking_batch_s=self.waking_batch_s * factor,
            waking_byte_s=self.waking_byte_s * factor,
        )


def looked_at(batches: float, partitions: float, sessions: float) -> float:
    """Partitions that fetches look at in vain, if each of so many batches is fetched by itself.

    partitions: of all the fetch sessions, evenly.
    """
    return batches * max(0.0, partitions / sessions - 1) if sessions else 0.0


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
    told = {"brokers", *(f"{kind}_{what}" for kind in known for what in ("bytes", "batches"))}
    told |= {name for name in OF_SOME if any(getattr(seen.work, name) > 0 for seen in used)}
    if any(seen.work.partitions >= MANY_PARTITIONS * seen.work.brokers for seen in used):
        told |= {"partitions", "looked_at_for_followers", "looked_at_for_readers"}
    columns = [index for index, name in enumerate(names) if name in told]
    cpu_s, waking_batch_s, waking_byte_s = [0.0] * len(names), 0.0, 0.0
    if used and known:
        amounts = np.array([seen.work.amounts for seen in used])[:, columns]
        idle = np.array([_idle_share(seen, most_cores) for seen in used])
        waking = np.array([(seen.work.batches, seen.work.bytes) for seen in used]) * idle[:, None]
        rows = np.hstack([amounts, waking]) / np.array([[seen.cpu_cores] for seen in used])
        *of_amounts, waking_batch_s, waking_byte_s = _non_negative(rows)
        for index, cost in zip(columns, of_amounts, strict=True):
            cpu_s[index] = cost
    return Costs(tuple(cpu_s), frozenset(told), known, waking_batch_s, waking_byte_s, most_cores)


def _idle_share(seen: Observation, most_cores: float) -> float:
    """Of the time of the brokers of a trial, as a mean."""
    return max(0.0, 1 - seen.cpu_cores / (max(1.0, seen.work.brokers) * most_cores))


def _non_negative(rows: np.ndarray) -> list[float]:
    """x ≥ 0 that minimises |rows · x − 1|."""
    scale = np.abs(rows).max(axis=0)
    scale[scale == 0] = 1.0
    found, _ = nnls(rows / scale, np.ones(len(rows)))
    return [float(cost) for cost in found / scale]
