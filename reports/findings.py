"""Findings in words, from the data: the best cell against the baseline."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

from highwater.bench.results import Comparison
from highwater.common.units import count_text, plural, ratio_text, significant
from highwater.reports.blocks import Block, Bullet, Bullets, Heading, Paragraph
from highwater.reports.cells import Cell, Run, paired_ratios
from highwater.reports.measures import ACHIEVED, HEADLINES, PRODUCE_P99, Measure


@dataclass(frozen=True)
class Finding:
    """One line: what is compared, and the result. `shown`: a difference was shown; None = nothing was compared."""

    subject: str
    text: str
    shown: bool | None


@dataclass(frozen=True)
class FindingGroup:
    heading: str
    findings: Sequence[Finding]


_MARKS: Final[dict[bool | None, Literal["plain", "shown", "open"]]] = {True: "shown", False: "open", None: "plain"}


def findings(run: Run) -> list[FindingGroup]:
    """The findings of a run. With several loads, cells are compared at the highest load that at least two carried."""
    if not any(cell.sound for cell in run.cells):
        return []
    groups: list[FindingGroup] = []
    if run.load_axes:
        groups.append(FindingGroup("", [_highest_load(name, cells) for name, cells in run.curves.items()]))
    comparable = [(name, sound) for name, cells in run.levels if len(sound := [c for c in cells if c.sound]) > 1]
    if comparable:
        name, sound = max(comparable, key=lambda level: level[1][0].offered_per_s or 0.0)
        found = [f for measure in HEADLINES if (f := _finding(run, measure, sound)) is not None]
        groups.append(FindingGroup(f"At {name}" if name else "", found))
    elif not run.load_axes:
        groups.append(FindingGroup("", [_alone(next(c for c in run.cells if c.sound), len(run.cells))]))
    return groups


def finding_blocks(run: Run) -> list[Block]:
    """The findings as blocks; empty when no trial is usable."""
    blocks: list[Block] = []
    for group in findings(run):
        if group.heading:
            blocks.append(Heading(group.heading))
        blocks.append(Bullets([Bullet(f.text, f.subject, _MARKS[f.shown]) for f in group.findings]))
    if blocks and (text := caution(run)):
        blocks.append(Paragraph(text, "note"))
    return blocks


def caution(run: Run) -> str:
    """How to read the findings, and how often chance alone would produce them."""
    compared = max((sum(c.sound for c in cells) for _, cells in run.levels), default=0)
    named = [f"Cells are named {run.naming}."] if run.naming else []
    if compared < 2:
        return " ".join(named)
    blocks = max(len({t.summary.block for t in cell.used}) for cell in run.cells)
    parts = [*named, "Ratios pair trials of the same block; their range is over blocks."]
    if blocks > 1:
        picked = f", and more often here, where the best of {compared} cells was picked" if compared > 2 else ""
        chance = count_text(2 ** (blocks - 1))
        parts.append(f"When nothing differs, {blocks} blocks agree by chance 1 time in {chance}{picked}.")
    if not run.baseline.sound and not run.load_axes:
        parts.append(f"“{run.baseline.label}” has no usable trial: the next cell stands in as the baseline.")
    return " ".join(parts)


def _highest_load(name: str, cells: Sequence[Cell]) -> Finding:
    sound = [cell for cell in cells if cell.sound]
    if not sound:
        return Finding(name, "no offered load has a usable trial.", shown=None)
    top = sound[-1]
    text = f"{count_text(top.offered_per_s or 0)} records/s is the highest offered load with a usable trial"
    beyond = len(cells) - cells.index(top) - 1
    text += f" ({plural(beyond, 'higher load')} had none)" if beyond else " and the highest that was offered"
    low, high = sound[0].spread(PRODUCE_P99), top.spread(PRODUCE_P99)
    if low and high and len(sound) > 1:
        text += (
            f"; produce p99 goes from {significant(low.median)} ms at {count_text(sound[0].offered_per_s or 0)}/s"
            f" to {significant(high.median)} ms there"
        )
    return Finding(name, text + ".", shown=None)


def _alone(cell: Cell, of_cells: int) -> Finding:
    parts = []
    for measure in HEADLINES:
        if (spread := cell.spread(measure)) is not None:
            several = spread.low != spread.high
            between = f" ({measure.figure(spread.low)}–{measure.figure(spread.high)})" if several else ""
            parts.append(f"{measure.name} {measure.text(spread.median)}{between}")
    reason = (
        "one cell, so there is nothing to compare it with" if of_cells == 1 else "the only cell with a usable trial"
    )
    text = f"{reason}. Medians of {plural(len(cell.used), 'usable trial')}: {'; '.join(parts)}."
    return Finding(cell.label, text, shown=None)


def _finding(run: Run, measure: Measure, cells: Sequence[Cell]) -> Finding | None:
    measured = [cell for cell in cells if cell.spread(measure) is not None]
    if len(measured) < 2:
        return None
    if measure is ACHIEVED and all(cell.kept_up for cell in measured):
        offered = count_text(measured[0].offered_per_s or 0)
        text = f"every cell kept up with the {offered} records/s offered; how much more each could carry is not known."
        return Finding(measure.name, text, shown=None)
    baseline, *others = measured
    best, nearest = _best(measure, measured), _best(measure, others)
    if best is baseline:
        opening = (
            f"best in the baseline, {_with_value(run, baseline, measure)}; next is {_with_value(run, nearest, measure)}"
        )
        return _compared(run, measure, nearest, baseline, opening)
    word = "highest" if measure.better == "higher" else "lowest"
    opening = f"{word} in {_with_value(run, best, measure)}; the baseline is {_with_value(run, baseline, measure)}"
    return _compared(run, measure, best, baseline, opening)


def _compared(run: Run, measure: Measure, cell: Cell, baseline: Cell, opening: str) -> Finding:
    """Add the ratios of trials of the same block to the two medians of `opening`.

    If the run's own analysis compared the two cells, its verdict is used, so that report and analysis never disagree.
    """
    if (judged := run.comparison(baseline, cell, measure)) is not None:
        return _judged(measure, judged, opening)
    ratios = paired_ratios(cell, baseline, measure)
    if not ratios:
        return Finding(measure.name, f"{opening}. No block holds a usable trial of both: no ratio.", shown=False)
    middle, low, high = (ratio_text(f(ratios)) for f in (statistics.median, min, max))
    if len(ratios) == 1:
        text = f"{opening}: {middle} in the only block. One trial of each has no spread: no difference shown."
        return Finding(measure.name, text, shown=False)
    text = f"{opening}: {middle} ({low.removesuffix('×')}–{high} over {len(ratios)} blocks)"
    if min(ratios) <= 1 <= max(ratios):
        text += f". The ranges overlap: no difference shown by {len(ratios)} trials of each."
        return Finding(measure.name, text, shown=False)
    text += f", {'higher' if min(ratios) > 1 else 'lower'} in every block"
    one, other = cell.spread(measure), baseline.spread(measure)
    apart = one is not None and other is not None and one.apart(other)
    return Finding(
        measure.name, text + ("." if apart else ", though across blocks the two ranges overlap."), shown=True
    )


def _judged(measure: Measure, comparison: Comparison, opening: str) -> Finding:
    text = f"{opening}: {ratio_text(comparison.ratio)} over {plural(comparison.n_pairs, 'block')}"
    if comparison.ci95:
        low, high = map(ratio_text, comparison.ci95)
        text += f", 95 % interval {low.removesuffix('×')}–{high}"
    shown = comparison.verdict in ("better", "worse", "differs")
    if shown:
        return Finding(measure.name, f"{text}: {comparison.verdict}.", shown=True)
    reason = "no difference shown" if comparison.verdict == "no_change" else "undecided: too few blocks to tell"
    return Finding(measure.name, f"{text}: {reason}.", shown=False)


def _best(measure: Measure, cells: Sequence[Cell]) -> Cell:
    def rank(cell: Cell) -> float:
        found = cell.spread(measure)
        assert found is not None
        return -found.median if measure.better == "higher" else found.median

    return min(cells, key=rank)


def _with_value(run: Run, cell: Cell, measure: Measure) -> str:
    found = cell.spread(measure)
    assert found is not None
    return f"“{run.common_label(cell)}” with {measure.text(found.median)}"
