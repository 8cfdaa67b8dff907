"""What follows from trials with a setting off and on. Pure: summaries in, effects and a verdict out.

Off and on are cells of one run, so every block is a pair. A figure has changed when the interval of its ratio
lies wholly beyond delta = max(floor, what A/A pairs of the same run differ by), and a permutation test of both
directions says so at 5 % after Holm's correction over the figures that decide. Where nothing was seen, the change that
would have been seen stands beside it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from highwater.bench.gate.reasoning import own_noise
from highwater.bench.trials.verdict import target_at_fault
from highwater.common.units import percent_text
from highwater.results.analysis.compare import ALPHA, ONLY_CELL, Limits, Trials, judge
from highwater.results.analysis.statistics import LEAST_FOR_INTERVAL, holm, paired_p_value
from highwater.results.gate import MetricComparison
from highwater.results.metrics import METRICS
from highwater.results.models import TrialPlan, TrialSummary
from highwater.tuning.proofs import EffectOutcome, MeasuredEffect, ProofVerdict, effect_text

# A smaller change does not matter in operation.
DECIDING: Final[Mapping[str, float]] = {
    "produce.achieved_per_s": 0.02,
    "backlog.drain_bytes_per_s": 0.05,
    "produce.p99": 0.05,
    "e2e.p99": 0.05,
    "system.cpu_s_per_gib": 0.02,
    "writeback.dirty_max_bytes": 0.10,
}
SHOWN: Final = (
    "produce.p50",
    "produce.p999",
    "e2e.p50",
    "host.cpu_ratio",
    "system.rss_bytes",
    "host.disk_write_bytes_per_s",
    "host.disk_read_bytes_per_s",
    "host.io_pressure_some_ratio",
    "writeback.written_bytes",
    "writeback.flush_s",
)
# Trials that cannot detect a change of a quarter in any figure are inconclusive.
USEFUL_DETECTABLE_RATIO: Final = 0.25
# A setting is not worth keeping while another figure could have become twice as bad without detection.
_HARM_DETECTABLE_RATIO: Final = 1.0


@dataclass(frozen=True, slots=True)
class Judgement:
    verdict: ProofVerdict
    text: str
    effects: tuple[MeasuredEffect, ...]
    pairs: int
    """Blocks in which both sides were measured."""
    pairs_valid: int
    a_a_pairs: int


@dataclass(frozen=True, slots=True)
class Compared:
    """Two cells of a run: their valid pairs, and what each figure differs by."""

    trials: Trials
    items: list[MetricComparison]
    p_values: dict[str, float]
    """The two-sided p-value of each metric, of a change beyond `delta_ratio`; not corrected."""
    pairs: int
    a_a_pairs: int

    @property
    def pairs_valid(self) -> int:
        return len(self.trials.base)


def judge_cells(
    summaries: Sequence[TrialSummary], plans: Iterable[TrialPlan], off: str, on: str, seed: int
) -> Judgement:
    """Judge cell `on` against cell `off`. summaries: of all finished trials of the run, including A/A twins."""
    found = compare_cells(summaries, off, on, [*DECIDING, *SHOWN], seed)
    effects = _effects(found)
    failed = list(plans)
    faults_off, faults_on = (faults_of(summaries, failed, cell) for cell in (off, on))
    bound = _bound_figures(found.trials)
    verdict, text = _verdict(effects, found.pairs_valid, found.pairs, faults_off, faults_on, bound)
    return Judgement(verdict, text, effects, found.pairs, found.pairs_valid, found.a_a_pairs)


def compare_cells(summaries: Sequence[TrialSummary], off: str, on: str, metrics: Sequence[str], seed: int) -> Compared:
    """Compare cell `on` with cell `off` over the blocks in which both trials are valid."""
    sides = {cell: {s.block: s for s in summaries if s.cell == cell and s.role == "measure"} for cell in (off, on)}
    blocks = sorted(set(sides[off]) & set(sides[on]))
    valid = [b for b in blocks if "invalid" not in (sides[off][b].verdict.state, sides[on][b].verdict.state)]
    trials = Trials(ONLY_CELL, [sides[off][b] for b in valid], [sides[on][b] for b in valid], paired=True)
    noise = own_noise(summaries)
    items = judge([trials], metrics, Limits(floors=DECIDING, noise=noise), seed)
    p_values = {item.metric: _p_value(trials, item, seed) for item in items}
    return Compared(trials, items, p_values, len(blocks), max(map(len, noise.values()), default=0))


def _effects(found: Compared) -> tuple[MeasuredEffect, ...]:
    p_values = dict(found.p_values)
    deciding = [item.metric for item in found.items if item.gated]
    p_values |= dict(zip(deciding, holm([p_values[name] for name in deciding]), strict=True))
    return tuple(
        MeasuredEffect(
            metric=item.metric,
            unit=item.unit,
            better=item.better,
            decides=item.gated,
            off=item.base.value,
            on=item.head.value,
            ratio=item.ratio,
            low=item.ci95[0] if item.ci95 else None,
            high=item.ci95[1] if item.ci95 else None,
            smallest_detectable_ratio=item.smallest_detectable_ratio,
            outcome=_outcome(item, p_values[item.metric]),
        )
        for item in found.items
    )


def _p_value(trials: Trials, item: MetricComparison, seed: int) -> float:
    """The two-sided p-value: the direction of the change is not known beforehand."""
    read = METRICS[item.metric].read
    pairs = [(read(off), read(on)) for off, on in zip(trials.base, trials.head, strict=True)]
    known = [(off, on) for off, on in pairs if off is not None and on is not None]
    base, head = [off for off, _ in known], [on for _, on in known]
    found = paired_p_value(base, head, "two_sided", item.delta_ratio, seed)
    return 1.0 if found is None else found


def _outcome(item: MetricComparison, p_value: float) -> EffectOutcome:
    if item.ci95 is None:
        # There is no ratio to 0, but two sides that are always 0 are equal.
        both_nothing = item.base.value == item.head.value == 0 and item.n_pairs >= LEAST_FOR_INTERVAL
        return "none_seen" if both_nothing else "unknown"
    low, high = item.ci95
    above = low > 1 + item.delta_ratio
    if not above and high >= 1 / (1 + item.delta_ratio):
        return "none_seen"
    if p_value > ALPHA:
        return "unknown"
    if item.better == "none":
        return "differs"
    return "better" if above == (item.better == "higher") else "worse"


def faults_of(summaries: Iterable[TrialSummary], plans: Iterable[TrialPlan], cell: str) -> list[str]:
    """The faults of the system in this cell: lost records, or its own failure."""
    measured = (summary for summary in summaries if summary.cell == cell and summary.role == "measure")
    lost = [reason.text for summary in measured for reason in summary.verdict.reasons if target_at_fault(reason)]
    failed = [plan.error or "no reason" for plan in plans if plan.cell == cell and plan.status == "failed"]
    return lost + failed


def _bound_figures(trials: Trials) -> frozenset[str]:
    """Figures that the load determines: with an open load that the system keeps up with, the throughput."""
    is_open = any(summary.offered_per_s is not None for summary in (*trials.base, *trials.head))
    return frozenset({"produce.achieved_per_s"} if is_open else ())


def _verdict(
    effects: Sequence[MeasuredEffect],
    n_valid: int,
    n: int,
    faults_off: Sequence[str],
    faults_on: Sequence[str],
    bound: frozenset[str],
) -> tuple[ProofVerdict, str]:
    if faults_on and not faults_off:
        return "revert", f"with it {len(faults_on)} of the trials failed, and none without: {faults_on[0]}"
    if n_valid < LEAST_FOR_INTERVAL:
        why = f": {(faults_off or faults_on)[0]}" if faults_off or faults_on else ""
        return "inconclusive", f"{n_valid} valid pairs of {n}, and {LEAST_FOR_INTERVAL} are needed{why}"
    deciding = [effect for effect in effects if effect.decides]
    worse, better = (_with(deciding, outcome) for outcome in ("worse", "better"))
    if worse:
        gain = f"; for it, {_texts(better)}" if better else ""
        return "revert", f"worse: {_texts(worse)}{gain}"
    unseen = [effect.metric for effect in _with(deciding, "none_seen") if _may_have_doubled(effect)]
    if better and unseen:
        doubt = f"the trials scatter so much that {' and '.join(unseen)} could have doubled unseen"
        return "inconclusive", f"better: {_texts(better)}; but {doubt}"
    if better:
        return "keep", f"better: {_texts(better)}; nothing that decides got worse"
    if unknown := [effect for effect in _with(deciding, "unknown") if effect.low is not None]:
        names = ", ".join(effect.metric for effect in unknown)
        return "inconclusive", f"{names}: looks like a change, and {n_valid} pairs are too few to say; measure more"
    seen = {e.metric: e.smallest_detectable_ratio for e in deciding if e.smallest_detectable_ratio is not None}
    if min((ratio for name, ratio in seen.items() if name not in bound), default=1.0) > USEFUL_DETECTABLE_RATIO:
        quarter = percent_text(USEFUL_DETECTABLE_RATIO)
        return "inconclusive", f"too noisy to see a change of {quarter} in what clients wait for, CPU or dirty memory"
    would = ", ".join(f"{name} {percent_text(ratio)}" for name, ratio in seen.items())
    return "no_effect", f"nothing changed beyond noise; what would have been seen: {would}"


def _may_have_doubled(effect: MeasuredEffect) -> bool:
    seen = effect.smallest_detectable_ratio
    return seen is not None and seen > _HARM_DETECTABLE_RATIO


def _with(effects: Iterable[MeasuredEffect], outcome: str) -> list[MeasuredEffect]:
    return [effect for effect in effects if effect.outcome == outcome]


def _texts(effects: Iterable[MeasuredEffect]) -> str:
    return ", ".join(effect_text(effect) for effect in effects)
