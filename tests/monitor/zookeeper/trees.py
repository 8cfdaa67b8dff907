"""A ZooKeeper that does not exist, for pages: a tree of znodes by path, read as the source reads."""

from __future__ import annotations

from collections.abc import Mapping

from kazoo.protocol.states import ZnodeStat

from highwater.common.znode_path import path_problem
from highwater.monitor.zookeeper import hiding
from highwater.monitor.zookeeper.address import child_path
from highwater.monitor.zookeeper.source import CHILDREN_OF_A_PAGE
from highwater.monitor.zookeeper.znode import Child, NoSuchZnodeError, NotAZnodePathError, Znode, ZooKeeperError
from tests.monitor.clusters import UNIX_START_MS


class MadeUpZooKeeper:
    address = "zk1:2181/kafka"

    def __init__(self, tree: Mapping[str, bytes], error: str = "") -> None:
        self._tree = tree
        self._error = error
        self.reads = 0

    def read(self, path: str, contains: str = "", page: int = 1) -> Znode:
        self.reads += 1
        if problem := path_problem(path):
            raise NotAZnodePathError(f"This is not a path of a znode: {problem}.")
        if self._error:
            raise ZooKeeperError(self._error)
        if path not in self._tree:
            raise NoSuchZnodeError("There is no such znode now.")
        names = [name for name in self._children(path) if contains in name]
        pages = max(1, -(-len(names) // CHILDREN_OF_A_PAGE))
        page = min(max(page, 1), pages)
        shown = names[(page - 1) * CHILDREN_OF_A_PAGE : page * CHILDREN_OF_A_PAGE]
        children = tuple(Child(name, self._stat(child_path(path, name))) for name in shown)
        data, note = hiding.shown(path, self._tree[path])
        return Znode(path, self._stat(path), data, note, children, len(names), page, pages)

    def _children(self, path: str) -> list[str]:
        begin = path.rstrip("/") + "/"
        return sorted({each[len(begin) :].split("/")[0] for each in self._tree if each.startswith(begin)} - {""})

    def _stat(self, path: str) -> ZnodeStat:
        owner = 0xABC if path.startswith("/brokers/ids/") else 0
        size = len(self._tree.get(path, b""))
        return ZnodeStat(1, 2, UNIX_START_MS, UNIX_START_MS, 3, 4, 0, owner, size, len(self._children(path)), 5)
