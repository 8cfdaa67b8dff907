"""What follows from the looks at all cells of a matrix. Pure: comparisons in, an answer for each cell out.

A cell is a setting under a load on a disk. It gets a first look of a few pairs. If a figure that decides seems to
differ, it is measured once more, with more pairs, and that second look alone decides: its trials were not chosen for
what they showed. The p-values of all second looks, also of those still to come, are corrected together (Holm), so that
with 95 % no cell of the whole matrix is called better or worse by chance.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple

from highwater.bench.matrix.study import name_of
from highwater.bench.prove.judging import DECIDING, USEFUL_DETECTABLE_RATIO, Compared
from highwater.common.units import change_size_text, change_span_text, change_text, plural
from highwater.results.analysis.compare import ALPHA
from highwater.results.analysis.statistics import LEAST_FOR_INTERVAL, holm
from highwater.results.gate import MetricComparison

State = Literal[
    "better",
    "worse",
    "trade",  # one figure is better, another is worse
    "none",  # no difference above a stated size
    "undecided",
    "cannot",  # it cannot be set here
    "missing",  # not measured yet
]
MATTERS: Final = ("better", "worse", "trade")
# In this order settings are listed, and the states of their cells decide.
_ORDER: Final[tuple[State, ...]] = ("worse", "trade", "better", "undecided", "none", "missing", "cannot")
_NAMED: Final = 3
_EFFECTS: Final[tuple[tuple[State, str, str], ...]] = (
    ("better", "helps", "help"),
    ("worse", "harms", "harm"),
    ("trade", "helps one figure and harms another", "help one figure and harm another"),
)


class Key(NamedTuple):
    """A cell. setting: as the study writes it."""

    setting: str
    load: str
    disk: str


@dataclass(frozen=True, slots=True)
class Look:
    """One measurement of a cell. fault: why the broker failed with the setting, and not without it."""

    compared: Compared
    fault: str = ""

    @property
    def enough(self) -> bool:
        return self.compared.pairs_valid >= LEAST_FOR_INTERVAL

    @property
    def seems_to_differ(self) -> bool:
        """Whether a second look has to decide: generous, as it costs time only."""
        return bool(self.fault) or (self.enough and any(map(_seems_to_differ, self.compared.items)))


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer of one cell. item: the figure that decides it, None without one."""

    key: Key
    state: State
    text: str
    item: MetricComparison | None = None
    pairs: int = 0
    confirmed: bool = False
    """It had a second look."""

    @property
    def size(self) -> float:
        """How large the difference is, as an absolute logarithm; 0 if none is shown."""
        shown = self.item is not None and self.item.ratio is not None and self.state in MATTERS
        return abs(math.log(self.item.ratio)) if shown and self.item and self.item.ratio else 0.0

    @property
    def unseen_ratio(self) -> float | None:
        """The size above which this cell shows no difference (0.05: 5 %); None if it shows one."""
        return None if self.item is None or self.state != "none" else unseen_ratio(self.item)


def answers(
    keys: Iterable[Key], first: Mapping[Key, Look], second: Mapping[Key, Look], cannot: Mapping[Key, str]
) -> dict[Key, Answer]:
    """An answer for each key. cannot: cells that cannot be measured here, with the reason."""
    doubtful = [key for key, look in first.items() if look.seems_to_differ]
    family = [(key, item.metric) for key in doubtful for item in first[key].compared.items]
    raw = [second[key].compared.p_values.get(metric, 1.0) if key in second else 1.0 for key, metric in family]
    p_values = dict(zip(family, holm(raw), strict=True))
    return {key: _answer(key, first.get(key), second.get(key), cannot.get(key), p_values) for key in keys}


