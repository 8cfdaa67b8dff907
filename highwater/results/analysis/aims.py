"""A workload's aims in its run: ratios of two variants, and whether they reach their bounds. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from statistics import median
from typing import Final, Literal

from highwater.results.analysis.conclusions import Values, usable, values_by_block
from highwater.results.analysis.statistics import RatioEstimate, paired_ratio_ci
from highwater.results.bounds import Bound, parse_bound
from highwater.results.models import Scalar
from highwater.results.reader import RunResult

_VARIANT: Final = "variant"
AimState = Literal["reached", "short", "not measured"]


@dataclass(frozen=True, slots=True)
class AimMeasured:
    """A metric of a cell and of another one, over the blocks that have usable trials of both."""

    value: float
    beside_value: float
    ratio: RatioEstimate


@dataclass(frozen=True, slots=True)
class AimOutcome:
    """One metric of one cell beside another cell."""

    cell: str
    beside: str
    metric: str
    bound: Bound
    measured: AimMeasured | None
    """None when no block has a usable trial of both with this figure."""
    state: AimState
    """The state by the centre of the paired ratios; their interval is in `measured`."""

    @property
    def decided(self) -> bool:
        """Whether the whole interval says the same as the centre."""
        interval = self.measured.ratio.interval if self.measured else None
        return interval is not None and all(self.bound.met(end) == (self.state == "reached") for end in interval)


def outcomes(result: RunResult) -> list[AimOutcome]:
    """Outcomes of the aims in the order of the workload file; none for a workload without aims."""
    factors = {planned.cell: planned.factors for planned in result.manifest.trials}
    values = {cell: values_by_block(usable(t.summary for t in trials)) for cell, trials in result.cells().items()}
    return [
        _outcome(values[cell], values[beside], cell, beside, metric, parse_bound(bound))
        for aim in result.manifest.workload.get("aims", [])
        for cell, beside in _pairs(aim["of"], aim["beside"], factors)
        for metric, bound in aim["ratio"].items()
    ]


def _pairs(
    variant: str, beside: Iterable[str], factors: Mapping[str, Mapping[str, Scalar]]
) -> Iterator[tuple[str, str]]:
    """Cells that differ in their variant alone."""
    for cell, of in factors.items():
        if of.get(_VARIANT) != variant:
            continue
        for name in beside:
            wanted = {**of, _VARIANT: name}
            yield from ((cell, other) for other, has in factors.items() if dict(has) == wanted)


def _outcome(
    of: Mapping[int, Values], other: Mapping[int, Values], cell: str, beside: str, metric: str, bound: Bound
) -> AimOutcome:
    blocks = [block for block in of if metric in of[block] and metric in other.get(block, {})]
    values, beside_values = [of[block][metric] for block in blocks], [other[block][metric] for block in blocks]
    ratio = paired_ratio_ci(beside_values, values)
    if ratio is None:
        return AimOutcome(cell, beside, metric, bound, None, "not measured")
    measured = AimMeasured(median(values), median(beside_values), ratio)
    return AimOutcome(cell, beside, metric, bound, measured, "reached" if bound.met(ratio.ratio) else "short")
