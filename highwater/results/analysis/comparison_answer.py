"""The answer of a comparison in one sentence, and which metrics it is about; pure.

A sentence never says more than its intervals: "no difference shown" comes with the change that would have been seen,
and too few trials are "not decided".
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

from highwater.common.units import change_size_text, change_span_text, change_text, plural
from highwater.results.analysis.conclusions import HEADLINES, HEADLINES_AT_ONCE
from highwater.results.analysis.statistics import LEAST_FOR_INTERVAL
from highwater.results.gate import MetricComparison
from highwater.results.metrics import COUNTS_OF_FATES, METRICS, title_within, value_text

SIX_HEADLINES: Final = (*HEADLINES, *HEADLINES_AT_ONCE)
# A sentence with more changes than these is a list; the table has them all.
_MOST_CHANGES: Final = 3
# From this ratio of the largest to the smallest detectable change, both are named.
_WIDE: Final = 2.0
_CHANGED: Final = ("worse", "better", "differs")


def asked_metrics(workload: Mapping[str, Any], *, at_once: bool) -> list[str]:
    """The metrics of a workload's question (`answer.best`), else the headline ones; then those of its objectives.

    at_once: its trials shared a processor, so that CPU time alone can be compared.
    """
    best = _mapping(workload.get("answer")).get("best") or ()
    question = [best] if isinstance(best, str) else list(best)
    headlines = HEADLINES_AT_ONCE if at_once else SIX_HEADLINES
    return [
        name for name in dict.fromkeys([*(question or headlines), *_mapping(workload.get("slo"))]) if name in METRICS
    ]


def is_zero_on_both(item: MetricComparison) -> bool:
    """Whether every trial of both sides has 0."""
    return all(side.value == 0 and not side.most for side in (item.base, item.head))


def shown_first(items: Sequence[MetricComparison], requested: Sequence[str]) -> list[MetricComparison]:
    """The requested metrics in their order, and records that did not arrive exactly once."""
    by_name = {item.metric: item for item in items if not is_zero_on_both(item)}
    fates = [name for name in by_name if name.startswith(COUNTS_OF_FATES)]
    return [by_name[name] for name in dict.fromkeys([*requested, *fates]) if name in by_name]


def sentence(items: Sequence[MetricComparison]) -> str:
    """The answer of one cell, from the metrics that it is about."""
    items = [item for item in items if not is_zero_on_both(item)]
    changed = [item for item in items if item.verdict in _CHANGED]
    open_ = [item for item in items if item.verdict == "undecided"]
    same = [item for item in items if item.verdict in ("no_change", "not_worse")]
    parts = [_changed(item) for item in changed[:_MOST_CHANGES]]
    if more := len(changed) - len(parts):
        parts.append(f"{plural(more, 'metric')} more changed")
    if same:
        parts.append(_unchanged(same, len(items)))
    if open_:
        parts.append(_not_decided(open_, len(items)))
    return "; ".join(parts) or "nothing to compare"


def headline(items: Sequence[MetricComparison]) -> str:
    """The largest difference of these metrics, worse ones first, and in words what is left: three figures at most."""
    items = [item for item in items if not is_zero_on_both(item)]
    changed = sorted((item for item in items if item.verdict in _CHANGED), key=_by_importance)
    if changed:
        metric = changed[0].metric
        text = _changed(changed[0]).replace("95 % interval ", "").replace(metric, title_within(metric))
        text += f" in {changed[0].cell}" if len({item.cell for item in items}) > 1 else ""
        text += "; other metrics changed, too" if len(changed) > 1 else ""
    elif same := [item for item in items if item.verdict in ("no_change", "not_worse")]:
        text = _unchanged(same, len(items), is_short=True)
    else:
        text = _not_decided(items, len(items)) if items else "nothing to compare"
    return text


def _by_importance(item: MetricComparison) -> tuple[int, float]:
    return _CHANGED.index(item.verdict), -abs(math.log(item.ratio or 1.0))


def sentence_of_cells(items_by_cell: Mapping[str, Sequence[MetricComparison]]) -> str:
    """The answer of several cells: those with a difference; of one cell, its own sentence."""
    if len(items_by_cell) == 1:
        return sentence(next(iter(items_by_cell.values())))
    cells = f"{len(items_by_cell)} cells"
    states = {
        cell: {"differs" if item.verdict in _CHANGED else item.verdict for item in items}
        for cell, items in items_by_cell.items()
    }
    differing = [cell for cell, found in states.items() if "differs" in found]
    open_ = [cell for cell, found in states.items() if found <= {"undecided"}]
    parts = []
    if len(differing) == 1:
        parts.append(f"a difference is shown in 1 of {cells}, {differing[0]}: {sentence(items_by_cell[differing[0]])}")
    elif differing:
        parts.append(f"a difference is shown in {len(differing)} of {cells}: {', '.join(differing)}")
    elif len(open_) < len(states):
        shown = f"any of {cells}" if not open_ else f"{len(states) - len(open_)} of {cells}"
        parts.append(f"no difference shown in {shown}")
    if open_:
        parts.append("nothing is decided" if len(open_) == len(states) else f"nothing is decided in {', '.join(open_)}")
    return "; ".join(parts)


def interval_text(item: MetricComparison) -> str:
    """The interval of a change: `−36.5 to +8.27 %`; empty without one."""
    if item.ci95 is None:
        return ""
    return change_span_text(*item.ci95)


def _changed(item: MetricComparison) -> str:
    assert item.ratio is not None, "there is no verdict on a change without a ratio"
    change, interval = change_text(item.ratio), interval_text(item)
    more = item.ratio > 1
    if not change.endswith("%"):
        text = f"head's {item.metric} is {change} that of base"
    else:
        # The sign is in the word.
        size = change.lstrip("+−±")
        interval = _without_signs(item) or interval
        if item.unit in ("ns", "s") and item.better == "lower":
            return f"head is {size} {'slower' if more else 'faster'} at {item.metric} (95 % interval {interval})"
        text = f"head's {item.metric} is {size} {'higher' if more else 'lower'}"
    return f"{text}: {item.verdict} (95 % interval {interval})"


def _without_signs(item: MetricComparison) -> str:
    """The interval of a change that is wholly of one sign, as its size: −0.4 to −0.2 -> `20 to 40 %`."""
    if item.ci95 is None or (item.ci95[0] < 1 < item.ci95[1]):
        return ""
    ends = [change_text(end).lstrip("+−±") for end in sorted(item.ci95, key=lambda end: abs(end - 1))]
    return f"{ends[0].removesuffix(' %')} to {ends[1]}" if all(end.endswith(" %") for end in ends) else ""


def _unchanged(same: Sequence[MetricComparison], of: int, *, is_short: bool = False) -> str:
    if of == 1:
        which = f"in {same[0].metric}"
    else:
        which = f"in any of {of} metrics" if len(same) == of else f"in {len(same)} of {of} metrics"
    text = f"no difference shown {which}"
    known = sorted((item.smallest_detectable_ratio, item.metric) for item in same if item.smallest_detectable_ratio)
    if not known:
        return text
    (least, easiest), (most, hardest) = known[0], known[-1]
    assert least is not None
    assert most is not None
    if most <= _WIDE * least:
        return f"{text}; a change of {change_size_text(most)} would have been seen"
    if is_short:
        return f"{text}; a change below {change_size_text(most)} may be there"
    ends = f"{change_size_text(least)} ({easiest}) to {change_size_text(most)} ({hardest})"
    return f"{text}; the smallest changes that would have been seen: {ends}"


def _not_decided(items: Sequence[MetricComparison], of: int) -> str:
    n = min(item.n_pairs for item in items)
    unequal = [item for item in items if item.ratio is None]
    if unequal:
        # Of 0 there is no ratio: the two figures are all that can be said.
        values = ", ".join(
            f"{item.metric} {value_text(item.base.value, item.unit)} → {value_text(item.head.value, item.unit)}"
            for item in unequal
        )
        rest = [item for item in items if item.ratio is not None]
        return f"no ratio to 0: {values}" + (f"; {_not_decided(rest, of)}" if rest else "")
    what = "not decided" if len(items) == of else f"{', '.join(item.metric for item in items)} not decided"
    if n >= LEAST_FOR_INTERVAL:
        return what
    trials = plural(n, "pair") if items[0].paired else f"{plural(n, 'trial')} of a side"
    return f"{what}: {trials}, and an interval needs {LEAST_FOR_INTERVAL}"


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
