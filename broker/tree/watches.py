"""Who watches which znodes: a watch fires once, and a node that is gone ends those of its children."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from highwater.broker.cluster.zookeeper import Children, Exists, Get, Request, WatchEvent, ZooKeeperError

W = TypeVar("W")


@dataclass(slots=True)
class _Watched:
    data: set[str] = field(default_factory=set)
    children: set[str] = field(default_factory=set)


class WatchManager(Generic[W]):
    """The watches of all watchers, which get events in the order in which they came."""

    def __init__(self) -> None:
        self._watched: dict[W, _Watched] = {}

    def add(self, watcher: W) -> None:
        self._watched[watcher] = _Watched()

    def remove(self, watcher: W) -> None:
        self._watched.pop(watcher, None)

    def note(self, watcher: W, request: Request, result: Any) -> None:
        """Set the watch that a request asked for; a node that does not exist can only be watched by Exists."""
        match request:
            case Exists(path, watch=True):
                self.watch_data(watcher, path)
            case Get(path, watch=True) if not isinstance(result, ZooKeeperError):
                self.watch_data(watcher, path)
            case Children(path, watch=True) if not isinstance(result, ZooKeeperError):
                self.watch_children(watcher, path)

    def watch_data(self, watcher: W, path: str) -> None:
        self._watched[watcher].data.add(path)

    def watch_children(self, watcher: W, path: str) -> None:
        self._watched[watcher].children.add(path)

    def fire(self, path: str, event: WatchEvent) -> list[W]:
        """Remove the watches that the event fires, and return whose they were."""
        found = []
        for watcher, watched in self._watched.items():
            is_watched = False
            if event is not WatchEvent.CHILDREN and path in watched.data:
                watched.data.discard(path)
                is_watched = True
            if event in (WatchEvent.CHILDREN, WatchEvent.DELETED) and path in watched.children:
                watched.children.discard(path)
                is_watched = True
            if is_watched:
                found.append(watcher)
        return found
