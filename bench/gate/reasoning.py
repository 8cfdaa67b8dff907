"""The gate's reasoning: trials of base and head in, verdicts out. Pure; `bench.gate.run` runs the trials.

Base and head are the variants of one run, so every block is a pair. A gated metric is decided when its interval is
completely beyond delta (worse or better), completely within the floor (no change), or beyond the floor only on the
better side (not worse). The gate fails head only if a metric that got worse gets worse again in every confirmation,
which runs with new processes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from highwater.bench.gate.policy import NO_NOISE, OWN_A_A, Policy, metrics_of
from highwater.bench.runs.agenda import FinishedCells
from highwater.bench.trials.verdict import target_at_fault
from highwater.common.exit_codes import (
    EXIT_DAMAGE,
    EXIT_ENVIRONMENT,
    EXIT_INCONCLUSIVE,
    EXIT_INVALID,
    EXIT_OK,
    EXIT_REGRESSION,
)
from highwater.common.units import change_size_text, change_span_text, change_text, percent_text
from highwater.results.analysis.compare import ONLY_CELL, Limits, Trials, change_for_the_worse, judge
from highwater.results.analysis_file import AaPair
from highwater.results.environment_key import difference_text
from highwater.results.gate import EnvironmentDifference, GateState, MetricComparison
from highwater.results.metrics import METRICS, values_of
from highwater.results.models import TrialPlan, TrialSummary

VARIANT: Final = "variant"
BASE: Final = "base"
HEAD: Final = "head"

Place = tuple[str, str]
"""Cell and metric."""

# A load generator can fail once, and the trial may be one of head's.
_HEAD_FAILURES: Final = 2


@dataclass(frozen=True, slots=True)
class Evaluation:
    """The judgement of the trials so far."""

    metrics: list[MetricComparison]
    pairs: int
    """Blocks with valid trials of both sides, in the cell with the fewest."""
    pairs_valid: int
    a_a_pairs: int

    @property
    def gated(self) -> list[MetricComparison]:
        return [item for item in self.metrics if item.gated]

    @property
    def worse(self) -> frozenset[Place]:
        return frozenset((item.cell, item.metric) for item in self.gated if item.verdict == "worse")

    @property
    def undecided(self) -> list[MetricComparison]:
        return [item for item in self.gated if item.verdict == "undecided"]


@dataclass(frozen=True, slots=True)
class GateOutcome:
    state: GateState
    exit_code: int
    text: str
    confirmed: bool | None = None


def evaluate(
    summaries: Iterable[TrialSummary],
    policy: Policy,
    noise: Mapping[str, Sequence[AaPair]],
    seed: int,
    only: Collection[Place] | None = None,
    planned: Iterable[str] = (),
) -> Evaluation:
    """Judge the variants of one run.

    noise: A/A pairs from another source; with `noise.from: a_a` the run's own pairs are used.
    only: the gated (cell, metric) pairs of a confirmation; None = all that the policy gates.
    planned: cells that count as having no pairs when none of their trials finished.
    """
    found = list(summaries)
    sides: dict[str, dict[str, dict[int, TrialSummary]]] = defaultdict(lambda: {BASE: {}, HEAD: {}})
    for summary in found:
        if summary.role == "measure":
            sides[cell_of(summary)][str(summary.factors[VARIANT])][summary.block] = summary
    for cell in planned:
        sides[cell]
    cells = [_pairs(cell, both[BASE], both[HEAD]) for cell, both in sides.items()]
    own = own_noise(found) if policy.noise.source == OWN_A_A else {}
    limits = limits_of(policy, noise or own, only)
    return Evaluation(
        metrics=judge(cells, metrics_of(policy), limits, seed),
        pairs=min((len(set(both[BASE]) & set(both[HEAD])) for both in sides.values()), default=0),
        pairs_valid=min((len(trials.base) for trials in cells), default=0),
        a_a_pairs=max(map(len, own.values()), default=0),
    )


def limits_of(policy: Policy, noise: Mapping[str, Sequence[AaPair]], only: Collection[Place] | None = None) -> Limits:
    return Limits(
        floors={name: gated.floor_ratio for name, gated in policy.gate.items()},
        better={name: gated.better for name, gated in policy.gate.items() if gated.better},
        noise={} if policy.noise.source == NO_NOISE else noise,
        quantile=policy.noise.quantile,
        only=None if only is None else frozenset(only),
    )


def is_decided(evaluation: Evaluation, policy: Policy) -> bool:
    """Whether more pairs cannot change the outcome."""
    return (
        policy.pairs.stop_when == "decided"
        and evaluation.pairs_valid >= policy.pairs.min
        and not evaluation.undecided
        and bool(evaluation.gated)
    )


def faults(summaries: Iterable[TrialSummary], plans: Iterable[TrialPlan], variant: str) -> list[str]:
    """The faults of a variant: records lost or damaged, or a broker that failed.

    A trial in which the load generator failed is no fault of the variant; it only reduces the number of pairs.
    """
    return broken_promises(
        (summary for summary in summaries if summary.factors.get(VARIANT) == variant),
        (plan for plan in plans if plan.factors.get(VARIANT) == variant),
    )


def broken_promises(summaries: Iterable[TrialSummary], plans: Iterable[TrialPlan]) -> list[str]:
    """A line for each trial that lost or damaged records, or whose broker failed."""
    lost = [
        f"{summary.trial_id}: {reason.text}"
        for summary in summaries
        for reason in summary.verdict.reasons
        if target_at_fault(reason)
    ]
    failed = [
        f"{plan.trial_id}: {plan.error}" for plan in plans if plan.status == "failed" and not plan.generator_failed
    ]
    return lost + failed


def cell_of(trial: TrialSummary | TrialPlan) -> str:
    """The workload's own cell, without the variant."""
    return ",".join(f"{name}={value}" for name, value in trial.factors.items() if name != VARIANT) or ONLY_CELL


