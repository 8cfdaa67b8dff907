"""From trials to a verdict, with figures whose answer is known."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

from highwater.bench.prove.judging import DECIDING, Judgement, judge_cells
from highwater.results.models import TrialPlan, TrialSummary
from highwater.results.storage import WritebackUse
from highwater.tuning.proofs import MeasuredEffect
from tests.bench.summaries import LATE, LOST, summary

OFF, ON = "variant=as-it-is", "variant=vm.swappiness=1"
NOISE = 0.01


def writeback(dirty_max_bytes: int) -> WritebackUse:
    return WritebackUse(
        dirty_max_bytes=dirty_max_bytes, writeback_max_bytes=0, written_bytes=1 << 20, appended_bytes=1 << 20
    )


def run(
    blocks: int, on: Callable[[random.Random], dict[str, Any]], noise: float = NOISE, seed: int = 1
) -> list[TrialSummary]:
    """Off, on and a twin of either in every block; `on` tells the figures with the setting on."""
    chance = random.Random(seed)

    def trial(block: int, variant: str, figures: dict[str, Any], role: str = "measure") -> TrialSummary:
        jitter = {
            "achieved_per_s": figures.get("achieved_per_s", 20_000.0) * (1 + chance.gauss(0, noise / 4)),
            "p99_ns": round(figures.get("p99_ns", 4_000_000) * (1 + chance.gauss(0, noise))),
            "system_cpu_ratio": figures.get("cpu", 0.5) * (1 + chance.gauss(0, noise)),
            "writeback": writeback(round(figures.get("dirty", 500 << 20) * (1 + chance.gauss(0, noise)))),
        }
        return summary(block, {"variant": variant}, role=role, reason=figures.get("reason"), **jitter)  # type: ignore[arg-type]

    found = []
    for block in range(1, blocks + 1):
        twin = ("as-it-is", {}) if block % 2 else ("vm.swappiness=1", on(chance))
        found += [
            trial(block, "as-it-is", {}),
            trial(block, "vm.swappiness=1", on(chance)),
            trial(block, *twin, role="a_a"),
        ]
    return found


def judged(summaries: list[TrialSummary], plans: list[TrialPlan] | None = None) -> Judgement:
    return judge_cells(summaries, plans or [], OFF, ON, seed=1)


def effect(judgement: Judgement, metric: str) -> MeasuredEffect:
    return next(item for item in judgement.effects if item.metric == metric)


def failed(cell: str) -> TrialPlan:
    return TrialPlan(
        trial_id="009-x",
        cell=cell,
        factors={},
        trial=1,
        block=1,
        order_in_block=1,
        status="failed",
        error="the broker was killed by SIGKILL",
    )


def test_no_effect_says_what_would_have_been_seen() -> None:
    found = judged(run(8, lambda _: {}))
    assert found.verdict == "no_effect"
    assert (found.pairs, found.pairs_valid, found.a_a_pairs) == (8, 8, 8)
    assert "what would have been seen: produce.achieved_per_s " in found.text
    assert all(item.outcome == "none_seen" for item in found.effects if item.decides)
    detectable = effect(found, "system.cpu_s_per_gib").smallest_detectable_ratio
    assert detectable is not None
    assert 0.02 < detectable < 0.10


def test_something_better_and_nothing_worse_is_kept() -> None:
    found = judged(run(8, lambda _: {"dirty": 250 << 20}))
    assert found.verdict == "keep"
    assert found.text.startswith("better: writeback.dirty_max_bytes −49.9 %")
    assert effect(found, "produce.p99").outcome == "none_seen"


def test_anything_worse_is_taken_back_whatever_it_gains() -> None:
    found = judged(run(8, lambda _: {"dirty": 250 << 20, "p99_ns": 6_000_000}))
    assert found.verdict == "revert"
    assert found.text.startswith("worse: produce.p99 +50")
    assert "; for it, writeback.dirty_max_bytes −49.9 %" in found.text


def test_nothing_is_kept_while_harm_could_not_have_been_seen() -> None:
    found = judged(run(8, lambda chance: {"dirty": 250 << 20, "p99_ns": round(4e6 * 2 ** chance.gauss(0, 2))}))
    assert found.verdict == "inconclusive"
    assert found.text.startswith("better: writeback.dirty_max_bytes −50 %")
    assert found.text.endswith("but the trials scatter so much that produce.p99 and e2e.p99 could have doubled unseen")


def test_throughput_is_better_when_it_is_higher() -> None:
    assert effect(judged(run(8, lambda _: {"achieved_per_s": 24_000.0})), "produce.achieved_per_s").outcome == "better"
    assert judged(run(8, lambda _: {"achieved_per_s": 16_000.0})).verdict == "revert"


def test_a_change_within_the_floor_matters_to_nobody() -> None:
    found = judged(run(12, lambda _: {"cpu": 0.5 * 1.005}, noise=0.0005))
    assert effect(found, "system.cpu_s_per_gib").outcome == "none_seen"
    assert found.verdict == "no_effect"


def test_noise_is_not_taken_for_an_effect_and_too_much_of_it_is_said() -> None:
    found = judged(run(8, lambda _: {}, noise=0.6))
    assert (found.verdict, found.text[:9]) == ("inconclusive", "too noisy")
    assert effect(found, "produce.achieved_per_s").outcome == "none_seen", "an open load's rate stands still by itself"
    verdicts = {judged(run(8, lambda _: {}, noise=0.05, seed=seed)).verdict for seed in range(12)}
    assert verdicts == {"no_effect"}


def test_too_few_pairs_decide_nothing() -> None:
    found = judged(run(4, lambda _: {"p99_ns": 9_000_000}))
    assert (found.verdict, found.text) == ("inconclusive", "4 valid pairs of 4, and 5 are needed")
    five = judged(run(5, lambda _: {"p99_ns": 9_000_000}))
    assert five.verdict == "inconclusive", "five pairs cannot stand the correction over five figures"
    assert "looks like a change" in five.text


def test_an_invalid_trial_takes_its_partner_with_it() -> None:
    chosen = run(8, lambda _: {})
    spoilt = [
        item.model_copy(update={"verdict": summary(1, reason=LATE).verdict})
        if (item.block, item.cell, item.role) == (3, ON, "measure")
        else item
        for item in chosen
    ]
    found = judged(spoilt)
    assert (found.pairs, found.pairs_valid) == (8, 7)


def test_a_setting_under_which_the_broker_fails_is_taken_back() -> None:
    assert judged(run(8, lambda _: {}), [failed(ON)]).text == (
        "with it 1 of the trials failed, and none without: the broker was killed by SIGKILL"
    )
    assert judged(run(8, lambda _: {"reason": LOST})).verdict == "revert"
    assert judged(run(8, lambda _: {}), [failed(ON), failed(OFF)]).verdict == "no_effect"


@pytest.mark.parametrize("missing", sorted(DECIDING))
def test_a_figure_that_the_trials_do_not_have_is_left_out(missing: str) -> None:
    without = [item.model_copy(update={"writeback": None, "e2e": None}) for item in run(8, lambda _: {})]
    found = judged(without)
    assert found.verdict == "no_effect"
    named = {item.metric for item in found.effects}
    assert not {"e2e.p99", "writeback.dirty_max_bytes", "backlog.drain_bytes_per_s"} & named
    assert (missing in named) == (missing in {"produce.achieved_per_s", "produce.p99", "system.cpu_s_per_gib"})
