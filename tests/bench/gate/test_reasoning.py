"""The gate's reasoning, from figures whose answer is known."""

from __future__ import annotations

import random
import re
from collections.abc import Iterable

import pytest

from highwater.bench.gate import reasoning
from highwater.bench.gate.policy import Policy
from highwater.results.analysis_file import AaPair
from highwater.results.models import Reason, Scalar, TrialPlan, TrialSummary
from tests.bench.summaries import LATE, LOST, summary

POLICY = Policy.model_validate(
    {
        "schema": "bench.gate/1",
        "pairs": {"min": 5, "max": 12},
        "gate": {"produce.achieved_per_s": {"floor": "5%"}},
        "track": ["produce.p99"],
    }
)


def run(
    ratio: float, blocks: int, *, noise: float = 0.01, seed: int = 1, twins: bool = True, cell: str | None = None
) -> list[TrialSummary]:
    """Blocks of base, head and an A/A twin of base; head has `ratio` times base's rate."""
    draw = random.Random(seed)
    found = []
    for block in range(1, blocks + 1):
        for variant, role, times in (("base", "measure", 1.0), ("head", "measure", ratio), ("base", "a_a", 1.0)):
            factors: dict[str, Scalar] = {"variant": variant}
            if cell:
                factors["acks"] = cell
            rate = 20_000 * times * (1 + draw.uniform(-noise, noise))
            if role == "measure" or twins:
                found.append(summary(block, factors, achieved_per_s=rate, role=role))  # type: ignore[arg-type]
    return found


def evaluate(trials: Iterable[TrialSummary], policy: Policy = POLICY, **options: object) -> reasoning.Evaluation:
    return reasoning.evaluate(trials, policy, {}, seed=3, **options)  # type: ignore[arg-type]


def settled(
    first: reasoning.Evaluation, *more: reasoning.Evaluation, strict: bool = False
) -> tuple[str, int, bool | None]:
    outcome = reasoning.settle(first, more, POLICY, strict=strict)
    return outcome.state, outcome.exit_code, outcome.confirmed


def test_a_confirmed_regression_is_ten() -> None:
    first, again = evaluate(run(0.85, 6)), evaluate(run(0.85, 6, seed=2))
    assert first.worse == {("base", "produce.achieved_per_s")}
    assert settled(first, again) == ("regression", 10, True)
    assert settled(first) == ("regression", 10, None)
    text = reasoning.settle(first, [again], POLICY, strict=False).text
    assert text.startswith("produce.achieved_per_s 17.")
    assert text.endswith("(confirmed)")


def test_a_regression_that_does_not_show_again_is_none() -> None:
    first = evaluate(run(0.85, 6))
    assert settled(first, evaluate(run(1.0, 8, seed=2))) == ("pass", 0, False)
    unclear = evaluate(run(0.95, 6, seed=2))
    assert settled(first, unclear) == ("inconclusive", 0, False)
    assert settled(first, unclear, strict=True) == ("inconclusive", 11, False)


def test_no_change_says_what_would_have_been_seen() -> None:
    outcome = reasoning.settle(evaluate(run(1.0, 8)), [], POLICY, strict=True)
    assert (outcome.state, outcome.exit_code) == ("pass", 0)
    assert outcome.text.startswith("no change; smallest detectable change: produce.achieved_per_s ")


def test_what_may_be_better_and_is_not_worse_passes_without_more_pairs() -> None:
    first = evaluate(run(1.05, 6))
    assert [item.verdict for item in first.gated] == ["not_worse"]
    assert reasoning.is_decided(first, POLICY)
    outcome = reasoning.settle(first, [], POLICY, strict=True)
    assert (outcome.state, outcome.exit_code) == ("pass", 0)
    # The interval is not beyond the floor, so nothing is called better.
    assert re.fullmatch(
        r"produce.achieved_per_s not worse \(\+[\d.]+ %, 95 % interval [+−][\d.]+ to \+[\d.]+ %\)", outcome.text
    )


def test_what_is_gated_and_not_measured_is_no_pass() -> None:
    policy = Policy.model_validate(
        POLICY.as_document()
        | {"gate": {"produce.achieved_per_s": {"floor": "5%"}, "recovery.no_ack_s": {"floor": "5%"}}}
    )
    unseen = reasoning.settle(evaluate(run(1.0, 8), policy), [], policy, strict=True)
    assert (unseen.state, unseen.exit_code) == ("inconclusive", 11)
    assert unseen.text.startswith("recovery.no_ack_s: gated, and not measured by these trials")
    first, again = evaluate(run(0.85, 6), policy), evaluate(run(0.85, 6, seed=2), policy)
    assert reasoning.settle(first, [again], policy, strict=False).exit_code == 10
    nothing = evaluate(run(0.85, 6, seed=2), policy, only=frozenset())
    assert reasoning.settle(first, [nothing], policy, strict=True).state == "inconclusive"


def test_an_improvement_passes_and_is_told() -> None:
    outcome = reasoning.settle(evaluate(run(1.3, 6)), [], POLICY, strict=True)
    assert (outcome.state, outcome.exit_code) == ("pass", 0)
    assert "better (95 % interval " in outcome.text


def test_noise_above_the_floor_is_inconclusive_and_no_pass() -> None:
    noisy = evaluate(run(1.0, 8, noise=0.2))
    assert noisy.metrics[0].noise_ratio
    assert noisy.metrics[0].noise_ratio > 0.05
    assert settled(noisy) == ("inconclusive", 0, None)
    assert settled(noisy, strict=True) == ("inconclusive", 11, None)


