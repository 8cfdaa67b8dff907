"""The proof's book-keeping, and that the broker it makes slower is slower by what was asked."""

from __future__ import annotations

from pathlib import Path
from time import thread_time_ns

import pytest

from highwater.bench.gate.policy import load_policy
from highwater.bench.gate.run import Rules, judge_recorded
from highwater.bench.gate.sides import Recorded
from highwater.common.errors import NotComparableError, UsageError
from highwater.results.gate import GateRound
from highwater.results.models import GitState
from highwater.results.reader import RunResult
from tests.bench.summaries import LATE, summary
from tests.reports.sample_run import write_sample
from tools.gate_proof.__main__ import Proof, go_on
from tools.gate_proof.outcomes import (
    ABORTED,
    POLICY,
    WORKLOAD,
    Begun,
    Outcome,
    TrialLine,
    append,
    read,
    report,
    rules_digest,
    trial_line,
    wilson_interval,
)
from tools.gate_proof.slow_broker import Spin

COST = "system.cpu_s_per_gib"


def line(block: int, side: str, cost: float, **more: object) -> TrialLine:
    return TrialLine.model_validate({"block": block, "order": 1, "side": side, "values": {COST: cost}, **more})


def outcome(
    slower: float, number: int, state: str = "pass", rules: str = "these", trials: list[TrialLine] | None = None
) -> Outcome:
    codes = {"regression": 10, "target_failed": 3, "invalid": 4, ABORTED: None}
    first = GateRound(
        stage="first", directory=None, seed=None, pairs=6, pairs_valid=6, a_a_pairs=6, metrics=[], text="6 of 6"
    )
    return Outcome(
        slower_percent=slower,
        number=number,
        started_utc="2026-01-01T00:00:00+00:00",
        wall_s=40.0,
        environment="abc",
        rules=rules,
        commit="0123456789abcdef",
        state=state,
        exit_code=codes.get(state, 0),
        text="",
        rounds=[] if state == ABORTED else [first],
        trials=trials or [],
    )


def test_what_was_appended_comes_back_though_a_line_was_cut_short(tmp_path: Path) -> None:
    path = tmp_path / "outcomes.jsonl"
    assert read(path, "these") == []
    append(path, outcome(0, 1))
    with path.open("a") as file:
        file.write('{"slower_percent": 3')
    assert [item.number for item in read(path, "these")] == [1]
    append(path, outcome(3, 1))
    assert read(path, "these") == [outcome(0, 1), outcome(3, 1)]


def test_an_outcome_of_other_rules_is_none_of_this_proof(tmp_path: Path) -> None:
    path = tmp_path / "outcomes.jsonl"
    append(path, outcome(0, 1, rules="those"))
    assert read(path, "these") == []
    append(path, outcome(0, 1))
    assert [item.rules for item in read(path, "these")] == ["these"]


def test_the_rules_are_told_apart_by_what_is_in_their_files(tmp_path: Path) -> None:
    rules = tmp_path / "reasoning.py"
    rules.write_text("BOUND = 1")
    first = rules_digest([rules])
    assert first == rules_digest([rules])
    rules.write_text("BOUND = 2")
    assert first != rules_digest([rules])
    assert rules_digest() == rules_digest()


@pytest.mark.parametrize(
    ("hits", "n", "low", "high"), [(0, 30, 0.0, 0.1135), (30, 30, 0.8865, 1.0), (15, 30, 0.332, 0.668)]
)
def test_wilsons_interval_as_tables_have_it(hits: int, n: int, low: float, high: float) -> None:
    assert wilson_interval(hits, n) == pytest.approx((low, high), abs=1e-3)


def test_the_report_counts_what_it_shows() -> None:
    found = [
        *(outcome(0, number) for number in range(1, 4)),
        outcome(0, 4, "regression"),
        outcome(0, 5, "target_failed"),
        outcome(0, 6, "invalid"),
        outcome(0, 7, ABORTED),
        outcome(20, 1, "regression", trials=[line(1, "base", 10.0), line(1, "head", 11.3)]),
    ]
    text = report(found, load_policy(POLICY), "python -m tools.gate_proof")
    assert "| 0 % | 7 | 2 (40%) | 12% to 77% | 0 | 0 | 2 | – |" in text
    assert "| 20 % | 1 | 1 (100%) |" in text
    assert "| +13.0% |" in text
    assert "broker of commit 0123456789ab." in text


def test_what_a_slowdown_costs_is_told_by_pairs_that_every_gate_has() -> None:
    trials = [
        *(line(block, "base", 10.0) for block in range(1, 6)),
        *(line(block, "head", 10.0 + block) for block in range(1, 6)),
        line(1, "base", 99.0, role="a_a"),
        line(1, "head", 99.0, stage=1),
        line(6, "base", 10.0, state="invalid", checks=["generator.lateness"]),
        line(6, "head", 16.0),
    ]
    found = outcome(10, 1, trials=trials)
    assert found.cost_ratios(COST, most=3) == pytest.approx([1.1, 1.2, 1.3])
    assert len(found.cost_ratios(COST, most=9)) == 5


