"""Who is compared: our broker, two lines of Apache Kafka, and the loop that only receives and writes.

Each is a process on this host, started on a directory with Kafka's property names, known by its address and its pid.
"""

from __future__ import annotations

import re
import shutil
import socket
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Final, Protocol

import psutil

from bench.comparison.apache_kafka import jars
from bench.comparison.cache import run_step
from bench.comparison.native import program
from bench.errors import TrialError
from bench.systems import ProcessSystem, ready_line

HIGHWATER: Final = "highwater"
BARE_LOOP: Final = "bare-loop"
KAFKA_LINES: Final = ("apache-kafka-3.9", "apache-kafka-4")
# Kafka's recovery of a large log after a crash is part of its start.
_READY_WITHIN_S: Final = 600.0
_CLUSTER_ID: Final = "highwater-comparison00"  # 22 characters of base64: what KRaft takes for a UUID
# What bin/kafka-server-start.sh and bin/kafka-run-class.sh of Apache Kafka give to Java.
JVM_OPTIONS: Final = (
    "-server",
    "-Xmx1G",
    "-Xms1G",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
    "-XX:MaxInlineLevel=15",
    "-Djava.awt.headless=true",
)
# One node, and deleted topics give their space back at once; all else is as the systems come.
_PROPERTIES: Final = {
    "auto.create.topics.enable": "false",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "log.segment.delete.delay.ms": "0",
}


@dataclass(frozen=True, slots=True)
class Usage:
    """What the processes of a system have used so far."""

    cpu_s: float
    rss_bytes: int
    peak_rss_bytes: int


class Broker:
    """One running system, of one process or of several brokers; leaving the context ends it."""

    def __init__(
        self, name: str, processes: Sequence[ProcessSystem], directory: Path, attendants: Sequence[ProcessSystem] = ()
    ) -> None:
        """The brokers of a cluster are numbered from 1. `attendants` end with it, and are in no figure."""
        self.name = name
        self.address = ",".join(process.bootstrap_servers for process in processes)
        self.ports = [int(process.bootstrap_servers.rpartition(":")[2]) for process in processes]
        """Partition p of a topic of the comparison is led at port p modulo their number."""
        self.directory = directory
        self.processes = processes
        self._attendants = attendants

    def __enter__(self) -> Broker:
        return self

    def __exit__(self, *_: object) -> None:
        if len(self.processes) > 1:
            self.kill()  # the last ones of a cluster wait long for others who could lead
        for process in (*self.processes, *self._attendants):
            process.__exit__()

    @property
    def port(self) -> int:
        return self.ports[0]

    def assignment(self, partitions: int) -> list[list[int]] | None:
        """The brokers of each partition of a new topic, who leads it first; None when there is no choice."""
        count = len(self.processes)
        if count == 1:
            return None
        return [[(partition + turn) % count + 1 for turn in range(count)] for partition in range(partitions)]

    def kill(self) -> None:
        for process in self.processes:
            process.kill()

    def check(self) -> None:
        """Raises TrialError when it no longer runs."""
        for process in self.processes:
            if problem := process.problem():
                raise TrialError(f"{self.name}: {problem}")

    def usage(self) -> Usage:
        """What its processes have used."""
        self.check()
        usages = [_usage_of(process.process_ids[0]) for process in self.processes]
        return Usage(
            sum(usage.cpu_s for usage in usages),
            sum(usage.rss_bytes for usage in usages),
            sum(usage.peak_rss_bytes for usage in usages),
        )


def _usage_of(process_id: int) -> Usage:
    """Of a process and those that it started."""
    main = psutil.Process(process_id)
    cpu_s, rss_bytes, peak_rss_bytes = 0.0, 0, 0
    for process in (main, *main.children(recursive=True)):
        times = process.cpu_times()
        cpu_s += times.user + times.system
        rss_bytes += process.memory_info().rss
        status = Path(f"/proc/{process.pid}/status").read_text(encoding="ascii", errors="replace")
        peak = re.search(r"^VmHWM:\s+(\d+) kB", status, re.MULTILINE)
        peak_rss_bytes += int(peak[1]) * 1024 if peak else 0
    # Processes that have ended and were waited for count too.
    ended = main.cpu_times()
    return Usage(cpu_s + ended.children_user + ended.children_system, rss_bytes, peak_rss_bytes)


