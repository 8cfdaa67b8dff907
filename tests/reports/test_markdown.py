"""The Markdown says what the page says, survives hostile names, and keeps its tables whole."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from markdown_it import MarkdownIt

from highwater.reports import markdown
from highwater.reports.blocks import Paragraph, Section
from highwater.reports.page import Document as ReportDocument
from highwater.reports.page import run_document
from highwater.results.reader import RunResult
from tests.reports.parsing import Document
from tests.reports.sample_run import write_sample
from tests.reports.test_page import HOSTILE, hostile_sample


@pytest.fixture(scope="module")
def golden_text(golden_run: Path) -> str:
    return markdown.render(run_document(RunResult(golden_run)))


def html_of(text: str) -> str:
    return str(MarkdownIt("commonmark").enable("table").render(text))


def test_every_section_of_the_page_is_there_in_its_order(golden_text: str, golden_document: Document) -> None:
    titles = [heading.text for heading in golden_document.find("h2")]
    found = [re.search(rf"^(## |<summary>)\W*{title}", golden_text, re.MULTILINE) for title in titles]
    places = [match.start() for match in found if match]
    assert len(titles) > 15
    assert places == sorted(places)
    assert len(places) == len(titles)


def test_every_table_and_every_chart_of_the_page_is_a_table(golden_text: str, golden_document: Document) -> None:
    facts = len(golden_document.find("dl"))
    assert html_of(golden_text).count("<table>") == len(golden_document.find("table")) + facts + 1, (
        "the picture of the answer, too"
    )


def test_rows_have_as_many_fields_as_their_header(golden_text: str) -> None:
    for block in re.findall(r"(?:^\|.*\n)+", golden_text, re.MULTILINE):
        counts = {len(re.findall(r"(?<!\\)\|", line)) for line in block.splitlines()}
        assert len(counts) == 1, block[:300]


def test_hostile_names_stay_text(tmp_path: Path) -> None:
    directory = write_sample(tmp_path / "run", hostile_sample())
    page = html_of(markdown.render(run_document(RunResult(directory))))
    assert "<script" not in page
    assert "<img" not in page
    assert HOSTILE[:10] not in page


def test_a_comment_holds_what_fits_and_names_the_rest(golden_run: Path, golden_text: str) -> None:
    document = run_document(RunResult(golden_run))
    text = markdown.render(document, most_characters=20_000)
    assert len(text) <= 20_000
    assert "Partly valid" in text
    assert "## Cells" in text
    assert "Left out, as no more than 20,000 characters were to be written:" in text
    assert text.count("<details>") == text.count("</details>")
    assert markdown.render(document, most_characters=10**7) == golden_text


def test_folded_parts_are_closed(golden_text: str) -> None:
    assert golden_text.count("<details>") == golden_text.count("</details>")


def test_plain_words_stay_plain() -> None:
    words = "A title (with brackets), 5 % + 3 × 2!"
    text = markdown.render(ReportDocument(words, "", "", [Section("x", "y", [Paragraph("p99.9 – 3.5")])]))
    assert "\\" not in text
    assert words in text
