"""What the analysis of a run says of its cells: each against the first with its interval, and the noise floor."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal

from bench.results import Better, MetricComparison
from bench.results.analysis import Comparison, ComparisonVerdict
from reports.blocks import Block, Column, Field, Paragraph, Row, Table
from reports.cells import Run
from reports.measures import HEADLINES, TABLE, metric_name, metric_text
from reports.quantity import NONE, change_text, significant

_WORDS: Final[dict[ComparisonVerdict, str]] = {
    "better": "better",
    "worse": "worse",
    "differs": "differs",
    "no_change": "no change shown",
    "undecided": "undecided",
}
_SHOWN: Final = tuple(dict.fromkeys([*(m.key for m in HEADLINES), *(m.key for m in TABLE)]))


def change_blocks(run: Run) -> list[Block]:
    """Empty where there is nothing to compare, or no analysis."""
    comparisons = run.analysis.comparisons if run.analysis else []
    found = {(c.head, c.metric): c for c in comparisons}
    metrics = [m for m in _SHOWN if any(metric == m for _, metric in found)]
    heads = [cell for cell in run.cells if any(head == cell.key for head, _ in found)]
    if not metrics or not heads:
        return []
    base = next(iter(found.values())).base
    columns = [Column("cell", text=True), *(_metric_column(m, found[_first(found, m)].better) for m in metrics)]
    rows = [Row([Field(cell.label), *(_change(found.get((cell.key, metric))) for metric in metrics)]) for cell in heads]
    note = (
        f"Median over blocks of the ratio to “{run.label(base)}”, with its 95 % interval. ▲ better and ▼ worse: the "
        "whole interval lies beyond what trials of the same thing differ by. “No change shown” names what could have "
        "been seen; “undecided” means that these trials do not tell."
    )
    return [Table(columns, rows, label="Each cell against the first", note=note)]


def _first(found: dict[tuple[str, str], Comparison], metric: str) -> tuple[str, str]:
    return next(key for key in found if key[1] == metric)


def _metric_column(metric: str, better: Better) -> Column:
    return Column(metric_name(metric), {"higher": "higher is better", "lower": "lower is better", "none": ""}[better])


def _change(comparison: Comparison | None) -> Field:
    return Field(NONE) if comparison is None else change_field(comparison)


def change_field(comparison: Comparison | MetricComparison) -> Field:
    """The change with its interval; what it amounts to is the mark before it."""
    if comparison.ratio is None:
        return Field(NONE, small=_WORDS[comparison.verdict])
    interval = f"[{', '.join(change_text(v) for v in comparison.ci95)}]" if comparison.ci95 else "no interval"
    marks = {"better": "▲ ", "worse": "▼ "}
    looks: dict[str, Literal["best", "bad"]] = {"better": "best", "worse": "bad"}
    small = interval
    if comparison.verdict not in ("better", "worse"):
        small += f"; {_WORDS[comparison.verdict]}"
        if comparison.smallest_detectable_ratio is not None:
            small += f", smallest detectable {significant(100 * comparison.smallest_detectable_ratio, 2)} %"
    text = marks.get(comparison.verdict, "") + change_text(comparison.ratio)
    return Field(text, small, comparison.ratio, look=looks.get(comparison.verdict, ""))


def comparison_table(comparisons: Sequence[MetricComparison], with_cell: bool) -> Table:
    """Two sides beside each other, one row for each metric of each cell."""
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
                *([Field(c.cell)] if with_cell else []),
                Field(metric_name(c.metric), small="decides" if c.gated else ""),
                _side(c.metric, c.base.value, c.base.ci95, c.unit),
                _side(c.metric, c.head.value, c.head.ci95, c.unit),
                _plain_change(c),
                Field(_percent(c.delta_ratio)),
                Field(_percent(c.smallest_detectable_ratio)),
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
    small = f"[{metric_text(metric, ci95[0], unit)}, {metric_text(metric, ci95[1], unit)}]" if ci95 else ""
    return Field(metric_text(metric, value, unit), small, value)


def _plain_change(comparison: MetricComparison) -> Field:
    if comparison.ratio is None:
        return Field(NONE)
    small = f"[{', '.join(change_text(v) for v in comparison.ci95)}]" if comparison.ci95 else ""
    return Field(change_text(comparison.ratio), small, comparison.ratio)


def _percent(ratio: float | None) -> str:
    return NONE if ratio is None else f"{significant(100 * ratio, 2)} %"


def noise_blocks(run: Run) -> list[Block]:
    """How much trials of the very same thing differ, and which change could have been seen."""
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
                Field(metric_name(n.metric)),
                Field(str(n.n_pairs)),
                Field(_percent(n.bound95_ratio)),
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
        "Without a bound there were too few pairs to name one."
    )
    return [Paragraph(text), Table(columns, rows, label="Noise floor")]


def _range(ratios: Sequence[float]) -> str:
    if not ratios:
        return NONE
    low, high = _percent(min(ratios)), _percent(max(ratios))
    return low if low == high else f"{low} to {high}"
