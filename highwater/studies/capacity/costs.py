"""What work costs a broker in CPU time: fitted to trials, without negative costs.

cpu = Σ cost · amount + Σ w · batches of a size · (1 − cpu / most), where the amounts are those of Work, each in a
second, and most is the CPU time of a broker that is never idle.

Batches are what a request costs: a broker of small batches is busy with requests and not with bytes. A request that
arrives while the broker works waits for its turn; one that finds it idle must wake it up, and a large one does so with
each of its pieces, of which the kernel joins more the more there are. So w is fitted to batches of three sizes, and
lies along the logarithm of the size between them. 1 − cpu / most is the share of the time in which a broker is idle.
Without w, trials by the clock say that a batch costs twice as much as it does in a busy broker.

A fetch of a session checks all partitions of the session, whether they have records or not.

The costs are the non-negative least squares of relative errors over all trials.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Final

import numpy as np
from scipy.optimize import nnls

KINDS: Final = ("produced", "consumed", "replicated")
REPLAYED: Final = "replayed_bytes"
SYNCED: Final = "synced_batches"
OF_SOME: Final = (REPLAYED, SYNCED)
"""Fields of Work that only some loads have any of."""
SIZES: Final = (4096, 16_384, 65_536)
"""Bytes of the batches for which the cost of waking up is known."""
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
    by_size: tuple[float, float, float] = field(default=(0.0, 0.0, 0.0), kw_only=True)
    """The batches that can find a broker idle, by SIZES: one between two sizes counts to both."""

    @property
    def amounts(self) -> tuple[float, ...]:
        """The amounts in the order of AMOUNTS."""
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

    def __add__(self, other: Work) -> Work:
        small, medium, large = (one + another for one, another in zip(self.by_size, other.by_size, strict=True))
        amounts = (one + another for one, another in zip(self.amounts, other.amounts, strict=True))
        return Work(*amounts, by_size=(small, medium, large))

    def times(self, factor: float) -> Work:
        small, medium, large = (batches * factor for batches in self.by_size)
        return Work(*(amount * factor for amount in self.amounts), by_size=(small, medium, large))

    def batches_of(self, kind: str) -> float:
        """kind: one of KINDS."""
        return float(getattr(self, f"{kind}_batches"))

    def kinds(self) -> list[str]:
        """Those of KINDS that there was any of."""
        return [kind for kind in KINDS if getattr(self, f"{kind}_bytes") > 0]


AMOUNTS: Final = tuple(each.name for each in fields(Work) if not each.kw_only)


def traffic(batch_bytes: float, produced: float, consumed: float, replicated: float, groups: int = 1) -> Work:
    """Batches of one size, from bytes of each kind in a second. consumed: by so many groups.

    Readers of several groups get a batch in the same turn of the broker, so that only the first wakes it up.
    """
    batches = (produced + consumed / max(1, groups) + replicated) / batch_bytes
    place = float(np.interp(math.log(batch_bytes), [math.log(size) for size in SIZES], range(len(SIZES))))
    small, medium, large = (batches * max(0.0, 1 - abs(place - index)) for index in range(len(SIZES)))
    return Work(
        produced_bytes=produced,
        produced_batches=produced / batch_bytes,
        consumed_bytes=consumed,
        consumed_batches=consumed / batch_bytes,
        replicated_bytes=replicated,
        replicated_batches=replicated / batch_bytes,
        by_size=(small, medium, large),
    )


@dataclass(frozen=True, slots=True)
class MeasuredWork:
    """One trial: what the brokers did, and the CPU time that it took them, in CPU seconds per second."""

    work: Work
    cpu_cores: float
    batch_bytes: int


@dataclass(frozen=True, slots=True)
class Costs:
    """CPU seconds for each of the AMOUNTS of Work; 0 where none is known."""

    cpu_s: tuple[float, ...]
    known: frozenset[str]
    """The AMOUNTS whose cost follows from the trials."""
    batch_bytes: dict[str, tuple[int, int]]
    """Kind -> the smallest and the largest batches that it was measured with. A kind that is not here is unknown."""
    waking_s: tuple[float, ...] = (0.0, 0.0, 0.0)
    """CPU seconds that a batch of each of SIZES costs more if it finds its broker idle."""
    most_cores: float = math.inf
    """CPU time of a broker that is never idle, in CPU seconds per second."""

    def cpu_cores(self, work: Work) -> float:
        """CPU of brokers that share the work evenly. Solves cpu = busy + waking · (1 − cpu / most)."""
        busy = sum(cost * amount for cost, amount in zip(self.cpu_s, work.amounts, strict=True))
        waking = sum(cost * batches for cost, batches in zip(self.waking_s, work.by_size, strict=True))
        return (busy + waking) / (1 + waking / (max(1.0, work.brokers) * self.most_cores))

    def knows(self, work: Work) -> bool:
        """Whether the cost of all the work follows from trials. A few partitions are part of what a broker costs."""
        wanted = (*(f"{kind}_batches" for kind in work.kinds()), *(name for name in OF_SOME if getattr(work, name) > 0))
        return set(wanted) <= self.known

    def times(self, factor: float) -> Costs:
        """All costs `factor` times as high, with the same CPU time at most."""
        return replace(
            self,
            cpu_s=tuple(cost * factor for cost in self.cpu_s),
            waking_s=tuple(cost * factor for cost in self.waking_s),
        )


def looked_at(batches: float, partitions: float, sessions: float) -> float:
    """Partitions that fetches look at in vain, if each of so many batches is fetched by itself.

    partitions: of all the fetch sessions, evenly.
    """
    return batches * max(0.0, partitions / sessions - 1) if sessions else 0.0


def measured_kinds(observations: Iterable[MeasuredWork]) -> dict[str, tuple[int, int]]:
    """Kinds of work with the range of their batches, if these differ enough to separate bytes from batches."""
    sizes: dict[str, set[int]] = {}
    for seen in observations:
        for kind in seen.work.kinds():
            sizes.setdefault(kind, set()).add(seen.batch_bytes)
    return {kind: (min(found), max(found)) for kind, found in sizes.items() if max(found) >= _APART * min(found)}


def fitted(observations: Sequence[MeasuredWork], most_cores: float) -> Costs:
    """The costs that explain the trials best. Trials of a kind of work that is not known are left out.

    most_cores: the CPU time of a broker that is never idle.
    """
    known = measured_kinds(observations)
    used = [seen for seen in observations if set(seen.work.kinds()) <= set(known) and seen.cpu_cores > 0]
    told = {"brokers", *(f"{kind}_{what}" for kind in known for what in ("bytes", "batches"))}
    told |= {name for name in OF_SOME if any(getattr(seen.work, name) > 0 for seen in used)}
    if any(seen.work.partitions >= MANY_PARTITIONS * seen.work.brokers for seen in used):
        told |= {"partitions", "looked_at_for_followers", "looked_at_for_readers"}
    columns = [index for index, name in enumerate(AMOUNTS) if name in told]
    cpu_s, waking_s = [0.0] * len(AMOUNTS), [0.0] * len(SIZES)
    if used and known:
        amounts = np.array([seen.work.amounts for seen in used])[:, columns]
        idle = np.array([_idle_share(seen, most_cores) for seen in used])
        waking = np.array([seen.work.by_size for seen in used]) * idle[:, None]
        rows = np.hstack([amounts, waking]) / np.array([[seen.cpu_cores] for seen in used])
        found = _non_negative(rows)
        waking_s = found[len(columns) :]
        for index, cost in zip(columns, found, strict=False):
            cpu_s[index] = cost
    return Costs(tuple(cpu_s), frozenset(told), known, tuple(waking_s), most_cores)


def _idle_share(seen: MeasuredWork, most_cores: float) -> float:
    """The mean share of time in which the brokers of a trial are idle."""
    return max(0.0, 1 - seen.cpu_cores / (max(1.0, seen.work.brokers) * most_cores))


def _non_negative(rows: np.ndarray) -> list[float]:
    """x ≥ 0 that minimises |rows · x − 1|."""
    scale = np.abs(rows).max(axis=0)
    scale[scale == 0] = 1.0
    found, _ = nnls(rows / scale, np.ones(len(rows)))
    return [float(cost) for cost in found / scale]
