"""Apache Kafka 3.9 with ZooKeeper from the same jars: makes files to compare ours with, and reads ours."""

from __future__ import annotations

import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from tests.compat.apache_kafka.tools import jars_3_9

START_DEADLINE_S: Final = 120.0
STOP_DEADLINE_S: Final = 60.0


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _write_properties(path: Path, properties: Mapping[str, object]) -> Path:
    path.write_text("".join(f"{name}={value}\n" for name, value in properties.items()))
    return path


def _start(main_class: str, properties: Path, heap: str, port: int) -> subprocess.Popen[bytes]:
    """Returns when somebody listens on the port."""
    with properties.with_suffix(".log").open("wb") as log:
        java = ("java", f"-Xmx{heap}", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", f"{jars_3_9()}/*")
        process = subprocess.Popen([*java, main_class, str(properties)], stdout=log, stderr=subprocess.STDOUT)
    deadline = time.monotonic() + START_DEADLINE_S
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return process
        except OSError:
            if process.poll() is not None or time.monotonic() > deadline:
                process.kill()
                process.wait()
                raise AssertionError(
                    f"{main_class} does not start: {properties.with_suffix('.log').read_text()[-2000:]}"
                ) from None
            time.sleep(0.1)


@contextmanager
def running_zookeeper(directory: Path) -> Iterator[str]:
    """A ZooKeeper of one, its data below `directory`; its address."""
    port = free_port()
    data = directory / "zookeeper"
    data.mkdir(exist_ok=True)
    properties = {
        "dataDir": data,
        "clientPort": port,
        "clientPortAddress": "127.0.0.1",
        "admin.enableServer": "false",
        "maxClientCnxns": 0,
    }
    path = _write_properties(directory / "zookeeper.properties", properties)
    process = _start("org.apache.zookeeper.server.quorum.QuorumPeerMain", path, "128m", port)
    try:
        yield f"127.0.0.1:{port}"
    finally:
        process.kill()
        process.wait()


class KafkaServer:
    """One broker of Kafka's with id 0, its files in `log_dir`."""

    def __init__(self, log_dir: Path, zookeeper: str, properties: Mapping[str, object] | None = None) -> None:
        self.port = free_port()
        self.address = f"127.0.0.1:{self.port}"
        self.log_dir = log_dir
        defaults = {
            "broker.id": 0,
            "listeners": f"PLAINTEXT://{self.address}",
            "zookeeper.connect": zookeeper,
            "log.dirs": log_dir,
            "offsets.topic.replication.factor": 1,
            "transaction.state.log.replication.factor": 1,
            "transaction.state.log.min.isr": 1,
            "group.initial.rebalance.delay.ms": 0,
        }
        path = _write_properties(log_dir.with_name("kafka.properties"), defaults | dict(properties or {}))
        self._process = _start("kafka.Kafka", path, "512m", self.port)

    def stop(self) -> None:
        """Stop it cleanly."""
        self._process.send_signal(signal.SIGTERM)
        self._process.wait(STOP_DEADLINE_S)

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()


@contextmanager
def running_kafka(
    log_dir: Path, zookeeper: str, properties: Mapping[str, object] | None = None
) -> Iterator[KafkaServer]:
    """A broker for the time of a with statement, killed at its end if it was not stopped before."""
    server = KafkaServer(log_dir, zookeeper, properties)
    try:
        yield server
    finally:
        server.kill()
