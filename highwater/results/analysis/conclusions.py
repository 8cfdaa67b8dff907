"""Concludes from the trials of a run: estimates with intervals, noise, comparisons, warnings.

Pure: summaries in, the model of analysis.json out. Invalid trials are left out. Inconclusive ones are used: no check
has failed for them, and to leave out only disturbed trials would be to select by outcome.
Percentiles are never averaged: a cell's p99 is the median of its trials' p99.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from statistics import median
from typing import Final

from highwater.common.units import percent_text
from highwater.results.analysis.statistics import (
    INTERVAL_METHOD,
    LEAST_FOR_INTERVAL,
    LEAST_FOR_NOISE,
    RatioEstimate,
    a_a_bound,
    a_a_centre_bound,
    bootstrap_median_ci,
    coefficient_of_variation,
    holm,
    paired_p_value,
    paired_ratio_ci,
    smallest_detectable_ratio,
)
from highwater.results.analysis_file import (
    AaPair,
    Analysis,
    Better,
    CellAnalysis,
    Comparison,
    ComparisonVerdict,
    MetricEstimate,
    Noise,
)
from highwater.results.metrics import METRICS, OFFERED, MetricDefinition, values_of
from highwater.results.models import Scalar, TrialSummary

SIGNIFICANCE: Final = 0.05
# pyperf's rule: a standard deviation above a tenth of the mean is unstable.
UNSTABLE_COV_RATIO: Final = 0.1
# The metrics that get a warning when they are unstable; a maximum is never stable.
HEADLINES: Final = ("produce.achieved_per_s", "produce.p50", "produce.p99", "e2e.p50", "e2e.p99")
# Metrics of trials that shared a processor: all others depend on how the trials took turns.
HEADLINES_AT_ONCE: Final = ("system.cpu_s_per_gib",)

Values = dict[str, float]


def analyse(
    factors: Mapping[str, dict[str, Scalar]], summaries: Sequence[TrialSummary], *, seed: int, complete: bool
) -> Analysis:
    """Analyse a run.

    factors: those of every cell in the order of the axes; all other cells are compared with the first one.
    summaries: of all finished trials, including A/A twins, in the order of running.
    """
    measured = {cell: [s for s in summaries if s.cell == cell and s.role == "measure"] for cell in factors}
    used = {cell: usable(trials) for cell, trials in measured.items()}
    values = {cell: values_by_block(trials) for cell, trials in used.items()}
    noise = noise_of(summaries, values)
    cells = [
        CellAnalysis(
            cell=cell,
            factors=factors[cell],
            n_trials=len(measured[cell]),
            n_valid=sum(s.verdict.state == "valid" for s in measured[cell]),
            n_used=len(used[cell]),
            metrics=[
                estimate(definition, found, seed)
                for definition in METRICS.values()
                if (found := [row[definition.name] for row in values[cell].values() if definition.name in row])
            ],
        )
        for cell in factors
    ]
    return Analysis(
        complete=complete,
        seed=seed,
        cells=cells,
        noise=noise,
        comparisons=_comparisons(values, {item.metric: item.pairs for item in noise}, seed),
        # Trials that ran at once are compared within their block only, so differences between blocks do not matter.
        warnings=list(_warnings(cells, noise, () if any(s.at_once for s in summaries) else HEADLINES)),
    )


def usable(trials: Iterable[TrialSummary]) -> list[TrialSummary]:
    """The trials whose figures are used: all but the invalid ones."""
    return [trial for trial in trials if trial.verdict.state != "invalid"]


def values_by_block(trials: Iterable[TrialSummary]) -> dict[int, Values]:
    return {trial.block: values_of(trial) for trial in trials}


def estimate(definition: MetricDefinition, values: Sequence[float], seed: int) -> MetricEstimate:
    """One metric from the values of its trials."""
    cov_ratio = coefficient_of_variation(values)
    interval = bootstrap_median_ci(values, seed=seed)
    return MetricEstimate(
        metric=definition.name,
        value=median(values),
        unit=definition.unit,
        better=definition.better,
        n_trials=len(values),
        values=list(values),
        ci95=interval,
        method=f"median of {len(values)} trials; "
        + (INTERVAL_METHOD if interval else f"no interval below {LEAST_FOR_INTERVAL}"),
        cov_ratio=cov_ratio,
        unstable=cov_ratio is not None and cov_ratio > UNSTABLE_COV_RATIO,
    )


def halfwidth_ratio(summaries: Iterable[TrialSummary], metric: str, seed: int) -> float | None:
    """Half of the metric's 95 % interval ÷ its median, over trials that are not invalid; None without an interval."""
    found = [METRICS[metric].read(summary) for summary in usable(summaries)]
    values = [value for value in found if value is not None]
    interval = bootstrap_median_ci(values, seed=seed)
    if interval is None or not (middle := median(values)):
        return None
    return (interval[1] - interval[0]) / 2 / abs(middle)


