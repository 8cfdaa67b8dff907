"""A ZooKeeper for clusters of this host: the same one for every system."""

from __future__ import annotations

from pathlib import Path

from highwater.bench.systems.process import AddressWhenReady, SystemProcess
from highwater.bench.systems.properties import write_properties
from highwater.common import zookeeper
from highwater.common.errors import MissingDependencyError, UsageError


def serving(port: int) -> AddressWhenReady:
    """Ready when a ZooKeeper at this port of the loopback address serves."""

    def address(_: str) -> str | None:
        return None if zookeeper.mode("127.0.0.1", port) is None else f"127.0.0.1:{port}"

    return address


def start_zookeeper(data_directory: Path, log_directory: Path, port: int) -> SystemProcess:
    """Ready when it is `serving`. Raises UsageError when this host has no Java or no PySpark."""
    file = write_properties(log_directory / "zookeeper.properties", zookeeper.settings(data_directory, port))
    return SystemProcess("ZooKeeper", zookeeper_command(file), log_directory / "zookeeper.log")


def zookeeper_command(configuration: Path) -> list[str]:
    """What runs a server with this file of properties. Raises UsageError when this host has no Java or no PySpark."""
    try:
        return zookeeper.command(configuration)
    except MissingDependencyError as error:
        raise UsageError(str(error)) from None
