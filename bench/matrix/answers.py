"""What follows from the looks at all cells of a matrix. Pure: effects in, an answer for each cell out.

A cell is a setting under a load on a disk. Its first look comes from trials in which half of all settings were on. If
a figure that decides seems to differ, it is measured once more, off and on while everything else is as it is on this
host. That second look alone decides then: its trials were not chosen for what they showed. The p-values of all first
looks are corrected together (Holm), also those still to come, and share one half of the 5 %; those of second looks have
the other half. So with 95 % no cell of the whole matrix is called better or worse by chance.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple

from highwater.bench.matrix.study import name_of
from highwater.bench.prove.judging import USEFUL_DETECTABLE_RATIO, Compared
from highwater.common.units import change_size_text, change_span_text, change_text, plural
from highwater.results.analysis.compare import ALPHA
from highwater.results.analysis.statistics import LEAST_FOR_INTERVAL, holm
from highwater.results.analysis_file import Better

State = Literal[
    "better",
    "worse",
    "trade",  # one figure is better, another is worse
    "none",  # no difference above a stated size
    "undecided",
    "cannot",  # it cannot be set here
    "missing",  # not measured yet
]
_ALPHA_OF_A_LOOK: Final = ALPHA / 2
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
class Effect:
    """on ÷ off of one figure. delta_ratio: what an interval has to lie beyond."""

    metric: str
    better: Better
    ratio: float
    interval: tuple[float, float]
    delta_ratio: float
    floor_ratio: float
    """The smallest change that matters."""
    detectable_ratio: float | None
    """The change that would have been found 4 times in 5."""
    p_value: float
    """Two-sided, of a change beyond delta; not corrected."""

    @property
    def seems_to_differ(self) -> bool:
        """The interval does not contain 1, and the difference is large enough to matter."""
        low, high = self.interval
        return (low > 1 or high < 1) and abs(math.log(self.ratio)) > math.log1p(self.floor_ratio)

    @property
    def is_beyond(self) -> bool:
        """The whole interval is beyond noise, and beyond what matters."""
        low, high = self.interval
        return low > 1 + self.delta_ratio or high < 1 / (1 + self.delta_ratio)

    @property
    def is_better(self) -> bool:
        return (self.ratio > 1) == (self.better == "higher")

    @property
    def unseen_ratio(self) -> float | None:
        """The size that the difference does not exceed: it would have been seen, and the interval lies within it."""
        low, high = self.interval
        return None if self.detectable_ratio is None else max(self.detectable_ratio, high - 1, 1 / low - 1)

    @property
    def text(self) -> str:
        return f"{self.metric} {change_text(self.ratio)} ({change_span_text(*self.interval)})"


@dataclass(frozen=True, slots=True)
class Look:
    """One measurement of a cell. trials: how many, in words. shortage: why they are too few to say anything."""

    effects: tuple[Effect, ...]
    trials: str
    shortage: str = ""
    fault: str = ""
    """Why the broker failed with the setting, and not without it."""

    @property
    def seems_to_differ(self) -> bool:
        """Whether a second look has to decide: generous, as it costs time only."""
        return bool(self.fault) or any(effect.seems_to_differ for effect in self.effects)


def confirming_look(compared: Compared, fault: str = "") -> Look:
    """The look of pairs, off and on."""
    valid = compared.pairs_valid
    effects = [
        Effect(
            metric=item.metric,
            better=item.better,
            ratio=item.ratio,
            interval=item.ci95,
            delta_ratio=item.delta_ratio,
            floor_ratio=item.floor_ratio,
            detectable_ratio=item.smallest_detectable_ratio,
            p_value=compared.p_values[item.metric],
        )
        for item in compared.items
        if item.ratio is not None and item.ci95 is not None
    ]
    few = f"{valid} valid pairs of {compared.pairs}, and {LEAST_FOR_INTERVAL} are needed"
    shortage = few if valid < LEAST_FOR_INTERVAL else ""
    return Look(() if shortage else tuple(effects), plural(valid, "pair"), shortage, fault)


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer of one cell. item: the figure that decides it, None without one."""

    key: Key
    state: State
    text: str
    item: Effect | None = None
    trials: str = ""
    confirmed: bool = False
    """It had a second look."""

    @property
    def may_matter(self) -> bool:
        """A difference seems to be there, and is not decided."""
        return self.state == "undecided" and self.item is not None and self.item.seems_to_differ

    @property
    def size(self) -> float:
        """How large the difference is, as an absolute logarithm; 0 if none is shown."""
        return abs(math.log(self.item.ratio)) if self.item is not None and self.state in MATTERS else 0.0

    @property
    def unseen_ratio(self) -> float | None:
        """The size above which this cell shows no difference (0.05: 5 %); None if it shows one."""
        return None if self.item is None or self.state != "none" else self.item.unseen_ratio


def answers(
    keys: Iterable[Key],
    first: Mapping[Key, Look],
    second: Mapping[Key, Look],
    cannot: Mapping[Key, str],
    figures: Mapping[str, Sequence[str]],
) -> dict[Key, Answer]:
    """An answer for each key. cannot: cells that cannot be measured here, with the reason; figures: those of a load."""
    cells = list(keys)
    doubtful = [key for key in cells if key in first and first[key].seems_to_differ]
    possible = [key for key in cells if key not in cannot]
    p_first, p_second = _corrected(possible, first, figures), _corrected(doubtful, second, figures)
    return {key: _answer(key, first.get(key), second.get(key), cannot.get(key), p_first, p_second) for key in cells}


