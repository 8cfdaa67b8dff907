"""The first look at all settings of a disk under one load: a run, half of them on in each trial."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final

from highwater.bench.matrix.answers import Effect, Key, Look
from highwater.bench.matrix.design import is_dummy, screening_rows
from highwater.bench.matrix.effects import LogEstimate, MeasuredTrial, estimates
from highwater.bench.matrix.stored import StoredRound, StoredSetting
from highwater.bench.prove.judging import DECIDING, faults_of
from highwater.bench.prove.loads import load_file
from highwater.bench.prove.proving import Targets, overlay_of, plan_of_variants
from highwater.bench.prove.subjects import Subject
from highwater.bench.trials.plan import Plan
from highwater.bench.workload.specification import VARIANT
from highwater.common.units import plural
from highwater.results.analysis.statistics import RatioEstimate, smallest_detectable_ratio
from highwater.results.metrics import METRICS, MetricDefinition
from highwater.results.models import TrialPlan, TrialSummary
from highwater.results.reader import RunResult

# The broker fails now and then by chance; that a setting was on each time is then no reason to suspect it.
_LEAST_FAULTS: Final = 4


def screening_round(
    disk: str, load: str, subjects: Mapping[str, Subject], seed: int, exclusive: Collection[frozenset[str]]
) -> StoredRound:
    """exclusive: pairs of settings that cannot be on together."""
    rows = screening_rows(list(subjects), lambda one, other: frozenset((one, other)) in exclusive, seed)
    width = len(str(len(rows)))
    settings = [StoredSetting.of(setting, subject) for setting, subject in subjects.items()]
    named = {f"trial-{number:0{width}}": list(row) for number, row in enumerate(rows, start=1)}
    return StoredRound(disk=disk, load=load, stage="first", number=1, seed=seed, settings=settings, rows=named)


def screening_plan(item: StoredRound, subjects: Mapping[str, Subject], targets: Targets) -> Plan:
    chosen = [subjects[each.setting] for each in item.settings]
    variants = {
        name: overlay_of(chosen, [subjects[setting] for setting in on if not is_dummy(setting)])
        for name, on in item.rows.items()
    }
    return plan_of_variants(load_file(item.load), variants, targets, 1, item.seed, a_a=False)


def screened(result: RunResult, item: StoredRound, figures: Sequence[str]) -> dict[Key, Look]:
    """The looks at all settings, and at the dummies, of a run."""
    names = [each.setting for each in item.settings]
    dummies = sorted({name for row in item.rows.values() for name in row if is_dummy(name)})
    trials = [trial.summary for trial in result.trials]
    valid = [summary for summary in trials if summary.verdict.state != "invalid"]
    found: dict[str, list[Effect]] = {name: [] for name in [*names, *dummies]}
    for figure in figures:
        definition = METRICS[figure]
        measured = _measured(valid, item, definition)
        # Dummies are part of the noise, as far as settings are concerned.
        told = estimates(measured, names)
        told |= {name: one for name in dummies if (one := estimates(measured, [*names, name]).get(name)) is not None}
        for name, estimate in told.items():
            found[name].append(effect_of(definition, estimate))
    faults = _faults(trials, result.manifest.trials, item)
    few = f"{len(valid)} of {plural(len(item.rows), 'trial')} valid, too few to tell what it does"
    shortage = few if len(valid) < len(item.rows) else ""
    return {
        Key(name, item.load, item.disk): Look(
            tuple(effects), plural(len(valid), "trial"), "" if effects else shortage, faults.get(name, "")
        )
        for name, effects in found.items()
    }


def effect_of(definition: MetricDefinition, estimate: LogEstimate) -> Effect:
    floor = DECIDING[definition.name]
    low, high = estimate.interval
    smallest = smallest_detectable_ratio(RatioEstimate(estimate.ratio, low, high, estimate.degrees), floor)
    return Effect(
        metric=definition.name,
        better=definition.better,
        ratio=estimate.ratio,
        interval=(low, high),
        delta_ratio=floor,
        floor_ratio=floor,
        detectable_ratio=smallest,
        p_value=estimate.p_value(floor),
    )


def _measured(valid: Iterable[TrialSummary], item: StoredRound, definition: MetricDefinition) -> list[MeasuredTrial]:
    return [
        MeasuredTrial(frozenset(item.rows[str(summary.factors[VARIANT])]), summary.order_in_block, value)
        for summary in valid
        if (value := definition.read(summary)) is not None
    ]


def _faults(summaries: Sequence[TrialSummary], plans: Sequence[TrialPlan], item: StoredRound) -> dict[str, str]:
    """Setting to fault, if the broker failed several times and the setting was on each time."""
    cells = {str(plan.factors[VARIANT]): plan.cell for plan in plans}
    of_row = {name: faults[0] for name, cell in cells.items() if (faults := faults_of(summaries, plans, cell))}
    if len(of_row) < _LEAST_FAULTS:
        return {}
    always = set.intersection(*(set(item.rows[name]) for name in of_row))
    text = f"the broker failed in {plural(len(of_row), 'trial')}, with this on in each: {next(iter(of_row.values()))}"
    return {each.setting: text for each in item.settings if each.setting in always}
