"""A ZooKeeper for clusters on this host, from the jars of PySpark."""

from __future__ import annotations

import socket
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from highwater.bench.errors import UsageError
from highwater.bench.systems.java import java_for
from highwater.bench.systems.process import AddressWhenReady, SystemProcess
from highwater.bench.systems.properties import write_properties

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
    "minSessionTimeout": "1000",
    "maxSessionTimeout": "60000",
    "maxClientCnxns": "0",
    "admin.enableServer": "false",
}
_ANSWER_WITHIN_S: Final = 1.0


def serving(port: int) -> AddressWhenReady:
    """Ready when a ZooKeeper at this port of the loopback address serves: it listens before, and whoever comes then may
    be left without an answer until its session would have ended."""

    def address(_: str) -> str | None:
        try:
            with socket.create_connection(("127.0.0.1", port), _ANSWER_WITHIN_S) as connection:
                connection.sendall(b"srvr")
                answer = b""
                while piece := connection.recv(4096):
                    answer += piece
        except OSError:
            return None
        return f"127.0.0.1:{port}" if b"\nMode: " in answer else None

    return address


def start_zookeeper(data_directory: Path, log_directory: Path, port: int) -> SystemProcess:
    """Ready when it is `serving`. Raises UsageError when this host has no Java or no PySpark."""
    settings = {
        **_SETTINGS,
        "dataDir": str(data_directory),
        "clientPort": str(port),
        "clientPortAddress": "127.0.0.1",
    }
    command = [java_for("ZooKeeper"), *_JAVA_OPTIONS, "-cp", _class_path()]
    file = write_properties(log_directory / "zookeeper.properties", settings)
    command += ["org.apache.zookeeper.server.quorum.QuorumPeerMain", str(file)]
    return SystemProcess("ZooKeeper", command, log_directory / "zookeeper.log")


def _class_path() -> str:
    # Found without importing it, which takes a second.
    pyspark = find_spec("pyspark")
    if pyspark is None or pyspark.origin is None:
        raise UsageError("ZooKeeper comes with PySpark, which is not installed: pip install 'highwater[bench]'")
    jars = Path(pyspark.origin).parent / "jars"
    return ":".join(str(jar) for pattern in _JARS for jar in sorted(jars.glob(pattern)))
