"""What a class of hosts was measured to do: values for one draw, and all samples of them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from highwater.common.ceilings import HostClass
from highwater.studies.capacity.costs import AMOUNTS, Costs, MeasuredWork


@dataclass(frozen=True, slots=True)
class Ceilings:
    """One value for each ceiling of a broker and of a disk."""

    costs: Costs
    cpu_cores: float
    """The most CPU time that one broker was seen to use, in CPU seconds per second."""
    disk_write_bytes_per_s: float
    disk_read_bytes_per_s: float
    process_bytes: float
    """Memory of the broker's process without the partitions of a plan."""
    partition_bytes: float | None
    """Memory that each partition adds; None if it was not measured."""
    partition_bytes_per_s: float | None
    """What one partition takes from producers; None if it was not measured."""
    network_bytes_per_s: float | None = None
    """What the network of a host carries each way, both at once; None if it was not measured."""
    disk_syncs_per_s: float | None = None
    """Small appends of one disk, each on the disk before the next; None if it was not measured."""
    write_ratios: tuple[tuple[int, float], ...] = ()
    """(files, rate of appends to so many files in turn over the rate of one file), fewer files first."""

    def write_ratio(self, files: float) -> float:
        """How fast a disk is that appends to `files` files in turn, over its rate with one.

        Between measured numbers of files along their logarithm; beyond them as with the most.
        """
        counts, ratios = [0.0], [1.0]
        for count, ratio in self.write_ratios:
            counts.append(math.log(count))
            # That more files are faster is noise.
            ratios.append(min(ratio, ratios[-1]))
        return float(np.interp(math.log(max(1.0, files)), counts, ratios))


@dataclass(frozen=True, slots=True)
class Cell:
    """The trials of one cell."""

    name: str
    trials: tuple[MeasuredWork, ...]
    is_closed: bool = False
    """Whether the load was as fast as the broker took it, so that the broker was hardly ever idle."""


@dataclass(frozen=True, slots=True)
class DiskSamples:
    """fio's figures of one disk, one for each probe."""

    target: str
    medium: str
    file_system: str
    emulation: str
    """The limits of an emulated disk; empty for a real one."""
    write_bytes_per_s: tuple[float, ...]
    read_bytes_per_s: tuple[float, ...]
    syncs_per_s: tuple[float, ...] = ()
    many_files: tuple[tuple[int, tuple[float, ...]], ...] = ()
    """(files, bytes per second of appends to so many files in turn), fewer files first."""


@dataclass(frozen=True, slots=True)
class Prediction:
    """A cell that the costs were not fitted to: its CPU as the costs say it, and as it was measured."""

    cell: str
    predicted_cores: float
    measured_cores: float
    in_turn: bool = False
    """The plan's costs are fitted to it, and were fitted once more without it for this prediction."""

    @property
    def error_ratio(self) -> float:
        return self.predicted_cores / self.measured_cores - 1


@dataclass(frozen=True, slots=True)
class Difference:
    """A fact in which the planned hosts and a reference host differ."""

    fact: str
    planned: str
    reference: str


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A reference host that was predicted from the nearest of the others."""

    host: str
    predicted_from: str
    worst_cell: str
    ratio: float
    """CPU time of the cell on the one host over that on the other, whichever is more: 1 or above."""


@dataclass(frozen=True, slots=True)
class Origin:
    """Where figures of another host come from, and how far they are stretched for the planned hosts."""

    measured_on: str
    """The day, such as 2026-11-27."""
    conditions: str
    """What else the host did, and which broker it was, in words."""
    differences: tuple[Difference, ...]
    cost_factor: float
    """Costs of the planned hosts may be so many times as high or as low."""
    disk_factor: float
    """The same of the rates of a disk."""
    left_out: tuple[LeftOut, ...] = ()
    """Empty while there are fewer than three kinds of hosts."""


@dataclass(frozen=True, slots=True)
class Reference:
    """A published measurement of another host: costs that were fitted there."""

    costs: Costs
    low: Costs
    high: Costs
    """Low and high: between which 95 of 100 draws of that measurement lie."""
    predictions: tuple[Prediction, ...]
    most_of_one_broker: Mapping[str, float]
    origin: Origin

    def drawn_costs(self, random: np.random.Generator) -> Costs:
        """Each cost anywhere in its own range, then all of them stretched by one factor."""

        def within(low: tuple[float, ...], high: tuple[float, ...]) -> tuple[float, ...]:
            return tuple(float(cost) for cost in random.uniform(low, high))

        drawn = replace(
            self.costs,
            cpu_s=within(self.low.cpu_s, self.high.cpu_s),
            waking_s=within(self.low.waking_s, self.high.waking_s),
        )
        return drawn.times(stretch(self.origin.cost_factor, random))


def stretch(factor: float, random: np.random.Generator) -> float:
    """A factor anywhere between 1/factor and factor, along the logarithm."""
    return float(np.exp(random.uniform(-math.log(factor), math.log(factor))))


@dataclass(frozen=True, slots=True)
class Measured:
    """All that result directories say of a class of hosts."""

    host: HostClass
    system: str
    runs: tuple[str, ...]
    cells: tuple[Cell, ...]
    """That costs are fitted to."""
    held_out: tuple[Cell, ...]
    """Cells that no cost is fitted to."""
    busiest: tuple[float, ...]
    """CPU of the broker in each trial of the cell in which it was the busiest."""
    disks: tuple[DiskSamples, ...]
    process_bytes: float
    partition_bytes: tuple[float, ...]
    partition_bytes_per_s: tuple[float, ...]
    trials_used: int
    trials_left_out: int
    network_bytes_per_s: tuple[float, ...] = ()
    """The rate of each trial of `bench network`, between hosts like the planned ones."""
    reference: Reference | None = None
    """A published measurement has costs in place of cells."""

    def most_of_one_broker(self, amount: str) -> float:
        """The most of one of AMOUNTS that a broker did in a second in any trial that costs were fitted to."""
        if self.reference is not None:
            return self.reference.most_of_one_broker.get(amount, 0.0)
        index = AMOUNTS.index(amount)
        trials = (trial.work for cell in self.cells for trial in cell.trials)
        return max((work.amounts[index] / max(1.0, work.brokers) for work in trials), default=0.0)
