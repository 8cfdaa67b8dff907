"""Hosts with two brokers each (broker_processes): grown under load, killed, not shrunk by accident, shrunk, taken away.

While they have two, those of the first host run compiled (broker_compiled). Run by `python -m tests.lab test`, as root,
on a lab of its own; `make test` does not collect it.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from highwater.common.compiled import MODULES
from tests.lab import inventory
from tests.lab.ledger import Ledger
from tests.lab.operating import Operator, Played, differing, operated
from tests.lab.record import Node
from tests.waiting import wait_until

NAME: Final = "cores"
BROKERS: Final = """---
broker_processes: {processes}
broker_instances:
  - {{name: main, log_dirs: [/data/ssd1/highwater]}}
broker_properties: {{group.initial.rebalance.delay.ms: 0}}
"""
MONITOR: Final = "---\nmonitor_instances: [{name: main, settings: {tick: 2s}}]\n"
UNITS: Final = ("highwater-broker@main.service", "highwater-broker@main-1.service")
STARTED: Final = "systemctl show --property=ExecMainStartTimestampMonotonic --value " + " ".join(UNITS)
ALL_DATA: Final = {"teardown_confirmed": True, "teardown_remove_data": True}
ALL: Final = {1, 2, 101, 102}
PARTITIONS: Final = 12
WITHIN_S: Final = 120.0
# Beside other work on the machine.
MOVE_WITHIN_S: Final = 600.0
SENDING_S: Final = 2.0
METRICS: Final = """python3 -c '
import urllib.request
print(urllib.request.urlopen("http://127.0.0.1:{port}/metrics", timeout=30).read().decode())
' | sed -n 's/^highwater_broker_compiled_modules //p'"""
METRICS_PORTS: Final = (10192, 10193)
pytestmark = pytest.mark.timeout(2400)


@dataclass
class Story:
    """What the steps on two hosts share."""

    lab: Operator
    directory: Path
    before: dict[str, tuple[dict[str, str], dict[str, str]]]
    """Of each host while it was bare: files, and what else could be left."""
    ledger: Ledger

    @property
    def nodes(self) -> list[Node]:
        return list(self.lab.record.nodes)

    def play(self, playbook: str, *arguments: str, processes: int | str = 2, status: int = 0) -> Played:
        variables = {"brokers": BROKERS.format(processes=processes), "monitor": MONITOR}
        compiled, python = (node.name for node in self.nodes)
        its_own = {compiled: {"broker_compiled": processes != 1}, python: {"broker_compiled": False}}
        made = inventory_of(self.lab, self.directory / f"of-{processes}", self.nodes, variables, its_own)
        return self.lab.play(playbook, "-i", str(made), *arguments, status=status)

    def play_again(self, playbook: str, processes: int | str = 2) -> None:
        """Raises AssertionError if that changes anything."""
        again = self.play(playbook, processes=processes)
        assert again.changed == 0, again.changes


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Operator]:
    yield from operated(NAME, 2, tmp_path_factory.mktemp("logs"))


@pytest.fixture(scope="module")
def story(lab: Operator, tmp_path_factory: pytest.TempPathFactory) -> Story:
    nodes = list(lab.record.nodes)
    before = {node.name: (lab.files(node), lab.residue(node)) for node in nodes}
    return Story(lab, tmp_path_factory.mktemp("inventories"), before, Ledger(bootstrap_of(nodes), "orders"))


def inventory_of(
    lab: Operator,
    directory: Path,
    nodes: list[Node],
    variables: Mapping[str, str],
    its_own: Mapping[str, Mapping[str, Any]],
    more: Sequence[str] = (),
) -> Path:
    """These hosts as brokers, the first of them as ZooKeeper, monitor and what else is named.

    variables: of groups; its_own: of hosts.
    """
    names = [node.name for node in nodes]
    groups = {"zookeeper": names[:1], "brokers": names, "monitor": names[:1], **dict.fromkeys(more, names[:1])}
    hosts = {name: its_own.get(name, {}) for name in names}
    return inventory.write_narrowed(lab.store, directory, groups, hosts=hosts, variables=variables)


