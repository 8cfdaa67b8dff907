"""`plan --measure`: the short form of the ceilings, when a host is quiet enough, and a plan from what it measured."""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner, Result

from highwater.bench.workload.specification import load_specification
from highwater.cli import app
from highwater.common.errors import UsageError
from highwater.studies.capacity.plan import make_plan
from highwater.studies.capacity.short_ceilings import LEAST_BUDGET_S, MOST_BUDGET_S, short_ceilings
from highwater.studies.capacity.text import how_sure
from highwater.studies.commands import measuring
from tests.studies.capacity.ceilings_run import ROOT, WORKLOAD, write_ceilings
from tests.studies.capacity.samples import load_with, measured

EXAMPLE = ROOT / "examples/load.yaml"


@pytest.fixture
def busy_percent(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """What the processors of this host do: change its one element."""
    found = [0.0]
    monkeypatch.setattr(
        measuring, "psutil", SimpleNamespace(cpu_percent=lambda interval: found[0], cpu_count=lambda: 8)
    )
    return found


def plan(*words: str | Path) -> Result:
    return CliRunner().invoke(app, ["plan", str(EXAMPLE), *map(str, words)])


def test_each_cell_is_that_of_the_whole_file(tmp_path: Path) -> None:
    file = tmp_path / "short.yaml"
    file.write_text(yaml.safe_dump(short_ceilings(LEAST_BUDGET_S)), "utf-8")
    whole = {str(cell.factors["variant"]): cell.workload for cell in load_specification(WORKLOAD).cells}
    found = load_specification(file).cells
    assert len(found) > 10
    for cell in found:
        other = whole[str(cell.factors["variant"])]
        for part in ("topics", "producers", "consumers", "records", "load", "validity"):
            assert getattr(cell.workload, part) == getattr(other, part), (cell.name, part)
        assert getattr(cell.workload.system, "nodes", None) == getattr(other.system, "nodes", 0)


def test_more_time_makes_more_and_longer_trials_and_never_more_than_the_budget() -> None:
    shapes = []
    for budget_s in range(LEAST_BUDGET_S, MOST_BUDGET_S + 1, 60):
        made = short_ceilings(budget_s)
        measure_s, trials = int(made["phases"]["measure"][:-1]), made["trials"]["n"]
        assert len(made["variants"]) * trials * (measure_s + 4) + 20 <= budget_s
        shapes.append((trials, measure_s))
    assert shapes[0] == (2, 2)
    assert shapes[-1][0] == 5
    assert min(shape[1] for shape in shapes) >= 2


def test_a_quiet_host_is_measured_and_planned_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, busy_percent: list[float]
) -> None:
    asked: list[list[str]] = []

    def run(command: list[str], **_: Any) -> Any:
        asked.append(command)
        write_ceilings(Path(command[command.index("--out") + 1]))
        return SimpleNamespace(returncode=0)

    monkeypatch.setattr("subprocess.run", run)
    done = plan("--measure", "3min", "--out", tmp_path / "out", "--storage", f"data={tmp_path}")
    assert done.exit_code == 0, done.output
    assert asked[0][-2:] == ["--storage", f"data={tmp_path}"]
    assert done.stdout.startswith("shop: ")
    assert "reference host" not in done.stdout
    assert f"plan {EXAMPLE} --ceilings {tmp_path / 'out' / 'ceilings'} plans with it again" in done.stderr
    assert (tmp_path / "out" / "plan.json").exists()


def test_a_host_that_is_busy_is_not_measured(busy_percent: list[float], tmp_path: Path) -> None:
    busy_percent[0] = 25.0
    done = plan("--measure", "3min", "--out", tmp_path / "out")
    assert done.exit_code == 2
    assert done.stderr == (
        "error: --measure: other work takes 2 of 8 processors, and a measurement bears 0.8: stop the other work, or "
        "plan from a reference host without --measure\n"
    )
    assert not (tmp_path / "out").exists()


def test_wrong_uses_are_one_line(busy_percent: list[float], tmp_path: Path) -> None:
    for words, said in [
        (("--measure", "soon"), "--measure: 'soon' is not a duration"),
        (("--measure", "10s"), "--measure: 10s is not between 3m and 15m; highwater bench run workloads/ceil"),
        (("--measure", "1h"), "--measure: 1h is not between 3m and 15m"),
        (("--measure", "3min", "--ceilings", tmp_path), "--measure measures ceilings and --ceilings names some"),
        (("--storage", "data=/tmp"), "--storage is for what is measured: add --measure 3min or --rehearse SHARE"),
    ]:
        done = plan(*words)
        assert done.exit_code == 2, done.output
        assert done.stderr.startswith(f"error: {said}")
        assert done.stderr.count("\n") == 1


def test_a_host_without_fio_or_java_says_so_before_it_measures(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, busy_percent: list[float]
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    done = plan("--measure", "3min", "--out", tmp_path / "out")
    assert (done.exit_code, done.stderr.count("\n")) == (2, 1)
    assert done.stderr.startswith("error: --measure: fio")
    fio = tmp_path / "fio"
    fio.touch(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    done = plan("--measure", "3min", "--out", tmp_path / "out")
    assert (done.exit_code, done.stderr.count("\n")) == (2, 1)
    assert done.stderr.startswith(f"error: JAVA_HOME={tmp_path} holds no bin/java")


def test_few_trials_widen_the_answer() -> None:
    enough = measured(busiest=(1.0,))
    few = replace(enough, cells=tuple(replace(cell, trials=cell.trials[:2]) for cell in enough.cells))
    wanted = load_with({"peak_bytes_per_s": 20e6, "batch_bytes": 4096})
    sure, unsure = (make_plan(wanted, known, date(2026, 11, 29)) for known in (enough, few))
    assert (unsure.brokers_high or 0) - (unsure.brokers_low or 0) > (sure.brokers_high or 0) - (sure.brokers_low or 0)
    assert "fewer than 3 trials, so that they take costs up to 25 % higher or lower" in how_sure(unsure)
    assert "trials, so" not in how_sure(sure)


def test_a_run_that_fails_makes_no_plan(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, busy_percent: list[float]
) -> None:
    monkeypatch.setattr("subprocess.run", lambda *_, **__: SimpleNamespace(returncode=3))
    with pytest.raises(UsageError, match="the measurement ended with exit status 3, for the reason above"):
        measuring.measured_here("3min", tmp_path / "out", [])
