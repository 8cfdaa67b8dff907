"""Published ceilings of one host: its facts and intervals, without names (capacity.reference/1)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Final

from highwater.common.ceilings import HostClass
from highwater.common.errors import UsageError
from highwater.common.typed_json import DamagedError, parse_json, read_as
from highwater.studies.capacity.ceilings import DiskSamples, Measured, Origin, Prediction, Reference
from highwater.studies.capacity.costs import AMOUNTS, KINDS, SIZES, Costs

REFERENCE_SCHEMA: Final = "capacity.reference/1"


@dataclass(frozen=True, slots=True)
class MeasuredRange:
    """The median, and between which values 95 of 100 draws lie; one value three times if only that is known."""

    low: float
    middle: float
    high: float

    @property
    def values(self) -> tuple[float, float, float]:
        return self.low, self.middle, self.high


@dataclass(frozen=True, slots=True)
class HostFacts:
    cpu_model: str
    cpu_count: int
    memory_bytes: int
    kernel: str
    architecture: str
    """The machine that `uname -m` reports."""
    runs_in: str = ""


@dataclass(frozen=True, slots=True)
class DiskRanges:
    medium: str
    file_system: str
    write_bytes_per_s: MeasuredRange
    read_bytes_per_s: MeasuredRange
    syncs_per_s: MeasuredRange | None = None
    many_files_bytes_per_s: Mapping[str, float] | None = None
    """Appends to so many files in turn."""


@dataclass(frozen=True, slots=True)
class ReferenceFile:
    name: str
    measured_on: str
    """The day, such as 2026-11-27."""
    conditions: str
    host: HostFacts
    system: str
    trials: int
    busiest_cores: MeasuredRange
    costs_cpu_s: Mapping[str, MeasuredRange]
    """CPU seconds for one of each amount of work (AMOUNTS)."""
    waking_cpu_s: Mapping[str, MeasuredRange]
    """CPU seconds that a batch of so many bytes (SIZES) costs more if it finds its broker idle."""
    batch_bytes: Mapping[str, MeasuredRange]
    """Kind of work -> the smallest, a middle and the largest batch that it was measured with."""
    most_of_one_broker: Mapping[str, float]
    """Amount of work -> the most of it that one broker did in a second."""
    disks: tuple[DiskRanges, ...]
    process_bytes: float
    partition_bytes: float | None
    partition_bytes_per_s: float | None
    predictions: tuple[Prediction, ...]
    schema: str = REFERENCE_SCHEMA

    def as_json(self) -> str:
        return json.dumps({"schema": self.schema} | asdict(self), ensure_ascii=False, indent=1) + "\n"


def parse_reference(text: str, name: str) -> ReferenceFile:
    """name: of the file, for errors. Raises UsageError."""
    try:
        found = parse_json(text)
    except ValueError:
        raise UsageError(f"{name} is not JSON: highwater bench publish-ceilings writes such a file") from None
    if not isinstance(found, dict) or found.get("schema") != REFERENCE_SCHEMA:
        raise UsageError(
            f"{name} is not a file of {REFERENCE_SCHEMA}: highwater bench publish-ceilings writes one from a result of "
            "workloads/ceilings.yaml"
        )
    try:
        made = read_as(ReferenceFile, found)
    except DamagedError as error:
        raise UsageError(f"{name} is damaged: {error}") from None
    unknown = set(made.costs_cpu_s) - set(AMOUNTS) | set(made.waking_cpu_s) - {str(size) for size in SIZES}
    unknown |= set(made.batch_bytes) - set(KINDS) | set(made.most_of_one_broker) - set(AMOUNTS)
    if unknown:
        raise UsageError(f"{name} is damaged: {', '.join(sorted(unknown))} is no work of a broker")
    if not made.disks:
        raise UsageError(f"{name} has no disk: publish a run with --storage data=DIRECTORY, on a host that has fio")
    return made


def measured_of_reference(found: ReferenceFile, origin: Origin) -> Measured:
    """What a plan reads. origin: how the planned hosts differ from the one that was measured."""
    host = found.host
    return Measured(
        host=HostClass(host.cpu_model, host.cpu_count, host.memory_bytes, host.kernel, "", host.runs_in),
        system=found.system,
        runs=(found.name,),
        cells=(),
        held_out=(),
        busiest=found.busiest_cores.values,
        disks=tuple(
            DiskSamples(
                "data" if number == 0 else f"data-{number + 1}",
                disk.medium,
                disk.file_system,
                "",
                disk.write_bytes_per_s.values,
                disk.read_bytes_per_s.values,
                disk.syncs_per_s.values if disk.syncs_per_s is not None else (),
                tuple((int(files), (rate,)) for files, rate in (disk.many_files_bytes_per_s or {}).items()),
            )
            for number, disk in enumerate(found.disks)
        ),
        process_bytes=found.process_bytes,
        partition_bytes=() if found.partition_bytes is None else (found.partition_bytes,),
        partition_bytes_per_s=() if found.partition_bytes_per_s is None else (found.partition_bytes_per_s,),
        trials_used=found.trials,
        trials_left_out=0,
        reference=Reference(
            costs=_costs(found, "middle"),
            low=_costs(found, "low"),
            high=_costs(found, "high"),
            predictions=found.predictions,
            most_of_one_broker=found.most_of_one_broker,
            origin=origin,
        ),
    )


def _costs(found: ReferenceFile, which: str) -> Costs:
    def of(ranges: Mapping[str, MeasuredRange], name: str) -> float:
        return float(getattr(ranges[name], which)) if name in ranges else 0.0

    return Costs(
        cpu_s=tuple(of(found.costs_cpu_s, name) for name in AMOUNTS),
        known=frozenset(found.costs_cpu_s),
        batch_bytes={kind: (int(sizes.low), int(sizes.high)) for kind, sizes in found.batch_bytes.items()},
        waking_s=tuple(of(found.waking_cpu_s, str(size)) for size in SIZES),
        most_cores=found.busiest_cores.middle,
    )
