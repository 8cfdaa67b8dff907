"""Gathers the evidence of an answer: trials, medians and intervals, in the order of the answer. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import Final

from highwater.common.units import (
    BINARY_BYTES,
    NANOSECONDS,
    change_span_text,
    change_text,
    plural,
    rate_text,
    unit_for,
)
from highwater.results.analysis.aims import AimOutcome, outcomes
from highwater.results.analysis.best import Best, Figures, better_by
from highwater.results.analysis.compare import ONLY_CELL, Trials
from highwater.results.analysis.conclusions import estimate
from highwater.results.analysis.delivered import broken_in
from highwater.results.analysis.evidence import Dot, Evidence, EvidenceRow, Fate, Limit, RowState
from highwater.results.analysis.statement import Statement
from highwater.results.analysis_file import ComparisonVerdict, Search
from highwater.results.bounds import bound_text, parse_bound
from highwater.results.gate import Gate, MetricComparison
from highwater.results.metrics import METRICS, MetricDefinition, title_of, value_text
from highwater.results.models import TrialSummary
from highwater.results.reader import RunResult

_MOST_ROWS: Final = 10
_TWICE: Final = 2
_VERDICTS: Final[Mapping[str, tuple[RowState, str]]] = {
    "worse": ("bad", "worse"),
    "better": ("best", "better"),
    "differs": ("plain", "differs"),
    "undecided": ("open", "not decided"),
    "not_worse": ("plain", "not worse"),
    "no_change": ("plain", "no change shown"),
}
_FATES: Final[Mapping[str, Fate]] = {"valid": "usable", "inconclusive": "disturbed", "invalid": "invalid"}
_SIDES: Final = ("base", "head")


def evidence_of(result: RunResult, figures: Figures, bests: Sequence[Best]) -> Evidence | None:
    """The evidence of the first statement about figures; None where no trial has one.

    Raises ResultDirectoryError when search.json or gate.json is damaged.
    """
    if (gate := result.gate()) is not None:
        return gate_evidence(gate, [trial.summary for trials in result.cells().values() for trial in trials])
    if (search := result.search()) is not None:
        return _search_evidence(search)
    aims = outcomes(result)
    unranked = Best(
        Statement("", "best", "plain"), list(figures.trials), metric=aims[0].metric if aims else "produce.p99"
    )
    return _cell_evidence(result, figures, bests[0] if bests else unranked, aims)


def _cell_evidence(
    result: RunResult, figures: Figures, best: Best, outcomes_of_aims: Sequence[AimOutcome]
) -> Evidence | None:
    definition = METRICS[best.metric]
    trials = {cell: [trial.summary for trial in found] for cell, found in result.cells().items()}
    everything = [trial.summary for trial in result.trials]
    lost = {cell: text for cell in trials if (text := broken_in(one for one in everything if one.cell == cell))}
    cells = list(dict.fromkeys([*best.cells, *(figures.cells_at(best.level) or best.cells), *lost]))
    shown = [*(cell for cell in cells if cell in lost), *(cell for cell in cells if cell not in lost)][:_MOST_ROWS]
    shown.sort(key=cells.index)
    unit, size = _unit(definition, [value for cell in shown for value in _values(definition, trials[cell])])
    aims: dict[str, list[float]] = {}
    for outcome in outcomes_of_aims:
        if outcome.metric == best.metric and outcome.measured is not None:
            aims.setdefault(outcome.cell, []).append(outcome.bound.value * outcome.measured.beside_value / size)
    seed = result.manifest.seed
    rows = [
        _row(figures, best, cell, trials[cell], lost.get(cell, ""), size, aims.get(cell, []), seed) for cell in shown
    ]
    if not any(row.dots for row in rows):
        return None
    limits = list(
        dict.fromkeys(
            Limit(
                f"objective {bound_text(found.bound)}",
                parse_bound(found.bound).for_unit(definition.unit).value / size,
            )
            for cell in shown
            for summary in trials[cell]
            for found in summary.slo
            if found.metric == best.metric
        )
    )
    at = f" at {best.level}" if best.level else ""
    title = f"{definition.title or definition.name}{at}"
    title += "" if definition.better == "none" else f", {definition.better} is better"
    drawn = Evidence(title, unit, rows, (), len(cells) - len(shown), overlap=_overlap(rows))
    reach = max(drawn.values) - min(drawn.values)
    near = [one for one in limits if min(drawn.values) - reach <= one.value <= max(drawn.values) + reach]
    return replace(drawn, limits=near, beyond=[one.name for one in limits if one not in near])


def _overlap(rows: Sequence[EvidenceRow]) -> tuple[float, float] | None:
    is_open = [row for row in rows if row.state == "open"]
    ends = [end for row in is_open for end in row.interval or [dot.value for dot in row.dots if dot.fate != "invalid"]]
    return (min(ends), max(ends)) if ends else None


def _row(
    figures: Figures,
    best: Best,
    cell: str,
    trials: Sequence[TrialSummary],
    lost: str,
    size: float,
    aims: Sequence[float],
    seed: int,
) -> EvidenceRow:
    definition = METRICS[best.metric]
    usable = figures.of(cell, best.metric) if cell in figures.values else []
    found = estimate(definition, usable, seed) if usable else None
    note, state = _conclusion(best, cell, bool(usable))
    return EvidenceRow(
        figures.labels_at_a_load[cell] if best.level and cell in best.cells else figures.labels[cell],
        [
            Dot(value / size, _fate(trial), f"trial {trial.trial}: {value_text(value, definition.unit)}")
            for trial in trials
            if (value := definition.read(trial)) is not None
        ],
        found.value / size if found else None,
        (found.ci95[0] / size, found.ci95[1] / size) if found and found.ci95 else None,
        value_text(found.value, definition.unit) if found else "",
        "; ".join(filter(None, (lost, note))),
        "bad" if lost else state,
        aims,
    )


def _conclusion(best: Best, cell: str, has_usable: bool) -> tuple[str, RowState]:
    if not has_usable:
        return "no usable trial", "plain"
    if cell in best.open_cells:
        return "not decided", "open"
    if best.open_cells:
        return ("not the best" if cell in best.changes else ""), "plain"
    if cell in best.changes:
        return f"best is {better_by(best.changes[cell]).partition(' (')[0]}", "plain"
    return ("best", "best") if best.changes and cell == best.cells[0] else ("", "plain")


def _fate(trial: TrialSummary) -> Fate:
    if broken_in([trial]):
        return "lost"
    return _FATES[trial.verdict.state]


def _values(definition: MetricDefinition, trials: Iterable[TrialSummary]) -> list[float]:
    return [value for trial in trials if (value := definition.read(trial)) is not None]


def _unit(definition: MetricDefinition, values: Sequence[float]) -> tuple[str, float]:
    """The unit that all of `values` are shown in, and its size."""
    middle = median(values) if values else 0.0
    match definition.unit:
        case "ns":
            return unit_for(middle, NANOSECONDS)
        case "bytes" | "bytes_per_s":
            unit, size = unit_for(middle, BINARY_BYTES)
            return unit + ("/s" if definition.unit == "bytes_per_s" else ""), size
        case "ratio":
            return "%", 0.01
    return {"per_s": "per second", "s_per_gib": "s/GiB"}.get(definition.unit, definition.unit), 1.0


def _search_evidence(search: Search) -> Evidence | None:
    kinds: Sequence[tuple[str, Fate, bool]] = (("passed", "usable", True), ("failed", "failed", False))
    rows = [
        EvidenceRow(label, [Dot(probe.rate_per_s, fate, probe.stage) for probe in probes], None, None, *texts)
        for label, fate, is_passed in kinds
        if (probes := [probe for probe in search.probes if probe.passed == is_passed])
        and (texts := (plural(len(probes), "trial"), ""))
    ]
    low = search.last_passing_per_s
    limits = [Limit(f"sustained {rate_text(low)}", low)] if low is not None else []
    return Evidence("Rates that were tried", "records/s", rows, limits) if rows else None


@dataclass(frozen=True, slots=True)
class ChangeRow:
    """A change of one metric; dots: trials as ratios to the value that they are compared with."""

    label: str
    ratio: float
    ci95: tuple[float, float] | None
    verdict: ComparisonVerdict
    dots: Sequence[Dot] = ()


def comparison_evidence(metrics: Sequence[MetricComparison], sides: Sequence[Trials]) -> Evidence | None:
    """Changes of head against base, the worse ones first; trials as ratios to base's median, where there are some."""
    order = list(_VERDICTS)
    known = sorted((item for item in metrics if item.ratio is not None), key=lambda item: order.index(item.verdict))
    by_cell = {trials.cell: trials for trials in sides}
    several = len({item.cell for item in known}) > 1
    rows = [
        ChangeRow(
            f"{title_of(item.metric)} · {item.cell}" if several else title_of(item.metric),
            item.ratio or 1.0,
            item.ci95,
            item.verdict,
            list(_ratios(item, by_cell.get(item.cell))),
        )
        for item in known
    ]
    return change_evidence("Head against base", rows)


