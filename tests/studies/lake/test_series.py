"""Histories and comparisons from a lake are those of the directories that are in it."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from highwater.cli import app
from highwater.common.errors import UsageError
from highwater.results.models import TrialSummary
from highwater.results.reader import RunResult
from highwater.studies.history import series as kept
from highwater.studies.lake import adding
from highwater.studies.lake.manifest import Manifest
from highwater.studies.lake.runs import result_of
from highwater.studies.lake.series import series_of
from tests.results.analysis.comparing import compare
from tests.studies.lake.small_lake import write_run


def slower(summary: TrialSummary) -> TrialSummary:
    return summary.model_copy(update={"achieved_per_s": summary.achieved_per_s * 0.8})


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("series")
    matrix: dict[str, list[str | int | float | bool]] = {"storage.target": ["default", "hdd"]}
    return [
        write_run(folder / "a", 1, analysed=True, trials=4),
        write_run(folder / "b", 2, analysed=True, trials=4, change=slower),
        write_run(folder / "c", 3, name="disks", axes=matrix),
    ]


@pytest.fixture(scope="module")
def lake(runs: list[Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    lake = tmp_path_factory.mktemp("series-lake") / "lake"
    assert {item.outcome for item in adding.add(Manifest(lake), runs, processes=1)} == {"added"}
    return lake


def test_a_history_from_a_lake_is_that_of_its_directories(runs: list[Path], lake: Path, tmp_path: Path) -> None:
    for run in runs:
        kept.add(RunResult(run), tmp_path, branch="", commit=None, new_environment=True)
    theirs = {(one.workload, one.environment): one for one in kept.all_series(tmp_path)}
    ours = {(one.workload, one.environment): one for one in series_of(Manifest(lake))}
    assert ours.keys() == theirs.keys()
    for key, series in ours.items():
        assert series.rows() == theirs[key].rows()
        assert set(series.columns()) == set(theirs[key].columns())
        assert series.facts() == theirs[key].facts()
        assert series.noise() == theirs[key].noise()
    assert any(one.noise() for one in ours.values())


def test_a_comparison_of_runs_of_a_lake_is_that_of_their_directories(runs: list[Path], lake: Path) -> None:
    manifest = Manifest(lake)
    ids = {Path(run.source): name for name, (run, _) in manifest.runs().items()}
    of_lake = compare(result_of(manifest, ids[runs[0]]), result_of(manifest, ids[runs[1]]))
    of_files = compare(RunResult(runs[0]), RunResult(runs[1]))
    assert (of_lake.metrics, of_lake.answer, of_lake.environment) == (
        of_files.metrics,
        of_files.answer,
        of_files.environment,
    )
    assert of_lake.base.environment_key == of_files.base.environment_key
    assert not result_of(manifest, ids[runs[0]]).has_files


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, ["bench", *map(str, arguments)])


def test_the_commands_take_a_lake(runs: list[Path], lake: Path, tmp_path: Path) -> None:
    compared = run("compare", "--lake", lake, "20260301", "20260302", "--json")
    assert compared.exit_code == 0, compared.output
    assert json.loads(compared.output)["base"]["directory"].startswith(f"{lake}/20260301T090000Z-quickstart-")
    listed = run("history", "list", "--lake", lake)
    assert listed.exit_code == 0
    assert "quickstart  environment" in listed.output
    copy = tmp_path / "lake"
    shutil.copytree(lake, copy)
    changes = run("history", "changes", "--lake", copy, "--workload", "quickstart")
    assert (changes.exit_code, changes.output) == (
        0,
        f"{changes.output.split(':')[0]}: too few: 2 runs; change points need 7\n",
    )
    arguments = ("history", "ack", "--lake", copy, "--workload", "quickstart", "--reason", "known")
    done = run(*arguments, "produce.achieved_per_s", "2026-03-02")
    assert done.exit_code == 0, done.output
    (series,) = (one for one in series_of(Manifest(copy)) if one.workload == "quickstart")
    assert [item.reason for item in series.acknowledgements()] == ["known"]


def test_the_page_of_a_history_takes_a_lake(lake: Path, tmp_path: Path) -> None:
    done = run("history", "report", "--lake", lake, "--out", tmp_path / "page.html")
    assert (done.exit_code, done.output) == (0, f"{tmp_path / 'page.html'}\n")
    text = (tmp_path / "page.html").read_text("utf-8")
    assert f"3 runs, from {lake}" in text
    assert "too few: 2 runs; change points need 7" in text
    copy = tmp_path / "lake"
    shutil.copytree(lake, copy)
    assert run("history", "report", "--lake", copy).output == f"{copy / 'history.html'}\n"
    assert run("lake", "verify", "--lake", copy).exit_code == 0
    (empty := tmp_path / "empty").mkdir()
    Manifest(empty).create()
    for directory, said in (
        (empty, "nothing stored yet; start with"),
        (tmp_path / "none", "is not a lake; make one with"),
    ):
        done = run("history", "report", "--lake", directory)
        assert (done.exit_code, len(done.output.splitlines())) == (2, 1)
        assert said in done.output


PLANNED = """\
schema: bench.workload/1
name: {name}
records: {{size: 100B}}
load: {{rate: 100/s}}
phases: {{warmup: 1s, measure: 3s}}
trials: {{n: 6, seed: 1}}
answer: {{best: produce.p99}}
matrix: {{producers.client.acks: ["1", all]}}
"""


def test_a_plan_says_what_its_trials_can_show(lake: Path, tmp_path: Path) -> None:
    workload = tmp_path / "w.yaml"

    def planned(name: str, *options: str) -> Result:
        workload.write_text(PLANNED.format(name=name))
        return run("plan", workload, "--launcher", "process", "--lake", lake, *options)

    done = planned("quickstart")
    assert done.exit_code == 0, done.output
    (line,) = (line for line in done.stdout.splitlines() if line.startswith("produce.p99: "))
    assert re.fullmatch(
        r"produce\.p99: 6 trials of each cell show a change of .+, 4 times in 5; 5 % takes .+ trials "
        r"\(8 A/A pairs, 2 runs\)",
        line,
    )
    (expected,) = json.loads(planned("quickstart", "--json").stdout)["expected"]
    assert (expected["metric"], expected["pairs"], expected["runs"]) == ("produce.p99", 8, 2)
    assert expected["detectable_ratio"] > 0
    assert "3 trials of each cell are too few for an interval" in planned("quickstart", "--trials", "3").stdout
    assert "has no three A/A pairs of payments" in planned("payments").stdout
    refused = run("plan", workload, "--lake", tmp_path)
    assert refused.exit_code == 2
    assert "is not a lake; make one with" in refused.output


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("compare", "2026", "20260301"), "2026 is part of the ids of 3 runs ("),
        (("compare", "20260399", "20260301"), "has no run 20260399"),
        (("history", "changes"), "several series; name one with --workload and --environment"),
        (("history", "changes", "--workload", "none"), "no such series; name one with"),
    ],
)
def test_a_wrong_call_gets_one_line(lake: Path, arguments: tuple[str, ...], said: str) -> None:
    done = run(*arguments, "--lake", lake)
    assert done.exit_code == 2
    assert said in done.output
    assert len(done.output.splitlines()) == 1


def test_a_damaged_file_is_named(runs: list[Path], lake: Path, tmp_path: Path) -> None:
    copy = tmp_path / "lake"
    shutil.copytree(lake, copy)
    manifest = Manifest(copy)
    name, (_, group) = next(iter(manifest.runs().items()))
    path = copy / next(file.path for file in group.files if file.table == "trials")
    octets = bytearray(path.read_bytes())
    octets[-20] ^= 1
    path.write_bytes(octets)
    with pytest.raises(UsageError, match=f"{path}: is damaged; its digest is not that of the manifest"):
        result_of(manifest, name)
