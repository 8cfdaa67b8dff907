"""The error of costs across kinds of hosts: each host predicted from the nearest other. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from highwater.studies.capacity.ceilings import LeftOut
from highwater.studies.capacity.measured import HELD_OUT
from highwater.studies.capacity.reference_file import ReferenceFile

LEAST_KINDS: Final = 3


def left_out(
    references: Sequence[ReferenceFile], nearest_to: Callable[[ReferenceFile, Sequence[ReferenceFile]], ReferenceFile]
) -> tuple[LeftOut, ...]:
    """One for each host that shares held-out cells with its nearest other; empty below LEAST_KINDS kinds of hosts.

    Held-out cells have the same rates on every host, so that the CPU time of one host is the prediction for another.
    """
    if len({_kind(each) for each in references}) < LEAST_KINDS:
        return ()
    found = []
    for own in references:
        other = nearest_to(own, [each for each in references if _kind(each) != _kind(own)])
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