def change_evidence(title: str, changes: Sequence[ChangeRow], left_out: int = 0) -> Evidence | None:
    """Changes on one axis, as many as fit a first screen, in their order; None without one.

    left_out: how many more there are.
    """
    shown = changes[:_MOST_ROWS]
    if not shown:
        return None
    ends = [value for change in shown for value in (change.ratio, *(change.ci95 or ()))]
    as_ratio = max([*ends, *(dot.value for change in shown for dot in change.dots)]) > _TWICE

    def at(ratio: float) -> float:
        return ratio if as_ratio else 100 * (ratio - 1)

    rows = [
        EvidenceRow(
            change.label,
            [replace(dot, value=at(dot.value)) for dot in change.dots],
            at(change.ratio),
            (at(change.ci95[0]), at(change.ci95[1])) if change.ci95 else None,
            *_said(change),
            _VERDICTS[change.verdict][0],
        )
        for change in shown
    ]
    return Evidence(
        title + (", as a ratio" if as_ratio else ""),
        "×" if as_ratio else "%",
        rows,
        [Limit("no change", at(1.0))],
        left_out + len(changes) - len(shown),
        is_change=True,
        centre_words="change, centre of the trials",
    )


def _said(change: ChangeRow) -> tuple[str, str]:
    """The change in figures, and what is concluded. Where none is shown, its interval says how large one may be."""
    conclusion = _VERDICTS[change.verdict][1]
    if change.verdict == "no_change" and change.ci95 is not None:
        return "", f"{conclusion} ({change_span_text(*change.ci95)})"
    return change_text(change.ratio), conclusion


