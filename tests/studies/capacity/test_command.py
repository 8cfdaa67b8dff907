"""`highwater plan` from files to text, JSON, an inventory, and an exit status."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner, Result

from highwater.cli import app
from highwater.results.files import dump
from highwater.results.network import NetworkProbe, NetworkTrial
from tests.studies.capacity.ceilings_run import ROOT, write_ceilings
from tests.studies.capacity.samples import TEXT

EXAMPLE = ROOT / "examples/load.yaml"


@pytest.fixture(scope="module")
def ceilings(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_ceilings(tmp_path_factory.mktemp("ceilings") / "run")


def write_probe(file: Path, bytes_per_s: float, remote: str = "10.0.0.2") -> Path:
    trial = NetworkTrial(sent_bytes_per_s=bytes_per_s, received_bytes_per_s=bytes_per_s, retransmits=0, cpu_ratio=0.5)
    probe = NetworkProbe(
        taken_utc="2026-11-29T12:00:00Z",
        local_address="10.0.0.1",
        remote_address=remote,
        iperf3_version="3.12",
        streams=4,
        trial_s=5,
        trials=(trial,),
    )
    file.write_text(dump(probe), "utf-8")
    return file


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


def test_a_network_that_was_measured_takes_the_place_of_the_load_file_s(ceilings: Path, tmp_path: Path) -> None:
    words = (EXAMPLE, "--ceilings", ceilings, "--json")
    told, probed = (
        json.loads(plan(*words, *more).stdout) for more in ((), ("--network", write_probe(tmp_path / "n", 60e6)))
    )
    ways = [each for each in probed["state"]["demands"] if each["resource"].startswith("network")]
    assert [(each["ceiling"], each["measured"]) for each in ways] == [(60e6, True)] * 2
    assert probed["brokers"] > told["brokers"]
    assert any("bench network" in each["find_out"] for each in told["unknown"])
    assert not any("bench network" in each["find_out"] for each in probed["unknown"])


def test_mistakes_are_one_line(ceilings: Path, tmp_path: Path) -> None:
    probes = tmp_path / "probes"
    probes.mkdir()
    wrong = tmp_path / "load.yaml"
    wrong.write_text(TEXT.replace("groups: 2", "grups: 2"), "utf-8")
    for words, said in [
        ((wrong, "--ceilings", ceilings), f'{wrong}:4: topics.orders.grups: unknown key; did you mean "groups"?'),
        ((tmp_path / "none.yaml", "--ceilings", ceilings), f"{tmp_path / 'none.yaml'}: no such file"),
        ((EXAMPLE, "--ceilings", tmp_path), f"{tmp_path} is not a result directory"),
        ((EXAMPLE, "--network", tmp_path / "none"), f"--network: cannot read {tmp_path / 'none'}: No such file"),
        (
            (EXAMPLE, "--network", write_probe(probes / "self.json", 1e9, "10.0.0.1")),
            f"--network: {probes}/self.json: 10.0.0.1 was the measuring host itself",
        ),
        (
            (EXAMPLE, "--network", write_probe(probes / "fast.json", 2e9)),
            f"--network: {probes}/fast.json: 16 Gbit/s were measured, and hosts.network says 10 Gbit/s",
        ),
    ]:
        done = plan(*words)
        assert done.exit_code == 2
        assert done.stderr.startswith(f"error: {said}")
        assert done.stderr.count("\n") == 1
