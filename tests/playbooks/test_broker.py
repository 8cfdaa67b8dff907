"""What the role broker writes and judges: properties by the broker's own parser, whose a log is."""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from highwater.broker.server.start_check import check
from highwater.broker.settings.config import BrokerConfig, read_properties_file
from highwater.kafka.client.host_processes import ID_STEP
from tests.playbooks.modules import TREE, call, load
from tests.playbooks.playing import play, play_part, succeeded, unpack

unit_state = load("library/highwater_unit_state.py")

INVENTORY = """
all:
  children:
    zookeeper: {hosts: {z1: {ansible_host: 10.0.0.9}}}
    brokers:
      hosts:
        b1: {broker_id: 1, ansible_host: 10.0.0.1}
        b2: {broker_id: 2, ansible_host: 10.0.0.2}
        b3: {broker_id: 3, ansible_host: fe80::3}
      vars:
        ansible_connection: local
        ansible_python_interpreter: "{{ ansible_playbook_python }}"
"""
# Over the role's defaults, which are files of the play here, and as such over the inventory.
VARIABLES = """
broker_rack: left
broker_metrics_address: "{{ 'fe80::1' if inventory_hostname == 'b1' else '127.0.0.1' }}"
broker_properties: {log.retention.hours: 48}
broker_instances:
  - {name: ssd, cluster: ssd, log_dirs: [/data/ssd1/highwater, /data/ssd2/highwater], cpus: 0-3}
  - {name: hdd, cluster: hdd, port: 9093, log_dirs: [/data/hdd1/highwater],
     metrics_port: "{{ 0 if inventory_hostname == 'b2' else 9404 }}",
     properties: {log.retention.hours: 12, sasl.enabled.mechanisms: PLAIN}}
"""
RENDER = """
- name: Render what the role would write
  hosts: brokers
  gather_facts: false
  vars_files: [ROLE/defaults/main.yml, ROLE/vars/main.yml]
  tasks:
    - name: Of each broker
      ansible.builtin.set_fact:
        files: "{{ files | default({}) | combine({name: lookup('template', path, convert_data=false)}) }}"
      vars:
        path: "ROLE/templates/{{ item.1 }}.j2"
        name: "{{ item.0.name }}-{{ item.1 }}"
        __broker_instance: "{{ item.0 }}"
      loop: "{{ __broker_all | product(['broker.properties', '10-instance.conf', 'highwater-broker@.service']) }}"
    - name: Write them
      ansible.builtin.copy: {content: "{{ files | to_json }}", dest: "OUT/{{ inventory_hostname }}.json", mode: "0644"}
"""


# One broker on a host, as the role has it by default.
PLAIN = """
storage_disks: [{mount_point: /data/ssd1}, {mount_point: /data/ssd2/}]
"""


