"""Makes a published file of what a host measured: ranges, and nothing that names the host. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from statistics import median

from highwater.common.errors import UsageError
from highwater.studies.capacity.ceilings import DiskSamples, Measured
from highwater.studies.capacity.costs import AMOUNTS, SIZES, Costs
from highwater.studies.capacity.draws import DRAWS, costs_of, draws, interval, predictions
from highwater.studies.capacity.reference_file import DiskRanges, HostFacts, MeasuredRange, ReferenceFile


def reference_of(measured: Measured, architecture: str, measured_on: str, others_cpus: float) -> ReferenceFile:
    """others_cpus: the most CPUs that other work took in a trial. Raises UsageError for what cannot be published."""
    disks = [disk for disk in measured.disks if disk.medium != "memory" and not disk.emulation]
    if not disks:
        raise UsageError(
            f"{', '.join(measured.runs)}: no real disk was measured; run workloads/ceilings.yaml with --storage "
            "data=DIRECTORY, on a host that has fio"
        )
    costs = costs_of(measured)
    drawn = [draw.ceilings for draw in draws(measured, disks[0], 0.0, 0.0, DRAWS)]
    host = measured.host
    return ReferenceFile(
        name=_name(host.cpu_model, host.cpu_count, host.runs_in),
        measured_on=measured_on,
        conditions=f"other work took at most {others_cpus:.2g} of {host.cpu_count} processors",
        host=HostFacts(
            host.cpu_model,
            host.cpu_count,
            host.memory_bytes,
            # What follows the numbers can be a name that somebody gave a kernel.
            re.match(r"[\d.]*", host.kernel)[0].rstrip("."),  # type: ignore[index]
            architecture,
            host.runs_in,
        ),
        system=measured.system,
        trials=measured.trials_used,
        busiest_cores=_range(median(measured.busiest), [each.cpu_cores for each in drawn]),
        costs_cpu_s=_ranges(AMOUNTS, costs.known, costs.cpu_s, [each.costs.cpu_s for each in drawn]),
        waking_cpu_s=_ranges(_SIZES, _SIZES, costs.waking_s, [each.costs.waking_s for each in drawn]),
        batch_bytes=_batches(costs),
        most_of_one_broker={name: most for name in AMOUNTS if (most := measured.most_of_one_broker(name)) > 0},
        disks=tuple(map(_disk, disks)),
        process_bytes=measured.process_bytes,
        partition_bytes=median(measured.partition_bytes) if measured.partition_bytes else None,
        partition_bytes_per_s=median(measured.partition_bytes_per_s) if measured.partition_bytes_per_s else None,
        predictions=tuple(predictions(measured, costs)),
    )


_SIZES = tuple(map(str, SIZES))


def _name(cpu_model: str, cpu_count: int, runs_in: str) -> str:
    """Such as `intel-r-xeon-r-processor-2-kvm`: facts alone."""
    return re.sub(r"[^a-z0-9]+", "-", f"{cpu_model} {cpu_count} {runs_in}".lower()).strip("-")


def _range(middle: float, values: Sequence[float]) -> MeasuredRange:
    low, high = interval(values)
    return MeasuredRange(min(low, middle), middle, max(high, middle))


def _ranges(
    names: Sequence[str],
    known: frozenset[str] | Sequence[str],
    middle: Sequence[float],
    drawn: Sequence[Sequence[float]],
) -> Mapping[str, MeasuredRange]:
    return {
        name: _range(middle[index], [costs[index] for costs in drawn])
        for index, name in enumerate(names)
        if name in known
    }


def _batches(costs: Costs) -> Mapping[str, MeasuredRange]:
    return {kind: MeasuredRange(low, (low * high) ** 0.5, high) for kind, (low, high) in costs.batch_bytes.items()}


def _disk(disk: DiskSamples) -> DiskRanges:
    def of(values: Sequence[float]) -> MeasuredRange:
        return MeasuredRange(min(values), median(values), max(values))

    return DiskRanges(
        disk.medium,
        disk.file_system,
        of(disk.write_bytes_per_s),
        of(disk.read_bytes_per_s),
        of(disk.syncs_per_s) if disk.syncs_per_s else None,
        {str(files): median(rates) for files, rates in disk.many_files},
    )
