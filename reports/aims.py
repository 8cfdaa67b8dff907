"""What a workload aims at beside other variants, as a table: ratio, bound, whether it was reached."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from highwater.common.units import NONE, significant
from highwater.reports.blocks import Block, Column, Field, Row, Table, Tone
from highwater.reports.cells import Run
from highwater.reports.measures import metric_text
from highwater.results.analysis.aims import AimOutcome, outcomes
from highwater.results.bounds import bound_text
from highwater.results.metrics import title_of

_TONES: Final[dict[str, Tone]] = {"reached": "good", "short": "bad", "not measured": "warn"}
_NOTE: Final = (
    "A ratio is that of two trials of one block, so that what drifts between blocks cancels; shown are the centre of "
    "the ratios and, from five blocks on, their 95 % interval. The centre says whether an aim is reached; it is not "
    "decided where a part of the interval says otherwise. Aims change nothing of the verdict on validity."
)
_UNDECIDED: Final = "not decided"


def aim_blocks(run: Run) -> list[Block]:
    """Empty for a workload without aims."""
    rows = aim_rows(run)
    return [aim_table(rows)] if rows else []


def aim_rows(run: Run, workload: str | None = None) -> list[Row]:
    """workload: named in a first column of its own."""
    return [_row(run, outcome, workload) for outcome in outcomes(run.result)]


def aim_table(rows: Sequence[Row], *, with_workload: bool = False) -> Table:
    columns = [
        *([Column("workload", text=True)] if with_workload else []),
        Column("cell", text=True),
        Column("beside", text=True),
        Column("figure", text=True),
        Column("measured"),
        Column("beside it"),
        Column("ratio"),
        Column("aim", text=True),
        Column("outcome", text=True),
    ]
    return Table(columns, list(rows), label="What was aimed at", note=_NOTE, wide=True, sortable=True)


def _row(run: Run, outcome: AimOutcome, workload: str | None) -> Row:
    measured = outcome.measured
    ratio = Field(NONE)
    if measured is not None:
        interval = "–".join(map(significant, measured.ratio.interval)) if measured.ratio.interval else ""
        ratio = Field(significant(measured.ratio.ratio), interval, measured.ratio.ratio)
    return Row(
        [
            *([Field(workload)] if workload else []),
            Field(run.label(outcome.cell)),
            Field(variant_of(run, outcome.beside)),
            Field(title_of(outcome.metric)),
            Field(metric_text(outcome.metric, measured.value) if measured else NONE),
            Field(metric_text(outcome.metric, measured.beside_value) if measured else NONE),
            ratio,
            Field(bound_text(outcome.bound)),
            _state(outcome),
        ]
    )


def _state(outcome: AimOutcome) -> Field:
    if outcome.measured is None or outcome.decided:
        return Field(outcome.state, tone=_TONES[outcome.state])
    return Field(outcome.state, _UNDECIDED, tone="warn")


def variant_of(run: Run, cell: str) -> str:
    return next((str(known.factors["variant"]) for known in run.cells if known.key == cell), cell)
