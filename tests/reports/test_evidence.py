"""The first screen: one sentence and one picture, which fits every screen and does not need colours."""

from __future__ import annotations

from tests.reports.parsing import Document


def test_the_answer_is_one_sentence_and_one_picture_and_the_rest_unfolds(golden_document: Document) -> None:
    answer = golden_document.with_id("answer")
    (headline,) = answer.find("p", **{"class": "headline warn"})
    assert headline.text.count(".") - headline.text.count(".5") == 1
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