def test_an_invalid_trial_takes_its_pair_with_it() -> None:
    def spoilt(trials: list[TrialSummary], blocks: int) -> list[TrialSummary]:
        return [
            summary(item.block, item.factors, achieved_per_s=1.0, reason=LATE)
            if item.block <= blocks and item.factors["variant"] == "head"
            else item
            for item in trials
        ]

    assert evaluate(spoilt(run(1.0, 8), 2)).pairs_valid == 6
    assert settled(evaluate(spoilt(run(1.0, 8), 2)))[0] == "pass"
    broken = reasoning.settle(evaluate(spoilt(run(1.0, 8), 4)), [], POLICY, strict=False)
    assert (broken.state, broken.exit_code) == ("invalid", 4)
    assert broken.text == "4 valid pairs of 8, and 5 are needed"


def test_decided_stops_and_undecided_goes_on() -> None:
    finished = reasoning.early_stop(POLICY, {}, seed=3)
    for blocks, ratio, done in ((4, 0.5, False), (6, 0.5, True), (8, 1.0, True), (6, 0.95, False)):
        cells = finished(run(ratio, blocks))
        told = f"decided by {blocks} pairs"
        assert cells == ({"variant=base": told, "variant=head": told} if done else {}), (blocks, ratio)
    never = POLICY.model_copy(update={"pairs": POLICY.pairs.model_copy(update={"stop_when": "never"})})
    assert reasoning.early_stop(never, {}, seed=3)(run(0.5, 9)) == {}


def test_what_cannot_be_decided_any_more_stops() -> None:
    finished = reasoning.early_stop(POLICY, {}, seed=3)
    failed_once = [*run(1.0, 2), summary(3, {"variant": "base"})]
    assert finished(failed_once) == {}, "a load generator can break in head's trial as in another"
    assert finished([*failed_once, summary(4, {"variant": "base"})])["variant=base"] == "head failed"
    late = [summary(block, {"variant": v}, reason=LATE) for block in range(1, 8) for v in ("base", "head")]
    assert not finished(late)
    late += [summary(8, {"variant": v}, reason=LATE) for v in ("base", "head")]
    assert finished(late)["variant=head"] == "5 valid pairs are out of reach"


@pytest.mark.parametrize(("variant", "reason", "count"), [("head", LOST, 1), ("base", LOST, 0), ("head", LATE, 0)])
def test_what_head_lost_is_heads_fault(variant: str, reason: Reason, count: int) -> None:
    trials = [*run(1.0, 5), summary(6, {"variant": variant}, reason=reason)]
    assert len(reasoning.faults(trials, (), "head")) == count
    if count:
        assert reasoning.early_stop(POLICY, {}, seed=3)(trials)
        outcome = reasoning.target_outcome(reasoning.faults(trials, (), "head"))
        assert (outcome.state, outcome.exit_code) == ("target_failed", 3)
        assert "3 acknowledged records were lost" in outcome.text


def test_a_broker_that_fails_is_a_fault() -> None:
    plan = TrialPlan(
        trial_id="001",
        cell="variant=head",
        factors={"variant": "head"},
        trial=1,
        block=1,
        order_in_block=1,
        status="failed",
        error="the broker was killed by SIGSEGV",
    )
    assert reasoning.faults([], [plan], "head") == ["001: the broker was killed by SIGSEGV"]
    assert reasoning.faults([], [plan], "base") == []
    no_fault_of_it = plan.model_copy(update={"generator_failed": True, "error": "a load task died"})
    assert reasoning.faults([], [no_fault_of_it], "head") == []


def test_every_cell_of_a_matrix_is_gated_and_confirmed_by_itself() -> None:
    first = evaluate([*run(0.8, 7, cell="1"), *run(1.0, 7, cell="all")])
    assert {(item.cell, item.verdict) for item in first.gated} == {("acks=1", "worse"), ("acks=all", "no_change")}
    again = evaluate([*run(0.8, 6, cell="1"), *run(0.5, 6, cell="all")], only=first.worse)
    assert [item.cell for item in again.gated] == ["acks=1"]
    assert settled(first, again) == ("regression", 10, True)


def test_a_noisy_cell_does_not_hide_what_a_quiet_one_shows() -> None:
    noisy = run(1.0, 8, noise=0.4, cell="all")
    found = evaluate([*run(0.85, 8, cell="1"), *noisy])
    assert found.worse == {("acks=1", "produce.achieved_per_s")}
    assert [item.verdict for item in found.gated] == ["worse", "undecided"]


def test_a_cell_with_too_few_a_a_pairs_of_its_own_takes_those_of_all() -> None:
    few = [item for item in run(0.85, 8, cell="1") if item.role == "measure" or item.block <= 2]
    noisy = run(1.0, 8, noise=0.4, cell="all")
    quiet, loud = evaluate([*few, *noisy]).gated
    assert quiet.noise_ratio
    assert quiet.noise_ratio > 0.1
    assert loud.noise_ratio
    assert loud.noise_ratio > quiet.noise_ratio


def test_noise_from_elsewhere_takes_the_place_of_the_runs_own() -> None:
    far = Policy.model_validate(POLICY.as_document() | {"noise": {"from": "calibration"}})
    trials = run(0.85, 6, twins=False)
    quiet, loud = ([AaPair("elsewhere", ratio) for ratio in ratios] for ratios in ([1.0, 1.01, 0.99], [1.5, 0.6, 0.7]))
    assert reasoning.evaluate(trials, far, {"produce.achieved_per_s": quiet}, seed=3).worse
    assert not reasoning.evaluate(trials, far, {"produce.achieved_per_s": loud}, seed=3).worse
    none = Policy.model_validate(POLICY.as_document() | {"noise": {"from": "none"}})
    assert reasoning.evaluate(trials, none, {}, seed=3).gated[0].delta_ratio == 0.05
