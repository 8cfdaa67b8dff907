"""The workload that bench.yml makes of an inventory: the bench itself must take it, for every shape of inventory."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible.errors import AnsibleFilterError

from highwater.bench.workload.specification import Specification, load_specification
from highwater.bench.workload.system import ClusterUnderTest
from tests.playbooks.shipped import shipped

FILTERS = shipped("filter_plugins/highwater_bench.py")
CLUSTERS = shipped("filter_plugins/highwater.py")
WORKLOADS = Path(__file__).parents[2] / "workloads"

DISKS = [
    {"device": "/dev/disk/by-id/a", "mount_point": "/data/ssd1", "medium": "ssd", "emulated": True},
    {"device": "/dev/disk/by-id/b", "mount_point": "/data/hdd1", "medium": "hdd"},
]
TWO_CLUSTERS = [
    {"name": "ssd", "cluster": "ssd", "port": 9092, "log_dirs": ["/data/ssd1/highwater-ssd"]},
    {"name": "hdd", "cluster": "hdd", "port": 9093, "log_dirs": ["/data/hdd1/highwater-hdd"]},
]
REFERENCE = [{"name": "ssd", "cluster": "ssd", "port": 19092, "log_dirs": ["/data/ssd1/reference-kafka-ssd"]}]


def described(*, medium: str = "unknown", emulated: bool = False) -> dict[str, Any]:
    """What `bench host describe --json` says of a host."""
    return {
        "cpus": 4,
        "cpu_model": "A CPU",
        "memory": "16GiB",
        "kernel": "6.1.0",
        "durability_trades": [],
        "storage": {
            "path": "/data/x",
            "device": "sda",
            "medium": medium,
            "emulated": emulated,
            "filesystem": "ext4",
            "mount_options": ["rw", "noatime"],
        },
    }


def inventory(hosts: int, *, reference: bool = False, told: bool = True) -> dict[str, dict[str, Any]]:
    """Host variables, with the facts that role observer has set."""
    found: dict[str, dict[str, Any]] = {}
    for number in range(1, hosts + 1):
        name = f"broker{number}.example.net"
        found[name] = {
            "broker_id": number,
            "highwater_address": f"10.0.0.{number}",
            "storage_disks": DISKS,
            "broker_instances": TWO_CLUSTERS,
            "reference_kafka_instances": REFERENCE if reference else [],
        }
    if told:
        for name, variables in found.items():
            parts = parts_of(name, found)
            answers = [{"stdout": json.dumps(described())} for _ in parts]
            sampler = f"{variables['highwater_address']}:9180"
            pairs = zip(parts, answers, strict=True)
            variables["observer_clusters"] = FILTERS.observed(pairs, DISKS, sampler, ["zookeeper.service"], [])
            variables["observer_products"] = FILTERS.products(
                (part, {"stdout": "/opt/highwater/broker/releases/0.1.0-abc\n"}) for part in parts
            )
    return found


def parts_of(host: str, hostvars: dict[str, dict[str, Any]]) -> list[dict[str, Any]]:
    ours = CLUSTERS.clusters(hostvars, hostvars)
    reference = CLUSTERS.clusters(hostvars, hostvars, "reference_kafka_instances")
    parts: list[dict[str, Any]] = FILTERS.brokers_on(ours, host, "highwater")
    parts += FILTERS.brokers_on(reference, host, "reference")
    return parts


def made(
    tmp_path: Path,
    hostvars: dict[str, dict[str, Any]],
    workload: str = "smoke",
    chosen: tuple[str, ...] = (),
    overrides: dict[str, Any] | None = None,
    copies: int = 0,
) -> Specification:
    base_text = (WORKLOADS / f"{workload}.yaml").read_text()
    reference = CLUSTERS.clusters(hostvars, hostvars, "reference_kafka_instances")
    systems = FILTERS.systems(CLUSTERS.clusters(hostvars, hostvars), reference, chosen)
    clusters = FILTERS.described_clusters(systems, hostvars)
    document = FILTERS.workload(yaml.safe_load(base_text), "on-hosts", systems, clusters, copies, 0, overrides or {})
    (tmp_path / "base.yaml").write_text(base_text)
    (tmp_path / "workload.yaml").write_text(yaml.safe_dump(document))
    return load_specification(tmp_path / "workload.yaml")


def test_brokers_of_one_host_have_one_copy_among_them(tmp_path: Path) -> None:
    hosts = inventory(2)
    for variables in hosts.values():
        variables |= {"broker_processes": 3, "broker_instances": TWO_CLUSTERS[:1]}
    (part,) = parts_of("broker1.example.net", hosts)
    assert part["units"] == [f"highwater-broker@{name}.service" for name in ("ssd", "ssd-1", "ssd-2")]
    assert part["log_dirs"][1:] == [f"{part['log_dirs'][0]}-{number}" for number in (1, 2)]
    workload = made(tmp_path, hosts, chosen=("highwater-ssd",)).cells[0].workload
    assert workload.topics.replication == 2
    told = "highwater 0.1.0-abc, 3 processes on each host"
    assert workload.system.clusters["highwater-ssd"].product == told
    with pytest.raises(AnsibleFilterError, match="bench_replication is 3, and the smallest cluster can keep 2 apart"):
        made(tmp_path, hosts, chosen=("highwater-ssd",), copies=3)


def test_hosts_with_other_releases_are_told_with_both(tmp_path: Path) -> None:
    hosts = inventory(3)
    hosts["broker2.example.net"]["observer_products"]["highwater-ssd"] = "highwater 0.1.0-abc-compiled"
    cluster = made(tmp_path, hosts).cells[0].workload.system.clusters["highwater-ssd"]
    assert cluster.product == "highwater 0.1.0-abc and highwater 0.1.0-abc-compiled"


def test_clusters_of_an_inventory_are_an_axis_beside_those_of_the_workload(tmp_path: Path) -> None:
    found = made(tmp_path, inventory(3, reference=True))
    assert found.axes["system.cluster"] == ["highwater-ssd", "highwater-hdd", "reference-ssd"]
    assert found.axes["compression.type"] == ["none", "lz4"]
    assert len(found.cells) == 3 * 2 * 2
    workload = found.cells[0].workload
    assert (workload.name, workload.load.rate_per_s) == ("on-hosts", 5000)
    assert (workload.topics.replication, workload.topics.config["min.insync.replicas"]) == (3, 2)
    cluster = workload.system.clusters["highwater-hdd"]
    assert cluster.bootstrap_servers == "10.0.0.1:9093,10.0.0.2:9093,10.0.0.3:9093"
    assert cluster.product == "highwater 0.1.0-abc"
    host = cluster.hosts["broker2.example.net"]
    assert host.sampler is not None
    assert host.sampler.address == "10.0.0.2:9180"
    assert host.sampler.brokers == ["highwater-broker@hdd.service"]
    assert host.sampler.attendants == ["zookeeper.service"]


def test_the_inventory_says_what_a_disk_is_that_the_kernel_does_not_know(tmp_path: Path) -> None:
    clusters = made(tmp_path, inventory(1)).workload.system.clusters
    slow = clusters["highwater-hdd"].hosts["broker1.example.net"].storage
    fast = clusters["highwater-ssd"].hosts["broker1.example.net"].storage
    assert slow is not None
    assert fast is not None
    assert (slow.medium, slow.emulated) == ("hdd", False)
    assert (fast.medium, fast.emulated) == ("ssd", True)
    assert "as the inventory says" in (fast.emulation or "")


def test_what_the_kernel_knows_of_a_real_disk_stands() -> None:
    part = {"system": "highwater-hdd", "units": ["u"], "log_dirs": ["/data/hdd1/x"]}
    told = {"stdout": json.dumps(described(medium="nvme"))}
    host = FILTERS.observed([(part, told)], DISKS, "h:9180", [], [])["highwater-hdd"]
    assert host["storage"]["medium"] == "nvme"


@pytest.mark.parametrize(("hosts", "copies", "in_sync"), [(1, 1, 1), (2, 2, 1), (3, 3, 2), (5, 3, 2)])
def test_copies_are_as_many_as_there_are_brokers_for(tmp_path: Path, hosts: int, copies: int, in_sync: int) -> None:
    topics = made(tmp_path, inventory(hosts)).workload.topics
    assert (topics.replication, topics.config["min.insync.replicas"]) == (copies, in_sync)


def test_one_cluster_is_no_axis_and_hosts_that_told_nothing_are_left_out(tmp_path: Path) -> None:
    found = made(tmp_path, inventory(3, told=False), chosen=("highwater-ssd",))
    assert "system.cluster" not in found.axes
    assert isinstance(found.workload.system, ClusterUnderTest)
    assert found.workload.system.cluster == "highwater-ssd"
    assert found.workload.system.clusters["highwater-ssd"].hosts == {}
    assert found.workload.system.clusters["highwater-ssd"].product == "highwater"


@pytest.mark.parametrize(
    ("workload", "overrides"),
    [
        ("acks-ladder", {}),
        ("batching-ladder", {}),
        ("catch-up-reads", {}),
        ("compression-ladder", {}),
        ("hdd-vs-ssd", {"variants": {"late-cold": None, "late-cold-64": None}}),
        ("partitions-ladder", {}),
        ("quickstart", {"trials": {"n": 1}}),
        ("small-matrix", {}),
    ],
)
def test_ready_workloads_run_on_hosts(tmp_path: Path, workload: str, overrides: dict[str, Any]) -> None:
    found = made(tmp_path, inventory(3), workload, overrides=overrides)
    assert found.axes["system.cluster"] == ["highwater-ssd", "highwater-hdd"]
    assert "storage.target" not in found.axes
    assert all(cell.workload.system.kind == "external" for cell in found.cells)


def test_a_system_that_the_inventory_lacks_and_copies_that_have_no_place_are_refused(tmp_path: Path) -> None:
    with pytest.raises(
        AnsibleFilterError, match="names highwater-nvme, and the clusters of the inventory are highwater-ssd"
    ):
        made(tmp_path, inventory(3), chosen=("highwater-nvme",))
    with pytest.raises(AnsibleFilterError, match="bench_replication is 3, and the smallest cluster can keep 2 apart"):
        made(tmp_path, inventory(2), copies=3)


def test_probes_go_to_the_systems_whose_logs_lie_on_what_was_probed() -> None:
    hostvars = inventory(1, reference=True)
    parts = parts_of("broker1.example.net", hostvars)
    mounts = [{"stdout": path} for path in ("/data/ssd1", "/data/hdd1", "/data/ssd1")]
    probed = [
        {"item": "/data/ssd1", "rc": 0, "stdout": '{"fast": 1}'},
        {"item": "/data/hdd1", "rc": 2, "stdout": "", "stderr": "error: no space"},
    ]
    found = FILTERS.probes(zip(parts, mounts, strict=True), probed)
    assert found == {"highwater-ssd": {"fast": 1}, "reference-ssd": {"fast": 1}}
    hostvars["broker1.example.net"]["observer_probes"] = found
    systems = FILTERS.systems(CLUSTERS.clusters(hostvars, hostvars), {}, ())
    assert FILTERS.probes_of_clusters(systems, hostvars) == {
        "highwater-ssd": {"broker1.example.net": {"fast": 1}},
        "highwater-hdd": {},
    }


def test_what_a_reference_broker_is_stands_in_its_unit() -> None:
    part = {"system": "reference-ssd"}
    told = {"stdout": "LANG=C CLASS_PATH=/opt/reference-kafka/3.9.1/libs/*\n"}
    assert FILTERS.products([(part, told), ({"system": "reference-hdd"}, {})]) == {
        "reference-ssd": "apache-kafka 3.9.1",
        "reference-hdd": "apache-kafka",
    }
