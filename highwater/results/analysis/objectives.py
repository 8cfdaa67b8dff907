"""The statements of a run's objectives and aims: met or missed, by which cells, in which trials. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from highwater.common.units import plural, ratio_text
from highwater.results.analysis.aims import AimOutcome
from highwater.results.analysis.statement import Statement, StatementState
from highwater.results.bounds import bound_text
from highwater.results.metrics import METRICS, title_of, value_text
from highwater.results.models import SloResult, TrialSummary

_MOST_NAMED = 3


def objective_statements(trials: Mapping[str, Sequence[TrialSummary]], labels: Mapping[str, str]) -> list[Statement]:
    """Missed objectives first, one statement each. trials: the usable ones of each cell."""
    results: dict[tuple[str, str], dict[str, list[SloResult]]] = {}
    for cell, summaries in trials.items():
        for summary in summaries:
            for result in summary.slo:
                results.setdefault((result.metric, result.bound), {}).setdefault(cell, []).append(result)
    missed = {
        objective: cells
        for objective, by_cell in results.items()
        if (cells := {cell: found for cell, found in by_cell.items() if not all(result.met for result in found)})
    }
    statements = [
        Statement(
            _missed(objective, cells, len(results[objective]), labels),
            "objective",
            "bad",
            f"{_objective(*objective)} is missed{_by(cells, labels)}",
        )
        for objective, cells in missed.items()
    ]
    if met := [_objective(*objective) for objective in results if objective not in missed]:
        noun = "Objectives" if len(met) > 1 else "Objective"
        short = f"{'all objectives are' if len(met) > 1 else 'the objective is'} met" if not missed else ""
        statements.append(Statement(f"{noun} met in every trial: {', '.join(met)}.", "objective", "good", short))
    return statements


def _by(cells: Iterable[str], labels: Mapping[str, str]) -> str:
    named = [f"“{labels[cell]}”" for cell in cells] if len(labels) > 1 else []
    return f" by {' and '.join(named) if len(named) < _MOST_NAMED else f'{len(named)} cells'}" if named else ""


def _missed(
    objective: tuple[str, str], cells: Mapping[str, Sequence[SloResult]], of_cells: int, labels: Mapping[str, str]
) -> str:
    parts = [
        f"{f'by “{labels[cell]}” ' if len(labels) > 1 else ''}in {sum(not result.met for result in found)} of "
        f"{plural(len(found), 'trial')} ({_worst(found)})"
        for cell, found in list(cells.items())[:_MOST_NAMED]
    ]
    if more := len(cells) - len(parts):
        parts.append(f"by {plural(more, 'more cell')}")
    met = of_cells - len(cells)
    rest = f"; met by {plural(met, 'other cell')}" if met else ""
    return f"Objective missed: {_objective(*objective)}, {', '.join(parts)}{rest}."


def _worst(results: Sequence[SloResult]) -> str:
    values = [result.value for result in results if result.value is not None and not result.met]
    if not values:
        return "without a figure"
    worst = min(values) if results[0].bound.startswith(">") else max(values)
    known = METRICS.get(results[0].metric)
    return f"worst {value_text(worst, known.unit if known else '')}"


def _objective(metric: str, bound: str) -> str:
    return f"{title_of(metric)} {bound_text(bound)}"


def aim_statements(outcomes: Sequence[AimOutcome], labels: Mapping[str, str]) -> list[Statement]:
    """Aims that are not reached first, one statement each; many aims are counted before."""
    found = sorted(outcomes, key=lambda outcome: (outcome.state == "reached", outcome.state == "not measured"))
    statements = [
        Statement(_aim_text(outcome, labels), "aim", _aim_state(outcome), _aim_short(outcome, labels))
        for outcome in found
    ]
    if len(statements) <= _MOST_NAMED:
        return statements
    reached = sum(outcome.state == "reached" for outcome in found)
    counted = Statement(
        f"{reached} of {len(found)} aims are reached.", "aim", "good" if reached == len(found) else "bad"
    )
    return [counted, *(statement for statement in statements if statement.state != "good")]


def _aim_state(outcome: AimOutcome) -> StatementState:
    if not outcome.decided:
        return "open"
    return "good" if outcome.state == "reached" else "bad"


def _aim_short(outcome: AimOutcome, labels: Mapping[str, str]) -> str:
    sure = "" if outcome.decided or outcome.measured is None else ", but not decided"
    word = {"reached": "reached", "short": "missed"}.get(outcome.state, outcome.state)
    return f"Aim {word}{sure}: {title_of(outcome.metric)} of “{labels[outcome.cell]}” beside “{labels[outcome.beside]}”"


def _aim_text(outcome: AimOutcome, labels: Mapping[str, str]) -> str:
    what = f"{title_of(outcome.metric)} of “{labels[outcome.cell]}” beside “{labels[outcome.beside]}”"
    aimed = f"{bound_text(outcome.bound)} is aimed at"
    if outcome.measured is None:
        return f"Aim not measured: {what}; {aimed}."
    ratio = outcome.measured.ratio
    word = "reached" if outcome.state == "reached" else "missed"
    if ratio.interval is None:
        return f"Aim {word}, without an interval: {what} is {ratio_text(ratio.ratio)}; {aimed}."
    low, high = map(ratio_text, ratio.interval)
    sure = "" if outcome.decided else ", but not decided"
    interval = f"95 % interval {low.removesuffix('×')} to {high}"
    return f"Aim {word}{sure}: {what} is {ratio_text(ratio.ratio)} ({interval}); {aimed}."
