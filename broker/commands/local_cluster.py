"""A cluster of broker processes and its ZooKeeper on this host, with its state in one directory.

DIR/cluster.json               ports, settings, processes; for its owner alone, as settings can be secrets
DIR/broker-N/                  server.properties (for its owner alone), data/, broker.log
DIR/zookeeper-N/               zoo.cfg, data/, zookeeper.log; none when the cluster uses another ZooKeeper
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import socket
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final

from highwater.admin.client import why_unreachable
from highwater.admin.terminal import CommandError, UsageError
from highwater.broker.commands import zookeeper_process
from highwater.broker.commands.detached import Detached, start, wait_until
from highwater.broker.commands.inside import (
    LOGIN_REFUSED_LINE,
    UNREACHABLE_LINE,
    Inside,
    inside_address,
    inside_properties,
)
from highwater.broker.settings.config import BrokerConfig, ConfigError, Setting, read_properties_file
from highwater.common.atomic_files import write_atomically
from highwater.common.child_process import HIGHWATER, READY, last_words_in
from highwater.common.ports import free_ports

STATE_FILE: Final = "cluster.json"
STATE_VERSION: Final = 1
DEFAULT_BROKERS: Final = 3
DEFAULT_BASE_PORT: Final = 9092
ZOOKEEPER_PORTS_ABOVE: Final = 1000
"""ZooKeeper's first port minus the brokers' first port."""
METRICS_PORTS_ABOVE: Final = 1100
"""The port of a broker's metrics minus the port of the broker."""
_PROPERTIES: Final = "server.properties"
_LOG: Final = "broker.log"
_OWNER_ALONE: Final = 0o600
_START_WITHIN_S: Final = 120.0
_STOP_WITHIN_S: Final = 60.0


