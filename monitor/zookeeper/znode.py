"""A znode as pages show it, and why one cannot be read: without the library that reads it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kazoo.protocol.states import ZnodeStat


class ZooKeeperError(Exception):
    """Why a znode cannot be read, in a sentence."""


class NotAZnodePathError(ZooKeeperError):
    """No znode can have this path."""


class NoSuchZnodeError(ZooKeeperError):
    """The path can be that of a znode, and none is there."""


@dataclass(frozen=True, slots=True)
class Child:
    name: str
    stat: ZnodeStat | None
    """None if it went away meanwhile."""


@dataclass(frozen=True, slots=True)
class Znode:
    """A znode as somebody may see it: secrets are not in it."""

    path: str
    stat: ZnodeStat
    data: bytes
    data_note: str
    """What of the data is hidden or left out; empty if nothing is."""
    children: tuple[Child, ...]
    """The children of one page, by name."""
    matching_children: int
    page: int
    pages: int
    children_note: str = ""
