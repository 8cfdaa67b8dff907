"""The page as a document: well formed, self-contained, navigable, nothing from outside."""

from __future__ import annotations

import base64
import hashlib
import re
from collections import Counter
from pathlib import Path

import pytest

from highwater.reports.page import render, run_document
from highwater.results.files import ResultDirectoryError
from highwater.results.models import HostProfileUse, SloResult, TrialSummary
from highwater.results.reader import RunResult
from tests.reports.parsing import Document, parse, parse_drawing
from tests.reports.sample_run import Sample, write_sample

_SVG = "{http://www.w3.org/2000/svg}"


def test_ids_are_unique_and_references_resolve(golden_document: Document) -> None:
    ids = Counter(e.attributes["id"] for e in golden_document if "id" in e.attributes)
    assert [name for name, count in ids.items() if count > 1] == []
    for element in golden_document:
        wanted = element.attributes.get("aria-labelledby", "").split()
        wanted += [element.attributes["for"]] if "for" in element.attributes else []
        href = element.attributes.get("href", "")
        wanted += [href[1:]] if href.startswith("#") else []
        assert [name for name in wanted if name not in ids] == []


def test_every_drawing_is_well_formed_and_says_what_it_shows(golden_page: str) -> None:
    drawings = re.findall(r'<svg [^>]*class="chart".*?</svg>', golden_page, re.DOTALL)
    assert len(drawings) > 10
    for drawing in drawings:
        root = parse_drawing(drawing)
        assert root.get("role") == "img"
        title, description = root.find(f"{_SVG}title"), root.find(f"{_SVG}desc")
        assert title is not None
        assert title.text
        assert description is not None
        assert description.text
        assert "nan" not in drawing
        assert "inf" not in drawing.lower().replace("information", "")


def test_nothing_comes_from_outside(golden_document: Document, golden_page: str) -> None:
    for element in golden_document:
        assert element.name not in ("link", "img", "iframe", "object", "embed", "base")
        assert "src" not in element.attributes
        assert "style" not in element.attributes, "an inline style is refused by the page's own policy"
        assert not [name for name in element.attributes if name.startswith("on")]
        assert element.attributes.get("href", "#").startswith("#")
    assert set(re.findall(r"https?://[^\s\"'<)]+", golden_page)) == {"http://www.w3.org/2000/svg"}


def test_policy_allows_our_script_and_style_and_no_other(golden_document: Document) -> None:
    (policy,) = golden_document.find("meta", **{"http-equiv": "Content-Security-Policy"})
    rules = dict(rule.strip().split(" ", 1) for rule in policy.attributes["content"].split(";"))
    assert rules["default-src"] == "'none'"
    for name in ("script", "style"):
        (element,) = golden_document.find(name)
        (text,) = element.children
        assert isinstance(text, str)
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert rules[f"{name}-src"] == f"'sha256-{digest}'"


def test_sections_stand_in_the_order_of_trust(golden_document: Document) -> None:
    sections = [e.attributes["id"] for e in golden_document.find("section")]
    assert sections[:5] == ["answer", "findings", "compared", "cells", "changes"]
    order = [e.attributes.get("id", e.name) for e in golden_document]
    answer, verdict, nav = map(order.index, ("answer", "verdict", "nav"))
    assert answer < verdict < nav, "who reads one screen reads the answer"
    assert golden_document.with_id("verdict").name == "details"
    assert "open" not in golden_document.with_id("verdict").attributes
    assert sections[-6:] == ["setup", "environment", "objectives", "repeat", "method", "files"]


def test_every_chart_is_followed_by_its_data(golden_document: Document) -> None:
    figures = golden_document.find("figure")
    assert [f.attributes["id"] for f in figures if not f.find("details")] == []
    for figure in figures:
        rows = figure.find("table")[0].rows()
        assert len(rows) > 1
        assert {len(row) for row in rows} == {len(rows[0])}


def test_a_summary_without_a_measured_phase_is_refused_by_name(tmp_path: Path) -> None:
    def without_measure(summary: TrialSummary) -> TrialSummary:
        return summary.model_copy(update={"phases": summary.phases[:1]})

    run = write_sample(tmp_path / "run", Sample(axes={}, trials=1, measure_s=1, change=without_measure))
    with pytest.raises(ResultDirectoryError, match=r"c1-t1.*no measured phase"):
        render(run_document(RunResult(run)))


HOSTILE = "</title></script><script>alert(1)</script><img src=x onerror=alert(1)>\"'&{{7*7}}\x00\x1b[31m"


def hostile_sample() -> Sample:
    """A run in which every text that others choose is an attack."""

    def hostile(summary: TrialSummary) -> TrialSummary:
        system = summary.system.model_copy(update={"effective_config": {HOSTILE: HOSTILE}, "version": HOSTILE})
        emulated = {"name": HOSTILE, "path": HOSTILE, "emulated": True, "model": HOSTILE, "emulation": HOSTILE}
        profile = HostProfileUse(name=HOSTILE, applied={HOSTILE: HOSTILE}, before={}, verified=False, rolled_back=False)
        return summary.model_copy(
            update={
                "system": system,
                "storage": summary.storage.model_copy(update=emulated),
                "verdict": summary.verdict.model_copy(update={"notes": [HOSTILE]}),
                "host_profile": profile,
                "slo": [SloResult(metric=HOSTILE, bound=HOSTILE, value=1.0, met=False)],
            }
        )

    return Sample(
        name=HOSTILE,
        purpose=HOSTILE,
        axes={f"topics.config.{HOSTILE}": [HOSTILE, "plain"], "load.rate": [10_000, 20_000]},
        trials=1,
        measure_s=1,
        analysed=True,
        detailed=True,
        change=hostile,
    )


def test_hostile_names_stay_text(tmp_path: Path) -> None:
    page = render(run_document(RunResult(write_sample(tmp_path / "run", hostile_sample()))))
    document = parse(page)
    assert len(document.find("script")) == 1
    assert document.find("img") == []
    assert "\x00" not in page
    assert "\x1b" not in page
    assert "49" not in document.find("h1")[0].text
    assert "<script>alert(1)</script>" in document.find("h1")[0].text
    for drawing in re.findall(r'<svg [^>]*class="chart".*?</svg>', page, re.DOTALL):
        parse_drawing(drawing)
