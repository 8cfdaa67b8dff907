"""The workloads beside Apache Kafka: all can be planned, and what make bench-broker lays over them."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from highwater.bench.development.beside_kafka import _FOLDER, WORKLOADS, changes
from highwater.bench.trials.plan import make_plan
from highwater.bench.workload.layers import read_with_includes
from highwater.bench.workload.specification import load_specification


def laid_over(tmp_path: Path, name: str, missing: frozenset[str] = frozenset(), *, quick: bool = False) -> Path:
    over = changes(read_with_includes(_FOLDER / f"{name}.yaml").data, missing, None, tmp_path, quick=quick)
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
