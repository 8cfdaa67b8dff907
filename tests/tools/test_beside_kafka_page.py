"""The page of several runs: aims first, over all of them."""

from __future__ import annotations

import json
from pathlib import Path

from highwater.reports import markdown
from highwater.results.reader import RunResult
from tests.reports.test_aims import SCATTERED_MS, STEADY_MS, aimed_run
from tools.beside_kafka_page import aims_counted, several_document


def test_an_aim_that_is_not_decided_is_reached_without_the_whole_interval(tmp_path: Path) -> None:
    runs = [aimed_run(tmp_path / "steady", STEADY_MS), aimed_run(tmp_path / "scattered", SCATTERED_MS)]
    assert aims_counted(runs).items == [("ours reached 2 of 2 aims, 1 of them with the whole interval.", "good")]


def test_a_page_of_several_runs_begins_with_how_many_aims_are_reached(tmp_path: Path) -> None:
    aimed_run(tmp_path, STEADY_MS)
    manifest = json.loads((tmp_path / "manifest.json").read_text())
    (tmp_path / "manifest.json").write_text(json.dumps({**manifest, "finished_utc": "2026-01-01T00:07:00Z"}))
    page = markdown.render(several_document("Title", "Purpose.", [RunResult(tmp_path)]))
    assert "measured from 2026-01-01 00:00 UTC to 2026-01-01 00:07 UTC" in page
    first = page.index("ours reached 1 of 1 aim, 1 of them with the whole interval.")
    assert page.index("What was aimed at") < first < page.index("| workload |")
