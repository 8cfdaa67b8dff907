"""`highwater tune prove` from arguments to exit code, on a host that is a fake tree and with trials that are none."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema  # type: ignore[import-untyped]
import pytest
from typer.testing import CliRunner, Result

import highwater.cli
import highwater.tuning.facts
from highwater.bench.commands import prove as command
from highwater.results.models import RunStatus
from highwater.tuning.cli.documents import json_schema
from highwater.tuning.facts import collect
from highwater.tuning.hostfiles import HostFiles
from highwater.tuning.proofs import PROOFS, ProveDocument, read_proofs
from tests.bench.prove.test_proving import Runner
from tests.tuning.host_tree import Disk, make_host


def call(*arguments: str | Path) -> Result:
    return CliRunner().invoke(highwater.cli.app, ["tune", "prove", *map(str, arguments)])


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    root = make_host(tmp_path / "host", disks=[Disk("sda", "/data")])
    monkeypatch.setattr(highwater.tuning.facts, "collect", lambda: collect(root))
    return root


def stand_in(monkeypatch: pytest.MonkeyPatch, slow: str = "", status: RunStatus = "done") -> Runner:
    runner = Runner(slow, status)
    monkeypatch.setattr(command, "executing", lambda *_: runner)
    return runner


def test_a_proof_is_told_kept_and_written_down(host: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in(monkeypatch, slow="vm.swappiness")
    page = tmp_path / "page.md"
    result = call("vm.swappiness", "--out", tmp_path / "out", "--seed", "1", "--keep", "--report", page)
    assert result.exit_code == 0, result.output
    assert "vm.swappiness 60 → 1" in result.stdout
    assert "revert: worse: produce.p99 +5" in result.stdout
    assert "nothing was worth keeping" in result.stdout
    (kept,) = read_proofs(HostFiles(host))
    assert (kept.subject, kept.verdict) == ("vm.swappiness", "revert")
    assert "| vm.swappiness 60 → 1 | **revert** |" in page.read_text()


def test_what_is_worth_keeping_is_one_command_away(host: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in(monkeypatch, slow="net.core.somaxconn")
    result = call("net.core.somaxconn=128:4096", "--out", tmp_path / "out", "--seed", "1", "--keep")
    assert result.exit_code == 0, result.output
    assert "highwater tune apply --only net.core.somaxconn\n" in result.stdout


def test_programs_get_json(host: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in(monkeypatch)
    result = call("vm.swappiness", "vm.dirty_bytes=1GiB", "--out", tmp_path / "out", "--seed", "1", "--json", "--quiet")
    document = json.loads(result.stdout)
    jsonschema.Draft202012Validator(json_schema(ProveDocument)).validate(document)
    assert [item["settings"][0]["knob"] for item in document["proofs"]] == ["vm.swappiness", "vm.dirty_bytes"]


def test_the_plan_shows_time_and_what_is_left_out_and_runs_nothing(host: Path, tmp_path: Path) -> None:
    result = call("--plan", "--data-dir", "/data")
    assert result.exit_code == 0, result.output
    assert "prove-writes: 8 pairs, " in result.stdout
    assert "vm.swappiness: 60 → 1" in result.stdout
    assert "not proved: " in result.stdout
    assert "in all; each pair is measured in a block of random order" in result.stdout
    planned = json.loads(call("vm.swappiness", "--plan", "--json", "--pairs", "10").stdout)
    assert (planned["rounds"][0]["pairs"], planned["rounds"][0]["trials"]) == (10, 30)
    assert planned["rounds"][0]["subjects"] == [
        {"subject": "vm.swappiness", "off": "as-it-is", "on": "vm.swappiness=1"}
    ]


def test_an_interruption_keeps_nothing_half_measured(
    host: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stand_in(monkeypatch, status="interrupted")
    assert call("vm.swappiness", "--out", tmp_path / "out").exit_code == 130
    assert read_proofs(HostFiles(host)) == []


def test_proofs_that_cannot_be_added_to_are_told_before_anything_is_measured(
    host: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runner = stand_in(monkeypatch)
    HostFiles(host).replace_file(PROOFS, "{}", 0o644)
    result = call("vm.swappiness", "--out", tmp_path / "out")
    assert (result.exit_code, runner.directories) == (2, [])
    assert "holds no readable proofs" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["vm.swapiness", "--plan"], "did you mean vm.swappiness"),
        (["vm.swappiness"], "error: name a directory for the results with --out DIR (or see the plan first: --plan)"),
        (["swap.devices", "--plan"], "error: swap.devices cannot be proved: "),
        (["vm.swappiness", "--minutes", "1", "--plan"], "error: --minutes 1: 5 pairs of each are the least"),
        (["vm.swappiness", "-w", "disk_write_rat=1MB/s", "--plan"], "disk_write_rat"),
        (["vm.swappiness", "--workload", "/nowhere.yaml", "--plan"], "/nowhere.yaml"),
    ],
)
def test_a_mistake_is_one_line_and_exit_code_2(host: Path, arguments: list[str], message: str) -> None:
    result = call(*arguments)
    assert result.exit_code == 2
    assert message in result.output


def test_a_directory_with_something_in_it_is_refused(host: Path, tmp_path: Path) -> None:
    result = call("vm.swappiness", "--out", tmp_path)
    assert (result.exit_code, result.stderr) == (
        2,
        f"error: {tmp_path} is not empty; name a new directory with --out\n",
    )
