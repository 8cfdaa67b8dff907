"""The picture's data and the headline: order, overlap, loss, limits, and three figures at most."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from highwater.results.analysis.answer import answer_of
from highwater.results.analysis.evidence import Evidence
from highwater.results.analysis.gathering import gate_evidence
from highwater.results.analysis.searched import gate_statement
from highwater.results.analysis.statement import Answer, joined
from highwater.results.models import SloResult, TrialSummary
from tests.bench.summaries import LOST
from tests.reports.sample_details import gate
from tests.results.analysis.runs import run_of
from tests.results.analysis.test_answer import ONE, TWO, disturbed, trial, trials_of

SIDES = {"base": 5_000_000, "head": 5_700_000}


def evidence_in(directory: Path, trials: list[TrialSummary]) -> Evidence:
    found = answer_of(run_of(directory, trials)).evidence
    assert found is not None
    return found


def figures_in(text: str) -> list[str]:
    return re.findall(r"\d[\d.,]*", re.sub(r"“[^”]*”|p\d+|95 % interval", "", text))


def test_a_decided_answer_has_the_best_cell_first_and_says_by_how_much(tmp_path: Path) -> None:
    answer = answer_of(run_of(tmp_path, trials_of(8, 1.0, 0.8, 1.5)))
    assert answer.headline.state == "good"
    assert answer.headline.text.startswith("Produce latency p99 is lowest with “compression lz4”: 19")
    assert answer.headline.text.endswith("than with the next best, “compression none”; no loss was seen.")
    assert len(figures_in(answer.headline.text)) == 3
    assert answer.evidence is not None
    best, *others = answer.evidence.rows
    assert (best.label, best.note, best.state) == ("compression lz4", "best", "best")
    assert [row.label for row in others] == ["compression none", "compression zstd"]
    assert all(re.match(r"best is \d.* % lower$", row.note) for row in others)
    assert answer.evidence.overlap is None
    assert [len(row.dots) for row in answer.evidence.rows] == [8, 8, 8], "twins are no trials of the cell"
    assert all(row.interval and row.interval[0] <= (row.centre or 0) <= row.interval[1] for row in answer.evidence.rows)


def test_cells_that_are_not_told_apart_share_a_span(tmp_path: Path) -> None:
    answer = answer_of(run_of(tmp_path, trials_of(8, 1.0, 1.0, 3.0)))
    assert answer.headline.state == "open"
    assert "not decided between “compression" in answer.headline.text
    assert answer.evidence is not None
    assert [row.note for row in answer.evidence.rows[:2]] == ["not decided"] * 2
    assert (answer.evidence.rows[2].state, answer.evidence.rows[2].note) == ("plain", "not the best")
    assert answer.evidence.overlap is not None
    low, high = answer.evidence.overlap
    for row in answer.evidence.rows[:2]:
        assert row.interval
        assert low <= row.interval[0] <= row.interval[1] <= high


def test_the_reason_is_about_all_that_are_not_decided(tmp_path: Path) -> None:
    three = answer_of(run_of(tmp_path / "three", trials_of(8, 1.0, 1.001, 1.002, scatter=0.05)))
    assert "the difference of the first two, " in three.sentence
    assert ", and that of the first and the third is not shown either." in three.sentence
    assert ": not decided between the first 3 of 3 cells;" in three.headline.text, "a phone has two lines for it"
    two = answer_of(run_of(tmp_path / "two", trials_of(8, 1.0, 1.001, scatter=0.05))).headline.text
    assert ", because the difference, " in two
    assert "not shown either" not in two


def test_one_cell_is_too_noisy_if_its_interval_is_wider_than_half_of_it(tmp_path: Path) -> None:
    def answer(name: str, step_ns: int) -> Answer:
        trials = [trial(n, ONE, p99_ns=4_000_000 + step_ns * n) for n in range(1, 8)]
        return answer_of(run_of(tmp_path / name, trials))

    quiet, noisy = answer("quiet", 100_000), answer("noisy", 1_000_000)
    assert quiet.headline.text.startswith("Produce latency p99 is 4.4 ms (95 % interval 4.1 to 4.7 ms); ")
    assert quiet.headline.state == "plain"
    assert noisy.headline.text.startswith("Produce latency p99 is too noisy: 8 ms (95 % interval 5 to 11 ms); ")
    assert noisy.headline.state == "open"
    assert noisy.next_step.startswith("Stop other work on this host and run 28 trials, because the interval is wide")


def test_the_headline_of_a_gate_says_that_it_is_one() -> None:
    assert gate_statement(gate()).short == (
        "Gate: regression; head is 14 % slower at produce latency p99 (12 to 16 %), confirmed by fresh trials"
    )


def test_a_loss_leads_the_headline_and_marks_its_cell_and_its_trial(tmp_path: Path) -> None:
    trials = [trial(1, ONE), trial(2, ONE), trial(2, TWO), trial(1, TWO, reason=LOST, delivery={"lost": 3})]
    answer = answer_of(run_of(tmp_path, trials))
    assert answer.headline.text.startswith("3 of 400,000 acknowledged records were lost (in “compression lz4”); ")
    assert answer.headline.state == "bad"
    assert answer.evidence is not None
    (row,) = [row for row in answer.evidence.rows if row.state == "bad"]
    assert row.note.startswith("3 lost")
    assert sorted(dot.fate for dot in row.dots) == ["lost", "usable"]
    assert ("lost", "trial that lost or damaged records") in answer.evidence.marks


def test_doubt_is_in_the_headline(tmp_path: Path) -> None:
    answer = answer_of(run_of(tmp_path, disturbed(trials_of(8, 1.0, 0.5), 3)))
    assert "(in doubt: some trials disturbed)" in answer.headline.text
    assert answer.evidence is not None
    assert "disturbed" in {dot.fate for row in answer.evidence.rows for dot in row.dots}


@pytest.mark.parametrize(
    ("bound", "drawn", "beyond"),
    [("<12ms", ["objective < 12 ms"], []), ("<1000ms", [], ["objective < 1000 ms"])],
)
def test_an_objective_is_a_line_unless_it_is_far_away(
    tmp_path: Path, bound: str, drawn: list[str], beyond: list[str]
) -> None:
    wanted = SloResult(metric="produce.p99", bound=bound, value=1.0, met=True)
    trials = [one.model_copy(update={"slo": [wanted]}) for one in trials_of(8, 1.0, 0.5)]
    found = evidence_in(tmp_path, trials)
    assert found.unit == "ms"
    assert [limit.name for limit in found.limits] == drawn
    assert found.beyond == beyond


def test_a_headline_drops_intervals_before_it_drops_clauses() -> None:
    speed = "P99 is lowest with “batch 64KiB”: 13 % lower (5 to 20 %) than with “batch 2KiB”"
    assert joined([speed, "No loss was seen"]) == f"{speed}; no loss was seen."
    assert joined(["3 of 200 records were lost", speed]) == (
        "3 of 200 records were lost; P99 is lowest with “batch 64KiB”: 13 % lower than with “batch 2KiB”."
    )
    assert joined(["3 of 200 records were lost", "20 ms and 30 ms"]) == "3 of 200 records were lost."


def test_a_gate_shows_trials_of_both_sides_as_changes_of_base(tmp_path: Path) -> None:
    base, head = [[trial(n, {"variant": side}, p99_ns=p99_ns) for n in (1, 2)] for side, p99_ns in SIDES.items()]
    found = gate_evidence(gate(), [*base, *head])
    assert found is not None
    worse, same = found.rows
    assert (worse.label, worse.note, worse.state) == ("Produce latency p99", "worse", "bad")
    assert [(dot.fate, round(dot.value)) for dot in worse.dots] == [("base", 0)] * 2 + [("usable", 14)] * 2
    assert (same.figure, same.note) == ("", "no change shown (−2 to +2 %)"), "no ±0 % beside a wide interval"
    assert ("usable", "trial of head") in found.marks
    assert [(limit.name, limit.value) for limit in found.limits] == [("no change", 0.0)]