def test_a_trial_is_kept_with_what_the_policy_names() -> None:
    kept = trial_line(summary(3, {"variant": "head"}, reason=LATE), 1, load_policy(POLICY))
    assert (kept.stage, kept.block, kept.side, kept.state) == (1, 3, "head", "invalid")
    assert kept.checks == [LATE.check]
    assert kept.values.keys() == {COST, "system.rss_bytes"}


BEGUN = Begun(5.0, 2, "these", GitState(commit="0123456789abcdef", dirty=True), "2026-01-01T00:00:00+00:00", 0.0)


def test_an_aborted_gate_is_an_outcome_without_a_verdict() -> None:
    found = BEGUN.aborted(UsageError("no room"))
    assert (found.state, found.exit_code, found.text, found.environment) == (ABORTED, None, "no room", None)
    assert (found.slower_percent, found.number, found.commit, found.dirty) == (5.0, 2, "0123456789abcdef", True)
    assert not found.has_verdict
    assert not found.held_back


def test_a_gate_that_ended_keeps_its_trials_and_what_it_gated(tmp_path: Path) -> None:
    trials = [line(1, "base", 10.0), line(1, "head", 10.5)]
    gate = judge_recorded(*two_recorded(tmp_path), Rules(load_policy(POLICY)))
    found = BEGUN.ended(gate, trials, "abc")
    assert (found.state, found.exit_code, found.text) == (gate.state, gate.exit_code, gate.text)
    assert (found.trials, found.environment) == (trials, "abc")
    assert {item.metric for done in found.rounds for item in done.metrics} <= {COST}


def two_recorded(tmp_path: Path) -> tuple[Recorded, Recorded]:
    base, head = (RunResult(write_sample(tmp_path / name)) for name in ("base", "head"))
    return Recorded("base", base, "acks=all,type=lz4"), Recorded("head", head, "acks=all,type=lz4")


class Gates:
    """Stands in for what makes a gate."""

    def __init__(self, state: str = "pass", environment: str = "abc") -> None:
        self.made: list[tuple[float, int]] = []
        self.state = state
        self.environment = environment

    def __call__(self, proof: Proof, slower: float, number: int) -> Outcome:
        self.made.append((slower, number))
        found = outcome(slower, number, self.state, proof.rules)
        return found.model_copy(update={"environment": None if self.state == ABORTED else self.environment})


PROOF = Proof(load_policy(POLICY), rules_digest(), None)
ORDER = [(0.0, 1), (5.0, 1), (5.0, 2), (0.0, 2), (0.0, 3)]


def test_a_proof_goes_on_where_it_was_stopped(tmp_path: Path) -> None:
    path, gates = tmp_path / "outcomes.jsonl", Gates()
    go_on(PROOF, ORDER[:2], path, None, gates)
    go_on(PROOF, ORDER, path, None, gates)
    assert gates.made == ORDER
    assert [(item.slower_percent, item.number) for item in read(path, PROOF.rules)] == ORDER


def test_no_gate_begins_after_the_deadline(tmp_path: Path) -> None:
    gates = Gates()
    go_on(PROOF, ORDER, tmp_path / "outcomes.jsonl", 0.0, gates)
    assert gates.made == []


def test_gates_of_several_hosts_are_counted_by_host(tmp_path: Path) -> None:
    path = tmp_path / "outcomes.jsonl"
    go_on(PROOF, ORDER[:2], path, None, Gates())
    go_on(PROOF, ORDER, path, None, Gates(environment="def"))
    text = report(read(path, PROOF.rules), PROOF.policy, "again")
    assert "in environments abc (2 gates), def (3 gates), broker of" in text


def test_three_aborted_gates_in_a_row_end_a_proof_and_are_told(tmp_path: Path) -> None:
    path, gates = tmp_path / "outcomes.jsonl", Gates(ABORTED)
    with pytest.raises(UsageError, match="3 gates in a row were aborted"):
        go_on(PROOF, ORDER, path, None, gates)
    assert [item.state for item in read(path, PROOF.rules)] == [ABORTED] * 3


def test_outcomes_are_of_the_rules_that_the_proof_began_with(tmp_path: Path) -> None:
    changed = Proof(PROOF.policy, "other rules", None)
    with pytest.raises(NotComparableError, match="changed while it ran"):
        go_on(changed, ORDER, tmp_path / "outcomes.jsonl", None, Gates())
    assert not (tmp_path / "outcomes.jsonl").exists()


def test_the_gate_that_is_proved_is_the_one_of_ci() -> None:
    top = WORKLOAD.parents[1]
    script = (top / ".ci/gate").read_text("utf-8")
    assert f"--workload {WORKLOAD.relative_to(top)} --policy {POLICY.relative_to(top)}" in script


def test_a_thread_is_made_slower_by_its_share_of_cpu_time_in_calls_and_between_them() -> None:
    def busy() -> None:
        until_ns = thread_time_ns() + 20_000_000
        while thread_time_ns() < until_ns:
            pass

    def cost_ns(share: float) -> int:
        slow_call = Spin(share).after(busy)
        started_ns = thread_time_ns()
        slow_call()
        busy()
        slow_call()
        return thread_time_ns() - started_ns

    # CPU time, so that other work on the host changes nothing.
    assert cost_ns(0.5) >= 90_000_000
    assert cost_ns(0) < 90_000_000