def _answer(
    key: Key,
    first: Look | None,
    second: Look | None,
    cannot: str | None,
    p_values: Mapping[tuple[Key, str], float],
) -> Answer:
    if cannot is not None:
        return Answer(key, "cannot", f"cannot be set here: {cannot}")
    if first is None:
        return Answer(key, "missing", "not measured yet")
    look = second or first
    pairs, confirmed = look.compared.pairs_valid, second is not None
    if look.fault:
        if first.fault and second is not None:
            return Answer(key, "worse", f"worse: {look.fault}", None, pairs, confirmed)
        return Answer(key, "undecided", f"undecided: {look.fault}; seen once, not confirmed", None, pairs, confirmed)
    if not look.enough:
        few = f"{pairs} valid pairs of {look.compared.pairs}, and {LEAST_FOR_INTERVAL} are needed"
        return Answer(key, "undecided", f"undecided: {few}", None, pairs, confirmed)
    items = look.compared.items
    if first.seems_to_differ and second is None:
        item = next(filter(_seems_to_differ, items))
        text = f"undecided: looks like {_difference_text(item)}, and was not measured again yet"
        return Answer(key, "undecided", text, item, pairs)
    shown = [item for item in items if _is_beyond(item) and p_values.get((key, item.metric), 1.0) <= ALPHA]
    if shown:
        return _difference(key, shown, pairs)
    if hint := next(filter(_is_beyond, items), None):
        text = f"undecided: looks like {_difference_text(hint)}, which among so many cells may be chance"
        return Answer(key, "undecided", text, hint, pairs, confirmed)
    sizes = [(unseen_ratio(item), item) for item in items]
    noisy = next((item for size, item in sizes if size is None or size > USEFUL_DETECTABLE_RATIO), None)
    said = ", ".join(f"{item.metric} {_size_text(size)}" for size, item in sizes)
    if noisy is not None:
        text = f"undecided: too noisy; differences up to this size may be there: {said}"
        return Answer(key, "undecided", text, noisy, pairs, confirmed)
    if not items:
        return Answer(key, "undecided", "undecided: no figure that decides was measured", None, pairs, confirmed)
    return Answer(key, "none", f"no difference larger than: {said}", items[0], pairs, confirmed)


def unseen_ratio(item: MetricComparison) -> float | None:
    """The size that a difference does not exceed: it would have been seen, and the interval lies within it."""
    if item.ci95 is None or item.smallest_detectable_ratio is None:
        return None
    low, high = item.ci95
    return max(item.smallest_detectable_ratio, high - 1, 1 / low - 1)


def setting_order(settings: Sequence[str], found: Mapping[Key, Answer]) -> list[str]:
    """What matters first, by size; then what is undecided, then what does not matter; otherwise as in the study."""
    of_setting = {setting: [a for a in found.values() if a.key.setting == setting] for setting in settings}

    def rank(setting: str) -> tuple[int, float]:
        matters = any(answer.state in MATTERS for answer in of_setting[setting])
        at = 0 if matters else min(_ORDER.index(answer.state) for answer in of_setting[setting])
        return at, -max(answer.size for answer in of_setting[setting])

    return sorted(settings, key=rank)


def settings_that_matter(settings: Sequence[str], found: Mapping[Key, Answer]) -> list[str]:
    """The settings with a cell that is better, worse or a trade; the largest difference first."""
    mattering = {answer.key.setting for answer in found.values() if answer.state in MATTERS}
    return [setting for setting in setting_order(settings, found) if setting in mattering]


def sentence(settings: Sequence[str], found: Mapping[Key, Answer]) -> str:
    """The answer of the whole matrix."""
    measured = [answer for answer in found.values() if answer.state not in ("missing", "cannot")]
    waiting = [answer for answer in found.values() if answer.state == "missing"]
    if not measured:
        return "Nothing is measured yet." if waiting else "None of these settings can be set here."
    matter = settings_that_matter(settings, found)
    so_far = "So far, on" if waiting else "On"
    if not matter:
        doubt = " yet" if waiting or any(answer.state == "undecided" for answer in measured) else ""
        return f"{so_far} this host none of {plural(len(settings), 'setting')} was shown to matter{doubt}."
    verb = "matters" if len(matter) == 1 else "matter"
    effects = [
        (f"{len(those)} {one if len(those) == 1 else several}", those)
        for kind, one, several in _EFFECTS
        if (those := [setting for setting in matter if effect_of(setting, found) == kind])
    ]
    listed = "; ".join(f"{text} ({_listed(those)})" for text, those in effects)
    return f"{so_far} this host {len(matter)} of {plural(len(settings), 'setting')} {verb}: {listed}."


