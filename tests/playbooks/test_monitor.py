"""What role monitor makes of an inventory: monitors, hosts and tokens; what it refuses before it changes anything."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.playbooks.modules import TREE, load
from tests.playbooks.playing import play_part

FILTERS = load("filter_plugins/highwater_monitor.py")
CLUSTERS = {"ssd": {"brokers": [{"host": "a"}, {"host": "b"}, {"host": "a"}]}, "hdd": {"brokers": [{"host": "a"}]}}


def test_there_is_a_monitor_for_each_cluster_and_its_ports_leave_room() -> None:
    assert FILTERS.instances(CLUSTERS) == [{"name": "hdd", "port": 9644}, {"name": "ssd", "port": 9654}]
    assert FILTERS.faults(FILTERS.instances(CLUSTERS), CLUSTERS) == []


@pytest.mark.parametrize(
    ("changed", "fault"),
    [
        ({"name": "s/d", "cluster": "ssd"}, "a monitor has the name 's/d'"),
        (
            {"cluster": "sdd"},
            "monitor ssd is for cluster sdd, which no host of the group brokers has; clusters are: hdd",
        ),
        ({"port": 0}, "a monitor has the port 0, which is none"),
        ({"prot": 1}, "monitor ssd has the unknown key prot; keys are name, cluster, port"),
        ({"files": ["/none/ceilings.json"]}, "monitor ssd names the file /none/ceilings.json, which is not on the c"),
        ({"environment": {"HOME": "x"}}, "monitor ssd has the variable 'HOME', which is not a name for a variable"),
        ({"environment": {"A": "hush\nhush"}}, "monitor ssd has a value of several lines for A"),
    ],
)
def test_a_fault_is_one_sentence_without_values(changed: dict[str, Any], fault: str) -> None:
    (found,) = FILTERS.faults([{"name": "ssd", **changed}], CLUSTERS)
    assert found.startswith(fault)
    assert "hush" not in found


def test_two_monitors_of_one_name_or_port_and_files_of_one_name(tmp_path: Path) -> None:
    twice = FILTERS.faults([{"name": "ssd"}, {"name": "ssd"}], CLUSTERS)
    assert twice == [
        "2 monitors have the name ssd; give each its own",
        "2 monitors have the port 9644; give each its own",
    ]
    own = tmp_path / "key.pem"
    own.write_text("")
    (fault,) = FILTERS.faults([{"name": "ssd", "files": [str(own)]}], CLUSTERS)
    assert fault.startswith("monitor ssd has two files with the name key.pem")


def test_a_cluster_that_the_inventory_does_not_have_needs_its_addresses() -> None:
    other = {"name": "kafka", "settings": {"bootstrap_servers": "kafka1:9092"}}
    assert FILTERS.faults([other], CLUSTERS) == []


def test_agents_are_asked_over_tls_with_their_own_tokens() -> None:
    hostvars = {"a": {"agent_port": 9999}, "b": {"agent_token": "given" * 4, "agent_certificate": "PEM"}}
    addresses = {"a": "192.0.2.1", "b": "fd00::2"}
    asked = FILTERS.agents(addresses, hostvars, False)
    assert asked == {
        "a": {"address": "192.0.2.1:9999", "token_file": "a.token", "ca": "agents.pem"},
        "b": {"address": "[fd00::2]:9646", "token_file": "b.token"},
    }
    assert FILTERS.agents(addresses, hostvars, True)["b"]["ca"] == "agents.pem"
    assert FILTERS.wanted_tokens(asked, hostvars) == ["agent-a"]
    assert FILTERS.token_files(asked, hostvars, {"agent-a": "made"}) == [
        {"name": "a.token", "text": "made"},
        {"name": "b.token", "text": "given" * 4},
    ]


def test_an_agent_on_loopback_needs_neither() -> None:
    asked = FILTERS.agents({"a": "127.0.0.1"}, {"a": {}}, False)
    assert asked == {"a": {"address": "127.0.0.1:9646"}}
    assert FILTERS.wanted_tokens(asked, {"a": {}}) == []


def test_hosts_are_those_of_the_cluster_once() -> None:
    assert FILTERS.hosts_of(CLUSTERS["ssd"]) == ["a", "b"]
    assert FILTERS.hosts_of(None) == []


BROKERS = {"hosts": {"a": {"broker_id": 1, "ansible_host": "192.0.2.1"}, "b": {"broker_id": 2}}}


@pytest.mark.parametrize(
    ("variables", "said"),
    [
        ({"monitor_certificate": "PEM"}, "a: monitor_certificate and monitor_key belong together; give both or none"),
        (
            {"monitor_certificate": "PEM", "monitor_key": "hush", "monitor_behind_proxy": True},
            "a: monitor_behind_proxy leaves TLS to the proxy; give no monitor_certificate",
        ),
        ({"monitor_admin_password": "hush"}, "a: monitor_admin_password has less than 12 characters"),
        ({"agent_address": "127.0.0.1"}, "a: the agent of b listens on loopback, where a monitor of another host"),
        ({"monitor_instances": [{"name": "x"}]}, "a: monitor x is for cluster x, which no host of the group brokers"),
    ],
)
def test_the_role_says_what_is_wrong_with_the_inventory(tmp_path: Path, variables: dict[str, Any], said: str) -> None:
    inventory = {"children": {"brokers": BROKERS, "monitor": {"hosts": {"a": None}}}}
    done = play_part(tmp_path, "monitor", "assert", inventory, "--limit", "a", **variables)
    text = " ".join((done.stdout + done.stderr).split())
    assert said in text
    assert "hush" not in text


def test_no_task_shows_a_secret() -> None:
    """Whatever writes keys, tokens and passwords, or hears them, is silent."""
    for role in ("agent", "monitor", "keys"):
        for path in sorted((TREE / f"roles/{role}/tasks").glob("*.yml")):
            for task in every_task(yaml.safe_load(path.read_text("utf-8"))):
                text = str({key: value for key, value in task.items() if key not in ("block", "rescue", "when")})
                if any(word in text for word in ("item.text", "keys_texts", "__agent_token", "__keys.")):
                    assert task.get("no_log") is True, f"{path}: {task['name']}"


def every_task(tasks: list[dict[str, Any]]) -> list[dict[str, Any]]:
    inner = [each for task in tasks for part in ("block", "rescue") for each in task.get(part, [])]
    return tasks + (every_task(inner) if inner else [])
