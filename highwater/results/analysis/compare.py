"""Compares two sets of trials: ratios with intervals for each metric, and verdicts; pure.

`compare` compares two result directories, or cells of them. `judge` is the core of `compare` and of the gate: pairs of
trials in, verdicts out. A change counts when its whole interval is beyond delta = max(floor, noise). Otherwise the
verdict is "no change", with the smallest change that the trials could detect. A gated metric has no change only when
its interval is completely within the floor; otherwise it is undecided.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any, Final

from highwater.common.units import plural
from highwater.results import environment_key
from highwater.results.analysis import comparison_answer
from highwater.results.analysis.cells import offered_per_s
from highwater.results.analysis.conclusions import noise_between
from highwater.results.analysis.delivered import delivery_of
from highwater.results.analysis.statement import joined
from highwater.results.analysis.statistics import (
    CONFIDENCE,
    LEAST_FOR_INTERVAL,
    Side,
    a_a_centre_bound,
    bootstrap_median_ci,
    holm,
    paired_p_value,
    paired_ratio_ci,
    smallest_detectable_ratio,
    unpaired_p_value,
    unpaired_ratio_ci,
)
from highwater.results.analysis_file import AaPair, Better, ComparisonVerdict
from highwater.results.environment_key import Scalar
from highwater.results.gate import (
    ComparedSide,
    EnvironmentDifference,
    MetricComparison,
    ResultComparison,
    SideDelivery,
    SideEstimate,
)
from highwater.results.metrics import METRICS, MetricDefinition
from highwater.results.models import TrialSummary
from highwater.results.reader import RunResult

ALPHA: Final = 1 - CONFIDENCE
LOAD_SECTIONS: Final = ("load", "records")
"""The sections of a workload that say how much is offered, when, and of which records. Partitions, clients and their
settings are what people compare.
"""
LoadOf = Callable[[Mapping[str, Any], Mapping[str, Scalar]], Mapping[str, Scalar]]
"""Takes a workload and the factors of a cell; returns the load by key (`highwater.bench.workload.requested_load`)."""
ONLY_CELL: Final = "base"
"""The name of the only cell of a workload without a matrix."""


@dataclass(frozen=True, slots=True)
class Trials:
    """The valid trials of one cell on both sides. If paired, base[n] and head[n] are a pair."""

    cell: str
    base: list[TrialSummary]
    head: list[TrialSummary]
    paired: bool

    @property
    def cells(self) -> set[str]:
        """The names of these trials' cells, with and without variants."""
        return {self.cell, *(summary.cell for summary in (*self.base, *self.head))}


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits for changes of metrics."""

    floors: Mapping[str, float] = field(default_factory=dict)
    """Metric -> smallest change that matters; these metrics are gated, with p-values corrected for their number."""
    better: Mapping[str, Better] = field(default_factory=dict)
    """Metric -> better direction, where the table of metrics has none or another one."""
    noise: Mapping[str, Sequence[AaPair]] = field(default_factory=dict)
    """Metric to A/A pairs."""
    quantile: float = CONFIDENCE
    only: frozenset[tuple[str, str]] | None = None
    """The cells and metrics that are gated; None for every cell of a metric with a floor."""

    def gates(self, cell: str, metric: str) -> bool:
        return metric in self.floors and (self.only is None or (cell, metric) in self.only)


def judge(cells: Sequence[Trials], metrics: Sequence[str], limits: Limits, seed: int) -> list[MetricComparison]:
    """Compare the metrics of every cell. Metrics with a floor in `limits` are gated, and their p-values corrected."""
    compared = [
        comparison
        for trials in cells
        for name in metrics
        if (comparison := _compare_metric(trials, METRICS[name], limits, seed)) is not None
    ]
    gated = [index for index, comparison in enumerate(compared) if comparison.gated]
    worse = holm([_p_value(compared[index].p_value) for index in gated])
    for index, corrected in zip(gated, worse, strict=True):
        compared[index] = compared[index].model_copy(update={"p_value_holm": corrected})
    return [comparison.model_copy(update={"verdict": _verdict(comparison)}) for comparison in compared]


def compare(
    base: RunResult,
    head: RunResult,
    base_cell: str | None = None,
    head_cell: str | None = None,
    metrics: Sequence[str] | None = None,
    limits: Limits | None = None,
    *,
    load_of: LoadOf,
) -> ResultComparison:
    """Compare two result directories cell by cell, or one cell of each. Raises ValueError when they share no cell.

    Trials of one run are paired by block. Trials of two runs are unpaired, with a warning that drift is possible.
    """
    paired = base.directory.resolve() == head.directory.resolve()
    cells, unmatched = matched_cells(base, head, base_cell, head_cell, paired=paired)
    found = judge(
        cells, list(metrics or METRICS), limits or Limits(noise=noise_of_both(base, head)), head.manifest.seed
    )
    warnings = [*unmatched, *_warnings(base, head, cells, paired=paired)]
    if limits is None and found and all(item.noise_ratio is None for item in found):
        warnings.append(
            "the noise is not known (it takes three A/A pairs): a change counts if its interval does not contain 1"
        )
    requested = list(metrics or _requested(base, head))
    about = {
        cell: comparison_answer.shown_first([item for item in found if item.cell == cell], requested)
        for cell in dict.fromkeys(item.cell for item in found)
    }
    environment = [] if paired else environment_key.differences(base, head)
    load = [] if paired else _load_differences(base, head, cells, load_of)
    answer = comparison_answer.sentence_of_cells(about) if about else "nothing can be compared"
    given = {"base": (base, base_cell), "head": (head, head_cell)}
    sides = {name: side_of(result, [cell] if cell else None) for name, (result, cell) in given.items()}
    doubts = _doubts(sides.values(), cells, environment, load) if about else []
    return ResultComparison(
        base=sides["base"],
        head=sides["head"],
        paired=paired,
        metrics=found,
        asked=requested,
        answer="; ".join([*_losses(sides), answer, *doubts]),
        answers={cell: comparison_answer.sentence(items) for cell, items in about.items()},
        environment=environment,
        workload=[] if paired else [*load, *_other_differences(base, head)],
        warnings=warnings,
    )


def headline_of(comparison: ResultComparison, cells: Sequence[Trials]) -> str:
    """The answer in a sentence with at most three figures: what was lost, what changed, what keeps it from being sure.

    cells: those compared.
    """
    doubts = [
        *(["invalid trials were left out"] if comparison.base.n_invalid or comparison.head.n_invalid else []),
        *(["trials were disturbed"] if any(map(_is_inconclusive, _used(cells))) else []),
        *([] if comparison.same_environment else ["the conditions differed"]),
        *([] if comparison.same_load else ["the loads differed"]),
    ]
    in_doubt = [f"in doubt: {' and '.join(doubts)}"] if doubts else []
    clauses = [comparison_answer.headline(comparison.answered), *in_doubt]
    if comparison.is_broken:
        losses = [f"{name}: {one.short}" for name, one in comparison.deliveries.items() if one.is_broken]
        return joined([*(losses if len(losses) == 1 else ["records were lost or damaged on both sides"]), *clauses])
    shorts = dict.fromkeys(one.short for one in comparison.deliveries.values())
    if len(shorts) > 1:
        return joined([*clauses, *(f"{name}: {one.short}" for name, one in comparison.deliveries.items())])
    return joined([*clauses, *shorts])


def _requested(base: RunResult, head: RunResult) -> list[str]:
    """The metrics of both workloads' questions, those of head first."""
    requested = (
        comparison_answer.asked_metrics(result.manifest.workload, at_once=bool(result.sharing_notes()))
        for result in (head, base)
    )
    return list(dict.fromkeys(name for names in requested for name in names))


