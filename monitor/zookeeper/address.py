"""The address of a ZooKeeper as `zookeeper.connect` writes it, and paths of znodes. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from highwater.common.errors import UsageError
from highwater.common.znode_path import path_problem

_SERVER: Final = re.compile(r"(?P<host>[A-Za-z0-9_.-]+|\[[0-9A-Fa-f:.]+\])(?::(?P<port>[0-9]{1,5}))?")
_DEFAULT_PORT: Final = 2181
_LAST_PORT: Final = 65_535


@dataclass(frozen=True, slots=True)
class ZooKeeperAddress:
    servers: tuple[tuple[str, int], ...]
    chroot: str = ""
    """The path below which the cluster is; empty for the root."""

    @property
    def hosts(self) -> str:
        return ",".join(server_text(*server) for server in self.servers)


def server_text(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def address_of(text: str) -> ZooKeeperAddress:
    """Parse `HOST:PORT,HOST:PORT/CHROOT`. Raises UsageError."""
    hosts, slash, rest = text.strip().partition("/")
    chroot = (slash + rest).rstrip("/")
    if chroot and path_problem(chroot):
        raise UsageError(f"{chroot!r} is not a path of a znode: {path_problem(chroot)}")
    servers = tuple(_server(part.strip(), text) for part in hosts.split(","))
    return ZooKeeperAddress(servers, chroot)


def _server(part: str, text: str) -> tuple[str, int]:
    found = _SERVER.fullmatch(part)
    port = int(found["port"] or _DEFAULT_PORT) if found else 0
    if found is None or not 0 < port <= _LAST_PORT:
        raise UsageError(f"{text!r} is not HOST:PORT,HOST:PORT/CHROOT, as zookeeper.connect of a broker")
    return found["host"].strip("[]"), port


def child_path(path: str, name: str) -> str:
    return f"/{name}" if path == "/" else f"{path}/{name}"


def parents_of(path: str) -> list[tuple[str, str]]:
    """Every znode from the root to `path` as (path, name), for a trail of links."""
    found = [("/", "/")]
    so_far = ""
    for name in path.split("/")[1:] if path != "/" else ():
        so_far += f"/{name}"
        found.append((so_far, name))
    return found
