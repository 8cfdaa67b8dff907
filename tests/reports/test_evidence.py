"""The first screen: one sentence and one picture, which fits every screen and does not need colours."""

from __future__ import annotations

from pathlib import Path

import pytest

from highwater.reports.blocks import Strips
from highwater.reports.evidence import evidence_blocks
from highwater.reports.page import render, run_document
from highwater.results.analysis.evidence import Dot, Evidence, EvidenceRow, Limit
from highwater.results.reader import RunResult
from tests.reports.parsing import Document
from tests.reports.sample_details import gate
from tests.reports.sample_run import Sample, write_sample


def test_the_answer_is_one_sentence_and_one_picture_and_the_rest_unfolds(golden_document: Document) -> None:
    answer = golden_document.with_id("answer")
    (headline,) = answer.find("p", **{"class": "headline warn"})
    assert headline.text.count(".") - headline.text.count(".5") == 1
    (rest,) = answer.find("span", **{"class": "rest"})
    assert rest.text == "all objectives are met; no loss was seen.", "on a phone it is smaller"
    (details,) = answer.find("details")
    assert "open" not in details.attributes
    assert len(answer.find("ul", **{"class": "statements"})) == len(details.find("ul")) == 1


def test_positions_are_shares_of_the_width_so_that_text_keeps_its_size(golden_document: Document) -> None:
    drawings = golden_document.with_id("answer").find("svg", **{"class": "strip"})
    assert len(drawings) == 4
    for drawing in drawings:
        assert "viewbox" not in {name.lower() for name in drawing.attributes}
        assert drawing.attributes["width"] == "100%"
        assert all(mark.attributes["x"].endswith("%") for mark in drawing.find("svg") if mark is not drawing)


def test_every_row_says_in_words_what_is_drawn(golden_document: Document) -> None:
    rows = golden_document.with_id("answer").find("span", role="img")
    trials = [row.attributes["aria-label"].partition(",")[0] for row in rows]
    assert trials == ["6 trials", "5 trials", "6 trials", "6 trials"], "one of 24 was interrupted"
    said = [one.text for one in golden_document.with_id("answer").find("span", **{"class": "said"})]
    assert [text.rpartition(" ms ")[2] for text in said[:3]] == ["not decided"] * 3


@pytest.mark.parametrize(
    ("unit", "none", "ends", "label"), [("%", 0.0, (-5.0, 16.0), "±0 %"), ("×", 1.0, (0.2, 5.0), "1×")]
)
def test_no_change_has_its_label_on_the_axis(unit: str, none: float, ends: tuple[float, float], label: str) -> None:
    row = EvidenceRow("produce.p99", [Dot(end, "usable") for end in ends], ends[1], ends, "", "worse", "bad")
    (block,) = evidence_blocks(Evidence("", unit, [row], [Limit("no change", none)], is_change=True))
    assert isinstance(block, Strips)
    assert f">{label}</text>" in block.axis


def test_rows_have_names_of_people_and_bounds_their_units(golden_page: str, tmp_path: Path) -> None:
    directory = write_sample(tmp_path / "run", Sample(axes={}, trials=1, measure_s=1))
    (directory / "gate.json").write_text(gate().model_dump_json(by_alias=True), "utf-8")
    gate_page = render(run_document(RunResult(directory)))
    assert '<span class="cell">Throughput</span>' in gate_page
    assert "objective &lt; 20\N{NO-BREAK SPACE}ms lies outside of the picture" in golden_page
