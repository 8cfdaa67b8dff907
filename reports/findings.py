"""Findings beside the answer: headline metrics that it leaves out, and loads that were carried."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal

from highwater.common.units import count_text, plural
from highwater.reports.blocks import Block, Bullet, Bullets, Paragraph
from highwater.reports.cells import Cell, Run
from highwater.reports.measures import HEADLINES, PRODUCE_P99
from highwater.results.analysis.answer import asked_metrics
from highwater.results.analysis.best import best_cell
from highwater.results.analysis.statement import StatementState

_MARKS: Final[dict[StatementState, Literal["plain", "shown", "open"]]] = {
    "good": "shown",
    "open": "open",
    "bad": "plain",
    "plain": "plain",
}
# Only trials with faults have them. One partition of many can wait long while others keep the rate.
_RECOVERY: Final = ("recovery.longest_wait_s", "recovery.no_ack_s", "recovery.to_ninety_s", "recovery.consumer_gap_s")
_NOTE: Final = (
    "Medians are those of all usable trials. A change is that of trials of the same block, with its 95 % interval, so "
    "it need not be the ratio of the two medians. A best cell is named if it is better than each other cell, with "
    "p-values corrected for their number."
)


def finding_blocks(run: Run) -> list[Block]:
    """The findings as blocks; empty when no trial is usable, and for a search."""
    if not any(cell.sound for cell in run.cells) or run.result.search() is not None:
        return []
    figures = run.figures
    asked = asked_metrics(figures)
    bullets = [_highest_load(name, cells) for name, cells in run.curves.items()] if run.load_axes else []
    for metric in (*_RECOVERY, *(measure.key for measure in HEADLINES)):
        if metric not in asked and any(figures.of(cell.key, metric) for cell in run.cells):
            statement = best_cell(figures, metric).statement
            bullets.append(Bullet(statement.text, mark=_MARKS[statement.state]))
    named = f" Tables and charts name cells {run.naming}." if run.naming else ""
    return [Bullets(bullets), Paragraph(_NOTE + named, "note")] if bullets else []


def _highest_load(name: str, cells: Sequence[Cell]) -> Bullet:
    sound = [cell for cell in cells if cell.sound]
    if not sound:
        return Bullet("no offered load has a usable trial.", name)
    top = sound[-1]
    text = f"{count_text(top.offered_per_s or 0)} records/s is the highest offered load with a usable trial"
    beyond = len(cells) - cells.index(top) - 1
    text += f" ({plural(beyond, 'higher load')} had none)" if beyond else " and the highest that was offered"
    low, high = sound[0].spread(PRODUCE_P99), top.spread(PRODUCE_P99)
    if low and high and len(sound) > 1:
        text += (
            f"; produce p99 goes from {PRODUCE_P99.text(low.median)} at {count_text(sound[0].offered_per_s or 0)}/s"
            f" to {PRODUCE_P99.text(high.median)} there"
        )
    return Bullet(text + ".", name)
