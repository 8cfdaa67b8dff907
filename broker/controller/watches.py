"""Which watches of the controller are set in ZooKeeper, so that none is set twice.

ZooKeeper's watches fire once and outlive a controllership within a session.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from highwater.broker.cluster.zookeeper import Children, Exists, Get, WatchEvent, ZooKeeperError
from highwater.broker.controller.storage import Rounds, ask

Watched = Get | Exists | Children


class Watches:
    def __init__(self) -> None:
        self._standing: set[tuple[str, bool]] = set()
        """Paths, and whether the watch is of the children."""

    def ask(self, requests: Sequence[Watched]) -> Rounds[list[Any]]:
        """One round of requests, each with a watch that stands afterwards."""
        keys = [(request.path, isinstance(request, Children)) for request in requests]
        asked = [replace(request, watch=key not in self._standing) for request, key in zip(requests, keys, strict=True)]
        self._standing.update(keys)
        results = yield from ask(asked)
        for request, key, result in zip(requests, keys, results, strict=True):
            if isinstance(result, ZooKeeperError) and not isinstance(request, Exists):
                self._standing.discard(key)  # ZooKeeper watches what is not there for Exists alone.
        return results

    def fired(self, path: str, event: WatchEvent) -> bool:
        """Whether a watch of ours stood there; it is gone with this."""
        kinds = {WatchEvent.CHILDREN: (True,), WatchEvent.DELETED: (True, False)}.get(event, (False,))
        stood = [(path, kind) for kind in kinds if (path, kind) in self._standing]
        self._standing.difference_update(stood)
        return bool(stood)

    def clear(self) -> None:
        """The session is over."""
        self._standing.clear()
