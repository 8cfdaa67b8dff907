"""Two directories: the ratios are those of `bench compare`, and what cannot be compared is said first."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from highwater.bench.display.comparison_text import header_lines
from highwater.common.units import change_text
from highwater.reports import markdown
from highwater.reports.page import render
from highwater.reports.side_by_side import NothingInCommonError, comparison_document
from highwater.results.models import Environment, TrialSummary, Verdict
from highwater.results.reader import RunResult
from tests.bench.summaries import LOST
from tests.reports.parsing import Document, parse
from tests.reports.sample_run import Sample, saturated, write_sample
from tests.results.analysis.comparing import compare


def slower(summary: TrialSummary) -> TrialSummary:
    old = summary.produce.response_ns
    latency = old.model_copy(update={"p50": old.p50 * 9, "p99": old.p99 * 9})
    return summary.model_copy(update={"produce": summary.produce.model_copy(update={"response_ns": latency})})


@pytest.fixture
def pair(tmp_path: Path) -> tuple[RunResult, RunResult]:
    plain = Sample(axes={}, trials=5, measure_s=1)
    changed = Sample(axes={}, trials=5, measure_s=1, change=slower)
    return RunResult(write_sample(tmp_path / "a", plain)), RunResult(write_sample(tmp_path / "b", changed))


def page_of(base: RunResult, head: RunResult) -> Document:
    return parse(render(comparison_document(base, head)))


def test_ratios_are_those_of_compare(pair: tuple[RunResult, RunResult]) -> None:
    document = page_of(*pair)
    found = {c.metric: c for c in compare(*pair).metrics}
    rows = {row[0]: row for row in document.with_id("metrics").find("table")[0].rows()[1:]}
    p99 = found["produce.p99"]
    assert p99.ratio
    assert rows["Produce latency p99"][3].startswith(change_text(p99.ratio))
    assert rows["Produce latency p99"][-1] == "worse"
    assert document.with_id("answer").text.endswith(".")
    assert "9×" in document.with_id("answer").text


def test_runs_that_were_not_interleaved_say_so(pair: tuple[RunResult, RunResult]) -> None:
    assert "not interleaved" in page_of(*pair).with_id("verdict").text


def test_what_is_not_decided_is_marked_as_a_question(tmp_path: Path) -> None:
    few = Sample(axes={}, trials=3, measure_s=1)
    sides = [RunResult(write_sample(tmp_path / name, few)) for name in "ab"]
    answer = page_of(sides[0], sides[1]).with_id("answer")
    (headline,) = answer.find("p", **{"class": "headline warn"})
    assert headline.text.startswith("Not decided")
    assert answer.find("li", **{"class": "warn"})


def test_another_environment_is_said_before_any_figure(tmp_path: Path) -> None:
    plain = Sample(axes={}, trials=5, measure_s=1)
    facts = {"kernel_release": "7.0", "cpu_count": 64}
    other = Sample(axes={}, trials=5, measure_s=1, environment=Environment(facts=facts, tuning=[]))
    document = page_of(RunResult(write_sample(tmp_path / "a", plain)), RunResult(write_sample(tmp_path / "b", other)))
    assert "The environments differ in what affects figures" in document.with_id("answer").text
    rows = document.with_id("environment").find("table")[0].rows()
    assert ["number of CPUs", "8", "64", "decides over figures"] in rows


def test_an_invalid_side_makes_the_page_bad(tmp_path: Path) -> None:
    one = RunResult(write_sample(tmp_path / "a", Sample(axes={}, trials=2, measure_s=1)))
    two = RunResult(write_sample(tmp_path / "b", Sample(axes={}, trials=2, measure_s=1, change=saturated)))
    section = page_of(one, two).with_id("verdict")
    assert section.attributes["class"] == "folded verdict bad"


def losing(summary: TrialSummary) -> TrialSummary:
    found = Verdict(state="invalid", reasons=[LOST]) if summary.trial == 1 else summary.verdict
    return summary.model_copy(update={"verdict": found})


def test_a_side_that_lost_records_leads_the_page(tmp_path: Path) -> None:
    sound = RunResult(write_sample(tmp_path / "a", Sample(axes={}, trials=6, measure_s=1)))
    lossy = RunResult(write_sample(tmp_path / "b", Sample(axes={}, trials=6, measure_s=1, change=losing)))
    answer = page_of(sound, lossy).with_id("answer")
    (headline,) = answer.find("p", **{"class": "headline bad"})
    assert re.match(r"Head: 3 of [\d,]+ acknowledged records were lost; in doubt: ", headline.text)
    assert "in doubt: invalid trials were left out" in headline.text
    assert f"Do not ship head, and read what the broker printed (system.log in {lossy.directory}/trials)" in answer.text
    found = compare(sound, lossy)
    assert found.answer.startswith("head: 3 of ")
    assert (found.head.n_invalid, found.base.n_invalid) == (1, 0)
    assert any("No loss was seen" in line for line in header_lines(found) if line.startswith("base"))
    both = page_of(lossy, lossy).with_id("answer").find("p", **{"class": "headline bad"})[0].text
    assert both.startswith("Records were lost or damaged on both sides; no difference shown in ")


def test_sides_without_loss_say_so_once(pair: tuple[RunResult, RunResult]) -> None:
    (headline,) = page_of(*pair).with_id("answer").find("p", **{"class": "headline bad"})
    assert headline.text.endswith("; no loss was seen.")


def test_nothing_in_common_is_one_line(tmp_path: Path) -> None:
    def run(name: str, values: list[str]) -> RunResult:
        axes = {"producers.client.linger.ms": values}
        return RunResult(write_sample(tmp_path / name, Sample(axes=axes, trials=1, measure_s=1)))  # type: ignore[arg-type]

    with pytest.raises(NothingInCommonError, match="share no cell"):
        comparison_document(run("a", ["1", "2"]), run("b", ["3", "4"]))


def test_markdown_says_the_same(pair: tuple[RunResult, RunResult]) -> None:
    text = markdown.render(comparison_document(*pair))
    assert "## Head against base" in text
    assert "Produce latency p99" in text