@dataclass(slots=True)
class LocalCluster:
    directory: Path
    zookeeper_connect: str
    zookeeper_ports: list[int]
    """Three for each ZooKeeper server that this cluster starts."""
    broker_ports: dict[int, int]
    """The port of each broker, by its id."""
    settings: dict[str, str]
    """The properties that the user gave; {id}, {port} and {metrics_port} become each broker's own."""
    metrics_ports: dict[int, int] = field(default_factory=dict)
    """Metrics ports by broker id; empty for a cluster of an older version, whose brokers keep their settings."""
    processes: dict[str, Detached] = field(default_factory=dict)
    begun: list[str] = field(default_factory=list)
    """The names of the processes that `start` of this object began."""

    @property
    def ensemble(self) -> list[zookeeper_process.ZooKeeperNode]:
        return zookeeper_process.plan_ensemble(self.directory, self.zookeeper_ports)

    @property
    def names(self) -> list[str]:
        return list(self.addresses)

    def is_running(self, name: str) -> bool:
        return name in self.processes and self.processes[name].is_running()

    def address(self, broker_id: int) -> str | None:
        """Return the address that the broker printed when it was last ready."""
        found = list(READY.finditer(self._log_text(broker_id)))
        return found[-1]["address"] if found else None

    @property
    def addresses(self) -> dict[str, str | None]:
        """Return the addresses of all processes by name, in starting order."""
        servers: dict[str, str | None] = {node.directory.name: node.address for node in self.ensemble}
        return servers | {f"broker-{broker_id}": self.address(broker_id) for broker_id in self.broker_ports}

    @property
    def bootstrap_servers(self) -> str:
        """Return the addresses of the running brokers."""
        running = (self.address(n) for n in self.broker_ports if self.is_running(f"broker-{n}"))
        return ",".join(address for address in running if address)

    def inside(self) -> Inside:
        """Return how its running brokers reach each other. Raises UsageError for files that are gone or changed."""
        addresses: dict[int, str] = {}
        properties: dict[str, str] = {}
        for broker_id in self.broker_ports:
            if not self.is_running(f"broker-{broker_id}"):
                continue
            try:
                config = self._config(broker_id)
                address = inside_address(config, self._log_text(broker_id))
                properties = properties or inside_properties(config)
            except ConfigError as error:
                raise UsageError(str(error)) from None
            if address is not None:
                addresses[broker_id] = address
        return Inside(addresses, properties)

    def _log_text(self, broker_id: int) -> str:
        log = self._broker_directory(broker_id) / _LOG
        return log.read_text(errors="replace") if log.exists() else ""

    # Starting and stopping.

    def start(self) -> Iterator[str]:
        """Start the processes that do not run. Yields the name of each when it is ready."""
        texts = {broker_id: self._properties(broker_id) for broker_id in self.broker_ports}
        yield from self._start_zookeeper()
        yield from self._start_brokers(texts)

    def _start_zookeeper(self) -> Iterator[str]:
        missing = [node for node in self.ensemble if not self.is_running(node.directory.name)]
        if missing:
            zookeeper_process.write_files(self.ensemble)
        for node in missing:
            name, log = node.directory.name, node.directory / "zookeeper.log"
            self._keep(start(name, zookeeper_process.command(node), log))
        for node in missing:
            name = node.directory.name
            self._wait(name, lambda node=node: zookeeper_process.mode(node) is not None)
            yield name

    def _start_brokers(self, texts: Mapping[int, str]) -> Iterator[str]:
        missing = [n for n in self.broker_ports if not self.is_running(f"broker-{n}")]
        for broker_id, text in texts.items():
            file = self._broker_directory(broker_id) / _PROPERTIES
            if broker_id not in missing and file.read_text("utf-8") != text:
                raise UsageError(f"broker-{broker_id} runs with other settings: stop it first, with `cluster down`")
        said_before = {n: len(self._log_text(n)) for n in self.broker_ports}
        for broker_id in missing:
            directory = self._broker_directory(broker_id)
            directory.mkdir(exist_ok=True)
            properties, log = directory / _PROPERTIES, directory / _LOG
            write_atomically(properties, texts[broker_id], mode=_OWNER_ALONE)
            self._keep(start(f"broker-{broker_id}", [*HIGHWATER, "broker", "start", "--config", str(properties)], log))

        for broker_id in missing:
            self._wait(f"broker-{broker_id}", partial(self.is_ready, broker_id, said_before))
            yield f"broker-{broker_id}"

    def is_ready(self, broker_id: int, said_before: Mapping[int, int]) -> bool:
        """`said_before` is the length of each broker's log before the start.

        Raises CommandError when the controller among these brokers does not reach it, or when one of them is refused
        by another."""
        said = {n: self._log_text(n)[offset:] for n, offset in said_before.items()}
        if READY.search(said[broker_id]):
            return True
        for asking_id, text in said.items():
            if (refused := LOGIN_REFUSED_LINE.search(text)) is not None:
                raise CommandError(f"broker-{asking_id} {refused[0].rstrip()}")
        for found in UNREACHABLE_LINE.finditer("\n".join(said.values())):
            number, host, port, listener = found.groups()
            # It may have been slow to listen.
            if int(number) == broker_id and (why := why_unreachable(host, int(port))) is not None:
                raise CommandError(
                    f"the brokers do not reach broker-{broker_id}: {why} (listener {listener}). Check its "
                    "advertised.listeners, and firewalls"
                )
        return False

    def _config(self, broker_id: int) -> BrokerConfig:
        """What a broker was started with. Raises ConfigError."""
        return BrokerConfig(read_properties_file(self._broker_directory(broker_id) / _PROPERTIES))

    def stop(self, names: Sequence[str] | None = None) -> Iterator[tuple[str, bool]]:
        """Stop the brokers one by one, so that each can hand over its partitions, then ZooKeeper; or these of them.

        Yields for each process its name and whether it stopped without SIGKILL.
        """
        wanted = self.names if names is None else names
        brokers = [name for name in wanted if name.startswith("broker-")]
        for name in brokers + [name for name in wanted if name not in brokers]:
            process = self.processes.get(name)
            if process is not None and process.is_running():
                yield name, process.stop(_STOP_WITHIN_S)
            if self.processes.pop(name, None) is not None:
                self.save()

    def wipe(self) -> None:
        """Remove the files of this cluster from the directory."""
        for name in self.names:
            shutil.rmtree(self.directory / name, ignore_errors=True)
        (self.directory / STATE_FILE).unlink()

    def _wait(self, name: str, is_ready: Any) -> None:
        process = self.processes[name]
        came = wait_until(lambda: is_ready() or not process.is_running(), _START_WITHIN_S, f"{name} is ready")
        if not came:
            raise CommandError(
                f"{name} is not ready after {_START_WITHIN_S:.0f} s; the last line of its log {process.log} is: "
                f"{last_words_in(process.log)}"
            )
        if not is_ready():
            self.require_running(name)

    def require_running(self, name: str) -> None:
        """Raises CommandError with the last words of a process that ended."""
        process = self.processes[name]
        if not process.is_running():
            raise CommandError(f"{name} ended: {last_words_in(process.log)} (its whole output is in {process.log})")

    def _broker_directory(self, broker_id: int) -> Path:
        return self.directory / f"broker-{broker_id}"

    def _properties(self, broker_id: int) -> str:
        """Return server.properties. Raises UsageError for settings that the broker would refuse."""
        settings = _defaults(len(self.broker_ports)) | self.settings
        own = {"{id}": str(broker_id), "{port}": str(self.broker_ports[broker_id])}
        if broker_id in self.metrics_ports:
            own["{metrics_port}"] = str(self.metrics_ports[broker_id])
            settings.setdefault("metrics.listener", "HTTP://127.0.0.1:{metrics_port}")
        settings.setdefault("log.dirs", str(self._broker_directory(broker_id) / "data"))
        settings |= {"broker.id": str(broker_id), "zookeeper.connect": self.zookeeper_connect}
        for name, value in settings.items():
            for placeholder, text in own.items():
                value = value.replace(placeholder, text)
            settings[name] = value
        try:
            BrokerConfig(Setting("--set", name, value) for name, value in settings.items())
        except ConfigError as error:
            raise UsageError(str(error)) from None
        return "".join(f"{name}={_escaped(value)}\n" for name, value in sorted(settings.items()))

    # The state file.

    def save(self) -> None:
        document = {
            "version": STATE_VERSION,
            "zookeeper_connect": self.zookeeper_connect,
            "zookeeper_ports": self.zookeeper_ports,
            "broker_ports": self.broker_ports,
            "metrics_ports": self.metrics_ports,
            "settings": self.settings,
            "processes": {name: process.as_json() for name, process in self.processes.items()},
        }
        write_atomically(self.directory / STATE_FILE, json.dumps(document, indent=2) + "\n", mode=_OWNER_ALONE)

    def _keep(self, process: Detached) -> None:
        self.processes[process.name] = process
        self.begun.append(process.name)
        self.save()

    @classmethod
    def load(cls, directory: Path) -> LocalCluster | None:
        """Return the cluster of `directory`; None when there is none."""
        try:
            document = json.loads((directory / STATE_FILE).read_text("utf-8"))
        except (FileNotFoundError, NotADirectoryError):
            return None
        except ValueError as error:
            raise UsageError(f"{directory / STATE_FILE} is damaged: {error}") from None
        if document.get("version") != STATE_VERSION:
            raise UsageError(f"{directory / STATE_FILE} was written by another version of this command")
        return cls(
            directory,
            document["zookeeper_connect"],
            document["zookeeper_ports"],
            {int(broker_id): port for broker_id, port in document["broker_ports"].items()},
            document["settings"],
            {int(broker_id): port for broker_id, port in document.get("metrics_ports", {}).items()},
            {name: Detached.from_json(name, values) for name, values in document["processes"].items()},
        )


