"""From the trials of the confirmation to the answer, with the statistics of every comparison. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Final

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
)
from highwater.bench.workload.slo import Bound
from highwater.common.units import change_span_text, change_text

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
    """The usable trials of a confirmation, by variant."""

    by_variant: Mapping[str, Sequence[TrialSummary]]
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
    better = _is_better(figures, outcomes, present_bounds)
    return AdvisedOption(
        name=variant,
        settings=settings,
        figures=figures,
        bounds=outcomes,
        worth=_worth(trials, variant, aims[0], without),
        better=better,
        sentence=_sentence(settings, figures, outcomes, present_bounds),
    )


def _is_better(
    figures: Sequence[AdvisedFigure], outcomes: Sequence[BoundOutcome], present: Sequence[BoundOutcome]
) -> bool:
    """Better in an aim and worse in none, with all bounds kept; or it keeps bounds that are broken now."""
    if any(outcome.state != "kept" for outcome in outcomes):
        return False
    if any(outcome.state == "broken" for outcome in present):
        return True
    verdicts = [figure.against_in_use.verdict for figure in figures if figure.is_aim and figure.against_in_use]
    return "better" in verdicts and "worse" not in verdicts


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
        defaults=_side(trials, DEFAULTS, metric),
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
    state: BoundState = "broken"
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


def settings_text(settings: Sequence[AdvisedSetting], *, changed_only: bool = True) -> str:
    """`linger.ms 5 → 1, batch.size default → 64KiB`"""
    shown = [item for item in settings if item.in_use != item.advised or not changed_only]
    return ", ".join(f"{short(item.key)} {item.in_use} → {item.advised}" for item in shown) or "nothing changed"


def short(key: str) -> str:
    """A property by its own name: `producers.client.linger.ms` -> `linger.ms`."""
    for prefix in ("producers.client.", "consumers.client.", "topics.config.", "system.config.", "host.settings."):
        if key.startswith(prefix):
            return key.removeprefix(prefix)
    return key


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
) -> str:
    parts = []
    for figure in figures:
        if not figure.is_aim:
            continue
        text = f"{title(figure.metric)} {value_text(figure.advised.value, figure.unit)}"
        if figure.in_use is not None:
            text += f" instead of {value_text(figure.in_use.value, figure.unit)}"
        if figure.against_in_use is not None:
            text += f", {change_with_interval(figure.against_in_use)} against the settings in use"
        if figure.against_defaults is not None:
            text += f" and {change_with_interval(figure.against_defaults)} against the defaults"
        parts.append(text)
    repaired = [
        f"{title(one.metric)} {one.bound} is kept, which is broken now"
        for one, other in zip(outcomes, present, strict=True)
        if one.state == "kept" and other.state == "broken"
    ]
    doubtful = [
        f"{title(one.metric)} {one.bound} is {'in doubt' if one.state == 'in_doubt' else 'broken'}"
        for one in outcomes
        if one.state != "kept"
    ]
    return f"{settings_text(settings)}: {'; '.join([*parts, *repaired, *doubtful])}"