def noise_between(pairs: Sequence[AaPair], cells: Collection[str]) -> list[float]:
    """The A/A ratios that bound the error of a ratio of `cells`: of their own pairs if these are enough, else of all.

    A noisy cell must not hide changes in quiet ones. Simulated gates with three cells and 14 blocks, one cell with a
    scatter of 15 % and two with 2 %: a slowdown of a quiet cell by 10 % is found 49 times in 100 with the noise of all
    cells, and always with its own noise; false alarms stay below 1 in 100 in both cases. With equally noisy cells the
    smaller number of pairs costs 3 detections in 100 at a floor of 5 %, and up to 12 without a floor (reports and
    plain comparisons).
    """
    own = [pair.ratio for pair in pairs if pair.cell in cells]
    return own if len(own) >= LEAST_FOR_NOISE else [pair.ratio for pair in pairs]


def _a_a_pairs(
    summaries: Sequence[TrialSummary], values: Mapping[str, Mapping[int, Values]]
) -> Iterable[tuple[str, Values, Values]]:
    if len(values) == 1:
        ((cell, by_block),) = values.items()
        rows = list(by_block.values())
        yield from ((cell, one, other) for one, other in zip(rows[::2], rows[1::2], strict=False))
    for twin in summaries:
        if twin.role == "a_a" and twin.verdict.state != "invalid" and twin.block in values.get(twin.cell, {}):
            yield twin.cell, values[twin.cell][twin.block], values_of(twin)


def noise_of(summaries: Sequence[TrialSummary], values: Mapping[str, Mapping[int, Values]]) -> list[Noise]:
    """What trials of the same thing differ by. values: figures of the usable trials by cell and block."""
    pairs, single_cell = list(_a_a_pairs(summaries, values)), len(values) == 1
    noise = []
    for name in METRICS:
        found = [(cell, one[name], other[name]) for cell, one, other in pairs if name in one and name in other]
        a_a_pairs = [AaPair(cell, other / one) for cell, one, other in found if one > 0 and other > 0]
        ratios = [pair.ratio for pair in a_a_pairs]
        if ratios:
            what = "trials of the one cell, two by two" if single_cell else "a trial and its twin of the same block"
            noise.append(
                Noise(
                    metric=name,
                    n_pairs=len(ratios),
                    ratios=ratios,
                    cells=[pair.cell for pair in a_a_pairs],
                    bound95_ratio=a_a_bound(ratios),
                    method=f"{what}; 95 % prediction bound of a ratio by Student's t",
                )
            )
    return noise


def _comparisons(
    values: Mapping[str, Mapping[int, Values]], a_a_pairs: Mapping[str, Sequence[AaPair]], seed: int
) -> list[Comparison]:
    base = next(iter(values))
    return [
        comparison
        for definition in METRICS.values()
        for comparison in comparisons_with(base, values, definition, a_a_pairs.get(definition.name, ()), seed)
    ]


