"""Changes between cells: each against the first with its interval, and the noise floor."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, Literal

from highwater.common.units import NONE, change_size_text, change_text
from highwater.drawing.quantity import interval_text
from highwater.reports.blocks import Block, Column, Field, Paragraph, Row, Table
from highwater.reports.cells import Run
from highwater.reports.measures import E2E_P999, HEADLINES, PRODUCE_P999, metric_text
from highwater.results.analysis_file import Better, Comparison, ComparisonVerdict
from highwater.results.gate import MetricComparison
from highwater.results.metrics import title_of

_WORDS: Final[dict[ComparisonVerdict, str]] = {
    "better": "better",
    "worse": "worse",
    "differs": "differs",
    "no_change": "no change shown",
    "not_worse": "not worse",
    "undecided": "undecided",
}
_SHOWN: Final = tuple(measure.key for measure in (*HEADLINES, PRODUCE_P999, E2E_P999))


def change_blocks(run: Run) -> list[Block]:
    """The table of changes; empty when there is nothing to compare, or no analysis."""
    found = {(c.head, c.metric): c for c in _comparable(run)}
    metrics = [m for m in _SHOWN if any(metric == m for _, metric in found)]
    heads = [cell for cell in run.cells if any(head == cell.key for head, _ in found)]
    if not metrics or not heads:
        return []
    bases = dict.fromkeys(c.base for c in found.values())
    columns = [Column("cell", text=True), *(_metric_column(m, found[_first(found, m)].better) for m in metrics)]
    rows = [
        Row(
            [
                Field(cell.label, small=f"against {run.label(_base_of(found, cell.key))}" if len(bases) > 1 else ""),
                *(_change(found.get((cell.key, metric))) for metric in metrics),
            ]
        )
        for cell in heads
    ]
    against = f"“{run.label(next(iter(bases)))}”" if len(bases) == 1 else "the cell named beneath"
    note = (
        f"Change from {against} in trials of the same block, with its 95 % interval: not the ratio of the medians. "
        "▲ better and ▼ worse: the whole "
        "interval lies beyond what trials of the same thing differ by, and the blocks are enough for so many "
        "comparisons. “Undecided”: one of the two does not hold. “No change shown” names the change that could have "
        "been seen."
    )
    return [Table(columns, rows, label="Each cell against the first", note=note, wide=True)]


def _comparable(run: Run) -> list[Comparison]:
    """The comparisons between cells under the same load: cells under different loads differ anyway."""
    level = {cell.key: name for name, cells in run.levels for cell in cells}
    comparisons = run.analysis.comparisons if run.analysis else []
    return [c for c in comparisons if level.get(c.base) == level.get(c.head)]


def _base_of(found: dict[tuple[str, str], Comparison], head: str) -> str:
    return next(c.base for (cell, _), c in found.items() if cell == head)


def _first(found: dict[tuple[str, str], Comparison], metric: str) -> tuple[str, str]:
    return next(key for key in found if key[1] == metric)


def _metric_column(metric: str, better: Better) -> Column:
    return Column(title_of(metric), {"higher": "higher is better", "lower": "lower is better", "none": ""}[better])


def _change(comparison: Comparison | None) -> Field:
    return Field(NONE) if comparison is None else change_field(comparison)


def change_field(comparison: Comparison | MetricComparison) -> Field:
    """The change with its interval, after a mark for its verdict."""
    if comparison.ratio is None:
        return Field(NONE, small=_WORDS[comparison.verdict])
    interval = f"[{', '.join(change_text(v) for v in comparison.ci95)}]" if comparison.ci95 else "no interval"
    looks: dict[str, Literal["best", "bad"]] = {"better": "best", "worse": "bad"}
    small = interval
    if comparison.verdict not in ("better", "worse"):
        small += f"\n{_WORDS[comparison.verdict]}"
        if comparison.smallest_detectable_ratio is not None:
            small += f"\ndetectable: {_size(comparison.smallest_detectable_ratio)}"
    text = ("▼ " if comparison.verdict == "worse" else "") + change_text(comparison.ratio)
    return Field(text, small, comparison.ratio, look=looks.get(comparison.verdict, ""))


def comparison_table(
    comparisons: Sequence[MetricComparison], with_cell: bool, label: Callable[[str], str] = str
) -> Table:
    """Two sides next to each other, one row for each metric of each cell; `label` returns a cell's name."""
    columns = [
        *([Column("cell", text=True)] if with_cell else []),
        Column("metric", text=True),
        Column("base", "median"),
        Column("head", "median"),
        Column("change", "head ÷ base − 1"),
        Column("limit", "floor or noise"),
        Column("smallest detectable", "change"),
        Column("trials", "base, head"),
        Column("verdict", text=True),
    ]
    rows = [
        Row(
            [
                *([Field(label(c.cell))] if with_cell else []),
                Field(title_of(c.metric), small="decides" if c.gated else ""),
                _side(c.metric, c.base.value, c.base.ci95, c.unit),
                _side(c.metric, c.head.value, c.head.ci95, c.unit),
                _plain_change(c),
                Field(_size(c.delta_ratio)),
                Field(_size(c.smallest_detectable_ratio)),
                Field(f"{c.base.n_trials}, {c.head.n_trials}"),
                Field(_WORDS[c.verdict], tone=_tone(c.verdict)),
            ]
        )
        for c in comparisons
    ]
    return Table(columns, rows, label="Base and head by metric", sortable=True)


