"""Values of ceilings from their samples: the middle ones, and bootstrap draws for intervals."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from statistics import fmean, median
from typing import Final

import numpy as np

from highwater.studies.capacity.ceilings import Ceilings, Cell, DiskSamples, Measured, Prediction, stretch
from highwater.studies.capacity.costs import Costs, Work, fitted

DRAWS: Final = 300
_SEED: Final = 1


@dataclass(frozen=True, slots=True)
class Draw:
    """One way in which the ceilings and the load may really be."""

    ceilings: Ceilings
    factor: float
    """A factor of all rates of the load."""


def costs_of(measured: Measured) -> Costs:
    """Those that a plan is made with."""
    if measured.reference is not None:
        return measured.reference.costs
    return _fitted(measured.cells, median(measured.busiest))


def middle(measured: Measured, disk: DiskSamples) -> Ceilings:
    """The ceilings that a plan is made with. disk: the disks of the planned hosts."""
    return _ceilings(
        measured,
        costs_of(measured),
        cpu_cores=median(measured.busiest),
        write=median(disk.write_bytes_per_s),
        read=median(disk.read_bytes_per_s),
        syncs=median(disk.syncs_per_s) if disk.syncs_per_s else None,
        network=median(measured.network_bytes_per_s) if measured.network_bytes_per_s else None,
        write_ratios=_write_ratios(disk),
    )


def predictions(measured: Measured, costs: Costs) -> list[Prediction]:
    """Predictions of the held-out cells whose kinds of work are known, and of closed loops from all other cells.

    Held-out cells load a broker little. Closed loops load it fully, and a plan comes nearer to them.
    """
    if measured.reference is not None:
        return list(measured.reference.predictions)
    found = list(_predicted(measured.held_out, costs))
    for closed in (cell for cell in measured.cells if cell.is_closed):
        others = [cell for cell in measured.cells if cell is not closed]
        if any(cell.is_closed for cell in others):
            found += _predicted([closed], _fitted(others, costs.most_cores), in_turn=True)
    return found


def _predicted(cells: Iterable[Cell], costs: Costs, *, in_turn: bool = False) -> Iterator[Prediction]:
    for cell in cells:
        work = _mean_work(cell)
        if costs.knows(work):
            cores = fmean(trial.cpu_cores for trial in cell.trials)
            yield Prediction(cell.name, costs.cpu_cores(work), cores, in_turn)


def _fitted(cells: Iterable[Cell], most_cores: float) -> Costs:
    return fitted([trial for cell in cells for trial in cell.trials], most_cores)


def draws(
    measured: Measured, disk: DiskSamples, range_ratio: float, cost_error_ratio: float, count: int = DRAWS
) -> list[Draw]:
    """Trials of each cell and probes of the disk drawn with replacement; load and costs anywhere in their ranges.

    The same arguments give the same draws.
    """
    random = np.random.default_rng(_SEED)

    def drawn(values: Sequence[float]) -> float:
        return float(np.median(random.choice(values, len(values))))

    def costs_of_one(most_cores: float) -> Costs:
        if reference is not None:
            return reference.drawn_costs(random)
        trials = [
            cell.trials[index]
            for cell in measured.cells
            for index in random.integers(0, len(cell.trials), len(cell.trials))
        ]
        return fitted(trials, most_cores)

    found, ratios, reference = [], _write_ratios(disk), measured.reference
    network = measured.network_bytes_per_s
    for _ in range(count):
        most_cores = drawn(measured.busiest)
        costs = costs_of_one(most_cores).times(1 + random.uniform(-cost_error_ratio, cost_error_ratio))
        speed = 1.0 if reference is None else stretch(reference.origin.disk_factor, random)
        ceilings = _ceilings(
            measured,
            costs,
            cpu_cores=most_cores,
            write=speed * float(random.uniform(min(disk.write_bytes_per_s), max(disk.write_bytes_per_s))),
            read=speed * float(random.uniform(min(disk.read_bytes_per_s), max(disk.read_bytes_per_s))),
            syncs=speed * float(random.uniform(min(disk.syncs_per_s), max(disk.syncs_per_s)))
            if disk.syncs_per_s
            else None,
            network=float(random.uniform(min(network), max(network))) if network else None,
            write_ratios=ratios,
        )
        found.append(Draw(ceilings, 1 + float(random.uniform(-range_ratio, range_ratio))))
    return found


def interval(values: Sequence[float]) -> tuple[float, float]:
    """The values between which 95 of 100 lie; no value is made up between two."""
    ordered = sorted(values)
    outside = int(len(ordered) * 0.025)
    return ordered[outside], ordered[-1 - outside]


def _write_ratios(disk: DiskSamples) -> tuple[tuple[int, float], ...]:
    one_file = median(disk.write_bytes_per_s)
    return tuple((files, median(rates) / one_file) for files, rates in disk.many_files)


def _ceilings(
    measured: Measured,
    costs: Costs,
    *,
    cpu_cores: float,
    write: float,
    read: float,
    syncs: float | None,
    network: float | None,
    write_ratios: tuple[tuple[int, float], ...],
) -> Ceilings:
    return Ceilings(
        costs=costs,
        cpu_cores=float(cpu_cores),
        disk_write_bytes_per_s=write,
        disk_read_bytes_per_s=read,
        disk_syncs_per_s=syncs,
        network_bytes_per_s=network,
        write_ratios=write_ratios,
        process_bytes=measured.process_bytes,
        partition_bytes=median(measured.partition_bytes) if measured.partition_bytes else None,
        partition_bytes_per_s=median(measured.partition_bytes_per_s) if measured.partition_bytes_per_s else None,
    )


def _mean_work(cell: Cell) -> Work:
    return sum((trial.work for trial in cell.trials), Work()).times(1 / len(cell.trials))
