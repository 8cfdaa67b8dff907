"""The inventory of a lab, and the one of the default lab that is a file of the project."""

from __future__ import annotations

import yaml

from tests.lab import inventory
from tests.lab.record import Record


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
