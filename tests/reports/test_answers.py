"""Objectives, search and gate: the answer first, and nothing that the files do not hold."""

from __future__ import annotations

from pathlib import Path

from highwater.reports.page import render, run_document
from highwater.results.reader import RunResult
from highwater.results.writer import ResultWriter
from tests.reports import sample_details
from tests.reports.parsing import Document, parse
from tests.reports.sample_run import Sample, write_sample


def page_of(directory: Path) -> Document:
    return parse(render(run_document(RunResult(directory))))


def test_objectives_are_met_only_when_every_usable_trial_meets_them(tmp_path: Path) -> None:
    sample = Sample(
        axes={"producers.client.acks": ["all", "1"]}, trials=2, measure_s=1, detailed=True, rate_per_s=8_000
    )
    document = page_of(write_sample(tmp_path / "run", sample))
    rows = document.with_id("objectives").find("table")[0].rows()[1:]
    assert len(rows) == 2 * 3
    assert {row[1]: row[-2:] for row in rows} == {
        "Produce latency p99 < 20 ms": ["2 of 2", "met"],
        "Throughput ≥ 9k/s": ["0 of 2", "missed"],
        "Failed records = 0": ["2 of 2", "met"],
    }
    answer = document.with_id("answer").text
    assert "Objective missed: Throughput ≥ 9k/s, by “acks all” in 2 of 2 trials (worst " in answer
    assert "by “acks 1” in 2 of 2 trials (worst " in answer
    assert "Objectives met in every trial: Produce latency p99 < 20 ms, Failed records = 0." in answer


def test_a_search_names_its_bracket_the_limit_that_failed_and_every_rate(tmp_path: Path) -> None:
    directory = write_sample(tmp_path / "run", Sample(axes={}, trials=1, measure_s=1))
    ResultWriter.reopen(directory).write_search(sample_details.search())
    document = page_of(directory)
    section = document.with_id("search")
    answer = document.with_id("answer").text
    assert (
        "30,844/s with end-to-end latency p99 < 20 ms is sustained, confirmed by 3 of 3 fresh trials; "
        "33,636/s failed: e2e.p99 was" in answer
    )
    assert "30,844 records/s with end-to-end latency p99 < 20 ms is sustained; 33,636 records/s failed; " in answer
    assert "trial whose rate was not sustained" in answer
    assert "invalid" not in answer
    assert "Fresh trials at the answer3 of 3 passed" in section.text
    assert "e2e.p99: e2e.p99 was 31.2 ms, the objective is <20ms" in section.text
    assert len(section.find("table")[0].rows()) == 1 + 6


def test_a_search_that_the_generator_ended_says_so(tmp_path: Path) -> None:
    directory = write_sample(tmp_path / "run", Sample(axes={}, trials=1, measure_s=1))
    found = sample_details.search().model_copy(update={"generator_limited": True})
    ResultWriter.reopen(directory).write_search(found)
    text = page_of(directory).with_id("answer").text
    assert "the load generator is the limit, and the system may sustain more." in text


def test_a_gate_stands_right_after_the_verdict(tmp_path: Path) -> None:
    directory = write_sample(tmp_path / "run", Sample(axes={}, trials=1, measure_s=1))
    (directory / "gate.json").write_text(sample_details.gate().model_dump_json(by_alias=True), "utf-8")
    document = page_of(directory)
    assert [e.attributes["id"] for e in document.find("section")][:2] == ["answer", "gate"]
    assert "produce.p99 is 14 % worse" in document.with_id("answer").text
    section = document.with_id("gate")
    first, confirmation, environment = section.find("table")
    assert [row[-1] for row in first.rows()[1:]] == ["worse", "no change shown", "undecided"]
    assert first.rows()[1][3:5] == ["+14 %[+12 %, +16 %]", "5 %"]
    assert len(confirmation.rows()) == len(first.rows())
    assert environment.rows()[1] == ["kernel.release", "6.1.0", "6.1.0-18", "decides"]