def comparisons_with(
    base: str,
    values: Mapping[str, Mapping[int, Values]],
    definition: MetricDefinition,
    a_a_pairs: Sequence[AaPair],
    seed: int,
) -> list[Comparison]:
    """Every other cell of `values` against `base` in one metric, with p-values corrected for the number of cells.

    values: figures by cell and block. A cell that has no ratio to `base` is left out.
    """
    found = {
        head: compared
        for head in values
        if head != base
        and (
            compared := _compare(
                values[base], values[head], definition.name, noise_between(a_a_pairs, {base, head}), seed
            )
        )
        is not None
    }
    corrected = holm([p_value for *_, p_value in found.values()])
    better = {head: definition.better_of(_offered(values[base]), _offered(values[head])) for head in found}
    return [
        Comparison(
            base=base,
            head=head,
            metric=definition.name,
            better=better[head],
            n_pairs=ratio.n,
            ratio=ratio.ratio,
            ci95=ratio.interval,
            delta_ratio=delta_ratio,
            smallest_detectable_ratio=smallest_detectable_ratio(ratio, delta_ratio),
            p_value=p_value,
            p_value_holm=p_value_holm,
            verdict=_verdict(better[head], ratio, delta_ratio, p_value_holm),
        )
        for (head, (ratio, delta_ratio, p_value)), p_value_holm in zip(found.items(), corrected, strict=True)
    ]


def _compare(
    base: Mapping[int, Values], head: Mapping[int, Values], metric: str, noise: Sequence[float], seed: int
) -> tuple[RatioEstimate, float, float] | None:
    """Compare two cells over the blocks that have both: ratio, noise bound from A/A pairs, and p-value."""
    blocks = [block for block in base if metric in base[block] and metric in head.get(block, {})]
    base_values, head_values = [base[block][metric] for block in blocks], [head[block][metric] for block in blocks]
    ratio = paired_ratio_ci(base_values, head_values)
    if ratio is None:
        return None
    delta_ratio = a_a_centre_bound(noise, ratio.n) or 0.0
    # The direction of the change is not known beforehand, so the test is two-sided.
    p_value = paired_p_value(base_values, head_values, "two_sided", delta_ratio, seed)
    return None if p_value is None else (ratio, delta_ratio, p_value)


def _offered(by_block: Mapping[int, Values]) -> float | None:
    """The offered load of a cell; None in a closed loop."""
    return median(found) if (found := [row[OFFERED] for row in by_block.values() if OFFERED in row]) else None


def _verdict(better: Better, ratio: RatioEstimate, delta_ratio: float, p_value_holm: float) -> ComparisonVerdict:
    if ratio.low is None or ratio.high is None:
        return "undecided"
    above, below = ratio.low > 1 + delta_ratio, ratio.high < 1 / (1 + delta_ratio)
    if not (above or below):
        return "no_change"
    if p_value_holm > SIGNIFICANCE:
        return "undecided"
    if better == "none":
        return "differs"
    return "better" if above == (better == "higher") else "worse"


def _warnings(cells: Sequence[CellAnalysis], noise: Sequence[Noise], steady: Collection[str]) -> Iterable[str]:
    """The warnings. steady: the metrics that should not change from trial to trial."""
    for cell in cells:
        if not cell.n_trials:
            continue
        if not cell.n_used:
            yield f"{cell.cell}: no trial is a valid measurement; no figure of it may be quoted"
            continue
        if left_out := cell.n_trials - cell.n_used:
            yield f"{cell.cell}: {left_out} of {cell.n_trials} trials are invalid and left out"
        if doubtful := cell.n_used - cell.n_valid:
            yield f"{cell.cell}: {doubtful} of the {cell.n_used} trials used are inconclusive"
        unstable = [
            f"{metric.metric} ±{percent_text(metric.cov_ratio)}"
            for metric in cell.metrics
            if metric.unstable and metric.metric in steady and metric.cov_ratio is not None
        ]
        if unstable:
            yield f"{cell.cell}: unstable from trial to trial ({', '.join(unstable)}); run more or longer trials"
    fewest = min((cell.n_used for cell in cells if cell.n_used), default=LEAST_FOR_INTERVAL)
    if fewest < LEAST_FOR_INTERVAL:
        yield f"a cell has only {fewest} of the {LEAST_FOR_INTERVAL} trials that an interval takes; raise trials.n"
    if len(cells) > 1 and not any(item.bound95_ratio is not None for item in noise):
        yield "the noise is not known: it takes three A/A pairs (trials.a_a: true and trials.n: 3 or more)"
