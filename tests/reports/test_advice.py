from __future__ import annotations

from pathlib import Path

from typer.testing import CliRunner

from highwater.cli import app
from highwater.studies.advise.advising import advise, begin, make_advising
from highwater.studies.advise.question import read_question
from tests.studies.advise.questions import QUESTION, Runner, write_question


def test_the_first_section_says_the_decision_then_why_then_what_would_change_it(tmp_path: Path) -> None:
    advising = make_advising(read_question(write_question(tmp_path, QUESTION.replace("15m", "8m"))), 7)
    begin(advising.asked, tmp_path / "out", 7)
    advice, _ = advise(advising, tmp_path / "out", Runner())
    assert advice is not None
    result = CliRunner().invoke(app, ["report", str(tmp_path / "out"), "--markdown"])
    assert result.exit_code == 0, result.output
    text = (tmp_path / "out" / "report.md").read_text()
    parts = (
        "Decision",
        "linger.ms",
        "Advised against the settings in use",
        "Next:",
        "answer in full",
        "Advised settings</summary>",
    )
    places = [text.index(part) for part in (*parts, "## Why", "What would change it")]
    assert places == sorted(places)
    assert f"Set what the files in {tmp_path / 'out'}/settings say" in advice.next_step
    result = CliRunner().invoke(app, ["report", str(tmp_path / "out")])
    assert result.exit_code == 0, result.output
    page = (tmp_path / "out" / "report.html").read_text()
    assert ("Decision" in page, "<span>advice</span>" in page) == (True, True)


def test_a_damaged_advice_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "advice.json").write_text("{}")
    result = CliRunner().invoke(app, ["report", str(tmp_path)])
    assert result.exit_code == 2
    assert "advice.json" in result.output
    assert "--resume" in result.output, "the trials are there: the answer can be drawn anew"
