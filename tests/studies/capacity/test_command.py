"""`highwater plan` from files to text, JSON, an inventory, and an exit status."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner, Result

from highwater.cli import app
from tests.studies.capacity.ceilings_run import ROOT, write_ceilings
from tests.studies.capacity.samples import TEXT

EXAMPLE = ROOT / "examples/load.yaml"


@pytest.fixture(scope="module")
def ceilings(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_ceilings(tmp_path_factory.mktemp("ceilings") / "run")


def plan(*words: str | Path) -> Result:
    return CliRunner().invoke(app, ["plan", *map(str, words)])


def test_the_answer_comes_first(ceilings: Path) -> None:
    done = plan(EXAMPLE, "--ceilings", ceilings)
    assert done.exit_code == 0, done.output
    assert done.stdout.startswith("shop: ")
    assert "held-out-copied" in done.stdout
    assert "not known, and what finds it out:" in done.stdout


def test_json_has_the_same(ceilings: Path) -> None:
    done = plan(EXAMPLE, "--ceilings", ceilings, "--json")
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout, parse_constant=lambda name: pytest.fail(f"{name} is not a JSON"))
    assert found["schema"] == "capacity.plan/2"
    assert found["brokers_low"] <= found["brokers"] <= found["brokers_high"]
    assert {demand["resource"] for demand in found["state"]["demands"]} >= {"CPU", "disk space", "recovery"}


def test_too_few_brokers_end_with_1(ceilings: Path, tmp_path: Path) -> None:
    done = plan(EXAMPLE, "--ceilings", ceilings, "--brokers", "1", "--inventory", tmp_path / "made")
    assert done.exit_code == 1
    assert "1 broker is too few" in done.stdout
    assert not (tmp_path / "made").exists()


def test_an_inventory_for_the_playbooks(ceilings: Path, tmp_path: Path) -> None:
    made = tmp_path / "made"
    done = plan(EXAMPLE, "--ceilings", ceilings, "--inventory", made, "--brokers", "5")
    assert done.exit_code == 0, done.output
    hosts = yaml.safe_load((made / "hosts.yml").read_text("utf-8"))["all"]
    assert len(hosts["hosts"]) == len(hosts["children"]["brokers"]["hosts"]) == 5
    assert len(hosts["children"]["zookeeper"]["hosts"]) == 3
    ids = []
    for name in hosts["hosts"]:
        own = yaml.safe_load((made / "host_vars" / f"{name}.yml").read_text("utf-8"))
        ids.append((own["broker_id"], own.get("zookeeper_id")))
        assert len(own["storage_disks"]) == 4
    assert ids == [(1, 1), (2, 2), (3, 3), (4, None), (5, None)]
    workload = yaml.safe_load((made / "group_vars/brokers.yml").read_text("utf-8"))["tuning_workload"]
    assert workload["disk_write_rate"] == "410MB/s"
    assert workload["partitions"] > 0
    again = plan(EXAMPLE, "--ceilings", ceilings, "--inventory", made)
    assert again.exit_code == 2
    assert again.stderr == f"error: --inventory: {made} exists and is not an empty directory\n"


def test_mistakes_are_one_line(ceilings: Path, tmp_path: Path) -> None:
    wrong = tmp_path / "load.yaml"
    wrong.write_text(TEXT.replace("groups: 2", "grups: 2"), "utf-8")
    for words, said in [
        ((wrong, "--ceilings", ceilings), f'{wrong}:4: topics.orders.grups: unknown key; did you mean "groups"?'),
        ((tmp_path / "none.yaml", "--ceilings", ceilings), f"{tmp_path / 'none.yaml'}: no such file"),
        ((EXAMPLE, "--ceilings", tmp_path), f"{tmp_path} is not a result directory"),
    ]:
        done = plan(*words)
        assert done.exit_code == 2
        assert done.stderr.startswith(f"error: {said}")
        assert done.stderr.count("\n") == 1
