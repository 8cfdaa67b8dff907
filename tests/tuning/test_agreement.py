"""One catalogue, and everything that is made of it agrees: the command line, what results record, and their report."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from highwater.reports.settings import tuning_table
from highwater.results.reader import RunResult
from highwater.tuning.catalogue import KNOBS, find_knob
from highwater.tuning.check import evaluate
from highwater.tuning.facts import collect
from highwater.tuning.model import Knob
from highwater.tuning.workload import Workload
from tests.tuning.cli.invoking import invoke
from tests.tuning.host_tree import make_host

IDS = [knob.id for knob in KNOBS]


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_host(tmp_path_factory.mktemp("host"))


def test_the_command_line_lists_the_catalogue(root: Path) -> None:
    listed = _json("list", root)["knobs"]
    assert [entry["id"] for entry in listed] == IDS
    for entry, knob in zip(listed, KNOBS, strict=True):
        assert _common(entry, knob) >= {"id", "title", "group", "mechanism", "risk"}


def test_check_reports_on_the_catalogue_and_nothing_else(root: Path) -> None:
    reported = _json("check", root)["knobs"]
    assert list(dict.fromkeys(entry["id"] for entry in reported)) == IDS
    by_id = {knob.id: knob for knob in KNOBS}
    for entry in reported:
        assert _common(entry, by_id[entry["id"]]) >= {"title", "reason", "unit", "risk", "persistence", "comparison"}


@pytest.mark.parametrize("knob_id", ["vm.dirty_bytes", "thp.enabled", "unit.limit_nofile", "mount.data_writeback"])
def test_explain_shows_every_authority(root: Path, knob_id: str) -> None:
    knob = find_knob(knob_id)
    (here,) = _json("explain", root, knob_id, "--data-dir", "/data")["here"]
    assert here["authorities"] == [dataclasses.asdict(authority) for authority in knob.authorities]
    assert here["sources"] == [dataclasses.asdict(source) for source in knob.sources]
    words = " ".join(invoke("explain", knob_id, "--root", str(root), columns=300).stdout.split())
    for text in (knob.title, knob.risk_text, knob.capability, *(each.value for each in knob.authorities)):
        assert text in words


def test_a_result_records_the_catalogue_and_its_report_shows_it(root: Path) -> None:
    recorded = [report.as_json() for report in evaluate(collect(root), Workload())]
    result = SimpleNamespace(environment=SimpleNamespace(tuning=recorded))
    table = tuning_table(cast(RunResult, result))
    assert table is not None
    shown = {str(row.fields[0].text).split()[0] for row in table.rows}
    assert shown == set(IDS)


def _json(verb: str, root: Path, *arguments: str) -> dict[str, Any]:
    result = invoke(verb, *arguments, "--root", str(root), "--json")
    assert result.exit_code in (0, 1), result.output
    document = json.loads(result.stdout)
    assert isinstance(document, dict)
    return document


def _common(entry: dict[str, Any], knob: Knob) -> set[str]:
    """The names under which the entry says what the knob says."""
    return {name for name, value in entry.items() if getattr(knob, name, None) == value}