def _losses(sides: Mapping[str, ComparedSide]) -> Iterator[str]:
    """What became of the records of each side that broke its promise."""
    for name, side in sides.items():
        if side.delivery is not None and side.delivery.is_broken:
            yield f"{name}: {side.delivery.text.removesuffix('.')}"


def _doubts(
    sides: Iterable[ComparedSide],
    cells: Sequence[Trials],
    environment: Sequence[EnvironmentDifference],
    load: Sequence[EnvironmentDifference],
) -> Iterator[str]:
    """What keeps the answer from being sure."""
    used = _used(cells)
    if invalid := sum(side.n_invalid for side in sides):
        yield f"in doubt: {plural(invalid, 'invalid trial')} left out"
    if doubtful := sum(map(_is_inconclusive, used)):
        yield f"in doubt: {doubtful} of {len(used)} trials inconclusive"
    if any(difference.decides for difference in environment):
        yield "in doubt: the two were measured under different conditions"
    if load:
        yield f"in doubt: the two had different loads ({'; '.join(map(environment_key.difference_text, load))})"


def _used(cells: Sequence[Trials]) -> list[TrialSummary]:
    return [summary for trials in cells for summary in (*trials.base, *trials.head)]


def _is_inconclusive(summary: TrialSummary) -> bool:
    return summary.verdict.state == "inconclusive"


