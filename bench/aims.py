"""A workload's aims held against its run: ratios of two variants, and whether they suffice. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final, Literal

from highwater.bench.compare import Limits, compare
from highwater.bench.results import MetricComparison, RunResult, Scalar
from highwater.bench.workload.aims import Aim

_VARIANT: Final = "variant"
AimState = Literal["reached", "short", "not measured"]


@dataclass(frozen=True, slots=True)
class AimOutcome:
    """One metric of one cell beside another cell. `bound` is as the workload file has it."""

    cell: str
    beside: str
    metric: str
    bound: str
    measured: MetricComparison | None
    """None when either cell has no usable trial with this figure."""
    state: AimState
    """By the centre of the paired ratios; their interval is in `measured`."""


def outcomes(result: RunResult) -> list[AimOutcome]:
    """In the order of the workload file; none for a workload without aims."""
    factors = {planned.cell: planned.factors for planned in result.manifest.trials}
    aims = [Aim.model_validate(aim) for aim in result.manifest.workload.get("aims", [])]
    return [
        outcome for aim in aims for cell, beside in _pairs(aim, factors) for outcome in _held(result, aim, cell, beside)
    ]


def _pairs(aim: Aim, factors: Mapping[str, Mapping[str, Scalar]]) -> Iterator[tuple[str, str]]:
    """Cells that differ in their variant alone."""
    for cell, of in factors.items():
        if of.get(_VARIANT) != aim.of:
            continue
        for name in aim.beside:
            wanted = {**of, _VARIANT: name}
            yield from ((cell, other) for other, has in factors.items() if dict(has) == wanted)


def _held(result: RunResult, aim: Aim, cell: str, beside: str) -> Iterator[AimOutcome]:
    measured: dict[str, MetricComparison] = {}
    if {cell, beside} <= set(result.cells()):
        found = compare(result, result, beside, cell, list(aim.ratio), Limits())
        measured = {comparison.metric: comparison for comparison in found.metrics if comparison.ratio is not None}
    for metric, bound in aim.ratio.items():
        comparison = measured.get(metric)
        state: AimState = "not measured"
        if comparison is not None and comparison.ratio is not None:
            state = "reached" if bound.met(comparison.ratio) else "short"
        yield AimOutcome(cell, beside, metric, str(bound), comparison, state)
