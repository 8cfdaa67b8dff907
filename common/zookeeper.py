"""Runs ZooKeeper from the jars of PySpark: its command, its settings, and whether it serves."""

from __future__ import annotations

import socket
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from .errors import MissingDependencyError
from .extras import how_to_install
from .java import find_java

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


def settings(data_directory: Path, client_port: int, host: str = "127.0.0.1") -> dict[str, str]:
    """Properties of a server alone."""
    return {
        **_SETTINGS,
        "dataDir": str(data_directory),
        "clientPort": str(client_port),
        "clientPortAddress": host,
    }


def command(configuration: Path) -> list[str]:
    """Return what runs a server with this file of properties.

    Raises MissingDependencyError when this host has no Java or no PySpark.
    """
    java = find_java("ZooKeeper")
    jars = _jar_directory()
    class_path = ":".join(str(jar) for pattern in _JARS for jar in sorted(jars.glob(pattern)))
    main_class = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
    return [str(java), *_JAVA_OPTIONS, "-cp", class_path, main_class, str(configuration)]


def mode(host: str, port: int, timeout_s: float = 1.0) -> str | None:
    """Return what a server says that it is: standalone, leader or follower; None while it serves nobody.

    A server listens before it serves, and a client that comes then may wait for an answer until its session would
    have ended.
    """
    for name, _, value in (line.partition(": ") for line in _ask(host, port, b"srvr", timeout_s).splitlines()):
        if name == "Mode":
            return value
    return None


def _jar_directory() -> Path:
    # Found without importing it, which takes a second.
    pyspark = find_spec("pyspark")
    if pyspark is None or pyspark.origin is None:
        raise MissingDependencyError(f"ZooKeeper comes with PySpark, which is not installed: {how_to_install('bench')}")
    return Path(pyspark.origin).parent / "jars"


def _ask(host: str, port: int, word: bytes, timeout_s: float) -> str:
    try:
        with socket.create_connection((host, port), timeout_s) as connection:
            connection.sendall(word)
            answer = b""
            while piece := connection.recv(65536):
                answer += piece
    except OSError:
        return ""
    return answer.decode(errors="replace")