def matched_cells(
    base: RunResult, head: RunResult, base_cell: str | None, head_cell: str | None, *, paired: bool
) -> tuple[list[Trials], list[str]]:
    """The cells to compare, and a line for every cell without a counterpart. Raises ValueError when none match."""
    base_cells, head_cells = _valid(base), _valid(head)
    for result, cells, wanted in ((base, base_cells, base_cell), (head, head_cells, head_cell)):
        if wanted is not None and wanted not in cells:
            raise ValueError(f"{result.directory} has no cell {wanted!r}; it has {', '.join(cells)}")
    if base_cell is not None or head_cell is not None:
        names = [(base_cell or _only(base, base_cells), head_cell or _only(head, head_cells))]
    elif len(base_cells) == 1 and len(head_cells) == 1:
        names = [(next(iter(base_cells)), next(iter(head_cells)))]
    else:
        names = [(cell, cell) for cell in base_cells if cell in head_cells]
    if not names:
        raise ValueError(
            f"{base.directory} and {head.directory} share no cell; name one of each with DIR:CELL "
            f"({', '.join(base_cells)} and {', '.join(head_cells)})"
        )
    single = len(base_cells) == len(head_cells) == 1
    found = []
    for one, other in names:
        label = ONLY_CELL if single else one if one == other else f"{one} → {other}"
        trials = Trials(label, base_cells[one], head_cells[other], paired=False)
        found.append(_paired(trials) if paired else trials)
    lonely = [] if base_cell or head_cell else sorted(set(base_cells) ^ set(head_cells)) if len(names) > 1 else []
    return found, [f"cell {cell} is in only one of the two" for cell in lonely]


def noise_of(result: RunResult) -> dict[str, list[AaPair]]:
    """Metric to the run's A/A pairs."""
    analysis = result.analysis()
    return {item.metric: item.pairs for item in analysis.noise} if analysis else {}


def noise_of_both(base: RunResult, head: RunResult) -> dict[str, list[AaPair]]:
    """Metric to the A/A pairs of two runs; of one run when they are the same."""
    pairs = noise_of(base)
    if base.directory.resolve() != head.directory.resolve():
        for name, others in noise_of(head).items():
            pairs[name] = [*pairs.get(name, []), *others]
    return pairs


def side_of(result: RunResult, cells: Sequence[str] | None = None, given: str | None = None) -> ComparedSide:
    """A side of a comparison: a run, or some of its cells."""
    cells = list(result.cells()) if cells is None else cells
    trials = [trial.summary for trial in result.trials if trial.summary.cell in cells]
    manifest = result.manifest
    delivery = delivery_of(result, {cell: cell for cell in cells}, cells)
    return ComparedSide(
        given=given or str(result.directory),
        directory=str(result.directory),
        cells=list(cells),
        name=manifest.name,
        created_utc=manifest.created_utc,
        system=", ".join(sorted({f"{summary.system.kind} {summary.system.version}" for summary in trials})),
        commit=manifest.git.commit + ("+changes" if manifest.git.dirty else "") if manifest.git else None,
        environment_key=environment_key.key_of(result).name,
        delivery=SideDelivery(
            text=delivery.text, short=delivery.short or delivery.text, is_broken=delivery.state == "bad"
        ),
        n_invalid=sum(summary.role == "measure" and summary.verdict.state == "invalid" for summary in trials),
    )


