"""The answer from the trials of the confirmation, with the statistics of every comparison. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Final

from highwater.common.units import NONE, change_span_text, change_text, plural
from highwater.results.advice import (
    AdvisedFigure,
    AdvisedOption,
    AdvisedSetting,
    BoundOutcome,
    BoundState,
    Change,
    SettingWorth,
    Usability,
    own_name,
)
from highwater.results.analysis.conclusions import Values, comparisons_with, noise_of, usable, values_by_block
from highwater.results.analysis.statistics import bootstrap_median_ci
from highwater.results.analysis_file import AaPair, Comparison
from highwater.results.bounds import Bound, bound_text
from highwater.results.gate import SideEstimate
from highwater.results.metrics import METRICS, value_text
from highwater.results.models import TrialSummary
from highwater.studies.advise.carrying import Fates, mostly_usable, surely_carries
from highwater.studies.advise.confirming import DEFAULTS, IN_USE, cell_name
from highwater.studies.advise.question import Asked
from highwater.studies.advise.space import Candidate, spell

# Shown beside the aims, so that nobody has to find out later what an advice costs elsewhere.
SHOWN: Final = (
    "produce.p50",
    "produce.p99",
    "produce.p999",
    "e2e.p99",
    "produce.achieved_per_s",
    "system.cpu_s_per_gib",
    "host.cpu_ratio",
    "system.rss_bytes",
    "writeback.dirty_max_bytes",
)

# Checks that a system fails which cannot keep up.
_OF_LOAD: Final = ("load.", "generator.send_delay", "host.cpu_ratio")


@dataclass(frozen=True)
class Trials:
    """The trials of a confirmation by variant: fates are of all of them, the rest is of the usable ones."""

    by_variant: Mapping[str, Sequence[TrialSummary]]
    fates: Mapping[str, Fates]
    no_fates: Fates
    """Fates of a variant without a finished trial."""
    values: Mapping[str, Mapping[int, Values]]
    noise: Mapping[str, Sequence[AaPair]]
    seed: int

    def of(self, variant: str, metric: str) -> list[float]:
        return [row[metric] for row in self.values.get(variant, {}).values() if metric in row]

    def comparisons(self, base: str, heads: Iterable[str], metric: str) -> dict[str, Comparison]:
        """head ÷ base by variant, p-values corrected for the number of heads."""
        cells = [base, *(head for head in heads if head != base)]
        if not self.values.get(base):
            return {}
        found = comparisons_with(
            base,
            {cell: self.values.get(cell, {}) for cell in cells},
            METRICS[metric],
            self.noise.get(metric, ()),
            self.seed,
        )
        return {comparison.head: comparison for comparison in found}


def trials_of(summaries: Sequence[TrialSummary], blocks: int, seed: int) -> Trials:
    """summaries: of all finished trials of a run of so many blocks, A/A twins included."""
    cells: dict[str, list[TrialSummary]] = {}
    for summary in summaries:
        if summary.role == "measure":
            cells.setdefault(summary.cell, []).append(summary)
    used = {cell: usable(trials) for cell, trials in cells.items()}
    by_cell = {cell: values_by_block(trials) for cell, trials in used.items()}
    noise = {item.metric: item.pairs for item in noise_of(summaries, by_cell)}
    # Cells have the names of variants from here on; A/A pairs too, as their own noise counts first.
    prefix = cell_name("")
    return Trials(
        {cell.removeprefix(prefix): trials for cell, trials in used.items()},
        {cell.removeprefix(prefix): Fates(trials, blocks) for cell, trials in cells.items()},
        Fates((), blocks),
        {cell.removeprefix(prefix): values for cell, values in by_cell.items()},
        {name: [AaPair(pair.cell.removeprefix(prefix), pair.ratio) for pair in pairs] for name, pairs in noise.items()},
        seed,
    )


def option_of(
    trials: Trials,
    variant: str,
    candidate: Candidate,
    asked: Asked,
    options: Sequence[str],
    without: Mapping[str, str],
) -> AdvisedOption:
    """What the confirmation says of one finalist. options: the variants of all finalists."""
    aims, bounds = asked.metrics, asked.bounds
    settings = [
        AdvisedSetting(key=key, in_use=spell(present), advised=spell(value))
        for key, present, value in zip(asked.space.keys, asked.in_use, candidate, strict=True)
    ]
    figures = [
        figure
        for metric in dict.fromkeys([*aims, *bounds, *SHOWN])
        if (figure := _figure(trials, variant, metric, metric in aims, options)) is not None
    ]
    outcomes = [bound_outcome(trials, variant, metric, bound) for metric, bound in bounds.items()]
    present_bounds = [bound_outcome(trials, IN_USE, metric, bound) for metric, bound in bounds.items()]
    repairs = _repairs(figures, outcomes, present_bounds, bounds)
    own, present, plain = (trials.fates.get(name, trials.no_fates) for name in (variant, IN_USE, DEFAULTS))
    usability, comparisons = own.usability(), len(options) + 1
    carries = surely_carries(own, present, comparisons)
    kept = all(outcome.state == "kept" for outcome in outcomes)
    better = mostly_usable(usability) and kept and (carries or bool(repairs) or _is_better(figures))
    load = _load_text(usability, present.usability(), carries=carries)
    return AdvisedOption(
        name=variant,
        settings=settings,
        figures=figures,
        bounds=outcomes,
        worth=_worth(trials, variant, aims[0], without),
        usability=usability,
        usability_in_use=present.usability(),
        carries=carries,
        carries_beside_defaults=variant != DEFAULTS and surely_carries(own, plain, comparisons),
        better=better,
        sentence=_sentence(settings, figures, outcomes, present_bounds, repairs, load),
    )


def _repairs(
    figures: Sequence[AdvisedFigure],
    outcomes: Sequence[BoundOutcome],
    present: Sequence[BoundOutcome],
    bounds: Mapping[str, Bound],
) -> list[tuple[BoundOutcome, BoundOutcome]]:
    """Bounds that are kept with an option, and not with the settings in use, which are surely worse there."""
    better = {
        figure.metric for figure in figures if figure.against_in_use and figure.against_in_use.verdict == "better"
    }
    return [
        (one, other)
        for one, other in zip(outcomes, present, strict=True)
        if one.state == "kept"
        and other.value is not None
        and not bounds[one.metric].met(other.value)
        and (other.state == "broken" or one.metric in better)
    ]


def _is_better(figures: Sequence[AdvisedFigure]) -> bool:
    """Better in an aim and worse in none."""
    verdicts = [figure.against_in_use.verdict for figure in figures if figure.is_aim and figure.against_in_use]
    return "better" in verdicts and "worse" not in verdicts


def beats_defaults(option: AdvisedOption) -> bool:
    """Whether an option is surely better than the defaults in an aim, or carries a load that they do not carry."""
    return option.carries_beside_defaults or any(
        figure.is_aim and figure.against_defaults is not None and figure.against_defaults.verdict == "better"
        for figure in option.figures
    )


def _figure(trials: Trials, variant: str, metric: str, is_aim: bool, options: Sequence[str]) -> AdvisedFigure | None:
    advised = _side(trials, variant, metric)
    if advised is None:
        return None
    heads = [*options, *([DEFAULTS] if trials.values.get(DEFAULTS) else [])]
    definition = METRICS[metric]
    return AdvisedFigure(
        metric=metric,
        unit=definition.unit,
        better=definition.better,
        is_aim=is_aim,
        advised=advised,
        in_use=_side(trials, IN_USE, metric),
        defaults=None if variant == DEFAULTS else _side(trials, DEFAULTS, metric),
        against_in_use=_change(trials.comparisons(IN_USE, heads, metric).get(variant)),
        against_defaults=_change(trials.comparisons(DEFAULTS, [IN_USE, *options], metric).get(variant)),
    )


def _side(trials: Trials, variant: str, metric: str) -> SideEstimate | None:
    values = trials.of(variant, metric)
    if not values:
        return None
    interval = bootstrap_median_ci(values, seed=trials.seed)
    return SideEstimate(value=median(values), ci95=interval, n_trials=len(values), most=max(values))


def _change(comparison: Comparison | None) -> Change | None:
    if comparison is None:
        return None
    return Change(
        ratio=comparison.ratio,
        ci95=comparison.ci95,
        delta_ratio=comparison.delta_ratio,
        verdict=comparison.verdict,
    )


def bound_outcome(trials: Trials, variant: str, metric: str, bound: Bound) -> BoundOutcome:
    values = trials.of(variant, metric)
    state: BoundState = "in_doubt"
    if values:
        ends = bootstrap_median_ci(values, seed=trials.seed) or (min(values), max(values))
        met = set(map(bound.met, ends))
        state = "in_doubt" if len(met) > 1 else "kept" if True in met else "broken"
    return BoundOutcome(
        metric=metric,
        unit=METRICS[metric].unit,
        bound=str(bound),
        value=median(values) if values else None,
        state=state,
    )


def _worth(trials: Trials, variant: str, metric: str, without: Mapping[str, str]) -> list[SettingWorth]:
    """The advised settings without each change ÷ with it; a change without which the load is not carried is one too."""
    found = trials.comparisons(variant, [one for one in without if trials.values.get(one)], metric)
    worth = []
    for head, key in without.items():
        usability = trials.fates.get(head, trials.no_fates).usability()
        change = _change(found.get(head)) if mostly_usable(usability) else None
        if change is not None or not mostly_usable(usability):
            worth.append(SettingWorth(key=key, metric=metric, change=change, without=usability))
    return worth


# --- in words ---------------------------------------------------------------------------------------------------------


def settings_text(settings: Sequence[AdvisedSetting]) -> str:
    """`linger.ms 5 → 1, batch.size default → 64KiB`"""
    names = short_names([item.key for item in settings])
    shown = [item for item in settings if item.in_use != item.advised]
    return ", ".join(f"{names[item.key]} {item.in_use} → {item.advised}" for item in shown) or "nothing changed"


def short_names(keys: Iterable[str]) -> dict[str, str]:
    """Properties by their own names, `producers.client.linger.ms` -> `linger.ms`, where no two are alike."""
    names = {key: own_name(key) for key in keys}
    found = list(names.values())
    return {key: name if found.count(name) == 1 else key for key, name in names.items()}


def title(metric: str) -> str:
    return METRICS[metric].title or metric


def is_open(change: Change | None) -> bool:
    """Whether more trials could separate the two."""
    return change is not None and change.verdict in ("undecided", "no_change")


def _change_from(change: Change, whom: str) -> str:
    """`−48 % (95 % interval −55 to −41 %) against the defaults`"""
    interval = f"95 % interval {change_span_text(*change.ci95)}" if change.ci95 else "no interval"
    # Of pairs: it need not be that of the two medians beside it.
    text = f"{change_text(change.ratio)} in pairs of trials"
    if is_open(change):
        return f"indistinguishable from {whom} ({text}, {interval})"
    return f"{text} ({interval}) against {whom}"


def _sentence(
    settings: Sequence[AdvisedSetting],
    figures: Sequence[AdvisedFigure],
    outcomes: Sequence[BoundOutcome],
    present: Sequence[BoundOutcome],
    repairs: Sequence[tuple[BoundOutcome, BoundOutcome]],
    load: str,
) -> str:
    parts = []
    for figure in figures:
        if not figure.is_aim:
            continue
        text = f"{title(figure.metric)} {value_text(figure.advised.value, figure.unit)}"
        # Few figures of settings that do not carry the load are no figures of the load.
        if figure.in_use is not None and not load:
            text += f" instead of {value_text(figure.in_use.value, figure.unit)}"
        changes = [] if figure.against_in_use is None or load else [(figure.against_in_use, "the settings in use")]
        if figure.against_defaults is not None:
            changes.append((figure.against_defaults, "the defaults"))
        against = ", and ".join(_change_from(change, whom) for change, whom in changes)
        parts.append(f"{text}, {against}" if against else text)
    repaired = [
        f"{title(one.metric)} {bound_text(one.bound)} is kept{_measured(one)}, which is "
        f"{'broken' if other.state == 'broken' else 'in doubt'} now{_measured(other)}"
        for one, other in repairs
    ]
    worse = {figure.metric for figure in figures if figure.against_in_use and figure.against_in_use.verdict == "worse"}
    dearer = [
        f"{title(one.metric)} {bound_text(one.bound)} is kept, but worse than now: {_value(one)} instead of "
        f"{_value(other)}"
        for one, other in zip(outcomes, present, strict=True)
        if one.state == other.state == "kept" and one.metric in worse and not load
    ]
    doubtful = [
        f"{title(one.metric)} {bound_text(one.bound)} is "
        f"{'in doubt' if one.state == 'in_doubt' else 'broken'}{_measured(one)}"
        for one in outcomes
        if one.state != "kept"
    ]
    return f"{settings_text(settings)}: {'; '.join([*([load] if load else []), *repaired, *parts, *dearer, *doubtful])}"


def _load_text(usability: Usability, in_use: Usability, *, carries: bool) -> str:
    """What trials say of the load itself; nothing if they are usable with both."""
    if carries and in_use.check.startswith(_OF_LOAD):
        return f"the load is carried ({usable_text(usability)}), which it is not now ({usable_text(in_use)})"
    if carries:
        return f"{usable_text(usability)}, and {usable_text(in_use)} now"
    return "" if mostly_usable(usability) else not_carried_text(usability)


def not_carried_text(usability: Usability) -> str:
    text = usable_text(usability)
    return f"the load is not carried ({text})" if usability.check.startswith(_OF_LOAD) else text


def usable_text(usability: Usability) -> str:
    """`9 of 10 trials usable`"""
    return f"{usability.usable} of {plural(usability.trials, 'trial')} usable"


def _measured(outcome: BoundOutcome) -> str:
    return "" if outcome.value is None else f" ({_value(outcome)})"


def _value(outcome: BoundOutcome) -> str:
    return NONE if outcome.value is None else value_text(outcome.value, outcome.unit)
