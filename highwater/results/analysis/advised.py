"""The first screen of an advice: its decision in one sentence, and the picture of what would change. Pure."""

from __future__ import annotations

from typing import Final

from highwater.common.units import change_text, plural
from highwater.results.advice import Advice, AdvisedFigure, AdvisedOption, own_name
from highwater.results.analysis.evidence import Evidence
from highwater.results.analysis.gathering import ChangeRow, change_evidence
from highwater.results.analysis.statement import joined
from highwater.results.metrics import METRICS, value_text

# More names than these are a list, and the table has it.
_MOST_NAMED: Final = 3
_CHANGED: Final = ("worse", "better", "differs")


def advice_headline(advice: Advice) -> str:
    """The decision in a sentence with at most three figures; values of settings are in quotes, as they are names."""
    better = [option for option in advice.options if option.better]
    if not better:
        # What follows is about a candidate that is not advised.
        first, found, _ = advice.sentence.partition(". ")
        return f"{first}." if found else first
    if len(better) > 1:
        return f"Choose between {len(better)} sets of settings, of which none is better in both aims."
    (option,) = better
    in_doubt = any(bound.state != "kept" for bound in option.bounds)
    clauses = [
        _act(option),
        _gain(option),
        *(["in doubt: a bound is not surely kept"] if in_doubt else []),
        *(["some figures get worse"] if any(_is_worse(figure) for figure in option.figures) else []),
    ]
    return joined(clauses)


def advice_evidence(advice: Advice) -> Evidence | None:
    """What changes with the first set of settings: the aims first, then what gets worse, then what gets better."""
    option = next((option for option in advice.options if option.better), next(iter(advice.options), None))
    if option is None:
        return None
    figures = sorted(option.figures, key=lambda figure: (not figure.is_aim, not _is_worse(figure)))
    known = [(figure, figure.against_in_use) for figure in figures if figure.against_in_use is not None]
    rows = [
        ChangeRow(METRICS[figure.metric].title or figure.metric, change.ratio, change.ci95, change.verdict)
        for figure, change in known
        if figure.is_aim or change.verdict in _CHANGED
    ]
    return change_evidence(f"{option.title.capitalize()} against the settings in use", rows, len(known) - len(rows))


def _act(option: AdvisedOption) -> str:
    changed = [item for item in option.settings if item.in_use != item.advised]
    if changed and all(item.advised == "default" for item in changed):
        return "Go back to the defaults"
    if not changed or len(changed) > _MOST_NAMED:
        return f"Set {plural(len(changed), 'setting')}"
    *others, last = (f"“{own_name(item.key)} {item.advised}”" for item in changed)
    return f"Set {', '.join(others)} and {last}" if others else f"Set {last}"


def _gain(option: AdvisedOption) -> str:
    aim = next((figure for figure in option.figures if figure.is_aim), None)
    if option.carries or aim is None or aim.against_in_use is None:
        return "its trials are usable, and those of the settings in use are not" if option.carries else "it is better"
    title, change = METRICS[aim.metric].title or aim.metric, change_text(aim.against_in_use.ratio)
    if aim.in_use is None:
        return f"{title} {change}"
    before, after = (value_text(side.value, aim.unit) for side in (aim.in_use, aim.advised))
    return f"{title} from {before} to {after} ({change})"


def _is_worse(figure: AdvisedFigure) -> bool:
    return figure.against_in_use is not None and figure.against_in_use.verdict == "worse"