def own_noise(summaries: Iterable[TrialSummary]) -> dict[str, list[AaPair]]:
    """Metric to the run's own A/A pairs."""
    found = [summary for summary in summaries if summary.verdict.state != "invalid"]
    measured = {(summary.cell, summary.block): summary for summary in found if summary.role == "measure"}
    pairs: dict[str, list[AaPair]] = {}
    for twin in found:
        if twin.role != "a_a" or (original := measured.get((twin.cell, twin.block))) is None:
            continue
        one, other = values_of(original), values_of(twin)
        for name in METRICS:
            if one.get(name) and other.get(name):
                pairs.setdefault(name, []).append(AaPair(twin.cell, other[name] / one[name]))
    return pairs


def settle(first: Evaluation, confirmations: Sequence[Evaluation], policy: Policy, *, strict: bool) -> GateOutcome:
    """The outcome of all rounds; a regression needs as many confirmations as the policy requires."""
    short = [item for item in (first, *confirmations) if item.pairs_valid < policy.pairs.min]
    if short:
        return GateOutcome(
            "invalid",
            EXIT_INVALID,
            f"{short[0].pairs_valid} valid pairs of {short[0].pairs}, and {policy.pairs.min} are needed",
        )
    standing = first.worse
    for number, confirmation in enumerate(confirmations, start=1):
        still = standing & confirmation.worse
        if not still:
            told = "; ".join(describe_all(first, standing))
            return _not_confirmed(confirmation, f"{told}: not confirmed by rerun {number} with fresh processes", strict)
        standing = still
    if standing:
        confirmed = True if confirmations else None
        word = "confirmed" if confirmations else "not confirmed by a rerun"
        return GateOutcome(
            "regression", EXIT_REGRESSION, f"{'; '.join(describe_all(first, standing))} ({word})", confirmed
        )
    if first.undecided:
        return _inconclusive(first, strict)
    unseen = [name for name in policy.gate if not any(item.metric == name for item in first.gated)]
    if unseen:
        code = EXIT_INCONCLUSIVE if strict else EXIT_OK
        text = f"{', '.join(unseen)}: gated, and not measured by these trials; gate what this workload measures"
        return GateOutcome("inconclusive", code, text)
    not_the_same = [item for item in first.gated if item.verdict in ("better", "not_worse")]
    if not_the_same:
        return GateOutcome("pass", EXIT_OK, "; ".join(describe(item) for item in not_the_same))
    return GateOutcome("pass", EXIT_OK, f"no change; {_detectable(first.gated)}")


def environment_outcome(differences: Sequence[EnvironmentDifference]) -> GateOutcome:
    return GateOutcome(
        "environment_mismatch",
        EXIT_ENVIRONMENT,
        "the two were not measured under the same conditions: "
        f"{'; '.join(map(difference_text, differences))} (--allow-env-diff to go on)",
    )