def bootstrap_of(nodes: list[Node]) -> str:
    return ",".join(f"{node.address}:9092" for node in nodes)


def create_topic(client: Mapping[str, Any], name: str, partitions: int, copies: int) -> None:
    # It is asked for its answer, so that it has to be there until then.
    admin = AdminClient(dict(client))
    admin.create_topics([NewTopic(name, partitions, copies)])[name].result(WITHIN_S)


def replicas_of(client: Mapping[str, Any]) -> dict[str, list[int]]:
    topics = AdminClient(dict(client)).list_topics(timeout=WITHIN_S).topics.values()
    return {f"{each.topic}-{number}": list(p.replicas) for each in topics for number, p in each.partitions.items()}


def on_one_host(client: Mapping[str, Any]) -> list[str]:
    """Partitions of which a host has two replicas; ids of a host are those of its first broker and 100 more."""
    found = replicas_of(client)
    return [name for name, replicas in found.items() if len({each % 100 for each in replicas}) < len(replicas)]


def wait_until_whole(client: Mapping[str, Any], brokers: set[int]) -> None:
    admin = AdminClient(dict(client))

    def is_whole() -> bool:
        found = admin.list_topics(timeout=WITHIN_S)
        partitions = [each for topic in found.topics.values() for each in topic.partitions.values()]
        return found.brokers.keys() == brokers and all(
            each.leader >= 0 and len(each.isrs) == len(each.replicas) for each in partitions
        )

    wait_until(is_whole, "a whole cluster", WITHIN_S)


def running(lab: Operator, node: Node) -> list[str]:
    listed = lab.run(node, "systemctl list-units --state=running --plain --no-legend 'highwater-broker@*'")
    return sorted(line.split()[0] for line in listed.splitlines())


def compiled_modules(lab: Operator, node: Node) -> set[int]:
    """How many each of its two brokers has, by its metrics."""
    return {int(lab.run(node, METRICS.format(port=port))) for port in METRICS_PORTS}


def killed(lab: Operator, node: Node, unit: str) -> None:
    """kill -9, and wait until systemd has brought it back."""
    asked = f"systemctl show --property=MainPID --value {unit}"
    process = lab.run(node, asked)
    lab.run(node, f"kill -9 {process}")
    wait_until(lambda: lab.run(node, asked) not in ("0", process), f"{unit} is back", WITHIN_S)


def refusal(played: Played) -> str:
    """On one line, as terminals break it."""
    assert played.changed == 0, played.changes
    return " ".join(played.out.split())


def command_that_moves(refused: str) -> str:
    found = re.search(r"\((/opt/highwater/broker/current/bin/highwater broker reassign [^)]*)\)", refused)
    assert found is not None, refused
    return found[1]


def test_hosts_with_a_broker_each_grow_to_two_under_load(story: Story) -> None:
    """New brokers get their share, and no host has both replicas of a partition."""
    for playbook in ("provision.yml", "zookeeper.yml", "broker.yml"):
        story.play(playbook, processes=1)
    story.ledger.create_topic(PARTITIONS, 2)
    # Who reads makes the topic of groups: one that came after the spreading would be spread by the next run.
    assert story.ledger.faults() == []
    with story.ledger.producing():
        story.play("add_broker.yml")
        wait_until_whole(story.ledger.client, ALL)
    assert story.ledger.faults() == []
    for node in story.nodes:
        assert running(story.lab, node) == sorted(UNITS)
    held = replicas_of(story.ledger.client)
    assert {broker for name, replicas in held.items() if name.startswith("orders-") for broker in replicas} == ALL
    assert on_one_host(story.ledger.client) == []
    assert [compiled_modules(story.lab, node) for node in story.nodes] == [{len(MODULES)}, {0}]
    for playbook in ("broker.yml", "add_broker.yml"):
        story.play_again(playbook)
    create_topic(story.ledger.client, "later", PARTITIONS, 2)
    assert on_one_host(story.ledger.client) == []