@pytest.fixture(scope="module")
def rendered(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return render(tmp_path_factory.mktemp("rendered"), VARIABLES)


def render(directory: Path, variables: str) -> Path:
    directory.mkdir(exist_ok=True)
    (directory / "hosts.yml").write_text(INVENTORY)
    (directory / "variables.yml").write_text(variables)
    playbook = directory / "render.yml"
    playbook.write_text(RENDER.replace("ROLE", str(TREE / "roles/broker")).replace("OUT", str(directory)))
    options = ("-i", directory / "hosts.yml", "-e", f"@{directory}/variables.yml")
    succeeded(play(directory, *options, playbook))
    for host in ("b1", "b2", "b3"):
        unpack(directory / f"{host}.json", directory, f"{host}-")
    return directory


@pytest.mark.slow
def test_a_broker_would_start_with_its_properties(rendered: Path) -> None:
    paths = sorted(rendered.glob("*-broker.properties"))
    assert len(paths) == 6, "two brokers on each of three hosts"
    for path in paths:
        config = BrokerConfig(read_properties_file(path))
        check(config)
        assert config.warnings == []
        assert config.integer("min.insync.replicas") == 2
        assert config.integer("default.replication.factor") == 3
        assert config.string("broker.rack") == "left"
    first = BrokerConfig(read_properties_file(rendered / "b1-ssd-broker.properties"))
    assert first.integer("broker.id") == 1
    assert first.value("log.dirs") is not None
    assert first.string("zookeeper.connect") == "10.0.0.9:2181/highwater/ssd"
    assert first.string("listeners") == "PLAINTEXT://10.0.0.1:9092"
    assert first.integer("log.retention.hours") == 48
    second = BrokerConfig(read_properties_file(rendered / "b3-hdd-broker.properties"))
    assert second.string("listeners") == "PLAINTEXT://[fe80::3]:9093"
    assert second.string("metrics.listener") == "HTTP://127.0.0.1:9404"
    assert second.integer("log.retention.hours") == 12


@pytest.mark.slow
def test_a_host_of_several_processes_has_brokers_that_start_and_a_rack_that_is_the_host(tmp_path: Path) -> None:
    found = render(tmp_path, f"{PLAIN}broker_processes: 2\n")
    paths = sorted(found.glob("*-broker.properties"))
    assert len(paths) == 6, "two on each of three hosts"
    for path in paths:
        config = BrokerConfig(read_properties_file(path))
        check(config)
        assert config.warnings == []
        assert config.string("broker.rack") == path.name[:2]
        assert (config.integer("default.replication.factor"), config.integer("min.insync.replicas")) == (3, 2)
    second = BrokerConfig(read_properties_file(found / "b2-main-1-broker.properties"))
    assert second.integer("broker.id") == 102
    assert second.string("listeners") == "PLAINTEXT://10.0.0.2:9093"
    assert second.string("metrics.listener") == "HTTP://127.0.0.1:10193"
    assert second.string("zookeeper.connect") == "10.0.0.9:2181/highwater/main"
    own = (found / "b2-main-1-10-instance.conf").read_text()
    assert "\nReadWritePaths=/data/ssd1/highwater-1 /data/ssd2/highwater-1\n" in own
    assert second.integer("reserved.broker.max.id") >= 99 + 100 * 63, "the last id of a host"


@pytest.mark.slow
def test_a_host_of_one_process_has_what_it_had(tmp_path: Path) -> None:
    """Or a broker of before would be restarted."""
    text = (render(tmp_path, PLAIN) / "b1-main-broker.properties").read_text()
    assert sorted(line.partition("=")[0] for line in text.splitlines() if not line.startswith("#")) == [
        "advertised.listeners",
        "broker.id",
        "default.replication.factor",
        "listeners",
        "log.dirs",
        "metrics.listener",
        "min.insync.replicas",
        "offsets.topic.replication.factor",
        "transaction.state.log.min.isr",
        "transaction.state.log.replication.factor",
        "zookeeper.connect",
    ]


def test_metrics_are_on_loopback_unless_told_otherwise(rendered: Path) -> None:
    def listener(broker: str) -> str | None:
        return BrokerConfig(read_properties_file(rendered / f"{broker}-broker.properties")).string("metrics.listener")

    assert listener("b2-ssd") == "HTTP://127.0.0.1:10192"
    assert listener("b1-ssd") == "HTTP://[fe80::1]:10192"
    assert listener("b3-hdd") == "HTTP://127.0.0.1:9404"
    assert listener("b2-hdd") is None


def test_what_differs_is_in_a_drop_in(rendered: Path) -> None:
    text = (rendered / "b1-ssd-10-instance.conf").read_text()
    assert "\nRequiresMountsFor=/data/ssd1/highwater /data/ssd2/highwater\n" in text
    assert "\nReadWritePaths=/data/ssd1/highwater /data/ssd2/highwater\n" in text
    assert "\nCPUAffinity=0-3\n" in text
    assert "CPUAffinity" not in (rendered / "b1-hdd-10-instance.conf").read_text()


def test_the_record_holds_all_that_a_broker_is_started_with(rendered: Path, tmp_path: Path) -> None:
    """The command of ExecStartPre, run with other paths."""
    text = (rendered / "b1-ssd-highwater-broker@.service").read_text().replace("\\\n", "")
    found = re.search(r"^ExecStartPre=-/bin/sh -c '(.*)'$", text, re.MULTILINE)
    assert found is not None
    (tmp_path / "opt/highwater/broker/current").mkdir(parents=True)
    (tmp_path / "opt/highwater/broker/current/release").write_text("one\n")
    (tmp_path / "run/highwater-broker/ssd").mkdir(parents=True)
    drop_ins = tmp_path / "etc/systemd/system/highwater-broker@.service.d"
    drop_ins.mkdir(parents=True)
    (drop_ins / "90-highwater.conf").write_text("limits")
    command = re.sub(r"(?<=\s)/(?=opt|etc|run)", f"{tmp_path}/", found[1].replace("%i", "ssd"))
    subprocess.run(["/bin/sh", "-c", command], check=False)
    record = tmp_path / "run/highwater-broker/ssd/started"
    patterns = [word for word in command.split() if word.startswith(f"{tmp_path}/") and word != str(record)]
    release = f"{tmp_path}/opt/highwater/broker/current/release"
    stale = unit_state.stale_files
    assert stale(record, patterns, {}) == []
    assert stale(record, patterns, {release: unit_state.digest(b"one\n")}) == []
    assert stale(record, patterns, {release: unit_state.digest(b"two\n")}) == [release]
    (drop_ins / "90-highwater.conf").write_text("other limits")
    (drop_ins / "91-operator.conf").write_text("new")
    assert stale(record, patterns, {}) == [f"{drop_ins}/90-highwater.conf", f"{drop_ins}/91-operator.conf"]
    (drop_ins / "90-highwater.conf").unlink()
    assert f"{drop_ins}/90-highwater.conf" in stale(record, patterns, {}), "one that is gone is a change as well"


def test_a_service_without_a_record_was_started_with_something_else(tmp_path: Path) -> None:
    (tmp_path / "unit").write_text("x")
    assert unit_state.stale_files(tmp_path / "none", [f"{tmp_path}/unit"], {}) == [f"{tmp_path}/unit"]


# Whose a log directory is


def judged(path: Path, *, check_mode: bool = False, broker_id: int = 1, **arguments: Any) -> dict[str, Any]:
    instance = {"name": "main", "cluster": "main", "broker_id": broker_id, "log_dirs": [str(path)]}
    return call("highwater_log_dirs", check=check_mode, instances=[instance], **arguments)


def test_a_new_directory_and_one_of_this_broker_are_fine(tmp_path: Path) -> None:
    allowed = {"allow_root_filesystem": True}
    assert judged(tmp_path / "new", **allowed)["log_dirs"] == [
        {"path": str(tmp_path / "new"), "cluster": "main", "cluster_id": ""}
    ]
    (tmp_path / "meta.properties").write_text("#\nversion=0\nbroker.id=1\ncluster.id=abc\n")
    assert judged(tmp_path, **allowed)["log_dirs"][0]["cluster_id"] == "abc"


def test_a_directory_of_another_broker_is_refused(tmp_path: Path) -> None:
    (tmp_path / "meta.properties").write_text("version=0\nbroker.id=7\n")
    message = judged(tmp_path, allow_root_filesystem=True)["msg"]
    assert message.startswith(f"{tmp_path} belongs to broker 7, and the inventory gives it to broker 1 (main)")


def test_a_directory_whose_disk_is_not_mounted_is_refused_but_for_check_mode(tmp_path: Path) -> None:
    message = judged(tmp_path / "log", mount_points=[str(tmp_path)])["msg"]
    assert f"no disk is mounted on {tmp_path}; run provision.yml first" in message
    assert not judged(tmp_path / "log", mount_points=[str(tmp_path)], check_mode=True).get("failed")


def test_the_root_file_system_is_refused_unless_allowed() -> None:
    place = Path("/highwater-log")
    assert "is on the root file system" in judged(place)["msg"]
    assert not judged(place, allow_root_filesystem=True).get("failed")
    assert "write its whole path" in judged(Path("log"))["msg"]


def test_all_faults_are_told_at_once(tmp_path: Path) -> None:
    instances = [{"name": name, "cluster": "main", "broker_id": 1, "log_dirs": [f"/{name}"]} for name in ("one", "two")]
    message = call("highwater_log_dirs", instances=instances)["msg"]
    assert "/one" in message
    assert "/two" in message


def test_secrets_of_properties_are_told_to_no_module_of_a_host(tmp_path: Path) -> None:
    """Whose journal keeps what modules are told."""
    properties = {"ssl.keystore.password": "hush"}
    instance = {"name": "main", "log_dirs": [f"{tmp_path}/log"], "properties": properties}
    host = {"broker_id": 1, "broker_instances": [instance], "broker_properties": properties}
    inventory = {"children": {group: {"hosts": {"one": host}} for group in ("zookeeper", "brokers")}}
    done = succeeded(play_part(tmp_path, "broker", "assert", inventory, "-vvv", broker_allow_root_filesystem=True))
    # Other tasks act on the controller alone, and their loops show there what they go over.
    (told,) = (part for part in done.stdout.split("TASK [") if part.startswith("broker : Check the owner of the log"))
    assert "module_args" in told
    assert "hush" not in told


def test_properties_with_secrets_are_refused_with_the_reason_and_without_the_secrets(tmp_path: Path) -> None:
    """A task that may not be shown cannot say why it failed, so that they are checked before."""
    program = tmp_path / "release/bin/highwater"
    program.parent.mkdir(parents=True)
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m highwater "$@"\n')
    program.chmod(0o755)
    own = {"ssl.keystore.password": "hush", "num.partitons": 3}
    instances = [
        {"name": name, "port": port, "log_dirs": [f"{tmp_path}/{name}"], "properties": properties}
        for name, port, properties in (("good", 9092, {}), ("bad", 9093, own))
    ]
    host = {"broker_id": 1, "broker_instances": instances}
    inventory = {"children": {group: {"hosts": {"one": host}} for group in ("zookeeper", "brokers")}}
    given = {"package_release_path": str(tmp_path / "release")}
    played = play_part(tmp_path, "broker", "check", inventory, "-vvv", **given)
    assert played.returncode == 2
    told = " ".join(played.stdout.split())
    reason = r"one: properties of brokers are refused: line \d+: .{0,80}did you mean num.partitions\?"
    assert re.search(reason, told), told
    (shown,) = (part for part in played.stdout.split("TASK [") if part.startswith("broker : Check the properties"))
    assert "hush" not in shown


def test_digests_of_secrets_do_for_their_texts(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("password")
    record = tmp_path / "started"
    record.write_text(f"{hashlib.sha256(b'password').hexdigest()}  {secret}\n")
    assert unit_state.stale_files(record, [str(secret)], {str(secret): unit_state.digest(b"password")}) == []


@pytest.mark.slow
def test_a_broker_that_is_set_up_and_named_no_more_is_refused(tmp_path: Path) -> None:
    configuration = tmp_path / "highwater"
    configuration.mkdir()
    (configuration / "broker-ssd.properties").touch()
    (configuration / "tuning.yml").touch()
    named: dict[str, list[str]] = {"same": ["ssd"], "more": ["hdd", "ssd"], "other": ["new"], "none": []}
    hosts = {
        host: {"broker_id": 1, "broker_instances": [{"name": name, "log_dirs": [f"/data/{name}"]} for name in names]}
        for host, names in named.items()
    }
    given = {"__broker_configuration": str(configuration)}
    played = play_part(tmp_path, "broker", "strangers", {"children": {"brokers": {"hosts": hosts}}}, **given)
    assert played.returncode == 2
    told = " ".join(played.stdout.split())
    refusal = (
        r"(\w+): the broker ssd is set up here, and broker_instances \(with broker_processes\) does not name it[.] .*?;"
        r" or take it away: .*?"
    )
    refused = set(re.findall(rf"{refusal}rm {re.escape(str(configuration))}/broker-ssd[.]properties", told))
    assert refused == {host for host, names in named.items() if "ssd" not in names}
    for host in hosts:
        assert re.search(rf"{host} : ok=[^:]* failed={int(host in refused)} ", told)


@pytest.mark.slow
def test_brokers_that_fewer_processes_leave_out_are_refused_with_the_commands_that_move_what_they_have(
    tmp_path: Path,
) -> None:
    """Those of all hosts together, so that nothing moves from one of them to another one."""
    hosts: dict[str, dict[str, Any]] = {}
    for number, host in enumerate("ab", 1):
        configuration = tmp_path / host
        configuration.mkdir()
        for process in range(3):
            (configuration / f"broker-main{f'-{process}' if process else ''}.properties").write_text(
                f"broker.id={number + 100 * process}\nzookeeper.connect=z:2181/highwater/main\nsasl.jaas.config=hush\n"
            )
        instances = [{"name": "main", "log_dirs": ["/data/main"]}]
        hosts[host] = {"broker_id": number, "broker_instances": instances, "own_configuration": str(configuration)}
    given = {"__broker_configuration": "{{ own_configuration }}", "broker_processes": 2}
    played = play_part(tmp_path, "broker", "strangers", {"children": {"brokers": {"hosts": hosts}}}, "-vv", **given)
    assert played.returncode == 2
    told = " ".join(played.stdout.split())
    assert "hush" not in told
    for host, ids in (("a", "201 --without-broker 202"), ("b", "202 --without-broker 201")):
        assert f"{host}: the broker main-2 is set up here" in told
        assert f"highwater broker reassign -b a:9092 --balance --without-broker {ids})" in told
        assert f"rm {tmp_path}/{host}/broker-main-2.properties" in told
    succeeded(play(tmp_path, "-i", "hosts.yml", "part.yml", directory=tmp_path, **{**given, "broker_processes": 3}))


def test_cores_are_counted_on_all_hosts_be_they_in_the_limit_or_not(tmp_path: Path) -> None:
    (tmp_path / "broker-main-70.properties").touch()
    (tmp_path / "broker-main-1.properties").touch()
    hosts: dict[str, dict[str, Any]] = {
        host: {"broker_id": at, "broker_processes": "auto"} for at, host in enumerate(("a", "b", "gone"), 1)
    }
    hosts["gone"] |= {"ansible_connection": "ssh", "ansible_host": "127.0.0.1", "ansible_port": 1}
    local = {"ansible_connection": "local", "ansible_python_interpreter": "/none: it needs none"}
    inventory = {"all": {"children": {"brokers": {"hosts": hosts, "vars": local}}}}
    (tmp_path / "hosts.yml").write_text(yaml.safe_dump(inventory))
    told = "{{ %s | highwater_clusters(hostvars) | to_json }}"
    tasks = [
        {"name": "Known", "ansible.builtin.debug": {"msg": told % "['a', 'b']"}},
        {"name": "Unknown", "ansible.builtin.debug": {"msg": told % "groups['brokers']"}},
    ]
    (tmp_path / "play.yml").write_text(
        yaml.safe_dump(
            [
                {"name": "Cores", "ansible.builtin.import_playbook": str(TREE / "processes.yml")},
                {"name": "Tell", "hosts": "brokers", "gather_facts": False, "tasks": tasks},
            ],
            sort_keys=False,
        )
    )
    given: dict[str, Any] = {"__broker_configuration": str(tmp_path)}
    played = play(tmp_path, "-i", tmp_path / "hosts.yml", "--limit", "a", "--check", tmp_path / "play.yml", **given)
    assert played.returncode == 2, played.stdout + played.stderr
    count = max(len(os.sched_getaffinity(0)), 2)
    answer = played.stdout.replace("\\", "")
    for host in "ab":
        assert answer.count(f'"host": "{host}"') == min(count, 64), played.stdout
    assert '"name": "main-1", "broker_id": 102' in answer
    assert "gone: broker_processes is auto, and the cores of the host are not known" in " ".join(answer.split())


def test_clients_know_the_step_between_the_brokers_of_a_host() -> None:
    # The filters run where Highwater is not installed, and cannot import each other.
    assert load("filter_plugins/highwater.py").ID_STEP == ID_STEP
    assert load("filter_plugins/highwater_preflight.py")._ID_STEP == ID_STEP


def test_a_unit_that_nobody_knows_does_not_run() -> None:
    unit = {"unit": "highwater-broker@nobody.service", "record": "/nowhere", "files": []}
    (state,) = call("highwater_unit_state", units=[unit])["units"]
    assert not state["is_running"]
    assert state["stale"] == []
    assert json.dumps(state)