def target_outcome(found: Sequence[str]) -> GateOutcome:
    more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
    return GateOutcome("target_failed", EXIT_DAMAGE, f"head broke its promise: {found[0]}{more}")


def describe(item: MetricComparison) -> str:
    """`produce.p99 12.3 % worse (95 % interval 9.1 to 15 %)`; of an undecided direction `produce.p99 not worse (…)`."""
    change = change_for_the_worse(item)
    name = item.metric if item.cell == ONLY_CELL else f"{item.metric} [{item.cell}]"
    if change is None or item.ci95 is None:
        return f"{name}: no ratio"
    if item.verdict in ("not_worse", "no_change", "undecided"):
        words = item.verdict.replace("_", " ")
        return f"{name} {words} ({change_text(item.ratio or 1.0)}, 95 % interval {change_span_text(*item.ci95)})"
    low, high = sorted(1 / bound - 1 if item.better == "higher" else bound - 1 for bound in item.ci95)
    if change < 0:
        return f"{name} {percent_text(-change)} better (95 % interval {_span(-high, -low)})"
    return f"{name} {percent_text(change)} worse (95 % interval {_span(low, high)})"


def _span(low: float, high: float) -> str:
    return f"{percent_text(low).removesuffix(' %')} to {percent_text(high)}"


def describe_all(evaluation: Evaluation, places: Collection[Place]) -> list[str]:
    return [describe(item) for item in evaluation.gated if (item.cell, item.metric) in places]


def early_stop(
    policy: Policy, noise: Mapping[str, Sequence[AaPair]], seed: int, only: Collection[Place] | None = None
) -> FinishedCells:
    """A function for the runner, called before each block: stops when more pairs cannot change the outcome."""

    def finished(summaries: Sequence[TrialSummary]) -> Mapping[str, str]:
        reason = _reason_to_stop(summaries, policy, evaluate(summaries, policy, noise, seed, only))
        return {summary.cell: reason for summary in summaries} if reason else {}

    return finished


def _reason_to_stop(summaries: Sequence[TrialSummary], policy: Policy, evaluation: Evaluation) -> str | None:
    if faults(summaries, (), HEAD):
        return "head lost records"
    blocks = {summary.block for summary in summaries if summary.factors[VARIANT] == BASE}
    if len(blocks - {summary.block for summary in summaries if summary.factors[VARIANT] == HEAD}) >= _HEAD_FAILURES:
        return "head failed"
    if is_decided(evaluation, policy):
        return f"decided by {evaluation.pairs_valid} pairs"
    left = policy.pairs.max - max((summary.block for summary in summaries), default=0)
    if evaluation.pairs_valid + left < policy.pairs.min:
        return f"{policy.pairs.min} valid pairs are out of reach"
    return None


def _not_confirmed(confirmation: Evaluation, text: str, strict: bool) -> GateOutcome:
    if confirmation.undecided or not confirmation.gated:
        code = EXIT_INCONCLUSIVE if strict else EXIT_OK
        return GateOutcome("inconclusive", code, f"{text}, nor refuted", False)
    return GateOutcome("pass", EXIT_OK, text, False)


def _inconclusive(evaluation: Evaluation, strict: bool) -> GateOutcome:
    names = ", ".join(dict.fromkeys(item.metric for item in evaluation.undecided))
    code = EXIT_INCONCLUSIVE if strict else EXIT_OK
    return GateOutcome(
        "inconclusive",
        code,
        f"{names}: neither a change nor the lack of one shown by {evaluation.pairs_valid} pairs; "
        f"{_detectable(evaluation.undecided)}",
    )


def _detectable(items: Sequence[MetricComparison]) -> str:
    known = [
        f"{item.metric} {change_size_text(item.smallest_detectable_ratio)}"
        for item in items
        if item.smallest_detectable_ratio is not None
    ]
    return f"smallest detectable change: {', '.join(known)}" if known else "too few pairs to say what could be detected"


def _pairs(cell: str, base: Mapping[int, TrialSummary], head: Mapping[int, TrialSummary]) -> Trials:
    """The blocks in which both sides are valid: an invalid trial excludes its partner, too."""
    blocks = [
        block
        for block in sorted(set(base) & set(head))
        if "invalid" not in (base[block].verdict.state, head[block].verdict.state)
    ]
    return Trials(cell, [base[block] for block in blocks], [head[block] for block in blocks], paired=True)