_PValues = Mapping[tuple[Key, str], float]


def _corrected(keys: Sequence[Key], looks: Mapping[Key, Look], figures: Mapping[str, Sequence[str]]) -> _PValues:
    """Key and metric to the p-value, corrected for all of them; what was not measured counts as well."""
    family = [(key, metric) for key in keys for metric in figures[key.load]]
    known = {(key, effect.metric): effect.p_value for key, look in looks.items() for effect in look.effects}
    return dict(zip(family, holm([known.get(each, 1.0) for each in family]), strict=True))


def _answer(
    key: Key, first: Look | None, second: Look | None, cannot: str | None, p_first: _PValues, p_second: _PValues
) -> Answer:
    if cannot is not None:
        return Answer(key, "cannot", f"cannot be set here: {cannot}")
    if first is None:
        return Answer(key, "missing", "not measured yet")
    look, p_values = (first, p_first) if second is None else (second, p_second)
    confirmed = second is not None

    def answer(state: State, text: str, item: Effect | None = None) -> Answer:
        return Answer(key, state, text, item, look.trials, confirmed)

    if look.fault:
        if first.fault and confirmed:
            return answer("worse", f"worse: {look.fault}")
        return answer("undecided", f"undecided: {look.fault}; seen once, not confirmed")
    if look.shortage:
        return answer("undecided", f"undecided: {look.shortage}")
    effects = look.effects
    shown = [one for one in effects if one.is_beyond and p_values.get((key, one.metric), 1.0) <= _ALPHA_OF_A_LOOK]
    if shown:
        state, text = _difference(shown)
        return answer(state, text if confirmed else f"{text}; first look", max(shown, key=_size))
    if not confirmed and (hint := next((one for one in effects if one.seems_to_differ), None)) is not None:
        return answer("undecided", f"undecided: looks like {hint.text}, and was not measured again yet", hint)
    if hint := next((one for one in effects if one.is_beyond), None):
        text = f"undecided: looks like {hint.text}, which among so many cells may be chance"
        return answer("undecided", text, hint)
    said = ", ".join(f"{one.metric} {_size_text(one.unseen_ratio)}" for one in effects)
    noisy = next((one for one in effects if (one.unseen_ratio or math.inf) > USEFUL_DETECTABLE_RATIO), None)
    if noisy is not None:
        text = f"undecided: too noisy; differences up to this size may be there: {said}"
        return answer("undecided", text, noisy)
    if not effects:
        return answer("undecided", "undecided: no figure that decides was measured")
    return answer("none", f"no difference larger than: {said}", effects[0])


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


def rest_sentences(settings: Sequence[str], found: Mapping[Key, Answer]) -> list[str]:
    """What is known of the settings that were not shown to matter, by name."""
    left = [setting for setting in settings if setting not in settings_that_matter(settings, found)]
    of_setting = {setting: [a for a in found.values() if a.key.setting == setting] for setting in left}
    states = {setting: {answer.state for answer in cells} - {"cannot"} for setting, cells in of_setting.items()}
    may = [setting for setting in left if any(answer.may_matter for answer in of_setting[setting])]
    groups = {
        "May matter, and is not decided": list(map(name_of, may)),
        "No difference": [f"{name_of(s)} {_unseen_text(of_setting[s])}" for s in left if states[s] == {"none"}],
        "Undecided somewhere": [name_of(s) for s in left if "undecided" in states[s] and s not in may],
        "Not measured everywhere yet": [
            name_of(s) for s in left if states[s] & {"undecided", "missing"} == {"missing"}
        ],
        "Cannot be set here": [name_of(s) for s in left if not states[s]],
    }
    return [f"{what}: {', '.join(names)}." for what, names in groups.items() if names]


def _unseen_text(cells: Sequence[Answer]) -> str:
    """The largest difference that the main figures may have anywhere: `up to 8 %`."""
    sizes = [answer.unseen_ratio for answer in cells if answer.unseen_ratio is not None]
    return f"up to {change_size_text(max(sizes))}" if sizes else ""


def noise_sentence(dummies: Mapping[Key, Look]) -> str:
    """What settings that do not exist seem to do; empty without any."""
    effects = [effect for look in dummies.values() for effect in look.effects]
    if not effects:
        return ""
    low, high = min(effect.ratio for effect in effects), max(effect.ratio for effect in effects)
    missed = sum(not effect.interval[0] <= 1 <= effect.interval[1] for effect in effects)
    return (
        f"Noise alone: of {plural(len(effects), 'effect')} of settings that do not exist (dummies), "
        f"{change_span_text(low, high)}, {missed} had an interval without 0; {ALPHA * len(effects):.1f} are expected."
    )


def _difference(shown: Sequence[Effect]) -> tuple[State, str]:
    better = [one for one in shown if one.is_better]
    worse = [one for one in shown if not one.is_better]
    parts = [f"better: {', '.join(one.text for one in better)}"] if better else []
    parts += [f"worse: {', '.join(one.text for one in worse)}"] if worse else []
    return "trade" if better and worse else "better" if better else "worse", "; ".join(parts)


def _size(effect: Effect) -> float:
    return abs(math.log(effect.ratio))


def _size_text(size: float | None) -> str:
    return "of any size" if size is None else change_size_text(size)
