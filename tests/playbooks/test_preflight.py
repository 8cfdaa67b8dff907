"""What the preflight says of an inventory, by values alone, and of hosts, as an operator runs it."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from playbooks.filter_plugins.highwater import clusters
from playbooks.filter_plugins.highwater_controller import controller_faults
from playbooks.filter_plugins.highwater_monitor import instances as monitors
from playbooks.filter_plugins.highwater_preflight import (
    clock_faults,
    expected_ports,
    inventory_faults,
    variable_faults,
    zookeeper_without_tls,
)
from tests.playbooks.playing import play, run, succeeded

ROOT = Path(__file__).parents[2]
SSD = {"device": "/dev/disk/by-id/x", "mount_point": "/data/ssd1", "medium": "ssd"}


def faults_of(hosts: Mapping[str, Mapping[str, Any]], groups: dict[str, list[str]]) -> list[str]:
    ours = clusters(groups.get("brokers", []), hosts)
    reference = clusters(groups.get("reference_kafka", []), hosts, "reference_kafka_instances")
    return inventory_faults(hosts, groups, ours, reference)


def three(**changes: Any) -> dict[str, dict[str, Any]]:
    """Three hosts in which nothing is wrong, with changes to the last of them."""
    hosts: dict[str, dict[str, Any]] = {
        f"node{number}": {
            "broker_id": number,
            "zookeeper_id": number,
            "storage_disks": [SSD],
            "broker_instances": [
                {"name": "ssd", "cluster": "ssd", "port": 9092, "log_dirs": ["/data/ssd1/a"]},
                {"name": "hdd", "cluster": "hdd", "port": 9093, "log_dirs": ["/data/hdd1/a"]},
            ],
            "reference_kafka_instances": [{"name": "ssd", "port": 19092, "log_dirs": ["/data/ssd1/b"]}],
        }
        for number in (1, 2, 3)
    }
    hosts["node3"].update(changes)
    return hosts


ALL = ["node1", "node2", "node3"]
GROUPS = {"all": ALL, "zookeeper": ALL, "brokers": ALL, "reference_kafka": ALL, "spark_master": ["node1"]}


def test_nothing_is_wrong_with_the_inventories_of_ours() -> None:
    assert variable_faults(three()) == []
    assert faults_of(three(), GROUPS) == []


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        (
            {"highwater_adress": "a"},
            "variable highwater_adress is read by no playbook; did you mean highwater_address?",
        ),
        ({"teardown_unmont": True}, "variable teardown_unmont is read by no playbook; did you mean teardown_unmount?"),
        ({"storage_disk": []}, "variable storage_disk is read by no playbook; did you mean storage_disks?"),
        (
            {"storage_disks": [{**SSD, "mount_pont": "/x"}]},
            "storage_disks[0] has an unknown key mount_pont; did you mean mount_point?",
        ),
        ({"storage_disks": [{**SSD, "medium": "tape"}]}, "value of medium must be one of: hdd, ssd, got: tape"),
        ({"storage_disks": [{"device": "/dev/x", "medium": "ssd"}]}, "missing required arguments: mount_point"),
        (
            {"storage_disks": "sda"},
            "storage_disks is a string and has to be a list, with a dictionary for each entry; see",
        ),
        (
            {"storage_disks": [SSD, "sda"]},
            "storage_disks[1] is a string and has to be a dictionary; see roles/storage/README.md",
        ),
        ({"storage_disks": [{**SSD, "device": [1]}]}, "storage_disks[0].device is a list and has to be a path; see"),
        ({"storage_allow_format": "perhaps"}, "storage_allow_format is 'perhaps' and has to be true or false; see"),
        ({"broker_id": "first"}, "broker_id is 'first' and has to be a whole number; see roles/broker/README.md"),
        (
            {"broker_instances": {"name": "ssd", "log_dirs": []}},
            "broker_instances is a dictionary and has to be a list, with",
        ),
        ({"broker_properties": ["a"]}, "broker_properties is a list and has to be a dictionary; see"),
        ({"broker_rack": {"name": "a"}}, "broker_rack is a dictionary and has to be a string; see"),
        ({"zookeeper_client_port": None}, "argument 'zookeeper_client_port' is of type NoneType"),
        ({"time_sync_service": "cron"}, "value of time_sync_service must be one of: auto, chrony"),
    ],
)
def test_variables_that_a_role_would_refuse(changes: dict[str, Any], fault: str) -> None:
    (told,) = variable_faults(three(**changes))
    assert told.startswith("node3: ")
    assert fault in told


def test_what_is_told_to_more_than_one_role_is_known() -> None:
    told = {
        "teardown_confirmed": True,
        "teardown_remove_data": True,
        "teardown_unmount": True,
        "highwater_address": "a",
    }
    assert variable_faults({"node1": told}) == []


def test_a_wrong_type_hides_no_other_fault_of_its_variable() -> None:
    instances = [{"log_dirs": ["/data/a"], "port": "x"}]
    assert variable_faults({"node1": {"broker_instances": instances}}) == [
        "node1: broker_instances[0].port is 'x' and has to be a whole number; see roles/broker/README.md",
        "node1: missing required arguments: name found in broker_instances",
    ]


def test_a_fault_of_many_hosts_is_told_once() -> None:
    hosts: dict[str, dict[str, Any]] = {f"node{number}": {"storage_disk": []} for number in range(6)}
    (told,) = variable_faults(hosts)
    assert told.startswith("node0, node1, node2, node3 and 2 more: variable storage_disk")


def test_variables_of_others_and_those_made_of_facts_are_left_alone() -> None:
    own: dict[str, Any] = {
        "rack": "a",
        "ansible_user": "me",
        "storage_disks": "{{ disks_of_this_kind }}",
        "broker_notes": "mine",
    }
    own |= {"spark_version": "4", "package_name": "nginx", "__package_wheelhouse": {"name": "what a role found"}}
    assert variable_faults({"node1": own}) == []


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({"broker_id": 1}, "node1 (broker_instances: ssd) and node3 (broker_instances: ssd): broker_id 1 twice in"),
        ({"broker_id": None}, "node3 (broker_instances: hdd): broker_id is missing; set it for the host"),
        ({"zookeeper_id": 2}, "node2, node3: zookeeper_id 2 is that of 2 hosts; give each its own"),
        ({"zookeeper_id": 0}, "node3: zookeeper_id is missing; set it for the host, a number from 1 to 255"),
        (
            {"zookeeper_client_port": 9092},
            "node3: port 9092 is that of zookeeper_client_port and of broker_instances ssd",
        ),
        (
            {"reference_kafka_instances": [{"name": "r", "port": 9093, "log_dirs": ["/data/ssd1/c"]}]},
            "node3: port 9093 is that of broker_instances hdd and of reference_kafka_instances r",
        ),
        (
            {"reference_kafka_instances": [{"name": "r", "log_dirs": ["/data/ssd1/a/b"]}]},
            "node3: log_dirs /data/ssd1/a of broker_instances ssd and /data/ssd1/a/b of reference_kafka_instances r",
        ),
        (
            {
                "broker_instances": [
                    {"name": "x", "log_dirs": ["/data/1"]},
                    {"name": "x", "cluster": "y", "port": 9, "log_dirs": ["/data/2"]},
                ]
            },
            "node3: broker_instances names x twice",
        ),
        *(
            ({name: text}, f"node3: {name} is {text!r}, and that is not an IP address or a host name; write {meant}")
            for name in ("highwater_address", "broker_address", "zookeeper_address", "ansible_host")
            for text, meant in (
                ("[2001:db8::11]", "2001:db8::11"),
                ("[2001:db8::11]:9092", "2001:db8::11"),
                ("n2.example:9092", "n2.example"),
                ("http://10.0.0.6", "10.0.0.6"),
                ("https://me@n2.example:1/x", "n2.example"),
                ("10.0.0.256", "an address alone, without brackets, port or scheme"),
                ("2001:db8:::1", "an address alone"),
                ("two words", "an address alone"),
                ("-n2.example", "an address alone"),
                (f"{'a' * 64}.example", "an address alone"),
                ("n2..example", "an address alone"),
            )
        ),
        ({"broker_address": "0.0.0.0"}, "node3: broker_address is 0.0.0.0, which is every address and none that"),
        ({"ansible_host": "node1"}, "node1, node3: one machine, node1 port 22, under 2 names"),
    ],
)
def test_what_hosts_do_to_each_other(changes: dict[str, Any], fault: str) -> None:
    assert any(told.startswith(fault) for told in faults_of(three(**changes), GROUPS))


@pytest.mark.parametrize("address", ["10.0.0.6", "2001:db8::11", "fe80::1%eth0", "n2.example.", "a_b", "xn--e1a4c"])
def test_an_address_that_others_can_use(address: str) -> None:
    for name in ("highwater_address", "broker_address", "zookeeper_address", "ansible_host"):
        assert faults_of(three(**{name: address}), GROUPS) == []
    assert faults_of(three(zookeeper_client_bind_address="0.0.0.0", broker_metrics_address="::"), GROUPS) == []


def test_a_host_without_an_address_needs_a_name_that_is_one() -> None:
    (told,) = inventory_faults({"node:1": {}}, {}, {}, {})
    assert told.startswith(
        "node:1: the name of the host, which is its address, is 'node:1', and that is not an IP address"
    )
    assert inventory_faults({"node:1": {"ansible_host": "node1"}}, {}, {}, {}) == []


def divided(**changes: Any) -> list[str]:
    """Faults of three hosts of one cluster, each with three brokers, with changes to the last host."""
    instances = [{"name": "main", "log_dirs": ["/data/ssd1/a"]}]
    own = {"broker_instances": instances, "broker_processes": 3, "reference_kafka_instances": []}
    hosts = three()
    for variables in hosts.values():
        variables.update(own)
    hosts["node3"].update(changes)
    return faults_of(hosts, GROUPS)


def test_hosts_of_several_processes_have_nothing_wrong() -> None:
    assert divided() == []
    assert variable_faults({"node1": {"broker_processes": 3}}) == []
    assert variable_faults({"node1": {"broker_processes": "auto"}}) == []
    assert divided(broker_processes="auto", __broker_counted={"cores": 3, "names": []}) == []
    variables = {"broker_processes": 2, "cluster_security": "tls"}
    assert ports_of(variables, "brokers", groups={"brokers": ["node1"]}) == [
        (9092, "highwater-broker@main"),
        (10092, "highwater-broker@main"),
        (10192, "highwater-broker@main"),
        (9093, "highwater-broker@main-1"),
        (10093, "highwater-broker@main-1"),
        (10193, "highwater-broker@main-1"),
    ]


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({"broker_processes": 65}, "node3: broker_processes has to be a number from 1 to 64, or auto"),
        ({"broker_processes": 0}, "node3: broker_processes has to be a number from 1 to 64, or auto"),
        ({"broker_processes": "all"}, "node3: broker_processes has to be a number from 1 to 64, or auto"),
        (
            {"broker_properties": {"broker.rack": "r"}},
            "node3: property broker.rack of a broker would be that of each of its broker_processes; remove it",
        ),
        ({"broker_id": 100}, "node3: broker_id 100 has to be below 100, as broker_processes counts on from it"),
        ({"broker_rack": "r"}, "node1, node2: broker_rack is missing in cluster main; with broker_processes set it"),
        ({"zookeeper_client_port": 9094}, "node3: port 9094 is that of zookeeper_client_port and of broker_instances"),
        (
            {
                "broker_instances": [
                    {"name": n, "log_dirs": [f"/{n}"], "port": p} for n, p in (("a", 9092), ("b", 9093))
                ]
            },
            "node3: port 9093 is that of broker_instances a-1 and of broker_instances b",
        ),
    ],
)
def test_what_is_wrong_with_hosts_of_several_processes(changes: dict[str, Any], fault: str) -> None:
    assert any(told.startswith(fault) for told in divided(**changes)), divided(**changes)


def test_racks_that_do_not_keep_copies_on_different_hosts_are_told() -> None:
    hosts = three()
    for number, variables in enumerate(hosts.values()):
        variables["broker_instances"] = [{"name": "main", "log_dirs": ["/data/ssd1/a"]}]
        variables |= {"broker_processes": 2, "broker_rack": f"r{number // 2}"}
    (told,) = faults_of(hosts, GROUPS)
    assert told.startswith("cluster main has 2 racks for 3 copies, so that two copies could be on one host of")


@pytest.mark.parametrize(
    ("groups", "fault"),
    [
        ({"zookeeper": ["node1", "node2"]}, "group zookeeper has 2 hosts; name 1, 3 or 5: an even number"),
        ({"zookeeper": []}, "group zookeeper is empty and brokers need one"),
        ({"spark_master": ["node1", "node2"]}, "group spark_master has 2 hosts (node1, node2) and can have one"),
        ({"spark_master": [], "spark_workers": ALL}, "group spark_workers has hosts and spark_master has none"),
        ({"spark_worker": ALL}, "group spark_worker is read by no playbook; did you mean spark_workers?"),
    ],
)
def test_groups_that_do_not_fit(groups: dict[str, list[str]], fault: str) -> None:
    (told,) = faults_of(three(), {**GROUPS, **groups})
    assert told.startswith(fault)


@pytest.mark.parametrize(
    ("variables", "groups", "lacking", "found"),
    [
        ({}, {"zookeeper": ["n"]}, "kazoo", "kazoo"),
        ({}, {"zookeeper": ["n"]}, "highwater", ""),
        ({"cluster_security": "tls"}, {"zookeeper": ["n"]}, "highwater", "highwater"),
        ({"zookeeper_verify_from_controller": False}, {"zookeeper": ["n"]}, "kazoo", ""),
        ({}, {"reference_kafka": ["n"]}, "numpy", "numpy"),
        ({"reference_kafka_source": "tarball_url"}, {"reference_kafka": ["n"]}, "highwater", ""),
        ({}, {"brokers": ["n"]}, "kazoo", ""),
    ],
)
def test_a_package_that_the_controller_lacks_is_named_with_the_command_that_installs_it(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, Any], groups: dict[str, list[str]], lacking: str, found: str
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None if name == lacking else object())
    faults = controller_faults({"n": variables}, groups)
    assert [each.split(", needed by")[0] for each in faults] == (
        [f"controller: {sys.executable} lacks {found}"] if found else []
    )
    assert all(each.endswith(f"{sys.executable} -m pip install '{ROOT}[provision]'") for each in faults)


def test_a_clock_that_is_away_from_the_others() -> None:
    assert clock_faults({"node1": 0.0, "node2": -1.5, "node3": None}, 5) == []
    assert clock_faults({"node1": 900.0, "node2": 901.0}, 5) == [], "it is the controller's that is wrong"
    (told,) = clock_faults({"node1": 0.0, "node2": -0.5, "node3": 3600.0}, 5)
    assert told.startswith("node3: the clock is 3600 s ahead of the other hosts', and 5 s are allowed; set it")


def ports_of(variables: dict[str, Any], *group_names: str, groups: dict[str, list[str]]) -> list[tuple[int, str]]:
    """Of a host that stands in these groups in the place of another one."""
    members = {group: [*hosts[1:], "it"] if group in group_names else hosts for group, hosts in groups.items()}
    others: dict[str, Any] = {"hdd": {"brokers": []}, "ssd": {"brokers": []}}
    ours = clusters(["it"], {"it": variables}) if "brokers" in group_names else others
    found = expected_ports("it", {"it": variables}, members, ours)
    return [(each["port"], each["unit"].removesuffix(".service")) for each in found]


def test_ports_that_will_be_listened_on() -> None:
    one = {"zookeeper": ["node1"], "brokers": ["node1"]}
    brokers = [
        (9092, "highwater-broker@ssd"),
        (10192, "highwater-broker@ssd"),
        (9093, "highwater-broker@hdd"),
        (10193, "highwater-broker@hdd"),
    ]
    variables = three()["node1"]
    assert ports_of(variables, "zookeeper", "brokers", groups=one) == [(2181, "zookeeper"), *brokers]
    members = [(2181, "zookeeper"), (2888, "zookeeper"), (3888, "zookeeper")]
    assert ports_of(variables, "zookeeper", groups=GROUPS) == members
    main = [(9092, "highwater-broker@main"), (10192, "highwater-broker@main")]
    assert ports_of({}, "brokers", groups=one) == main
    quiet = {"broker_instances": [{"name": "main", "metrics_port": 0, "inside_port": 7}], "cluster_security": "tls"}
    assert ports_of(quiet, "brokers", groups=one) == [main[0], (7, "highwater-broker@main")]


def test_ports_of_monitors_and_of_the_agents_that_they_ask() -> None:
    watched = {"brokers": ["a"], "monitor": ["b"]}
    agent = (9646, "highwater-agent")
    assert agent in ports_of({}, "brokers", groups=watched)
    assert agent not in ports_of({}, "brokers", groups={"brokers": ["a"]}), "nobody asks it"
    assert agent not in ports_of({"agent_state": "absent"}, "brokers", groups=watched)
    by_default = [(9644, "highwater-monitor@hdd"), (9654, "highwater-monitor@ssd")]
    assert ports_of({}, "monitor", groups=watched) == by_default
    given = [{"name": "x", "port": 8443, "settings": {"metrics": {"listen": "127.0.0.1:9645"}}}, {"name": "y"}]
    assert ports_of({"monitor_instances": given}, "monitor", groups=watched) == [
        (8443, "highwater-monitor@x"),
        (9645, "highwater-monitor@x"),
        (9644, "highwater-monitor@y"),
    ]
    assert ports_of({"monitor_instances": given, "monitor_state": "absent"}, "monitor", groups=watched) == []
    assert [(instance["port"], instance["name"]) for instance in monitors({"hdd": 0, "ssd": 0})] == [
        (port, unit.partition("@")[2]) for port, unit in by_default
    ], "as the role has them by default"


def test_a_port_of_a_broker_is_none_of_the_monitor() -> None:
    groups = {**GROUPS, "monitor": ["node3"]}
    instances = [{"name": "ssd", "cluster": "ssd", "port": 9644, "log_dirs": ["/data/ssd1/a"]}]
    (told,) = faults_of(three(broker_instances=instances), groups)
    assert told == "node3: port 9644 is that of broker_instances ssd and of monitor hdd; give one of them another"


def test_the_inventories_that_are_shipped_are_sound(tmp_path: Path) -> None:
    for name in ("example", "lab"):
        options = ("-i", f"inventories/{name}", "--list")
        listed = succeeded(run(tmp_path, "ansible-inventory", *options))
        found = yaml.safe_load(listed.stdout)
        hosts = found["_meta"]["hostvars"]
        groups = {group: content.get("hosts", []) for group, content in found.items() if group != "_meta"}
        assert variable_faults(hosts) == []
        assert faults_of(hosts, groups) == []


def test_a_file_of_variables_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    hosts = {"here": {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}}
    (tmp_path / "hosts.yml").write_text(yaml.safe_dump({"brokers": {"hosts": hosts}}))
    variables = tmp_path / "group_vars"
    variables.mkdir()
    (variables / "all.yml").write_text("$ANSIBLE_VAULT;1.1;AES256\n00\n")
    (variables / "brokers.yml").write_text("broker_id: 1\nbroker_rack: {{ rack }}\n")
    done = play(tmp_path, "-i", tmp_path / "hosts.yml", "preflight.yml")
    assert done.returncode != 0
    said = " ".join((done.stdout + done.stderr).split())
    assert f"{variables}/brokers.yml, line 2: YAML parsing failed" in said
    assert f"{variables}/all.yml, line" not in said


def test_hosts_that_cannot_be_read_are_no_success(tmp_path: Path) -> None:
    """Of no hosts at all nothing fails."""
    (tmp_path / "hosts.yml").write_text("all: {hosts: [\n")
    done = play(tmp_path, "-i", tmp_path / "hosts.yml", "preflight.yml")
    assert done.returncode != 0
    assert f"{tmp_path}/hosts.yml" in "".join((done.stdout + done.stderr).split())


@pytest.mark.parametrize(
    ("variables", "groups", "files"),
    [
        ({}, ["zookeeper"], ["/etc/highwater/zookeeper/zoo.cfg", "/var/lib/zookeeper/started_with.cfg"]),
        (
            {"cluster_security": "none", "zookeeper_data_directory": "/data"},
            ["brokers", "zookeeper"],
            ["/etc/highwater/zookeeper/zoo.cfg", "/data/started_with.cfg"],
        ),
        ({"cluster_security": "tls"}, ["zookeeper"], []),
        ({}, ["brokers"], []),
    ],
)
def test_data_of_a_zookeeper_are_looked_at_where_it_is_to_have_no_tls(
    variables: dict[str, Any], groups: list[str], files: list[str]
) -> None:
    assert zookeeper_without_tls(variables, groups) == files


@pytest.mark.slow
def test_all_faults_of_all_hosts_come_at_once_and_nothing_is_changed(tmp_path: Path) -> None:
    old = tmp_path / "python3"
    old.write_text("#!/bin/sh\necho python 3 9\n")
    old.chmod(0o755)
    data = tmp_path / "zookeeper"
    data.mkdir()
    (data / "started_with.cfg").write_text("dataDir=/x\nauthProvider.sasl=org.apache.zookeeper\n")
    local = {"ansible_connection": "local", "ansible_become": os.geteuid() != 0}
    python = {"ansible_python_interpreter": sys.executable}
    with socket.create_server(("127.0.0.1", 0)) as taken, socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        hosts = {
            "here": {
                **local,
                **python,
                "storage_disks": [{"device": "/dev/no-such-disk", "mount_point": "/data/x", "medium": "ssd"}],
                "zookeeper_client_port": taken.getsockname()[1],
                "zookeeper_data_directory": str(data),
            },
            "typed": {**local, **python, "storage_disks": "/dev/sda", "broker_intances": []},
            "old": {**local, "ansible_python_interpreter": str(old)},
            "bare": {**local, "ansible_python_interpreter": str(tmp_path / "none")},
            "gone": {"ansible_host": "127.0.0.1", "ansible_port": closed.getsockname()[1], "ansible_user": "admin"},
        }
        inventory = {"all": {"hosts": hosts, "children": {"zookeeper": {"hosts": {"here": None}}}}}
        (tmp_path / "hosts.yml").write_text(yaml.safe_dump(inventory))
        variables: dict[str, Any] = {
            "preflight_systems": {"Plan 9": ["4"]},
            "preflight_min_memory_bytes": {"zookeeper": 1 << 60},
            "preflight_min_free_bytes": {"/opt/highwater/not/there": 1 << 60},
        }
        done = play(tmp_path, "-i", tmp_path / "hosts.yml", "preflight.yml", **variables)
    said = done.stdout
    assert done.returncode == 2, said + done.stderr
    port = hosts["here"]["zookeeper_client_port"]
    for fault in (
        "here: runs ",
        "and the playbooks are made for Plan 9 4; install one of them, or try it with preflight_systems",
        "of memory, and what its groups put on it needs",
        "here: /opt/highwater/not/there has ",
        f"here: port {port} is to be zookeeper.service's and is held by ",
        "here: /dev/no-such-disk does not exist; ",
        f"old: ansible_python_interpreter {old} is Python 3.9; set it to a Python 3.11 or newer",
        f"bare: ansible_python_interpreter {tmp_path / 'none'} is not a Python; ",
        f"gone: cannot be reached as admin at 127.0.0.1 port {hosts['gone']['ansible_port']} (",
        f"Connection refused); try: ssh -p {hosts['gone']['ansible_port']} admin@127.0.0.1",
        "typed: variable broker_intances is read by no playbook; did you mean broker_instances?",
        "typed: storage_disks is a string and has to be a list, with a dictionary for each entry; see roles/storage",
        f"here: ZooKeeper had TLS and logins ({data}/started_with.cfg), so its data belong to its login, and cluster_",
        "set cluster_security back to tls, or remove the data of the cluster (teardown.yml -e teardown_confirmed=true ",
        "13 faults; nothing was changed on any host:",
    ):
        assert fault in said, said
    assert "UNREACHABLE" not in said