class Contender(Protocol):
    """A system that can be started on a directory, again and again."""

    name: str
    version: str

    def start(self, directory: Path, properties: Mapping[str, str]) -> Broker: ...


class Highwater:
    name = HIGHWATER
    version = metadata.version("highwater")

    def start(self, directory: Path, properties: Mapping[str, str]) -> Broker:
        command = [sys.executable, "-P", "-m", "highwater", "broker", "start"]
        command += ["--log-dir", str(directory), "--port", "0"]
        for name, value in {**_PROPERTIES, **properties}.items():
            command += ["--property", f"{name}={value}"]
        process = _process(self, command, directory)
        return Broker(self.name, [process], directory)


class BareLoop:
    """Its topics exist as soon as somebody asks for them, all with the same number of partitions."""

    name = BARE_LOOP
    version = "1"

    def __init__(self) -> None:
        self._program = program("bare_loop")

    def start(self, directory: Path, properties: Mapping[str, str]) -> Broker:
        shutil.rmtree(directory, ignore_errors=True)
        directory.mkdir(parents=True)
        command = [str(self._program), str(directory), properties["num.partitions"]]
        return Broker(self.name, [_process(self, command, directory)], directory)


class ApacheKafka:
    """KRaft, broker and controller in one process, as Kafka's quickstart runs it."""

    def __init__(self, name: str) -> None:
        pom = Path(__file__).parent / f"{name}.xml"
        version = re.search(r"<version>(.+)</version>", pom.read_text("utf-8"))
        assert version is not None, f"{pom} names no version"
        self.name = name
        self.version = version[1]
        self._class_path = f"{jars(pom)}/*"

    def start(self, directory: Path, properties: Mapping[str, str]) -> Broker:
        port, controller_port = free_ports(2)
        settings = {
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.quorum.voters": f"1@127.0.0.1:{controller_port}",
            "controller.listener.names": "CONTROLLER",
            "listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller_port}",
            "log.dirs": str(directory),
            **_PROPERTIES,
            **properties,
        }
        file = directory.with_name(directory.name + ".properties")
        file.write_text("".join(f"{name}={value}\n" for name, value in settings.items()), "utf-8")
        java = ["java", *JVM_OPTIONS, "-Xlog:disable", "-cp", self._class_path]
        java += ["-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"]
        if not (directory / "meta.properties").exists():
            run_step([*java, "kafka.tools.StorageTool", "format", "-t", _CLUSTER_ID, "-c", file], directory.parent)

        def listening(_: str) -> str | None:
            with socket.socket() as probe:
                return f"127.0.0.1:{port}" if probe.connect_ex(("127.0.0.1", port)) == 0 else None

        process = _process(self, [*java, "kafka.Kafka", str(file)], directory, listening)
        return Broker(self.name, [process], directory)


def _process(
    contender: Contender,
    command: list[str],
    directory: Path,
    address_when_ready: Callable[[str], str | None] = ready_line,
) -> ProcessSystem:
    return ProcessSystem(
        contender.name,
        contender.version,
        command,
        directory.with_name(directory.name + ".log"),
        lambda: None,
        address_when_ready=address_when_ready,
        ready_within_s=_READY_WITHIN_S,
    )


def free_ports(count: int) -> list[int]:
    probes = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    try:
        return [probe.getsockname()[1] for probe in probes]
    finally:
        for probe in probes:
            probe.close()


def find_contender(name: str) -> Contender:
    """Raises UsageError when this host lacks what it needs."""
    if name == HIGHWATER:
        return Highwater()
    return BareLoop() if name == BARE_LOOP else ApacheKafka(name)
