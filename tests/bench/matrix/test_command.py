"""`highwater tune matrix` from arguments to exit code, on a host that is a fake tree and with trials that are none."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

import highwater.cli
import highwater.tuning.facts
from highwater.bench.commands import prove
from highwater.bench.matrix import disks
from highwater.bench.matrix.stored import read_matrix
from highwater.bench.trials.host_profile import applied_profile
from highwater.bench.workload.host import Host
from highwater.tuning.facts import collect
from highwater.tuning.journal import SESSION
from tests.bench.matrix.sample import FakeDisks
from tests.bench.prove.test_proving import Runner
from tests.tuning.host_tree import Disk, make_host

PART = ("--only", "swappiness", "--only", "vfs_cache_pressure", "--load", "cpu", "--disk", "host", "--disk", "hdd")


def call(*arguments: str | Path) -> Result:
    return CliRunner().invoke(highwater.cli.app, ["tune", "matrix", *map(str, arguments)])


@pytest.fixture
def runner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Runner:
    root = make_host(tmp_path / "host", disks=[Disk("sda", "/data")])
    monkeypatch.setattr(highwater.tuning.facts, "collect", lambda: collect(root))
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    found = Runner(slow="vm.swappiness")
    monkeypatch.setattr(prove, "executing", lambda *_: found)
    made = FakeDisks()
    monkeypatch.setattr(disks, "opened", lambda _study, _data_dir, name: made.open(name))
    return found


@pytest.fixture
def data(tmp_path: Path) -> Path:
    path = tmp_path / "data"
    path.mkdir()
    return path


def test_one_command_measures_and_answers(runner: Runner, data: Path, tmp_path: Path) -> None:
    command = partial(call, *PART, "--out", tmp_path / "out", "--data-dir", data, "--seed", "1")
    result = command()
    assert result.exit_code == 0, result.output
    assert "2 settings × 1 load × 2 disks = 4 cells\n" in result.stdout
    assert "hdd: 2 settings can be set there, each on in half of 24 trials under each load: about " in result.stdout
    assert "On this host 1 of 2 settings matters: 1 harms (vm.swappiness)." in result.stdout
    assert "vm.swappiness, cpu on hdd: worse: produce.p99 +" in result.stdout
    assert f"report: highwater report {tmp_path / 'out'}" in result.stdout
    assert (tmp_path / "out" / "matrix.csv").read_text().count("\n") == 1 + 4 + 2 * 2 * 9, "with dummies"
    assert "Noise alone: of 36 effects of settings that do not exist (dummies), " in result.stdout
    ran = len(runner.directories)
    assert command().exit_code == 0
    assert len(runner.directories) == ran, "what is done stays done"


def test_a_first_look_alone_answers_what_no_chance_explains(runner: Runner, data: Path, tmp_path: Path) -> None:
    result = call(*PART, "--quick", "--out", tmp_path / "out", "--data-dir", data, "--quiet")
    assert result.exit_code == 0, result.output
    assert "On this host 1 of 2 settings matters: 1 harms (vm.swappiness)." in result.stdout
    assert "No difference: vm.vfs_cache_pressure up to " in result.stdout
    assert {path.parent.name for path in runner.directories} == {"prove-cpu"}
    assert {path.name for path in runner.directories} == {"first-1"}


def test_what_a_killed_run_left_is_not_taken_for_the_settings_of_the_host(
    runner: Runner, data: Path, tmp_path: Path
) -> None:
    facts = collect(tmp_path / "host")
    with applied_profile(Host(settings={"vm.swappiness": "1"}), facts):
        journal = facts.files.read_verbatim(SESSION)
    assert journal is not None
    facts.files.replace_file(SESSION, journal, 0o644)
    facts.files.write_setting("/proc/sys/vm/swappiness", "1")
    result = call(*PART, "--quick", "--out", tmp_path / "out", "--data-dir", data, "--quiet")
    assert result.exit_code == 0, result.output
    assert "host profile of a killed run taken back: vm.swappiness: 1 -> 60" in result.stderr
    changed = [
        each for item in read_matrix(tmp_path / "out").rounds for each in item.settings if "swap" in each.setting
    ]
    assert {(each.off_text, each.on_text) for each in changed} == {("60", "1")}


def test_an_interruption_is_told_with_what_there_is(runner: Runner, data: Path, tmp_path: Path) -> None:
    runner.status = "interrupted"
    result = call(*PART, "--out", tmp_path / "out", "--data-dir", data)
    assert result.exit_code == 130
    assert "Nothing is measured yet." in result.stdout


def test_the_plan_takes_no_root_and_changes_nothing(
    runner: Runner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    result = call("--plan", "--data-dir", "/data")
    assert result.exit_code == 0, result.output
    assert "20 settings × 4 loads × 3 disks = 240 cells\n" in result.stdout
    assert "for each cell that seems to differ, to measure it again" in result.stdout
    assert "measure it again" not in call("--plan", "--quick").stdout
    assert runner.directories == []


def test_a_mistake_is_one_line_and_leaves_nothing(
    runner: Runner, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "letters").touch()
    for arguments, message in (
        (["--only", "swapiness"], "error: --only: the study has no 'swapiness'; did you mean swappiness?"),
        ([], "error: to measure it, name --out DIR for the results and --data-dir DIR, an empty directory\n"),
        (["--out", out, "--data-dir", tmp_path / "full"], "is not empty (letters); name an empty directory"),
        (["--out", out, "--data-dir", tmp_path / "none"], "is not a directory; make it first"),
        (["--out", tmp_path / "full", "--data-dir", data], "is not empty; name a new directory with --out"),
        (["--for", "soon", "--out", out, "--data-dir", data], "error: --for: "),
        (["--study", tmp_path / "none.yaml"], "none.yaml"),
    ):
        result = call(*arguments)
        assert (result.exit_code, message in result.stderr) == (2, True), result.output
        assert result.stderr.count("\n") == 1
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    result = call("--out", out, "--data-dir", data)
    assert (result.exit_code, result.stderr) == (
        2,
        "error: a matrix changes settings of the host and makes disks, which takes root: use sudo\n",
    )
    assert not out.exists()
    assert runner.directories == []
