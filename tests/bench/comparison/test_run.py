"""Who is measured when, and what becomes of a measurement that fails."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from highwater.bench.comparison import run
from highwater.bench.comparison.cells import MB_PER_S, Figures, Stage
from highwater.bench.comparison.contenders import Broker, Contender
from highwater.bench.comparison.results import Aim, Measure
from highwater.bench.comparison.run import Comparison, Measured, Scope
from highwater.bench.errors import TrialError

SCOPE = Scope(repeats=3, load_s=1.0, warm_up_s=0.0, scale=1.0, seed=7)


class FakeBroker(Broker):
    def __init__(self, name: str) -> None:
        self.name = name

    def __exit__(self, *_: object) -> None:
        pass


@dataclass
class FakeContender:
    name: str
    version: str = "1"
    fails: bool = False

    def start(self, directory: Path, properties: Mapping[str, str]) -> Broker:
        if self.fails:
            raise TrialError("it does not start")
        return FakeBroker(self.name)


@dataclass
class FakeCell:
    """Tells what it is asked; `fails` says on which system it does."""

    name: str = "cell"
    title: str = "A cell"
    how: str = ""
    measures: Sequence[Measure] = (MB_PER_S,)
    aims: Sequence[Aim] = ()
    systems: Sequence[str] = ("ours", "theirs", "absent")
    fails: str = ""
    measured: list[str] = field(default_factory=list)

    def prepare(self, stage: Stage, brokers: Mapping[str, Broker]) -> None:
        if self.fails == "prepare":
            raise TrialError("no rate")

    def measure(self, stage: Stage, of: Broker | Contender) -> Figures:
        self.measured.append(of.name)
        assert stage.directory.is_dir()
        if of.name == self.fails:
            raise TrialError("a record was lost")
        return {MB_PER_S.name: 1.0}


@pytest.fixture(autouse=True)
def _no_warm_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "warm_up", lambda stage, broker, seconds: None)


def measure(
    tmp_path: Path, warm: list[FakeCell], starting: list[FakeCell], *, fails: bool = False
) -> tuple[dict[str, Measured], list[str]]:
    contenders = {"ours": FakeContender("ours"), "theirs": FakeContender("theirs", fails=fails)}
    kept: dict[str, Measured] = {}
    said: list[str] = []
    comparison = Comparison(SCOPE, contenders, tmp_path, said.append)
    comparison.measure(warm, starting, lambda cell, measured: kept.update({cell.name: measured}))
    assert list(tmp_path.iterdir()) == [], "nothing is left on the disk"
    return kept, said


@pytest.mark.parametrize("place", ["warm", "starting"])
def test_each_system_is_measured_in_each_repeat(tmp_path: Path, place: str) -> None:
    cell = FakeCell()
    kept, said = measure(tmp_path, *([cell], []) if place == "warm" else ([], [cell]))
    assert [sorted(cell.measured[at : at + 2]) for at in (0, 2, 4)] == [["ours", "theirs"]] * 3
    assert [(sample.repeat, sorted(sample.figures)) for sample in kept["cell"].samples] == [
        (repeat, ["ours", "theirs"]) for repeat in (1, 2, 3)
    ]
    assert kept["cell"].thrown_out == []
    assert len(said) == 6
    assert "6/6" in said[-1]


def test_cells_and_systems_come_in_another_order_each_time(tmp_path: Path) -> None:
    orders: list[str] = []
    cells = [FakeCell(name=str(number), measured=orders) for number in range(4)]
    measure(tmp_path, cells, [])
    assert len({tuple(orders[at : at + 2]) for at in range(0, 24, 2)}) == 2


@pytest.mark.parametrize("place", ["warm", "starting"])
def test_a_measurement_that_fails_is_thrown_out_and_told_and_the_others_stand(tmp_path: Path, place: str) -> None:
    cell = FakeCell(fails="theirs")
    kept, said = measure(tmp_path, *([cell], []) if place == "warm" else ([], [cell]))
    assert [sample.figures for sample in kept["cell"].samples] == [{"ours": {MB_PER_S.name: 1.0}}] * 3
    assert [(thrown.repeat, thrown.system, thrown.reason) for thrown in kept["cell"].thrown_out] == [
        (repeat, "theirs", "a record was lost") for repeat in (1, 2, 3)
    ]
    assert sum("THROWN OUT: a record was lost" in line for line in said) == 3


def test_a_cell_that_cannot_be_prepared_is_thrown_out_alone(tmp_path: Path) -> None:
    kept, _ = measure(tmp_path, [FakeCell(fails="prepare"), FakeCell(name="other")], [])
    assert kept["cell"].samples == []
    assert len(kept["cell"].thrown_out) == 6
    assert len(kept["other"].samples) == 3


def test_a_system_that_does_not_start_costs_its_repeats_and_is_told(tmp_path: Path) -> None:
    kept, _ = measure(tmp_path, [FakeCell()], [], fails=True)
    assert kept["cell"].samples == []
    assert {thrown.reason for thrown in kept["cell"].thrown_out} == {"it does not start"}
