"""A tree of znodes in memory: versions, ephemeral and sequential nodes, transactions.

Requests are those of broker/cluster/zookeeper.py. A write that is in order becomes a `Change`, which is applied; a tree
that is given the same changes again is the same, so that a journal of them is a copy of the tree.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from highwater.broker.cluster.zookeeper import (
    ANY_VERSION,
    Check,
    Children,
    Create,
    Created,
    Delete,
    Exists,
    Get,
    Multi,
    NodeData,
    Request,
    Set,
    Stat,
    WatchEvent,
    ZooKeeperError,
)
from highwater.broker.tree.changes import (
    Change,
    NodeMade,
    NodeRemoved,
    NodeWritten,
    SessionClosed,
    SessionOpened,
    Step,
)

ROOT: Final = "/"
_SESSION_BASE: Final = 1 << 56
"""Plus the transaction that opened it is the id of a session: no two have the same, also after a restart."""


@dataclass(slots=True)
class Znode:
    data: bytes = b""
    czxid: int = 0
    mzxid: int = 0
    pzxid: int = 0
    """The last transaction that made or removed a child."""
    created_ms: int = 0
    modified_ms: int = 0
    version: int = 0
    creations: int = 0
    """How many children were ever made: the number of the next sequential one."""
    owner: int = 0
    children: dict[str, None] = field(default_factory=dict)

    @property
    def stat(self) -> Stat:
        return Stat(self.version, self.czxid, self.owner, self.created_ms, self.mzxid)


@dataclass(slots=True)
class TreeSession:
    password: bytes
    timeout_ms: int
    ephemerals: dict[str, None] = field(default_factory=dict)


class _Outline(NamedTuple):
    """What a request of a transaction must know of a node that those before it changed."""

    version: int
    child_count: int
    creations: int
    owner: int


_Tried = dict[str, _Outline | None]
"""None: the node is gone."""


class Tree:
    def __init__(
        self,
        fired: Callable[[str, WatchEvent], None] = lambda path, event: None,
        recorded: Callable[[Change], None] = lambda change: None,
    ) -> None:
        """`fired` gets what happens to nodes, step by step; `recorded` gets each change before it is applied."""
        self.zxid = 0
        self.nodes: dict[str, Znode] = {ROOT: Znode()}
        self.sessions: dict[int, TreeSession] = {}
        self.fired = fired
        self.recorded = recorded

    # Sessions

    def open_session(self, password: bytes, timeout_ms: int, now_ms: int) -> int:
        session_id = _SESSION_BASE + self.zxid + 1
        self._change([SessionOpened(session_id, password, timeout_ms)], now_ms)
        return session_id

    def close_session(self, session_id: int, now_ms: int) -> None:
        """Nothing happens if it is closed already."""
        if session_id in self.sessions:
            self._change([SessionClosed(session_id)], now_ms)

    # Requests

    def execute(self, session_id: int, request: Request, now_ms: int) -> Any:
        """Returns the Result of the request. Watches are the caller's. `session_id` owns ephemeral nodes."""
        match request:
            case Get(path):
                node = self.nodes.get(path)
                return ZooKeeperError.NO_NODE if node is None else NodeData(node.data, node.stat)
            case Exists(path):
                node = self.nodes.get(path)
                return ZooKeeperError.NO_NODE if node is None else node.stat
            case Children(path):
                node = self.nodes.get(path)
                return ZooKeeperError.NO_NODE if node is None else list(node.children)
            case Multi(requests):
                return self._transact(session_id, requests, now_ms)
        found = self._step(session_id, request, {})
        if isinstance(found, ZooKeeperError):
            return found
        assert found is not None, "only a check does nothing, and it stands in a transaction"
        return self._change([found], now_ms)[0]

    def _transact(self, session_id: int, requests: Sequence[Create | Set | Delete | Check], now_ms: int) -> list[Any]:
        # What the requests before it in the transaction did counts for each.
        tried: _Tried = {}
        steps: list[Step | None] = []
        for number, request in enumerate(requests):
            found = self._step(session_id, request, tried)
            if isinstance(found, ZooKeeperError):
                rolled_back: list[Any] = [ZooKeeperError.ROLLED_BACK] * len(requests)
                rolled_back[number] = found
                return rolled_back
            steps.append(found)
        results = iter(self._change([step for step in steps if step is not None], now_ms))
        return [None if step is None else next(results) for step in steps]

    def _step(
        self, session_id: int, request: Create | Set | Delete | Check, tried: _Tried
    ) -> Step | ZooKeeperError | None:
        """Returns what the request does, and notes it in `tried`; None for a check that holds."""
        path = request.path
        if isinstance(request, Create):
            # The number makes a name of nothing too.
            is_right = is_path(path + "0" if request.is_sequential else path)
            return self._creation(session_id, request, tried) if is_right else ZooKeeperError.MALFORMED
        if not is_path(path):
            return ZooKeeperError.MALFORMED
        node = self._outline(path, tried)
        if node is None:
            return ZooKeeperError.NO_NODE
        if request.version not in (ANY_VERSION, node.version):
            return ZooKeeperError.BAD_VERSION
        match request:
            case Set(_, data):
                tried[path] = node._replace(version=node.version + 1)
                return NodeWritten(path, data)
            case Delete():
                if path == ROOT:
                    return ZooKeeperError.MALFORMED
                if node.child_count:
                    return ZooKeeperError.NOT_EMPTY
                parent = self._outline(parent_of(path), tried)
                assert parent is not None
                tried[parent_of(path)] = parent._replace(child_count=parent.child_count - 1)
                tried[path] = None
                return NodeRemoved(path)
        return None

    def _creation(self, session_id: int, request: Create, tried: _Tried) -> Step | ZooKeeperError:
        path = request.path
        parent = self._outline(parent_of(path), tried)
        if parent is None:
            return ZooKeeperError.NO_NODE
        if parent.owner:
            return ZooKeeperError.REFUSED
        if request.is_sequential:
            path += f"{parent.creations:010d}"
        if self._outline(path, tried) is not None:
            return ZooKeeperError.NODE_EXISTS
        assert session_id or not request.is_ephemeral, "only a session makes ephemeral nodes"
        owner = session_id if request.is_ephemeral else 0
        tried[parent_of(path)] = parent._replace(child_count=parent.child_count + 1, creations=parent.creations + 1)
        tried[path] = _Outline(0, 0, 0, owner)
        return NodeMade(path, request.data, owner)

    def _outline(self, path: str, tried: _Tried) -> _Outline | None:
        if path in tried:
            return tried[path]
        node = self.nodes.get(path)
        return None if node is None else _Outline(node.version, len(node.children), node.creations, node.owner)

    # Changes

    def _change(self, steps: Sequence[Step], now_ms: int) -> list[Any]:
        change = Change(self.zxid + 1, now_ms, tuple(steps))
        self.recorded(change)
        return self.apply(change)

    def apply(self, change: Change) -> list[Any]:
        """Returns the result of each step. The change must be in order for this tree, as `execute` makes sure.

        Raises KeyError if it is not, which only a journal of another tree can cause.
        """
        self.zxid = change.zxid
        return [self._apply(step, change.time_ms) for step in change.steps]

    def _apply(self, step: Step, now_ms: int) -> Any:
        match step:
            case NodeMade(path, data, owner):
                return self._make(path, data, owner, now_ms)
            case NodeWritten(path, data):
                znode = self.nodes[path]
                znode.data, znode.mzxid, znode.modified_ms = data, self.zxid, now_ms
                znode.version += 1
                self.fired(path, WatchEvent.CHANGED)
                return znode.stat
            case NodeRemoved(path):
                self._remove(path)
            case SessionOpened(session_id, password, timeout_ms):
                self.sessions[session_id] = TreeSession(password, timeout_ms)
            case SessionClosed(session_id):
                for path in list(self.sessions[session_id].ephemerals):
                    self._remove(path)
                del self.sessions[session_id]
        return None

    def _make(self, path: str, data: bytes, owner: int, now_ms: int) -> Created:
        parent = self.nodes[parent_of(path)]
        parent.creations += 1
        parent.pzxid = self.zxid
        parent.children[_name(path)] = None
        node = Znode(data, self.zxid, self.zxid, self.zxid, now_ms, now_ms, owner=owner)
        self.nodes[path] = node
        if owner:
            self.sessions[owner].ephemerals[path] = None
        self.fired(path, WatchEvent.CREATED)
        self.fired(parent_of(path), WatchEvent.CHILDREN)
        return Created(path, node.stat)

    def _remove(self, path: str) -> None:
        node = self.nodes.pop(path)
        parent = self.nodes[parent_of(path)]
        del parent.children[_name(path)]
        parent.pzxid = self.zxid
        if node.owner:
            del self.sessions[node.owner].ephemerals[path]
        self.fired(path, WatchEvent.DELETED)
        self.fired(parent_of(path), WatchEvent.CHILDREN)


def is_path(path: str) -> bool:
    """Whether ZooKeeper takes it for a path."""
    if path == ROOT:
        return True
    return (
        path.startswith("/") and "\0" not in path and all(part not in ("", ".", "..") for part in path[1:].split("/"))
    )


def parent_of(path: str) -> str:
    return path.rpartition("/")[0] or ROOT


def _name(path: str) -> str:
    return path.rpartition("/")[2]
