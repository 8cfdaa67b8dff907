"""The inventory of a lab, and the one of the default lab that is a file of the project."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from tests.lab import inventory
from tests.lab.record import Record, Store


def test_the_committed_inventory_is_that_of_the_default_lab() -> None:
    """`python -m tests.lab inventory --committed > playbooks/inventories/lab/hosts.yml` writes it."""
    committed = (inventory.COMMITTED / "hosts.yml").read_text(encoding="utf-8")
    assert committed == inventory.committed_text()


def test_a_lab_of_any_size_has_an_odd_ensemble_and_one_bench() -> None:
    for hosts in range(1, 10):
        record = Record(name="a", network=7, hosts=hosts, boot_id="b")
        groups = yaml.safe_load(inventory.text(record, "/d"))["all"]["children"]
        assert len(groups["brokers"]["hosts"]) == hosts
        assert len(groups["zookeeper"]["hosts"]) in (hosts, hosts - 1)
        assert len(groups["zookeeper"]["hosts"]) % 2 == 1
        assert list(groups["bench"]["hosts"]) == list(groups["spark_master"]["hosts"]) == ["node1"]


def lab_of_four(directory: Path) -> Store:
    store, record = Store("a", directory), Record(name="a", network=7, hosts=4, boot_id="b")
    store.directory.mkdir()
    inventory.write(store, record)
    return store


def read(made: Path) -> Any:
    return yaml.safe_load((made / "hosts.yml").read_text("utf-8"))["all"]


def test_an_inventory_narrowed_to_some_groups_has_their_hosts_and_its_own_variables(tmp_path: Path) -> None:
    groups = {"zookeeper": None, "brokers": ["node1", "node2"]}
    made = inventory.write_narrowed(
        lab_of_four(tmp_path), tmp_path / "made", groups, variables={"brokers": "---\na: 1\n"}
    )
    assert {group: list(members["hosts"]) for group, members in read(made)["children"].items()} == {
        "zookeeper": ["node1", "node2", "node3"],
        "brokers": ["node1", "node2"],
    }
    assert list(read(made)["hosts"]) == ["node1", "node2", "node3", "node4"]
    assert (made / "group_vars/brokers.yml").read_text("utf-8") == "---\na: 1\n"
    assert (made / "group_vars/all.yml").is_file()
    assert (inventory.COMMITTED / "group_vars/brokers.yml").read_text("utf-8") != "---\na: 1\n"


def test_an_inventory_is_narrowed_again_and_again_to_some_hosts_with_variables_of_their_own(tmp_path: Path) -> None:
    store, made = lab_of_four(tmp_path), tmp_path / "made"
    groups = {"brokers": ["node1"]}
    inventory.write_narrowed(store, made, groups, hosts={"node1": {}, "node4": {"ansible_host": "nobody"}})
    assert read(made)["hosts"]["node4"] == {"ansible_host": "nobody", "broker_id": 4, "zookeeper_id": 4}
    inventory.write_narrowed(store, made, groups, hosts={"node1": {}, "node4": {}})
    assert read(made)["hosts"] == {
        f"node{number}": {"ansible_host": f"10.87.7.{10 + number}", "broker_id": number, "zookeeper_id": number}
        for number in (1, 4)
    }
