"""Brokers on hosts: rolled to another release under load, stopped half-way and gone on with, one added, one removed,
one that died replaced.

Run by `python -m tests.lab test`, as root, on a lab of its own; `make test` does not collect it.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.lab import disks, hosts, inventory, making
from tests.lab.ledger import Ledger
from tests.lab.operating import Operator, Played, differing, operated
from tests.lab.record import DISKS, Node
from tests.lab.telling import tell
from tests.playbooks.modules import TREE, load

NAME = "broker"
SHIPPED = load("library/highwater_wheelhouse.py")
# One cluster on the plain disk: the hosts share one machine.
VARIABLES = """
broker_instances:
  - {name: main, log_dirs: [/data/ssd1/highwater]}
broker_properties: {group.initial.rebalance.delay.ms: 0}
"""
COMMAND = "/opt/highwater/broker/current/bin/highwater broker"


@pytest.fixture(scope="module")
def lab() -> Iterator[Operator]:
    yield from operated(NAME, 4)


def inventory_of(lab: Operator, directory: Path, brokers: list[Node]) -> Path:
    """The lab's, with these of its hosts as brokers and nothing but ZooKeeper beside them."""
    names = [node.name for node in brokers]
    groups = {"zookeeper": None, "brokers": names}
    made = directory / "-".join(names)
    return inventory.write_narrowed(lab.store, made, groups, variables={"brokers": f"---{VARIABLES}"})


def replace_by_a_bare_one(lab: Operator, node: Node) -> None:
    """As if the host had died, and another of its name and address stood in its place."""
    hosts.remove(node)
    layer = lab.store.of_node(node) / "upper"
    shutil.rmtree(layer)
    layer.mkdir(mode=0o755)
    for disk in DISKS:
        os.truncate(lab.store.disk_image(node, disk), 0)
        os.truncate(lab.store.disk_image(node, disk), disks.SIZE_BYTES)
    making.up(lab.store, len(lab.record.nodes), tell)