def change_for_the_worse(comparison: MetricComparison) -> float | None:
    """How much worse head is than base (0.05: 5 %), negative if it is better; None without a ratio."""
    if comparison.ratio is None:
        return None
    return (1 / comparison.ratio if comparison.better == "higher" else comparison.ratio) - 1


def _compare_metric(trials: Trials, definition: MetricDefinition, limits: Limits, seed: int) -> MetricComparison | None:
    base_values, head_values = _values(trials, definition)
    if not base_values or not head_values:
        return None
    name = definition.name
    better = limits.better.get(name) or definition.better_of(offered_per_s(trials.base), offered_per_s(trials.head))
    n = min(len(base_values), len(head_values))
    a_a_ratios = noise_between(limits.noise.get(name, ()), trials.cells)
    noise = a_a_centre_bound(a_a_ratios, n, limits.quantile, paired=trials.paired)
    floor = limits.floors.get(name, 0.0)
    delta = max(floor, noise or 0.0)
    if trials.paired:
        estimate = paired_ratio_ci(base_values, head_values)
    else:
        estimate = unpaired_ratio_ci(base_values, head_values, seed=seed)
    p_value_of = paired_p_value if trials.paired else unpaired_p_value
    side: Side = "less" if better == "higher" else "greater"
    return MetricComparison(
        cell=trials.cell,
        metric=name,
        unit=definition.unit,
        better=better,
        gated=limits.gates(trials.cell, name),
        base=_side(base_values, seed),
        head=_side(head_values, seed),
        paired=trials.paired,
        n_pairs=n,
        ratio=estimate.ratio if estimate else None,
        ci95=estimate.interval if estimate else None,
        floor_ratio=floor,
        noise_ratio=noise,
        delta_ratio=delta,
        smallest_detectable_ratio=smallest_detectable_ratio(estimate, delta) if estimate else None,
        p_value=p_value_of(base_values, head_values, side, delta, seed) if better != "none" else None,
        verdict="undecided",
    )


def _values(trials: Trials, definition: MetricDefinition) -> tuple[list[float], list[float]]:
    base = [definition.read(summary) for summary in trials.base]
    head = [definition.read(summary) for summary in trials.head]
    if not trials.paired:
        return [value for value in base if value is not None], [value for value in head if value is not None]
    pairs = [(one, other) for one, other in zip(base, head, strict=True) if one is not None and other is not None]
    return [one for one, _ in pairs], [other for _, other in pairs]


def _verdict(comparison: MetricComparison) -> ComparisonVerdict:
    if comparison.ci95 is None:
        # There is no ratio to 0, but two sides that are always 0 are equal.
        same = comparison.ratio is None and comparison.base.value == comparison.head.value == 0
        return "no_change" if same and comparison.n_pairs > 1 else "undecided"
    low, high = comparison.ci95
    beyond = 1 + comparison.delta_ratio
    if low > beyond or high < 1 / beyond:
        if comparison.better == "none":
            return "differs"
        if (low > beyond) != (comparison.better == "lower"):
            return "better"
        p_value = comparison.p_value if comparison.p_value_holm is None else comparison.p_value_holm
        return "worse" if _p_value(p_value) <= ALPHA else "undecided"
    within = 1 + comparison.floor_ratio
    not_lower, not_higher = 1 / within <= low, high <= within
    if not comparison.gated or (not_lower and not_higher):
        return "no_change"
    if (not_higher and comparison.better == "lower") or (not_lower and comparison.better == "higher"):
        return "not_worse"
    return "undecided"


def _p_value(p_value: float | None) -> float:
    return 1.0 if p_value is None else p_value


