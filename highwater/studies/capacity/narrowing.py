"""Which measurement would narrow the interval of a plan most. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

from highwater.studies.capacity.ceilings import Ceilings
from highwater.studies.capacity.draws import Draw

UnknownPart = Literal["costs", "disk", "load"]
PARTS: Final[tuple[UnknownPart, ...]] = ("costs", "disk", "load")
Span = tuple[float | None, float | None]
"""Brokers, or times the load, that 95 of 100 draws lie between; None: no number is enough."""
# Enough draws to see which part matters most; all of them would take most of the time of a plan.
_EVERY: Final = 3


@dataclass(frozen=True, slots=True)
class Narrowing:
    part: UnknownPart
    """Measuring this would narrow the interval most."""
    low: float | None
    high: float | None
    """Low and high: the interval if this were known exactly, and were as the plan has it."""


def narrowing(drawn: Sequence[Draw], middle: Ceilings, span_of: Callable[[Sequence[Draw]], Span]) -> Narrowing | None:
    """None if no measurement alone would narrow the interval."""
    some = drawn[::_EVERY]
    spans = [(part, span_of([_known(part, draw, middle) for draw in some])) for part in PARTS]
    part, span = min(spans, key=lambda each: _width(each[1]))
    return Narrowing(part, *span) if _width(span) < _width(span_of(some)) else None


def _known(part: UnknownPart, draw: Draw, middle: Ceilings) -> Draw:
    match part:
        case "costs":
            own = replace(draw.ceilings, costs=middle.costs, cpu_cores=middle.cpu_cores)
        case "disk":
            own = replace(
                draw.ceilings,
                disk_write_bytes_per_s=middle.disk_write_bytes_per_s,
                disk_read_bytes_per_s=middle.disk_read_bytes_per_s,
                disk_syncs_per_s=middle.disk_syncs_per_s,
            )
        case "load":
            return Draw(draw.ceilings, 1.0)
    return Draw(own, draw.factor)


def _width(span: Span) -> float:
    low, high = span
    if high is None:
        return float("inf")
    return high - (low or 0.0)