def newer_tree(directory: Path, mark: str) -> Path:
    """This tree, with a line more; of another release's name."""
    tree = directory / mark
    for path in SHIPPED.source_files(TREE.parent):
        (tree / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(TREE.parent / path, tree / path)
    with (tree / "broker/__init__.py").open("a") as file:
        file.write(f"# {mark}\n")
    return tree


def releases(lab: Operator, nodes: tuple[Node, ...] | list[Node]) -> set[str]:
    """Which release each running broker was started from."""
    pid = "$(systemctl show --property=MainPID --value highwater-broker@main)"
    asked = f"tr '\\0' '\\n' < /proc/{pid}/cmdline | head -1"
    return {lab.run(node, asked).split("/")[5] for node in nodes}


def started(lab: Operator, node: Node) -> str:
    return lab.run(node, "systemctl show --property=ExecMainStartTimestampMonotonic --value highwater-broker@main")


def test_a_cluster_of_brokers_over_its_life(lab: Operator, tmp_path: Path) -> None:
    nodes = list(lab.record.nodes)
    three, four, last_three = (inventory_of(lab, tmp_path, some) for some in (nodes[:3], nodes, nodes[1:]))

    def play(playbook: str, *arguments: str, of: Path = three, status: int = 0) -> Played:
        return lab.play(playbook, "-i", str(of), *arguments, status=status)

    # From bare hosts. Check mode is right before anything is there, and changes nothing.
    before = lab.files(nodes[0])
    play("broker.yml", "--check", "--diff")
    assert differing(before, lab.files(nodes[0])) == {}
    play("provision.yml")
    play("zookeeper.yml")
    play("broker.yml")
    assert play("broker.yml").changed == 0
    (first,) = releases(lab, nodes[:3])

    bootstrap = ",".join(f"{node.address}:9092" for node in nodes[:3])
    ledger = Ledger(bootstrap, "orders")
    ledger.create_topic(partitions=6, copies=3)

    # Rolled under load: a newer tree, then back.
    newer = newer_tree(tmp_path, "newer")
    with ledger.producing():
        play("broker.yml", "-e", f"package_source={newer}")
        (second,) = releases(lab, nodes[:3])
        assert second != first
        assert play("broker.yml", "-e", f"package_source={newer}").changed == 0
        play("broker.yml", "-e", f"package_release={first}")
        assert releases(lab, nodes[:3]) == {first}
    assert ledger.faults() == []
    assert len(ledger.acknowledged) == ledger.sent > 0

    # A property that a broker does not know stops the roll at the first host, before anything is restarted.
    times = [started(lab, node) for node in nodes[:3]]
    failed = play("broker.yml", "-e", '{"broker_properties": {"num.partitons": 3}}', status=2)
    assert "did you mean num.partitions?" in failed.out
    assert [started(lab, node) for node in nodes[:3]] == times

    # One that a broker chokes on at its start stops it there; the others keep what they ran with.
    broken = '{"broker_properties": {"metrics.listener": "HTTP://192.0.2.1:9404"}}'
    failed = play("broker.yml", "-e", broken, status=2)
    assert "node1: highwater-broker@main.service does not run" in " ".join(failed.out.split())
    assert "192.0.2.1" in failed.out
    assert [started(lab, node) for node in nodes[1:3]] == times[1:]
    with ledger.producing():
        play("broker.yml")  # put back, it is gone on with
    assert ledger.faults() == []
    assert play("broker.yml").changed == 0

    # Another broker, with its share of the partitions; then the first goes.
    with ledger.producing():
        play("add_broker.yml", of=four)
        assert "4" in replicas(lab, nodes[0])
        play("broker.yml", of=four)
        assert play("add_broker.yml", of=four).changed == 0
        too_many = play("remove_broker.yml", "-e", "broker_remove_hosts=node1,node2", of=four, status=2)
        assert "replicas, and there are 2 brokers" in too_many.out
        play("remove_broker.yml", "-e", "broker_remove_hosts=node1", of=four)
    ledger.bootstrap_servers = ",".join(f"{node.address}:9092" for node in nodes[1:])
    assert ledger.faults() == []
    assert "1" not in replicas(lab, nodes[1])
    assert lab.run(nodes[0], "systemctl list-units --all --plain --no-legend 'highwater-broker@*'") == ""
    # What add_broker.yml has tuned is rollback.yml's to take away.
    left = lab.run(nodes[0], "find /etc/systemd/system -path '*highwater*' -type f ! -name 90-highwater.conf")
    assert left == ""
    # Its records stayed, and the user that they belong to; both go when that is asked for, be it afterwards.
    kept = "getent passwd highwater || true; getent group highwater || true; ls -d /data/ssd1/highwater || true"
    assert len(lab.run(nodes[0], kept).splitlines()) == 3
    play("remove_broker.yml", "-e", '{"broker_remove_hosts": "node1", "teardown_remove_data": true}', of=four)
    assert "highwater" not in lab.run(nodes[0], kept)

    # One dies, with its part of ZooKeeper, and a bare one takes its place.
    with ledger.producing():
        replace_by_a_bare_one(lab, nodes[2])
        everything = ("-e", "storage_allow_format=true", "-e", "broker_sync_timeout_seconds=86400")
        play("site.yml", *everything, of=last_three)
    assert ledger.faults() == []
    assert play("site.yml", of=last_three).changed == 0


def replicas(lab: Operator, node: Node) -> str:
    """Ids of the brokers that have copies of the topic."""
    described = f"{COMMAND} topics -b {node.address}:9092 --describe --topic orders --json"
    return lab.run(
        node,
        described + " | python3 -c 'import json, sys; "
        'print({r for p in json.load(sys.stdin)[0]["partitions"] for r in p["replicas"]})\'',
    )
