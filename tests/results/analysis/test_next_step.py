"""What to do next, and why: after a gate, a comparison, a search and a run of one cell."""

from __future__ import annotations

from pathlib import Path

import pytest

from highwater.results.analysis.answer import answer_of
from highwater.results.analysis.compare import Limits, Trials, judge
from highwater.results.analysis.next_step import comparison_step, gate_step
from highwater.results.gate import ComparedSide, EnvironmentDifference, ResultComparison
from highwater.results.reader import RunResult
from highwater.results.writer import ResultWriter
from tests.bench.summaries import summary
from tests.reports import sample_details
from tests.results.analysis.runs import run_of
from tests.results.analysis.test_answer import ONE, trial, trials_of

STEADY = [4_000_000, 4_040_000, 3_960_000, 4_020_000, 3_980_000, 4_010_000]
WIDER = [4_100_000, 3_900_000, 4_100_000, 4_060_000, 4_080_000, 3_990_000]


def compared(base_ns: list[int], head_ns: list[int], *, paired: bool = False) -> ResultComparison:
    base, head = ([summary(n, p99_ns=p99_ns) for n, p99_ns in enumerate(side, 1)] for side in (base_ns, head_ns))
    side = ComparedSide(given="x")
    found = judge([Trials("base", base, head, paired=paired)], ["produce.p99"], Limits(), seed=1)
    return ResultComparison(
        base=side, head=side, paired=paired, metrics=found, environment=[], warnings=[], asked=["produce.p99"]
    )


def test_a_regression_is_to_be_looked_at() -> None:
    found = gate_step(sample_details.gate())
    assert found.startswith("Look at produce.p99 in the report, because head is worse in it; ")
    assert "repeat with more pairs (pairs.min and pairs.max of the policy)" in found
    apart = gate_step(sample_details.gate().model_copy(update={"interleaved": False}))
    assert "measure both in turns" in apart
    assert "pairs" not in apart, "two directories have none"


@pytest.mark.parametrize(
    ("state", "text"),
    [
        ("pass", ""),
        (
            "inconclusive",
            "Repeat with more pairs (pairs.min and pairs.max of the policy), because the pairs do not decide.",
        ),
    ],
)
def test_every_outcome_of_a_gate(state: str, text: str) -> None:
    assert gate_step(sample_details.gate().model_copy(update={"state": state})) == text


def test_a_difference_that_is_not_shown_says_how_many_trials_would() -> None:
    few = comparison_step(compared(STEADY[:3], WIDER[:3]))
    assert few == (
        "Run both again with about 6 trials of each cell (--trials 6, an estimate), because 3 trials are too few for "
        "an interval."
    )
    found = comparison_step(compared(STEADY, WIDER))
    assert found.startswith("Run both again with about ")
    assert found.endswith(" of produce.p99, if it is real.")


def test_a_difference_that_is_too_small_for_trials_says_so() -> None:
    found = comparison_step(compared(STEADY, [value + 3000 * (-1) ** n for n, value in enumerate(reversed(STEADY))]))
    assert found.startswith("More trials alone will hardly show a difference: produce.p99 would take about ")
    assert "Measure both in turns" in found


def test_a_difference_of_two_runs_is_to_be_measured_in_turns() -> None:
    slow = [2 * value for value in STEADY]
    assert comparison_step(compared(STEADY, slow)) == (
        "Measure both in one run, in turns, because the host may have caused the change of produce.p99."
    )
    assert comparison_step(compared(STEADY, slow, paired=True)).startswith("Look at the trials of produce.p99")
    other = EnvironmentDifference(fact="kernel", base="5", head="6", decides=True)
    apart = compared(STEADY, slow).model_copy(update={"environment": [other]})
    assert comparison_step(apart).startswith("Measure both again with the same environment")


def test_a_search_is_followed_by_a_run_at_its_rate(tmp_path: Path) -> None:
    run_of(tmp_path / "found", [trial(1, ONE)])
    ResultWriter.reopen(tmp_path / "found").write_search(sample_details.search())
    answer = answer_of(RunResult(tmp_path / "found"))
    assert answer.next_step.startswith("Measure 5 trials at this rate, because an interval needs 5 ")
    assert "(the limit itself is known to 9.05 %; a smaller --precision of a search narrows it)" in answer.next_step
    assert answer.command == (
        "highwater bench run w.yaml --launcher process --rate 30844 --trials 5 --out " + f"{tmp_path / 'found'}-2"
    )


def test_one_cell_has_nothing_to_compare_with(tmp_path: Path) -> None:
    one = answer_of(
        run_of(tmp_path / "one", [trial(n, ONE, p99_ns=4_000_000 + 100_000 * n) for n in range(1, 8)])
    ).next_step
    assert one.startswith("There is nothing to compare this one cell with: list several values of a key under ")
    assert one.endswith(f"highwater report BASE {tmp_path / 'one'}")


def test_a_decided_best_has_a_price_to_look_at(tmp_path: Path) -> None:
    answer = answer_of(run_of(tmp_path / "two", trials_of(8, 1.0, 0.5)))
    assert answer.next_step == (
        f"See what the best one costs in the other metrics before you take it: highwater report {tmp_path / 'two'}"
    )
