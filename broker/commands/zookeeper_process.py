"""ZooKeeper servers of one host, alone or as an ensemble: files, command, state.

The caller starts and stops the process: `highwater broker cluster up` starts it detached, tests for one test.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from highwater.admin.terminal import UsageError
from highwater.common import zookeeper
from highwater.common.errors import MissingDependencyError
from highwater.common.java_properties import format_properties

_CONFIGURATION: Final = "zoo.cfg"


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


def plan_ensemble(directory: Path, ports: Sequence[int], host: str = "127.0.0.1") -> list[ZooKeeperNode]:
    """Return one server for every three ports: for clients, for peers, for elections."""
    return [
        ZooKeeperNode(number, directory / f"zookeeper-{number}", host, *ports[3 * number - 3 : 3 * number])
        for number in range(1, len(ports) // 3 + 1)
    ]


def write_files(ensemble: Sequence[ZooKeeperNode], settings: Mapping[str, str] | None = None) -> None:
    """Make every server's directory and configuration; existing data stays. `settings` override the defaults."""
    for node in ensemble:
        data = node.directory / "data"
        data.mkdir(parents=True, exist_ok=True)
        lines = {**zookeeper.settings(data, node.client_port, node.host), **(settings or {})}
        # A standalone server needs neither a list of servers nor myid.
        if len(ensemble) > 1:
            (data / "myid").write_text(f"{node.number}\n")
            lines["standaloneEnabled"] = "false"
            for peer in ensemble:
                lines[f"server.{peer.number}"] = f"{peer.host}:{peer.peer_port}:{peer.election_port}"
        (node.directory / _CONFIGURATION).write_text(format_properties(lines), "ascii")


def command(node: ZooKeeperNode) -> list[str]:
    """Return the command line. Raises UsageError when this host has no Java or no PySpark."""
    try:
        return zookeeper.command(node.directory / _CONFIGURATION)
    except MissingDependencyError as error:
        raise UsageError(str(error)) from None


def mode(node: ZooKeeperNode) -> str | None:
    """Return the mode that the server reports: standalone, leader or follower; None while it has no quorum."""
    return zookeeper.mode(node.host, node.client_port)