def effect_of(setting: str, found: Mapping[Key, Answer]) -> State:
    """Whether all differences of a setting are better, or all worse; `trade` for both. One cell at least matters."""
    states = {answer.state for answer in found.values() if answer.key.setting == setting} & set(MATTERS)
    return states.pop() if len(states) == 1 else "trade"


def _listed(settings: Sequence[str]) -> str:
    more = f" and {len(settings) - _NAMED} more" if len(settings) > _NAMED else ""
    return ", ".join(map(name_of, settings[:_NAMED])) + more


def rest_sentence(settings: Sequence[str], found: Mapping[Key, Answer]) -> str:
    """What is known of the settings that were not shown to matter; empty when all do."""
    left = [setting for setting in settings if setting not in settings_that_matter(settings, found)]
    states = {setting: {a.state for a in found.values() if a.key.setting == setting} - {"cannot"} for setting in left}
    none = [setting for setting in left if states[setting] == {"none"}]
    sizes = [a.unseen_ratio for a in found.values() if a.key.setting in none and a.unseen_ratio is not None]
    largest = f" ({change_size_text(max(sizes))} at most in the main figure)" if sizes else ""
    counts = {
        f"without a difference{largest}": len(none),
        "undecided somewhere": sum("undecided" in states[setting] for setting in left),
        "not measured everywhere yet": sum(
            states[setting] & {"undecided", "missing"} == {"missing"} for setting in left
        ),
        "not to be set here": sum(not states[setting] for setting in left),
    }
    parts = [f"{count} {what}" for what, count in counts.items() if count]
    return f"The other{'s' if len(left) != 1 else ''}: {', '.join(parts)}." if parts else ""


def _difference(key: Key, shown: Sequence[MetricComparison], pairs: int) -> Answer:
    better = [item for item in shown if _is_better(item)]
    worse = [item for item in shown if not _is_better(item)]
    state: State = "trade" if better and worse else "better" if better else "worse"
    largest = max(shown, key=lambda item: abs(math.log(item.ratio or 1.0)))
    parts = [f"better: {', '.join(map(_difference_text, better))}"] if better else []
    parts += [f"worse: {', '.join(map(_difference_text, worse))}"] if worse else []
    return Answer(key, state, "; ".join(parts), largest, pairs, True)


def _seems_to_differ(item: MetricComparison) -> bool:
    """The interval does not contain 1, and the difference is large enough to matter."""
    if item.ci95 is None or item.ratio is None:
        return False
    low, high = item.ci95
    floor = math.log1p(DECIDING.get(item.metric, 0.0))
    return (low > 1 or high < 1) and abs(math.log(item.ratio)) > floor


def _is_beyond(item: MetricComparison) -> bool:
    """The whole interval is beyond the noise of pairs of the same thing, and beyond what matters."""
    if item.ci95 is None:
        return False
    low, high = item.ci95
    return low > 1 + item.delta_ratio or high < 1 / (1 + item.delta_ratio)


def _is_better(item: MetricComparison) -> bool:
    return ((item.ratio or 1.0) > 1) == (item.better == "higher")


def _difference_text(item: MetricComparison) -> str:
    if item.ratio is None or item.ci95 is None:
        return item.metric
    return f"{item.metric} {change_text(item.ratio)} ({change_span_text(*item.ci95)})"


def _size_text(size: float | None) -> str:
    return "of any size" if size is None else change_size_text(size)
