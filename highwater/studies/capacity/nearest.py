"""Chooses the reference host nearest to the planned hosts, and how far to stretch its figures."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from highwater.common.errors import UsageError
from highwater.common.units import size_text
from highwater.studies.capacity.ceilings import Difference, LeftOut, Measured, Origin
from highwater.studies.capacity.load import Load
from highwater.studies.capacity.measured import HELD_OUT
from highwater.studies.capacity.reference_file import HostFacts, ReferenceFile, measured_of_reference

# The same cells on the same host cost up to 1.8 times as much while other work kept its processors busy
# (docs/results/planner.md), and clouds give several processors one name.
LIKE_HOST_FACTOR: Final = 1.8
# An assumption until three kinds of hosts were measured: a thread of one x86-64 server of the last ten years is about
# twice as fast as that of another, which comes on top.
OTHER_HOST_FACTOR: Final = 3.0
# A load file does not say what its disks are. Data sheets of hard disks give 150 to 280 MB/s, and those of NVMe disks
# ten times that and more.
DISK_FACTOR: Final = 10.0


@dataclass(frozen=True, slots=True)
class PlannedHost:
    """What is known of the hosts of a plan; None: nothing."""

    cpu_model: str | None
    cpu_count: int | None
    memory_bytes: int | None
    kernel: str | None
    architecture: str


def planned_host(load: Load, here: PlannedHost) -> PlannedHost:
    """The hosts of a load file; what the file does not say is as on this host."""
    hosts = load.hosts
    return PlannedHost(
        hosts.cpu_model or here.cpu_model,
        hosts.cpus or here.cpu_count,
        hosts.memory_bytes,
        here.kernel,
        here.architecture,
    )


def nearest(references: Sequence[ReferenceFile], planned: PlannedHost) -> Measured:
    """What the nearest reference host measured, stretched for the planned one. Raises UsageError if none is near.

    The processor counts before the number of processors, and that before memory and kernel.
    """
    near = [each for each in references if each.host.architecture == planned.architecture]
    if not near:
        known = ", ".join(sorted({each.host.architecture for each in references}))
        raise UsageError(
            f"no reference host is near enough: the planned hosts are {planned.architecture}, and {known} was "
            "measured; highwater plan LOAD --measure 3min measures this host in 3 minutes"
        )
    found = _nearest(near, planned)
    told = list(differences(found.host, planned))
    factor = LIKE_HOST_FACTOR
    errors = _left_out(near)
    if {"processor", "processors"} & {each.fact for each in told}:
        factor = max([OTHER_HOST_FACTOR, *(each.ratio for each in errors)])
    return measured_of_reference(
        found, Origin(found.measured_on, found.conditions, tuple(told), factor, DISK_FACTOR, errors)
    )


def _nearest(references: Sequence[ReferenceFile], planned: PlannedHost) -> ReferenceFile:
    return min(references, key=lambda each: _order(list(differences(each.host, planned))))


def _as_planned(host: HostFacts) -> PlannedHost:
    return PlannedHost(host.cpu_model, host.cpu_count, host.memory_bytes, host.kernel, host.architecture)


def differences(reference: HostFacts, planned: PlannedHost) -> Iterator[Difference]:
    """The facts that differ, the most important first. Memory counts from a factor of two on."""
    facts = (
        ("processor", planned.cpu_model, reference.cpu_model),
        ("processors", planned.cpu_count, reference.cpu_count),
        ("kernel", _release(planned.kernel), _release(reference.kernel)),
    )
    for fact, here, there in facts:
        if here != there:
            yield Difference(fact, "not known" if here is None else str(here), str(there))
    memory, there_bytes = planned.memory_bytes, reference.memory_bytes
    if memory is None or not there_bytes / 2 <= memory <= there_bytes * 2:
        yield Difference("memory", "not known" if memory is None else size_text(memory), size_text(there_bytes))


def _order(told: Sequence[Difference]) -> tuple[bool, ...]:
    facts = {each.fact for each in told}
    return tuple(fact in facts for fact in ("processor", "processors", "memory", "kernel"))


def _release(kernel: str | None) -> str | None:
    """Major and minor of a kernel, such as 6.18."""
    match = re.match(r"\d+\.\d+", kernel or "")
    return match[0] if match else kernel


_LEAST_KINDS: Final = 3


def _left_out(references: Sequence[ReferenceFile]) -> tuple[LeftOut, ...]:
    """The error of costs across kinds of hosts: each host predicted from the nearest other.

    One for each host that shares held-out cells with its nearest other; empty below _LEAST_KINDS kinds of hosts.

    Held-out cells have the same rates on every host, so that the CPU time of one host is the prediction for another.
    """
    if len({_kind(each) for each in references}) < _LEAST_KINDS:
        return ()
    found = []
    for own in references:
        other = _nearest([each for each in references if _kind(each) != _kind(own)], _as_planned(own.host))
        cells, others = _cells(own), _cells(other)
        ratios = {
            name: max(cores / others[name], others[name] / cores) for name, cores in cells.items() if name in others
        }
        if ratios:
            worst = max(ratios, key=lambda name: ratios[name])
            found.append(LeftOut(own.name, other.name, worst, ratios[worst]))
    return tuple(found)


def _kind(reference: ReferenceFile) -> tuple[str, int]:
    return reference.host.cpu_model, reference.host.cpu_count


def _cells(reference: ReferenceFile) -> dict[str, float]:
    return {
        each.cell: each.measured_cores
        for each in reference.predictions
        if each.cell.startswith(HELD_OUT) and not each.in_turn and each.measured_cores > 0
    }
