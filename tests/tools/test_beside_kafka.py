"""The workloads beside Apache Kafka: all can be planned, and what make bench-broker lays over them."""

from __future__ import annotations

from pathlib import Path

import psutil
import pytest
import yaml
from typer.testing import CliRunner

from highwater.bench.trials.plan import make_plan
from highwater.bench.workload.layers import read_with_includes
from highwater.bench.workload.specification import load_specification
from highwater.bench.workload.system import HighwaterUnderTest
from highwater.common.errors import UsageError
from tests.waiting import wait_until
from tools import beside_kafka
from tools.beside_kafka import (
    _CHECKOUT,
    _FOLDER,
    NEIGHBOURS,
    PURPOSE,
    PYTHON,
    WORKLOADS,
    changes,
    note_neighbour,
    purpose_beside,
    purpose_of_page,
)
from tools.neighbour import busy_neighbour


def laid_over(
    tmp_path: Path,
    name: str,
    missing: frozenset[str] = frozenset(),
    *,
    python: bool = False,
    quick: bool = False,
) -> Path:
    over = changes(
        read_with_includes(_FOLDER / f"{name}.yaml").data, missing, None, tmp_path, python=python, quick=quick
    )
    file = tmp_path / f"{name}.yaml"
    file.write_text(yaml.safe_dump({"include": str(_FOLDER / f"{name}.yaml"), **(over or {})}), encoding="utf-8")
    return file


def test_every_workload_of_the_folder_is_in_the_list() -> None:
    shared = {"systems", "floor", "cluster-systems"}
    assert {file.stem for file in _FOLDER.glob("*.yaml")} - shared == set(WORKLOADS)


@pytest.mark.parametrize("name", WORKLOADS)
def test_a_workload_can_be_planned_whole_and_quickly(tmp_path: Path, name: str) -> None:
    whole, quick = (make_plan(load_specification(laid_over(tmp_path, name, quick=quick))) for quick in (False, True))
    assert {trial.plan.cell for trial in quick.trials} == {trial.plan.cell for trial in whole.trials}
    assert len(quick.trials) == len({trial.plan.cell for trial in whole.trials})
    assert {trial.cell.workload.storage.target for trial in whole.trials} == {"measured"}


def test_a_system_that_the_host_lacks_goes_with_the_aims_beside_it(tmp_path: Path) -> None:
    missing = frozenset({"apache-kafka-3.9", "apache-kafka-4"})
    produce = load_specification(laid_over(tmp_path, "produce", missing)).workload
    assert list(produce.variants) == ["highwater", "bare-loop"]
    assert [aim.beside for aim in produce.aims] == [["bare-loop"]]
    data = read_with_includes(_FOLDER / "latency-ceiling.yaml").data
    assert changes(data, missing, None, None, quick=False) is None, "Kafka's own ceiling needs Kafka"


@pytest.mark.parametrize("quick", [False, True])
def test_the_broker_as_python_is_measured_as_ours_is(tmp_path: Path, quick: bool) -> None:
    for name in ("produce", "latency-busy", "cluster-failover"):
        specification = load_specification(laid_over(tmp_path, name, python=True, quick=quick))
        cells = {cell.factors["variant"]: cell.workload for cell in specification.cells}
        python, ours = cells[PYTHON].system, cells["highwater"].system
        assert isinstance(python, HighwaterUnderTest)
        assert python.source == str(_CHECKOUT)
        assert python.model_copy(update={"source": None}) == ours
        assert cells[PYTHON].phases == cells["highwater"].phases
        aims = specification.workload.aims
        assert [(aim.beside, aim.ratio) for aim in aims if aim.of == PYTHON] == [
            (aim.beside, aim.ratio) for aim in aims if aim.of == "highwater"
        ]
    ceiling = load_specification(laid_over(tmp_path, "latency-ceiling", python=True)).workload
    assert PYTHON not in ceiling.variants, "the ceiling is Apache Kafka's"


def test_a_neighbour_is_there_while_it_is_wanted() -> None:
    with busy_neighbour(0) as nobody:
        assert nobody is None
        assert not _neighbours()
    with busy_neighbour(0.01) as neighbour:
        # A process whose execve is under way has an empty command line for a moment.
        wait_until(lambda: len(_neighbours()) == 1, "the neighbour has its command line")
        (process,) = _neighbours()
        assert neighbour is not None
        share_taken = neighbour.measure()
        wait_until(lambda: share_taken() > 0, "the neighbour works")
    assert not process.is_running()


def test_python_beside_python_is_no_comparison(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(beside_kafka, "machine_code", lambda: (None, "make setup makes machine code"))
    done = CliRunner().invoke(beside_kafka.app, ["--python", "--only", "produce"])
    assert (done.exit_code, done.stderr) == (
        2,
        "error: --python beside itself: the hot modules run as Python (make setup makes machine code)\n",
    )


def test_the_page_tells_what_a_neighbour_took(tmp_path: Path) -> None:
    assert purpose_of_page(tmp_path, WORKLOADS) == PURPOSE
    note_neighbour(tmp_path, "produce", 0.49712)
    note_neighbour(tmp_path, "latency", 0.5)
    assert purpose_of_page(tmp_path, ["produce", "latency"]) == (
        f"{PURPOSE} A neighbour ran beside these workloads, a process that took of one processor: "
        "49.7 % (produce), 50 % (latency)."
    )
    assert purpose_of_page(tmp_path, ["consume"]) == PURPOSE
    (tmp_path / NEIGHBOURS).write_text("[")
    with pytest.raises(UsageError, match=f"^cannot read {tmp_path / NEIGHBOURS}: "):
        purpose_of_page(tmp_path, ["produce"])


def test_the_manifest_of_a_run_tells_of_the_neighbour(tmp_path: Path) -> None:
    data = read_with_includes(_FOLDER / "produce.yaml").data
    over = {"include": str(_FOLDER / "produce.yaml"), "purpose": purpose_beside(data["purpose"], 0.5)}
    (tmp_path / "produce.yaml").write_text(yaml.safe_dump(over), encoding="utf-8")
    assert load_specification(tmp_path / "produce.yaml").workload.purpose == (
        f"{data['purpose']} (Beside a neighbour: another process wants 50 % of a processor.)"
    )


def _neighbours() -> list[psutil.Process]:
    return [child for child in psutil.Process().children() if busy_neighbour.__module__ in child.cmdline()]