def existing(directory: Path) -> LocalCluster:
    """Return the cluster of `directory`. Raises UsageError when there is none."""
    found = LocalCluster.load(directory.absolute())
    if found is None:
        raise UsageError(f"{directory} holds no cluster: `highwater broker cluster up {directory}` makes one")
    return found


def plan(
    directory: Path,
    brokers: int | None,
    zookeeper_nodes: int | None,
    zookeeper_connect: str | None,
    base_port: int | None,
    settings: Mapping[str, str],
) -> LocalCluster:
    """Return the directory's cluster, or a new one, with the given options. Raises UsageError if they contradict it."""
    found = LocalCluster.load(directory)
    if found is None:
        return _plan_new(directory, brokers, zookeeper_nodes, zookeeper_connect, base_port, settings)
    if zookeeper_connect not in (None, found.zookeeper_connect) or (
        zookeeper_nodes is not None and zookeeper_nodes != len(found.ensemble)
    ):
        raise UsageError(f"{directory} is a cluster on ZooKeeper {found.zookeeper_connect}: leave that option out")
    first_port = min(found.broker_ports.values())
    if base_port not in (None, 0, first_port):
        raise UsageError(f"{directory} is a cluster with ports from {first_port}: leave --base-port out")
    wanted = len(found.broker_ports) if brokers is None else brokers
    if wanted < len(found.broker_ports):
        raise UsageError(f"{directory} is a cluster of {len(found.broker_ports)} brokers, which can only grow")
    used = {*found.broker_ports.values(), *found.metrics_ports.values(), *found.zookeeper_ports}
    while len(found.broker_ports) < wanted:
        broker_id = len(found.broker_ports) + 1
        for ports in (found.broker_ports, found.metrics_ports):
            port = max(ports.values(), default=0) + 1
            ports[broker_id] = port if ports and port not in used else free_ports(1)[0]
    found.settings |= settings
    return found