def test_one_that_is_killed_comes_back_and_other_playbooks_know_all_of_them(story: Story) -> None:
    lab, nodes, client = story.lab, story.nodes, story.ledger.client
    with story.ledger.producing():
        killed(lab, nodes[0], UNITS[1])
        wait_until_whole(client, ALL)
        time.sleep(SENDING_S)
    assert story.ledger.faults() == []

    # As many as there are cores; of hosts with more cores than two, the rest is shown and not made.
    cores = min(int(lab.run(nodes[0], "nproc")), 64)
    looked = story.play("broker.yml", "--check", processes="auto")
    if cores > 2:
        assert f"highwater-broker@main-{cores - 1}.service of node2 would be started" in " ".join(looked.out.split())
    else:
        assert looked.changed == 0, looked.changes

    for playbook in ("agent.yml", "monitor.yml"):
        story.play(playbook)
        story.play_again(playbook)
    agent = lab.run(nodes[1], "systemctl cat highwater-agent.service")
    assert "--broker-metrics /data/ssd1/highwater-1=http://127.0.0.1:10193/metrics" in agent
    verified = " ".join(story.play("verify.yml").out.split())
    for node, runs in zip(nodes, ("compiled", "Python"), strict=True):
        assert f"{node.name} is as wanted" in verified
        assert f"its hot modules: {runs}" in verified
    # The client's own wish is fulfilled, as racks are fewer than replicas; who verifies is told.
    create_topic(client, "three", 1, 3)
    wait_until(lambda: on_one_host(client) == ["three-0"], "a topic of three replicas", WITHIN_S)
    told = " ".join(story.play("verify.yml", status=2).out.split())
    assert re.search(r"several replicas of a partition are on one host: three-0 \(2 on node[12]\); move them", told)
    admin = AdminClient(client)
    admin.delete_topics(["three"])["three"].result(WITHIN_S)


def test_fewer_are_refused_until_what_they_have_is_elsewhere(story: Story) -> None:
    lab, nodes, client = story.lab, story.nodes, story.ledger.client
    started = {node.name: lab.run(node, STARTED) for node in nodes}
    refused = refusal(story.play("broker.yml", processes=1, status=2))
    assert {node.name: lab.run(node, STARTED) for node in nodes} == started
    for node in nodes:
        assert f"{node.name}: the broker main-1 is set up here" in refused
    commands = re.search(r"(systemctl disable --now \S+) and (rm /etc/highwater/broker-main-1.properties)", refused)
    assert commands is not None, refused
    move = command_that_moves(refused)
    assert {"101", "102"} <= set(move.split())
    with story.ledger.producing():
        lab.run(nodes[0], move, MOVE_WITHIN_S)
        assert {broker for replicas in replicas_of(client).values() for broker in replicas} == {1, 2}
        assert on_one_host(client) == []
        for node in nodes:
            lab.run(node, f"{commands[1]} && {commands[2]}")
        story.play("broker.yml", processes=1)
        wait_until_whole(client, {1, 2})
    assert story.ledger.faults() == []
    assert [running(lab, node) for node in nodes] == [[UNITS[0]]] * 2
    story.play_again("broker.yml", processes=1)


def test_all_of_it_is_taken_away_also_what_the_inventory_does_not_name(story: Story) -> None:
    story.play("broker.yml")
    wait_until_whole(story.ledger.client, ALL)
    assert story.ledger.faults() == []
    story.play("teardown.yml", "-e", json.dumps(ALL_DATA), processes=1)
    for node in story.nodes:
        assert story.lab.run(node, "ls /data/ssd1") == "lost+found"
    story.play("teardown.yml", "-e", json.dumps({**ALL_DATA, "teardown_unmount": True}), processes=1)
    for node in story.nodes:
        files, residue = story.before[node.name]
        assert differing(files, story.lab.files(node)) == {}
        assert differing(residue, story.lab.residue(node)) == {}
