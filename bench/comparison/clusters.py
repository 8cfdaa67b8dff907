"""Three brokers of a system on one ZooKeeper, which is the same for all: those that the cells `cluster-…` measure."""

from __future__ import annotations

import re
import socket
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from importlib import metadata
from pathlib import Path
from typing import Final

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from bench.comparison.apache_kafka import jars
from bench.comparison.contenders import HIGHWATER, JVM_OPTIONS, Broker, Contender, free_ports
from bench.errors import TrialError
from bench.systems import ProcessSystem, ready_line

KAFKA_WITH_ZOOKEEPER: Final = "apache-kafka-3.9"
CLUSTERS: Final = (HIGHWATER, KAFKA_WITH_ZOOKEEPER)
BROKER_COUNT: Final = 3
SESSION_TIMEOUT_MS: Final = 6000
_POM: Final = Path(__file__).parent / f"{KAFKA_WITH_ZOOKEEPER}.xml"
_READY_WITHIN_S: Final = 120.0
_ZOOKEEPER: Final = {
    "tickTime": "500",
    "minSessionTimeout": "1000",
    "maxSessionTimeout": "60000",
    "maxClientCnxns": "0",
    "admin.enableServer": "false",
}
# Three copies of everything, two of which acknowledge; deleted topics give their space back at once.
_PROPERTIES: Final = {
    "zookeeper.session.timeout.ms": str(SESSION_TIMEOUT_MS),
    "default.replication.factor": str(BROKER_COUNT),
    "min.insync.replicas": "2",
    "offsets.topic.replication.factor": str(BROKER_COUNT),
    "auto.create.topics.enable": "false",
    "auto.leader.rebalance.enable": "false",
    "log.segment.delete.delay.ms": "0",
}

_AddressWhenReady = Callable[[str], str | None]


class Cluster:
    """A contender that starts three brokers, and a ZooKeeper for them."""

    def __init__(self, name: str, version: str, command_of: Callable[[Path], list[str]]) -> None:
        self.name = name
        self.version = version
        self._command_of = command_of
        """The command that runs a broker with this file of properties."""

    def start(self, directory: Path, properties: Mapping[str, str]) -> Broker:
        directory.mkdir(parents=True, exist_ok=True)
        with ExitStack() as stack:
            zookeeper_port, *ports = free_ports(1 + BROKER_COUNT)
            zookeeper = stack.enter_context(self._start_zookeeper(directory, zookeeper_port))
            brokers = []
            for broker_id, port in enumerate(ports, 1):
                settings = {
                    **_PROPERTIES,
                    **properties,
                    "broker.id": str(broker_id),
                    "listeners": f"PLAINTEXT://127.0.0.1:{port}",
                    "log.dirs": str(directory / f"broker-{broker_id}"),
                    "zookeeper.connect": f"127.0.0.1:{zookeeper_port}",
                }
                file = _write(directory / f"broker-{broker_id}.properties", settings)
                ready = ready_line if self.name == HIGHWATER else _listening(port)
                brokers.append(stack.enter_context(self._process(self._command_of(file), file, ready)))
            cluster = Broker(self.name, brokers, directory, [zookeeper])
            _await_members(cluster)
            stack.pop_all()
        return cluster

    def _start_zookeeper(self, directory: Path, port: int) -> ProcessSystem:
        settings = {
            **_ZOOKEEPER,
            "dataDir": str(directory / "zookeeper"),
            "clientPort": str(port),
            "clientPortAddress": "127.0.0.1",
        }
        file = _write(directory / "zookeeper.properties", settings)
        java = ["java", "-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", f"{jars(_POM)}/*"]
        main_class = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
        return self._process([*java, main_class, str(file)], file, _listening(port))

    def _process(self, command: list[str], file: Path, address_when_ready: _AddressWhenReady) -> ProcessSystem:
        log = file.with_suffix(".log")
        return ProcessSystem(
            self.name,
            self.version,
            command,
            log,
            lambda: None,
            address_when_ready=address_when_ready,
            ready_within_s=_READY_WITHIN_S,
        )


def _write(file: Path, settings: Mapping[str, str]) -> Path:
    file.write_text("".join(f"{name}={value}\n" for name, value in settings.items()), "utf-8")
    return file


def _listening(port: int) -> _AddressWhenReady:
    def address(_: str) -> str | None:
        with socket.socket() as probe:
            return f"127.0.0.1:{port}" if probe.connect_ex(("127.0.0.1", port)) == 0 else None

    return address


def _await_members(cluster: Broker) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.address, "log_level": 0})
    deadline = time.monotonic() + _READY_WITHIN_S
    while time.monotonic() < deadline:
        try:
            if len(admin.list_topics(timeout=5).brokers) == BROKER_COUNT:
                return
        except KafkaException:
            pass  # not one of them answers yet
        time.sleep(0.05)
    raise TrialError(f"{cluster.name}: the brokers are not one cluster within {_READY_WITHIN_S:.0f} s")


def find_cluster(name: str) -> Contender:
    """Raises UsageError when this host lacks what it needs."""
    if name == HIGHWATER:
        jars(_POM)  # for ZooKeeper
        command = [sys.executable, "-P", "-m", "highwater", "broker", "start", "--config"]
        return Cluster(name, metadata.version("highwater"), lambda file: [*command, str(file)])
    version = re.search(r"<version>(.+)</version>", _POM.read_text("utf-8"))
    assert version is not None, f"{_POM} names no version"
    java = ["java", *JVM_OPTIONS, "-Xlog:disable", "-cp", f"{jars(_POM)}/*"]
    java += ["-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "kafka.Kafka"]
    return Cluster(name, version[1], lambda file: [*java, str(file)])
