"""What a class of hosts was measured to do: values for one draw, and all samples of them."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from highwater.common.ceilings import HostClass
from highwater.studies.capacity.costs import Costs, MeasuredWork


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
