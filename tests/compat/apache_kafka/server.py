"""Apache Kafka 3.9 with ZooKeeper from the same jars: makes files to compare ours with, and reads ours."""

from __future__ import annotations

import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from tests.compat.apache_kafka.tools import jars_3_9

START_DEADLINE_S: Final = 120.0
STOP_DEADLINE_S: Final = 60.0
_ATTEMPTS: Final = 3


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _write_properties(path: Path, properties: Mapping[str, object]) -> Path:
    path.write_text("".join(f"{name}={value}\n" for name, value in properties.items()))
    return path


def _start(main_class: str, heap: str, configure: Callable[[int], Path]) -> tuple[subprocess.Popen[bytes], int]:
    """Returns when it listens on a port of its own: another one if somebody took the first before it came to it."""
    for _ in range(_ATTEMPTS):
        port = free_port()
        properties = configure(port)
        with properties.with_suffix(".log").open("wb") as log:
            java = ("java", f"-Xmx{heap}", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", f"{jars_3_9()}/*")
            process = subprocess.Popen([*java, main_class, str(properties)], stdout=log, stderr=subprocess.STDOUT)
        deadline = time.monotonic() + START_DEADLINE_S
        while process.poll() is None and time.monotonic() < deadline:
            try:
                socket.create_connection(("127.0.0.1", port), 1).close()
            except OSError:
                time.sleep(0.1)
            else:
                return process, port
        process.kill()
        process.wait()
    raise AssertionError(f"{main_class} does not start: {properties.with_suffix('.log').read_text()[-2000:]}")


@contextmanager
def running_zookeeper(directory: Path) -> Iterator[str]:
    """A ZooKeeper of one, its data below `directory`; its address."""
    data = directory / "zookeeper"
    data.mkdir(exist_ok=True)

    def configure(port: int) -> Path:
        properties = {
            "dataDir": data,
            "clientPort": port,
            "clientPortAddress": "127.0.0.1",
            "admin.enableServer": "false",
            "maxClientCnxns": 0,
        }
        return _write_properties(directory / "zookeeper.properties", properties)

    process, port = _start("org.apache.zookeeper.server.quorum.QuorumPeerMain", "128m", configure)
    try:
        yield f"127.0.0.1:{port}"
    finally:
        process.kill()
        process.wait()


class KafkaServer:
    """One broker of Kafka's with id 0, its files in `log_dir`; in a value, `{port}` is its port."""

    def __init__(self, log_dir: Path, zookeeper: str, properties: Mapping[str, object] | None = None) -> None:
        self.log_dir = log_dir

        def configure(port: int) -> Path:
            defaults = {
                "broker.id": 0,
                "listeners": f"PLAINTEXT://127.0.0.1:{port}",
                "zookeeper.connect": zookeeper,
                "log.dirs": log_dir,
                "offsets.topic.replication.factor": 1,
                "transaction.state.log.replication.factor": 1,
                "transaction.state.log.min.isr": 1,
                "group.initial.rebalance.delay.ms": 0,
            }
            own = {name: str(value).replace("{port}", str(port)) for name, value in (properties or {}).items()}
            return _write_properties(log_dir.with_name("kafka.properties"), defaults | own)

        self._process, self.port = _start("kafka.Kafka", "512m", configure)
        self.address = f"127.0.0.1:{self.port}"

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


def zookeeper_commands(zookeeper: str, *commands: str) -> str:
    """What ZooKeeper's own client prints when it is given these."""
    client = ("java", "-cp", f"{jars_3_9()}/*", "org.apache.zookeeper.ZooKeeperMain", "-server", zookeeper)
    text = "".join(f"{command}\n" for command in commands)
    done = subprocess.run(
        client, input=text, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stdout[-2000:]
    return done.stdout
