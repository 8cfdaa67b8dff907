"""ZooKeeper grown from one member to three with its data, and Apache Kafka of both lines rolled under load.

Run by `python -m tests.lab test`, as root, on a lab of its own; `make test` does not collect it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
import yaml
from kazoo.client import KazooClient

from tests.lab import inventory
from tests.lab.ledger import Ledger
from tests.lab.operating import Operator, Played, differing, operated
from tests.lab.record import Node

NAME = "kafka"
VARIABLES = """---
reference_kafka_heap_mib: 256
reference_kafka_instances:
  - {name: old, cluster: old, port: 19092, log_dirs: [/data/ssd1/reference-kafka-old]}
  - {name: new, cluster: new, port: 19093, log_dirs: [/data/ssd1/reference-kafka-new], line: "4"}
"""
UNITS = ("reference-kafka@old", "reference-kafka@new")
ZNODES = 100
WITHIN_S = 30.0


@pytest.fixture(scope="module")
def lab() -> Iterator[Operator]:
    yield from operated(NAME, 3)


def inventory_of(lab: Operator, directory: Path, members: int) -> Path:
    """The lab's, with this many of its hosts as members of the ensemble, and all for the reference."""
    groups = {"zookeeper": [node.name for node in lab.record.nodes[:members]], "reference_kafka": None}
    made = directory / f"members-{members}"
    return inventory.write_narrowed(lab.store, made, groups, variables={"reference_kafka": VARIABLES})


def client(node: Node) -> KazooClient:
    return KazooClient(f"{node.address}:2181", timeout=WITHIN_S)


def write_znodes(node: Node) -> None:
    through = client(node)
    through.start(WITHIN_S)
    try:
        for number in range(ZNODES):
            through.create(f"/kept/{number}", str(number).encode(), makepath=True)
    finally:
        through.stop()
        through.close()


def znodes(node: Node) -> int:
    through = client(node)
    through.start(WITHIN_S)
    try:
        through.sync("/kept")
        return len(through.get_children("/kept"))
    finally:
        through.stop()
        through.close()


def started(lab: Operator, node: Node, unit: str) -> str:
    return lab.run(node, f"systemctl show --property=ExecMainStartTimestampMonotonic --value {unit}")


def test_zookeeper_and_apache_kafka_over_their_life(lab: Operator, tmp_path: Path) -> None:
    nodes = list(lab.record.nodes)
    one, three = inventory_of(lab, tmp_path, 1), inventory_of(lab, tmp_path, 3)

    def play(playbook: str, *arguments: str, of: Path = three, status: int = 0) -> Played:
        return lab.play(playbook, "-i", str(of), *arguments, status=status)

    # From bare hosts. Check mode is right before anything is there, and changes nothing.
    files, residue = lab.files(nodes[0]), lab.residue(nodes[0])
    play("zookeeper.yml", "--check", "--diff")
    play("reference_kafka.yml", "--check", "--diff")
    assert differing(files, lab.files(nodes[0])) == {}

    # One member holds data; two without could agree without it. They come after it, when an operator says so.
    play("zookeeper.yml", of=one)
    write_znodes(nodes[0])
    refused = play("zookeeper.yml", status=2)
    assert "run again with -e zookeeper_allow_growth=true" in " ".join(refused.out.split())
    assert refused.changed == 0
    play("zookeeper.yml", "-e", "zookeeper_allow_growth=true")
    assert [znodes(node) for node in nodes] == [ZNODES] * 3
    assert play("zookeeper.yml").changed == 0

    # Another configuration restarts each member; data that would be left behind are not.
    times = [started(lab, node, "zookeeper") for node in nodes]
    slower = {"zookeeper_init_limit_ticks": 20}
    play("zookeeper.yml", "-e", json.dumps(slower))
    assert all(started(lab, node, "zookeeper") != time for node, time in zip(nodes, times, strict=True))
    moved = play("zookeeper.yml", "-e", json.dumps({**slower, "zookeeper_data_directory": "/srv/elsewhere"}), status=2)
    assert "and /srv/elsewhere has none" in " ".join(moved.out.split())
    assert [znodes(node) for node in nodes] == [ZNODES] * 3

    # Both lines of Kafka on the same hosts, rolled under load.
    play("provision.yml")
    play("reference_kafka.yml")
    assert play("reference_kafka.yml").changed == 0
    ledgers = [
        Ledger(",".join(f"{node.address}:{port}" for node in nodes), f"orders-{port}") for port in (19092, 19093)
    ]
    times = [started(lab, node, unit) for node in nodes for unit in UNITS]
    with ExitStack() as stack:
        for ledger in ledgers:
            ledger.create_topic(partitions=6, copies=3)
            stack.enter_context(ledger.producing())
        play("reference_kafka.yml", "-e", '{"reference_kafka_properties": {"num.io.threads": 5}}')
    assert not set(times) & {started(lab, node, unit) for node in nodes for unit in UNITS}
    for ledger in ledgers:
        assert ledger.faults() == []
        assert len(ledger.acknowledged) == ledger.sent > 0

    # A broker does not start on another's log.
    exchanged = yaml.safe_load(VARIABLES)["reference_kafka_instances"]
    exchanged[0]["log_dirs"], exchanged[1]["log_dirs"] = exchanged[1]["log_dirs"], exchanged[0]["log_dirs"]
    refused = play("reference_kafka.yml", "-e", json.dumps({"reference_kafka_instances": exchanged}), status=2)
    assert "is of a cluster with KRaft" in " ".join(refused.out.split())

    # And nothing is left of it.
    everything = '{"teardown_confirmed": true, "teardown_remove_data": true, "teardown_unmount": true}'
    play("teardown.yml", "-e", everything)
    assert play("teardown.yml", "-e", everything).changed == 0
    assert differing(residue, lab.residue(nodes[0])) == {}