def _ratios(item: MetricComparison, trials: Trials | None) -> Iterator[Dot]:
    definition = METRICS.get(item.metric)
    if definition is None or trials is None or not item.base.value:
        return
    for side, summaries in zip(_SIDES, (trials.base, trials.head), strict=True):
        for summary in summaries:
            if (value := definition.read(summary)) is not None:
                fate: Fate = "base" if side == "base" else _fate(summary)
                name = f"{side}, trial {summary.trial}: {value_text(value, item.unit)}"
                yield Dot(value / item.base.value, fate, name)


def gate_evidence(gate: Gate, summaries: Iterable[TrialSummary]) -> Evidence | None:
    """What decides of the first round. summaries: its trials; none if they were recorded elsewhere."""
    metrics = gate.rounds[0].metrics if gate.rounds else []
    return comparison_evidence([item for item in metrics if item.gated] or metrics, _variants(summaries))


def _variants(summaries: Iterable[TrialSummary]) -> list[Trials]:
    """The usable trials of a gate's two variants, by the workload's own cells."""
    found: dict[str, Trials] = {}
    for trial in summaries:
        side = trial.factors.get("variant")
        cell = ",".join(f"{name}={value}" for name, value in trial.factors.items() if name != "variant") or ONLY_CELL
        trials = found.setdefault(cell, Trials(cell, [], [], paired=True))
        if trial.verdict.state != "invalid" and side in _SIDES:
            (trials.base if side == "base" else trials.head).append(trial)
    return list(found.values())
