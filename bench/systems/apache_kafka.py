"""Apache Kafka as a system under test: 3.9 on a ZooKeeper, 4 with KRaft.

`python -m highwater.bench.systems.apache_kafka POM` prints the folder with the jars that a POM depends on.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from highwater.bench import maven
from highwater.bench.systems.broker_client import BrokerClient
from highwater.bench.systems.java import java_for
from highwater.bench.systems.process import SystemProcess, listening, refused_configuration
from highwater.bench.systems.properties import Broker, brokers_of, cluster_defaults, name_of, write_properties
from highwater.bench.systems.proxy import Proxy
from highwater.bench.systems.running import StartedSystem, await_members
from highwater.bench.systems.zookeeper import serving, start_zookeeper
from highwater.bench.user_cache import main_of
from highwater.bench.workload.values import Scalar
from highwater.common.child_process import last_words
from highwater.common.errors import UsageError
from highwater.common.ports import free_ports
from highwater.common.secret_names import is_secret_name

APACHE_KAFKA: Final = "apache-kafka"
LINES: Final = ("3.9", "4")
_FETCHES: Final = "fetches Apache Kafka (or set KAFKA_HOME)"
_CLUSTER_ID: Final = "highwater-benchmark000"  # 22 characters of base64: what KRaft takes for a UUID
# What bin/kafka-server-start.sh and bin/kafka-run-class.sh of Apache Kafka give to Java.
_JVM_OPTIONS: Final = (
    "-server",
    "-Xmx1G",
    "-Xms1G",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
    "-XX:MaxInlineLevel=15",
    "-Djava.awt.headless=true",
    "-Xlog:disable",
)
_JVM_OPTIONS_OF_TOOLS: Final = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xlog:disable")


@dataclass(frozen=True, slots=True)
class Distribution:
    """One version of Apache Kafka on this host. java_options: how it is made to log warnings only."""

    version: str
    class_path: str
    java_options: tuple[str, ...]

    @property
    def made_for_zookeeper(self) -> bool:
        return int(self.version.partition(".")[0]) < 4

    def java(self, *arguments: str, options: Sequence[str] = _JVM_OPTIONS) -> list[str]:
        command = [java_for("Apache Kafka"), *options, *self.java_options]
        return [*command, "-cp", self.class_path, *arguments]


def check_distribution(line: str) -> None:
    """Check that `find_distribution` can find or fetch it. Fetches nothing. Raises UsageError."""
    java_for("Apache Kafka")
    if home := os.environ.get("KAFKA_HOME"):
        found = _of_home(Path(home))
        if line == "default" or found.version.startswith(f"{line}."):
            return
    if not maven.folder_of(_pom(line), APACHE_KAFKA).is_dir():
        maven.maven(_FETCHES)


def find_distribution(line: str) -> Distribution:
    """line: 3.9, 4, or default, which is that of KAFKA_HOME or else the newest. KAFKA_HOME is taken when it fits.

    Raises UsageError when this host lacks what it needs.
    """
    if home := os.environ.get("KAFKA_HOME"):
        found = _of_home(Path(home))
        if line == "default" or found.version.startswith(f"{line}."):
            return found
    pom = _pom(line)
    version = re.search(r"<version>([^<]+)</version>", pom.read_text("utf-8"))
    assert version is not None, f"{pom} names no version"
    return Distribution(version[1], f"{jars(pom)}/*", ("-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",))


def _of_home(home: Path) -> Distribution:
    core = next(iter(sorted(home.glob("libs/kafka-clients-*.jar"))), None)
    if core is None:
        raise UsageError(f"KAFKA_HOME={home} holds no libs/kafka-clients-….jar: correct it, or unset it")
    logging = (
        ("log4j2.configurationFile", home / "config" / "tools-log4j2.yaml"),
        ("log4j.configuration", home / "config" / "tools-log4j.properties"),
    )
    options = tuple(f"-D{name}=file:{file}" for name, file in logging if file.is_file())
    return Distribution(core.stem.removeprefix("kafka-clients-"), f"{home}/libs/*", options)


def jars(pom: Path) -> Path:
    """What `pom` depends on, fetched on first use. Raises UsageError when this host lacks what that takes."""
    java_for("Apache Kafka")
    return maven.jars(pom, APACHE_KAFKA, "Apache Kafka: about 60 MB of jars", _FETCHES)


def _pom(line: str) -> Path:
    return Path(__file__).parent / f"apache-kafka-{LINES[-1] if line == 'default' else line}.xml"


def start_apache_kafka(
    distribution: Distribution,
    nodes: int,
    config: Mapping[str, Scalar],
    data_directories: list[Path],
    log_directory: Path,
    checkpoint: Callable[[], None],
    *,
    ready_within_s: float,
    on_zookeeper: bool | None = None,
    proxy: Proxy | None = None,
) -> StartedSystem:
    """on_zookeeper: None is as this version is meant. proxy: before the one broker.

    Raises UsageError when it refuses its configuration.
    """
    if on_zookeeper is None:
        on_zookeeper = distribution.made_for_zookeeper
    brokers = brokers_of(nodes, data_directories, log_directory, shared=on_zookeeper)
    ports = free_ports(2 * nodes + 1)
    if proxy is not None:
        ports[0] = proxy.target_port
    with ExitStack() as stack:
        attendants: list[SystemProcess] = []
        if on_zookeeper:
            zookeeper = start_zookeeper(data_directories[0] / "zookeeper", log_directory, ports[-1])
            stack.callback(zookeeper.stop)
            zookeeper.await_ready(serving(ports[-1]), checkpoint, ready_within_s)
            attendants.append(zookeeper)
        for broker in brokers:
            settings = {
                **cluster_defaults(nodes),
                **config,
                **(_of_zookeeper(broker, ports) if on_zookeeper else _of_kraft(broker, nodes, ports)),
                **({} if proxy is None else proxy.advertised),
                "log.dirs": broker.log_dirs,
            }
            write_properties(broker.properties_file, settings)
        if not on_zookeeper:
            _format(distribution, brokers)
        processes = []
        for broker in brokers:
            command = distribution.java("kafka.Kafka", str(broker.properties_file))
            process = SystemProcess(name_of(broker, nodes), command, broker.log_file)
            stack.callback(process.stop)
            processes.append(process)
        for process, broker in zip(processes, brokers, strict=True):
            process.await_ready(listening(ports[broker.number - 1]), checkpoint, ready_within_s)
        entry = None
        if proxy is not None:
            entry = proxy.start(log_directory, checkpoint, ready_within_s)
            stack.callback(entry.stop)
        system = StartedSystem(APACHE_KAFKA, distribution.version, processes, attendants, entry)
        await_members(system, len(system.brokers), checkpoint, ready_within_s)
        _refuse_unknown(system, config)
        stack.pop_all()
    return system


def _refuse_unknown(system: StartedSystem, config: Mapping[str, Scalar]) -> None:
    """Apache Kafka starts with a misspelt property as if it were not there; a benchmark must not. Raises UsageError."""
    # A broker shows neither what it does not know nor a secret.
    names = [name for name in config if not is_secret_name(name)]
    for name in BrokerClient(system.bootstrap_servers).unknown_properties(names) if names else ():
        raise UsageError(f"system.config.{name}: {APACHE_KAFKA} {system.version} knows no property of this name")


def _of_zookeeper(broker: Broker, ports: list[int]) -> dict[str, Scalar]:
    return {
        "broker.id": broker.number,
        "listeners": f"PLAINTEXT://127.0.0.1:{ports[broker.number - 1]}",
        "zookeeper.connect": f"127.0.0.1:{ports[-1]}",
    }


def _of_kraft(broker: Broker, nodes: int, ports: list[int]) -> dict[str, Scalar]:
    """Broker and controller in one process, as Kafka's quickstart runs it."""
    own, controllers = ports[broker.number - 1], ports[nodes : 2 * nodes]
    voters = ",".join(f"{number}@127.0.0.1:{port}" for number, port in enumerate(controllers, 1))
    return {
        "process.roles": "broker,controller",
        "node.id": broker.number,
        "controller.quorum.voters": voters,
        "controller.listener.names": "CONTROLLER",
        "listeners": f"PLAINTEXT://127.0.0.1:{own},CONTROLLER://127.0.0.1:{controllers[broker.number - 1]}",
    }


def _format(distribution: Distribution, brokers: list[Broker]) -> None:
    """Give the directories of KRaft brokers their identity, where they have none."""
    new = [broker for broker in brokers if not (broker.data_directories[0] / "meta.properties").exists()]

    def format_one(broker: Broker) -> None:
        tool = ["kafka.tools.StorageTool", "format", "-t", _CLUSTER_ID, "-c", str(broker.properties_file)]
        command = distribution.java(*tool, options=_JVM_OPTIONS_OF_TOOLS)
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
        )
        if done.returncode != 0:
            said = refused_configuration(done.stdout) or last_words(done.stdout.splitlines())
            raise UsageError(f"{name_of(broker, len(brokers))} refuses to start: {said}")

    with ThreadPoolExecutor(max_workers=len(brokers)) as pool:
        for done in [pool.submit(format_one, broker) for broker in new]:
            done.result()


if __name__ == "__main__":
    main_of("apache_kafka", lambda: jars(Path(sys.argv[1])))
