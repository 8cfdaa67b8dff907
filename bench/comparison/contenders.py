"""Who is compared: our broker, two lines of Apache Kafka, and the loop that only receives and writes.

Each runs on this host, started on a directory with Kafka's property names, known by its address and its processes.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Final, Protocol

import psutil

from highwater.bench.errors import TrialError
from highwater.bench.native.programs import program
from highwater.bench.systems import StartedSystem, SystemProcess
from highwater.bench.systems.apache_kafka import LINES, find_distribution, start_apache_kafka
from highwater.bench.systems.highwater import HIGHWATER, start_highwater
from highwater.bench.systems.process import ready_line

BARE_LOOP: Final = "bare-loop"
KAFKA_LINES: Final = tuple(f"apache-kafka-{line}" for line in LINES)
KAFKA_WITH_ZOOKEEPER: Final = "apache-kafka-3.9"
CLUSTERS: Final = (HIGHWATER, KAFKA_WITH_ZOOKEEPER)
BROKER_COUNT: Final = 3
SESSION_TIMEOUT_MS: Final = 6000
# Kafka's recovery of a large log after a crash is part of its start.
_READY_WITHIN_S: Final = 600.0
# Deleted topics give their space back at once; all else of one node is as the systems come.
_PROPERTIES: Final = {"auto.create.topics.enable": "false", "log.segment.delete.delay.ms": "0"}
# Three copies of everything, two of which acknowledge.
_CLUSTER_PROPERTIES: Final = {
    **_PROPERTIES,
    "zookeeper.session.timeout.ms": str(SESSION_TIMEOUT_MS),
    "default.replication.factor": str(BROKER_COUNT),
    "min.insync.replicas": "2",
    "auto.leader.rebalance.enable": "false",
}


@dataclass(frozen=True, slots=True)
class Usage:
    """What the processes of a system have used so far."""

    cpu_s: float
    rss_bytes: int
    peak_rss_bytes: int


class Broker:
    """One running system, of one broker or of several; leaving the context ends it."""

    def __init__(self, name: str, system: StartedSystem, directory: Path) -> None:
        """The brokers of a cluster are numbered from 1."""
        self.name = name
        self.system = system
        self.address = system.bootstrap_servers
        self.ports = [int(process.address.rpartition(":")[2]) for process in system.brokers]
        """Partition p of a topic of the comparison is led at port p modulo their number."""
        self.directory = directory

    def __enter__(self) -> Broker:
        return self

    def __exit__(self, *_: object) -> None:
        self.system.__exit__()

    @property
    def processes(self) -> list[SystemProcess]:
        """Of the brokers."""
        return self.system.brokers

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
        self.system.kill()

    def check(self) -> None:
        """Raises TrialError when it no longer runs."""
        if problem := self.system.problem():
            raise TrialError(f"{self.name}: {problem}")

    def usage(self) -> Usage:
        """What the processes of its brokers have used."""
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

    def __init__(self, nodes: int = 1) -> None:
        self._nodes = nodes

    def start(self, directory: Path, properties: Mapping[str, str]) -> Broker:
        files = _files_of(directory)
        config = _properties(self._nodes, properties)
        system = start_highwater(
            self._nodes, config, [directory], files, _never_stopped, ready_within_s=_READY_WITHIN_S
        )
        return Broker(self.name, system, directory)


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
        process = SystemProcess("the loop", command, _files_of(directory) / "system.log")
        system = StartedSystem(self.name, self.version, [process])
        try:
            process.await_ready(ready_line, _never_stopped, _READY_WITHIN_S)
        except BaseException:
            process.stop()
            raise
        return Broker(self.name, system, directory)


class ApacheKafka:
    """One node with KRaft, several on a ZooKeeper."""

    def __init__(self, name: str, nodes: int = 1) -> None:
        self._distribution = find_distribution(name.removeprefix("apache-kafka-"))
        self._nodes = nodes
        self.name = name
        self.version = self._distribution.version

    def start(self, directory: Path, properties: Mapping[str, str]) -> Broker:
        files = _files_of(directory)
        config = _properties(self._nodes, properties)
        system = start_apache_kafka(
            self._distribution,
            self._nodes,
            config,
            [directory],
            files,
            _never_stopped,
            ready_within_s=_READY_WITHIN_S,
            on_zookeeper=self._nodes > 1,
        )
        return Broker(self.name, system, directory)


def _files_of(directory: Path) -> Path:
    """Where a system's configuration and output go: beside its directory, which a crash leaves as it is."""
    files = directory.with_name(directory.name + "-files")
    files.mkdir(parents=True, exist_ok=True)
    return files


def _properties(nodes: int, properties: Mapping[str, str]) -> dict[str, str]:
    return {**(_PROPERTIES if nodes == 1 else _CLUSTER_PROPERTIES), **properties}


def _never_stopped() -> None:
    """A comparison is ended with Ctrl-C, which needs no asking."""


def find_contender(name: str) -> Contender:
    """Raises UsageError when this host lacks what it needs."""
    if name == HIGHWATER:
        return Highwater()
    return BareLoop() if name == BARE_LOOP else ApacheKafka(name)


def find_cluster(name: str) -> Contender:
    """Three brokers on a ZooKeeper, which is the same for all. Raises UsageError when this host lacks what it needs."""
    return Highwater(BROKER_COUNT) if name == HIGHWATER else ApacheKafka(name, BROKER_COUNT)