def _plan_new(
    directory: Path,
    brokers: int | None,
    zookeeper_nodes: int | None,
    zookeeper_connect: str | None,
    base_port: int | None,
    settings: Mapping[str, str],
) -> LocalCluster:
    if any(directory.iterdir()):
        raise UsageError(f"{directory} holds other files: name an empty directory, or a new one")
    count = DEFAULT_BROKERS if brokers is None else brokers
    if zookeeper_connect is not None and zookeeper_nodes is not None:
        raise UsageError("--zookeeper and --zookeeper-nodes cannot go together")
    servers = 0 if zookeeper_connect is not None else zookeeper_nodes or 1
    first = DEFAULT_BASE_PORT if base_port is None else base_port
    if first == 0:
        ports = free_ports(2 * count + 3 * servers)
        broker_ports, metrics_ports, zookeeper_ports = ports[:count], ports[count : 2 * count], ports[2 * count :]
    else:
        broker_ports = list(range(first, first + count))
        metrics_ports = [port + METRICS_PORTS_ABOVE for port in broker_ports]
        zookeeper_ports = list(range(first + ZOOKEEPER_PORTS_ABOVE, first + ZOOKEEPER_PORTS_ABOVE + 3 * servers))
        for port in broker_ports + metrics_ports + zookeeper_ports:
            _require_free(port)
    new = LocalCluster(
        directory,
        zookeeper_connect or "",
        zookeeper_ports,
        dict(enumerate(broker_ports, 1)),
        dict(settings),
        dict(enumerate(metrics_ports, 1)),
    )
    if zookeeper_connect is None:
        new.zookeeper_connect = ",".join(node.address for node in new.ensemble)
    log_dirs = settings.get("log.dirs", "")
    if log_dirs and count > 1 and not all("{id}" in log_dir for log_dir in log_dirs.split(",")):
        raise UsageError(f"log.dirs={log_dirs} is the same for all brokers: write {{id}} where they differ")
    return new


def _require_free(port: int) -> None:
    try:
        socket.create_server(("127.0.0.1", port)).close()
    except (OSError, OverflowError):
        raise UsageError(f"port {port} cannot be used: choose others with --base-port, or free ones with 0") from None


def _defaults(brokers: int) -> dict[str, str]:
    """Return defaults for replication: at most three replicas, min.insync.replicas at most two."""
    copies, acknowledging = str(min(3, brokers)), str(2 if brokers >= 3 else 1)
    return {
        "listeners": "PLAINTEXT://127.0.0.1:{port}",
        "broker.rack": socket.gethostname(),
        "default.replication.factor": copies,
        "min.insync.replicas": acknowledging,
        "offsets.topic.replication.factor": copies,
        "transaction.state.log.replication.factor": copies,
        "transaction.state.log.min.isr": acknowledging,
        # When all brokers stop, nobody can take over from the last one, so it must not retry for long.
        "controlled.shutdown.retry.backoff.ms": "500",
    }


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace("\n", "\\n")


@contextmanager
def locked(directory: Path) -> Iterator[None]:
    """Lock the cluster against other commands. Makes the directory, and removes it at the end if it is empty.

    Raises UsageError while another command has the lock.
    """
    try:
        directory.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    except OSError as error:
        raise UsageError(f"{directory} cannot be used: {error.strerror}") from None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    except BlockingIOError:
        raise UsageError(f"another command is using {directory}: wait until it is done") from None
    finally:
        os.close(descriptor)
        with suppress(OSError):
            directory.rmdir()
