"""The folder of results: what was done is read back, and another drill is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from highwater.pipeline.drill.errors import DrillSetupError
from highwater.pipeline.drill.results import Results
from highwater.pipeline.drill.verdict import judge
from tests.pipeline.drill.test_verdict import MOMENTS, ROUND

ASKED = {"sink": "sqlite", "query": ""}


def test_a_drill_that_was_stopped_goes_on(tmp_path: Path) -> None:
    first = Results(tmp_path / "out", ASKED)
    first.add(ROUND)
    first.add(ROUND)
    assert Results(tmp_path / "out", ASKED).rounds == [ROUND, ROUND]


def test_a_line_that_was_cut_off_is_no_round(tmp_path: Path) -> None:
    Results(tmp_path, ASKED).add(ROUND)
    with (tmp_path / "rounds.jsonl").open("a") as file:
        file.write('{"number": 2, "mom')
    again = Results(tmp_path, ASKED)
    assert again.rounds == [ROUND]
    again.add(ROUND)
    assert Results(tmp_path, ASKED).rounds == [ROUND, ROUND]


def test_another_drill_needs_another_folder(tmp_path: Path) -> None:
    Results(tmp_path, ASKED)
    with pytest.raises(DrillSetupError, match=r"query differ.*choose another --out"):
        Results(tmp_path, {**ASKED, "query": "mine.py"})


def test_what_was_concluded_is_there_for_programs_and_for_people(tmp_path: Path) -> None:
    results = Results(tmp_path, ASKED)
    results.add(ROUND)
    verdict = judge(results.rounds, MOMENTS, times_min=1, skips=True)
    results.conclude(verdict)
    written = json.loads((tmp_path / "verdict.json").read_text())
    assert written["exit_status"] == verdict.exit_status
    assert written["times_by_moment"] == {"sink-committed": 1, "random": 0}
    assert written["asked"] == ASKED
    assert (tmp_path / "verdict.md").read_text().startswith(verdict.sentence)
