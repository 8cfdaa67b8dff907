"""From the trials of the confirmation to the answer, with the statistics of every comparison. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Final

from highwater.bench.advise.carrying import Fates, fates_of, mostly_valid, surely_carries
from highwater.bench.advise.confirming import DEFAULTS, IN_USE, cell_name
from highwater.bench.advise.space import Candidate, Space, spell
from highwater.bench.analysis.conclusions import Values, comparisons_with, noise_of, usable, values_by_block
from highwater.bench.analysis.statistics import bootstrap_median_ci
from highwater.bench.metrics import METRICS, value_text
from highwater.bench.results import AaPair, Comparison, SideEstimate, TrialSummary
from highwater.bench.results.advice import (
    AdvisedFigure,
    AdvisedOption,
    AdvisedSetting,
    BoundOutcome,
    BoundState,
    Change,
    SettingWorth,
    Validity,
    own_name,
)
from highwater.bench.workload.slo import Bound
from highwater.common.units import change_span_text, change_text, plural

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


@dataclass(frozen=True)
class Trials:
    """The trials of a confirmation by variant: fates are of all of them, the rest is of the usable ones."""

    by_variant: Mapping[str, Sequence[TrialSummary]]
    fates: Mapping[str, Fates]
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


def trials_of(summaries: Sequence[TrialSummary], seed: int) -> Trials:
    """summaries: of all finished trials, A/A twins included."""
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
        {cell.removeprefix(prefix): fates_of(trials, cell) for cell, trials in cells.items()},
        {cell.removeprefix(prefix): values for cell, values in by_cell.items()},
        {name: [AaPair(pair.cell.removeprefix(prefix), pair.ratio) for pair in pairs] for name, pairs in noise.items()},
        seed,
    )


def option_of(
    trials: Trials,
    variant: str,
    candidate: Candidate,
    space: Space,
    in_use: Candidate,
    aims: Sequence[str],
    bounds: Mapping[str, Bound],
    options: Sequence[str],
    without: Mapping[str, str],
) -> AdvisedOption:
    """What the confirmation says of one finalist. options: the variants of all finalists."""
    settings = [
        AdvisedSetting(key=key, in_use=spell(present), advised=spell(value))
        for key, present, value in zip(space.keys, in_use, candidate, strict=True)
    ]
    figures = [
        figure
        for metric in dict.fromkeys([*aims, *bounds, *SHOWN])
        if (figure := _figure(trials, variant, metric, metric in aims, options)) is not None
    ]
    outcomes = [bound_outcome(trials, variant, metric, bound) for metric, bound in bounds.items()]
    present_bounds = [bound_outcome(trials, IN_USE, metric, bound) for metric, bound in bounds.items()]
    fates, present = (trials.fates.get(name, Fates(())) for name in (variant, IN_USE))
    validity, carries = fates.validity(), surely_carries(fates, present)
    better = mostly_valid(validity) and _is_better(figures, outcomes, present_bounds, carries=carries)
    return AdvisedOption(
        name=variant,
        settings=settings,
        figures=figures,
        bounds=outcomes,
        worth=_worth(trials, variant, aims[0], without),
        validity=validity,
        validity_in_use=present.validity(),
        carries=carries,
        better=better,
        sentence=_sentence(
            settings, figures, outcomes, present_bounds, _load_text(validity, present.validity(), carries=carries)
        ),
    )


def _is_better(
    figures: Sequence[AdvisedFigure],
    outcomes: Sequence[BoundOutcome],
    present: Sequence[BoundOutcome],
    *,
    carries: bool,
) -> bool:
    """With all bounds kept: better in an aim and worse in none, or the repair of a load or bound that is broken now."""
    if any(outcome.state != "kept" for outcome in outcomes):
        return False
    if carries or any(outcome.state == "broken" for outcome in present):
        return True
    verdicts = [figure.against_in_use.verdict for figure in figures if figure.is_aim and figure.against_in_use]
    return "better" in verdicts and "worse" not in verdicts


def beats_defaults(option: AdvisedOption) -> bool:
    """Whether an option is surely better than the defaults in an aim."""
    return any(
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
    state: BoundState = "broken" if values else "in_doubt"
    if values and bound.met(median(values)):
        ends = bootstrap_median_ci(values, seed=trials.seed) or (min(values), max(values))
        state = "kept" if all(map(bound.met, ends)) else "in_doubt"
    return BoundOutcome(
        metric=metric,
        unit=METRICS[metric].unit,
        bound=str(bound),
        value=median(values) if values else None,
        state=state,
    )


def _worth(trials: Trials, variant: str, metric: str, without: Mapping[str, str]) -> list[SettingWorth]:
    """The advised settings without each change ÷ with it; variants without a usable trial are left out."""
    found = trials.comparisons(variant, [one for one in without if trials.values.get(one)], metric)
    changes = {without[head]: _change(comparison) for head, comparison in found.items()}
    return [SettingWorth(key=key, metric=metric, change=change) for key, change in changes.items() if change]


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


def change_with_interval(change: Change) -> str:
    """`−48 % (95 % interval −55 to −41 %)`"""
    text = change_text(change.ratio)
    return f"{text} (95 % interval {change_span_text(*change.ci95)})" if change.ci95 else text


def _sentence(
    settings: Sequence[AdvisedSetting],
    figures: Sequence[AdvisedFigure],
    outcomes: Sequence[BoundOutcome],
    present: Sequence[BoundOutcome],
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
        against = " and ".join(f"{change_with_interval(change)} against {whom}" for change, whom in changes)
        parts.append(f"{text}, {against}" if against else text)
    repaired = [
        f"{title(one.metric)} {one.bound} is kept{_measured(one)}, which is broken now{_measured(other)}"
        for one, other in zip(outcomes, present, strict=True)
        if one.state == "kept" and other.state == "broken"
    ]
    worse = {figure.metric for figure in figures if figure.against_in_use and figure.against_in_use.verdict == "worse"}
    dearer = [
        f"{title(one.metric)} {one.bound} is kept{_measured(one)} and worse than now{_measured(other)}"
        for one, other in zip(outcomes, present, strict=True)
        if one.state == other.state == "kept" and one.metric in worse and not load
    ]
    doubtful = [
        f"{title(one.metric)} {one.bound} is {'in doubt' if one.state == 'in_doubt' else 'broken'}{_measured(one)}"
        for one in outcomes
        if one.state != "kept"
    ]
    return f"{settings_text(settings)}: {'; '.join([*([load] if load else []), *repaired, *parts, *dearer, *doubtful])}"


def _load_text(validity: Validity, in_use: Validity, *, carries: bool) -> str:
    if carries:
        return (
            f"the load is carried ({valid_text(validity)}), which the settings in use do not do ({valid_text(in_use)})"
        )
    return "" if mostly_valid(validity) else f"the load is not carried ({valid_text(validity)})"


def valid_text(validity: Validity) -> str:
    """`9 of 10 trials valid`"""
    return f"{validity.trials - validity.not_valid} of {plural(validity.trials, 'trial')} valid"


def _measured(outcome: BoundOutcome) -> str:
    return "" if outcome.value is None else f" ({value_text(outcome.value, outcome.unit)})"
