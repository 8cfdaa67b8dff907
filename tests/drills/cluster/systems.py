"""Brokers of ours, or of Apache Kafka 3.9, on the same ZooKeeper: processes to kill, pause, cut off and restart."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from kazoo.client import KazooClient
from kazoo.exceptions import KazooException
from kazoo.handlers.threading import KazooTimeoutError as KazooTimeout

from highwater.broker.commands import zookeeper_process
from highwater.broker.commands.zookeeper_process import ZooKeeperNode
from highwater.common.child_process import HIGHWATER
from tests.broker import made_up_features
from tests.compat.apache_kafka.tools import jars_3_9
from tests.drills.cluster.network import Network
from tests.waiting import wait_until

SESSION_TIMEOUT_MS: Final = 6000
PROPERTIES: Final = {
    "zookeeper.session.timeout.ms": str(SESSION_TIMEOUT_MS),
    "replica.lag.time.max.ms": "10000",
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
    "offsets.topic.replication.factor": "3",
    "offsets.topic.num.partitions": "6",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
    "transaction.state.log.num.partitions": "6",
    "group.initial.rebalance.delay.ms": "0",
    "auto.create.topics.enable": "false",
    # A drill says itself who leads.
    "auto.leader.rebalance.enable": "false",
}
_READY_WITHIN_S: Final = 120.0
_STOPPED_WITHIN_S: Final = 90.0


class PartitionState(NamedTuple):
    """As ZooKeeper keeps it."""

    leader: int
    in_sync_replicas: tuple[int, ...]


CommandOf = Callable[[Path], list[str]]


def highwater(properties: Path) -> list[str]:
    return [*HIGHWATER, "broker", "start", "--config", str(properties)]


def kafka(properties: Path) -> list[str]:
    java = ["java", "-Xms256m", "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
    return [*java, "-cp", f"{jars_3_9()}/*", "kafka.Kafka", str(properties)]


def coloured(properties: Path) -> list[str]:
    """Ours, with a feature that only tests have."""
    return [*made_up_features.COMMAND, "broker", "start", "--config", str(properties)]


SYSTEMS: Final[Mapping[str, CommandOf]] = {"highwater": highwater, "kafka": kafka, "coloured": coloured}


class Server:
    """One process with a name, that can be started again and again."""

    def __init__(self, name: str, command: Sequence[str], address: tuple[str, int], log: Path) -> None:
        self.name = name
        self.address = address
        self.log = log
        self._command = command
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        assert not self.is_running, f"{self.name} runs"
        with self.log.open("ab") as log:
            # A session of its own: Ctrl-C at the terminal must reach the drill, which ends it in its turn.
            self._process = subprocess.Popen(
                self._command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, start_new_session=True
            )

    def accepts(self) -> bool:
        try:
            socket.create_connection(self.address, 1).close()
        except OSError:
            return False
        return True

    def stop(self) -> None:
        """Cleanly; raises TimeoutExpired when it does not stop in time."""
        self._signal(signal.SIGTERM)
        assert self._process is not None
        self._process.wait(_STOPPED_WITHIN_S)

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def pause(self) -> None:
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._signal(signal.SIGCONT)

    def _signal(self, number: int) -> None:
        assert self._process is not None, f"{self.name} was not started"
        self._process.send_signal(number)

    def end_of_log(self) -> str:
        return self.log.read_text(errors="replace")[-2000:]


class BrokerServer(Server):
    def __init__(self, broker_id: int, command: Sequence[str], address: tuple[str, int], directory: Path) -> None:
        super().__init__(f"broker-{broker_id}", command, address, directory / "broker.log")
        self.broker_id = broker_id
        self.directory = directory
        self.log_dir = directory / "data"


class ZooKeeperServer(Server):
    def __init__(self, node: ZooKeeperNode, prefix: Sequence[str]) -> None:
        command = [*prefix, *zookeeper_process.command(node)]
        super().__init__(node.directory.name, command, (node.host, node.client_port), node.directory / "zookeeper.log")
        self._node = node

    def serves(self) -> bool:
        return zookeeper_process.mode(self._node) is not None


class Cluster:
    """Leaving the context ends every process."""

    def __init__(
        self,
        systems: Sequence[str],
        directory: Path,
        network: Network,
        *,
        zookeepers: int = 1,
        properties: Mapping[str, str] | None = None,
        log_dir_size_bytes: int = 0,
        one_by_one: bool = False,
        login: Mapping[str, str | int] | None = None,
        has_inside_listener: bool = False,
    ) -> None:
        """`systems`: whose the brokers are, numbered from 1.

        `log_dir_size_bytes`: the brokers' disks are file systems in memory, of this size; needs root.

        `one_by_one`: the next broker starts when one is ready, so that the first becomes the controller.

        `login`: settings of librdkafka with which clients may ask the brokers.

        `has_inside_listener`: brokers speak with each other by a listener of their own.
        """
        self._login: dict[str, str | int | float | bool] = {"log_level": 0, **(login or {})}
        self._one_by_one = one_by_one
        self._has_inside_listener = has_inside_listener
        self.network = network
        self.directory = directory
        self._mounts: list[Path] = []
        self.zookeepers = [
            ZooKeeperServer(node, network.prefix(node.directory.name)) for node in self._nodes(zookeepers)
        ]
        self.zookeeper_connect = ",".join(f"{host}:{port}" for host, port in (z.address for z in self.zookeepers))
        self.brokers = {
            broker_id: self._broker(system, broker_id, PROPERTIES | dict(properties or {}), log_dir_size_bytes)
            for broker_id, system in enumerate(systems, 1)
        }
        self.zookeeper = KazooClient(self.zookeeper_connect, timeout=30)
        self.zookeeper.logger.disabled = True  # it tells of every connection that is refused

    def _nodes(self, count: int) -> list[ZooKeeperNode]:
        nodes = []
        for number in range(1, count + 1):
            name = f"zookeeper-{number}"
            ports = self.network.ports(name, (2181, 2888, 3888))
            nodes.append(ZooKeeperNode(number, self.directory / name, self.network.host(name), *ports))
        zookeeper_process.write_files(nodes)
        return nodes

    def _broker(self, system: str, broker_id: int, properties: Mapping[str, str], size_bytes: int) -> BrokerServer:
        name = f"broker-{broker_id}"
        host = self.network.host(name)
        port, inside_port = self.network.ports(name, (9092, 9093))
        directory = self.directory / name
        (directory / "data").mkdir(parents=True)
        if size_bytes:
            options = ["-t", "tmpfs", "-o", f"size={size_bytes}", "none"]
            subprocess.run(["mount", *options, str(directory / "data")], check=True)
            self._mounts.append(directory / "data")
        file = directory / "server.properties"
        settings = {
            **properties,
            "broker.id": str(broker_id),
            "listeners": f"PLAINTEXT://{host}:{port}",
            "log.dirs": str(directory / "data"),
            "zookeeper.connect": self.zookeeper_connect,
        }
        if self._has_inside_listener:
            settings |= {
                "listeners": f"PLAINTEXT://{host}:{port},INSIDE://{host}:{inside_port}",
                "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,INSIDE:PLAINTEXT",
                "inter.broker.listener.name": "INSIDE",
            }
        file.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        return BrokerServer(broker_id, [*self.network.prefix(name), *SYSTEMS[system](file)], (host, port), directory)

    @property
    def bootstrap_servers(self) -> str:
        return ",".join(f"{host}:{port}" for host, port in (b.address for b in self.brokers.values()))

    def __enter__(self) -> Cluster:
        try:
            for server in self.zookeepers:
                server.start()
            for server in self.zookeepers:
                wait_until(server.serves, f"{server.name} serves", _READY_WITHIN_S)
            self.zookeeper.start(timeout=30)
            for brokers in [[b] for b in self.brokers.values()] if self._one_by_one else [self.brokers.values()]:
                self.start(*brokers)
            for broker in self.brokers.values():
                wait_until(partial(self._knows_all, broker), f"{broker.name} knows all others", _READY_WITHIN_S)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for server in (*self.brokers.values(), *self.zookeepers):
            server.kill()
        self.zookeeper.stop()
        self.zookeeper.close()
        for mount in self._mounts:
            subprocess.run(["umount", str(mount)], check=False)

    def start(self, *brokers: BrokerServer) -> None:
        """Until each is registered anew and takes connections; one that ends is started again, as supervisors do."""
        epochs = {broker: self.broker_epoch(broker.broker_id) for broker in brokers}
        for broker in brokers:
            broker.start()

        def is_ready(broker: BrokerServer) -> bool:
            if not broker.is_running:
                time.sleep(1)
                broker.start()
            return self.broker_epoch(broker.broker_id) not in (None, epochs[broker]) and broker.accepts()

        for broker in brokers:
            try:
                wait_until(partial(is_ready, broker), f"{broker.name} is ready", _READY_WITHIN_S)
            except TimeoutError as error:
                error.add_note(broker.end_of_log())
                raise

    def _knows_all(self, broker: BrokerServer) -> bool:
        """A client that asked before would take the cluster for smaller than it is, and not ask again soon."""
        servers = f"{broker.address[0]}:{broker.address[1]}"
        admin = AdminClient({"bootstrap.servers": servers, **self._login})
        try:
            found = admin.list_topics(timeout=5)
        except KafkaException:
            return False
        return found.controller_id in self.brokers and found.brokers.keys() == self.brokers.keys()

    # What ZooKeeper says.

    def broker_epoch(self, broker_id: int) -> int | None:
        """None while it is not registered, or ZooKeeper does not say."""
        found = self._get(f"/brokers/ids/{broker_id}")
        return None if found is None else int(found[1].czxid)

    def controller_id(self) -> int | None:
        found = self._get("/controller")
        return None if found is None else int(json.loads(found[0])["brokerid"])

    def controller_epoch(self) -> int | None:
        found = self._get("/controller_epoch")
        return None if found is None else int(found[0])

    def partition_state(self, topic: str, partition: int) -> PartitionState | None:
        """None while ZooKeeper does not say."""
        found = self._get(f"/brokers/topics/{topic}/partitions/{partition}/state")
        if found is None:
            return None
        state = json.loads(found[0])
        return PartitionState(state["leader"], tuple(state["isr"]))

    def _get(self, path: str) -> Any:
        try:
            return self.zookeeper.get_async(path).get(timeout=1)
        except (KazooException, KazooTimeout):
            return None