def _side(values: list[float], seed: int) -> SideEstimate:
    interval = bootstrap_median_ci(values, seed=seed)
    return SideEstimate(value=median(values), ci95=interval, n_trials=len(values), most=max(values))


def _paired(trials: Trials) -> Trials:
    """The trials of blocks in which both sides have a valid trial."""
    base = {summary.block: summary for summary in trials.base}
    head = {summary.block: summary for summary in trials.head}
    blocks = sorted(set(base) & set(head))
    return Trials(trials.cell, [base[block] for block in blocks], [head[block] for block in blocks], paired=True)


def _valid(result: RunResult) -> dict[str, list[TrialSummary]]:
    return {
        cell: [trial.summary for trial in trials if trial.summary.verdict.state != "invalid"]
        for cell, trials in result.cells().items()
    }


def _only(result: RunResult, cells: Mapping[str, object]) -> str:
    if len(cells) != 1:
        raise ValueError(f"{result.directory} has several cells; name one with DIR:CELL ({', '.join(cells)})")
    return next(iter(cells))


def _warnings(base: RunResult, head: RunResult, cells: Sequence[Trials], *, paired: bool) -> Iterable[str]:
    if not paired:
        yield (
            "the two were not interleaved: that the host drifted between them cannot be excluded; "
            "`bench gate` runs both in turn"
        )
    for name, result in {str(base.directory): base, str(head.directory): head}.items():
        if not result.manifest.for_measurement:
            yield f"{name}: its workload says for_measurement: false; its figures are not to be quoted"
        measured = [trial.summary for trial in result.trials if trial.summary.role == "measure"]
        for state, meaning in (("invalid", "left out"), ("inconclusive", "used, but in doubt")):
            if count := sum(summary.verdict.state == state for summary in measured):
                yield f"{name}: {count} of {len(measured)} trials are {state}: {meaning}"
        if result.manifest.status != "done":
            yield f"{name}: the run is {result.manifest.status}"
        notes = [*result.emulation_notes(), *result.durability_notes(), *result.sharing_notes()]
        yield from (f"{name}: {note}" for note in notes)
    for trials in cells:
        one, other = (_connections(side) for side in (trials.base, trials.head))
        if one and other and one != other:
            yield f"{trials.cell}: clients came in by {one} there and by {other} here, and TLS has its price"
        if min(len(trials.base), len(trials.head)) < LEAST_FOR_INTERVAL:
            yield (
                f"{trials.cell}: {len(trials.base)} and {len(trials.head)} trials to compare; "
                f"an interval needs {LEAST_FOR_INTERVAL} of each"
            )


def _connections(side: Sequence[TrialSummary]) -> str:
    return ", ".join(sorted({environment_key.connection_text(summary.system.connection) for summary in side}))


def _load_differences(
    base: RunResult, head: RunResult, cells: Sequence[Trials], load_of: LoadOf
) -> list[EnvironmentDifference]:
    """Return what differs between the loads of the cells that are compared. Figures of two loads are no verdict."""

    def load(result: RunResult, cell: str) -> Mapping[str, Scalar]:
        factors = next((planned.factors for planned in result.manifest.trials if planned.cell == cell), {})
        return load_of(result.manifest.workload, factors)

    found = [
        difference
        for trials in cells
        if trials.base and trials.head
        for difference in environment_key.unequal(load(base, trials.base[0].cell), load(head, trials.head[0].cell))
    ]
    return list({(item.fact, item.base, item.head): item for item in found}.values())


def _other_differences(base: RunResult, head: RunResult) -> list[EnvironmentDifference]:
    """What differs between the two workload files beside the load."""
    workloads = (environment_key.what_is_measured(result.manifest.workload) for result in (base, head))
    one, other = map(environment_key.flat, workloads)
    found = environment_key.unequal(one, other, decides=False)
    return [
        item
        for item in found
        if item.fact not in ("name", "purpose") and item.fact.partition(".")[0] not in LOAD_SECTIONS
    ]
