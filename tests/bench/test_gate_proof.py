"""The proof's book-keeping, and that the broker it makes slower is slower by what was asked."""

from __future__ import annotations

from pathlib import Path
from time import thread_time_ns

import pytest

from bench.gate_proof.outcomes import Outcome, append, read, report, rules_digest, wilson_interval
from bench.gate_proof.slow_broker import Spin


def outcome(slower: float, number: int, exit_code: int = 0, rules: str = "these") -> Outcome:
    return Outcome(
        slower_percent=slower,
        number=number,
        started_utc="2026-01-01T00:00:00+00:00",
        wall_s=40.0,
        environment="abc",
        rules=rules,
        commit="0123456789abcdef",
        state="regression" if exit_code == 10 else "pass",
        exit_code=exit_code,
        first_worse=exit_code == 10,
        pairs=10,
        measured_ratio=slower / 100,
        delta_ratio=0.05,
        text="",
    )


def test_what_was_appended_comes_back_though_a_line_was_cut_short(tmp_path: Path) -> None:
    path = tmp_path / "outcomes.jsonl"
    assert read(path, "these") == []
    append(path, outcome(0, 1))
    with path.open("a") as file:
        file.write('{"slower_percent": 3')
    assert [item.number for item in read(path, "these")] == [1]
    append(path, outcome(3, 1))
    assert [(item.slower_percent, item.number) for item in read(path, "these")] == [(0, 1), (3, 1)]


def test_an_outcome_of_other_rules_is_none_of_this_proof(tmp_path: Path) -> None:
    path = tmp_path / "outcomes.jsonl"
    append(path, outcome(0, 1, rules="those"))
    with path.open("a") as file:
        file.write(outcome(3, 1).model_dump_json(exclude={"rules"}) + "\n")  # as written before rules were kept
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
    found = [outcome(0, 1), outcome(0, 2, exit_code=10), outcome(20, 1, exit_code=10)]
    text = report(found, "python -m bench.gate_proof")
    assert "| 0 % | 2 | 1 (50%) |" in text
    assert "| 20 % | 1 | 1 (100%) |" in text
    assert "broker of commit 0123456789ab" in text


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