def _tone(verdict: ComparisonVerdict) -> Literal["", "good", "bad", "none"]:
    tones: dict[ComparisonVerdict, Literal["good", "bad"]] = {"better": "good", "worse": "bad"}
    return tones.get(verdict, "none")


def _side(metric: str, value: float, ci95: tuple[float, float] | None, unit: str) -> Field:
    text = metric_text(metric, value, unit)
    ends = [metric_text(metric, end, unit) for end in ci95 or ()]
    return Field(text, interval_text(text, *ends) if ci95 else "", value)


def _plain_change(comparison: MetricComparison) -> Field:
    if comparison.ratio is None:
        return Field(NONE)
    small = f"[{', '.join(change_text(v) for v in comparison.ci95)}]" if comparison.ci95 else ""
    return Field(change_text(comparison.ratio), small, comparison.ratio)


def _size(ratio: float | None) -> str:
    return NONE if ratio is None else change_size_text(ratio)


def noise_blocks(run: Run) -> list[Block]:
    """How much trials of the same cell differ (noise), and the smallest change that the run could detect."""
    noise = run.analysis.noise if run.analysis else []
    if not noise:
        return []
    smallest: dict[str, list[float]] = {}
    for c in run.analysis.comparisons if run.analysis else []:
        if c.smallest_detectable_ratio is not None:
            smallest.setdefault(c.metric, []).append(c.smallest_detectable_ratio)
    rows = [
        Row(
            [
                Field(title_of(n.metric)),
                Field(str(n.n_pairs)),
                Field(_size(n.bound95_ratio)),
                Field(", ".join(change_text(r) for r in n.ratios)),
                Field(_range(smallest.get(n.metric, []))),
            ]
        )
        for n in noise
        if n.metric in _SHOWN
    ]
    columns = [
        Column("metric", text=True),
        Column("A/A pairs"),
        Column("95 % bound", hint="95 % of pairs of the same thing differ by at most this"),
        Column("each pair", text=True, prose=True),
        Column("smallest detectable change", "over the comparisons"),
    ]
    text = (
        "In each block one trial was run twice. What such twins differ by is noise: no smaller change is called one. "
        "A comparison goes by the twins of its two cells, by those of all cells when these are fewer than three pairs. "
        "Without a bound there were too few pairs to name one."
    )
    return [Paragraph(text), Table(columns, rows, label="Noise floor")]


def _range(ratios: Sequence[float]) -> str:
    if not ratios:
        return NONE
    low, high = _size(min(ratios)), _size(max(ratios))
    return low if low == high else f"{low} to {high}"
