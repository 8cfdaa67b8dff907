"""A tree of znodes that serves at a Unix socket, in a thread of a test; stopped and started again at will."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from highwater.broker.clock import SystemClock
from highwater.broker.log.files import FileOperations, RealFiles
from highwater.broker.server.tree_server import TreeServer
from highwater.broker.tree.journal import Journal

DEADLINE_S = 60.0


class RunningTree:
    def __init__(self, directory: Path, files: FileOperations | None = None) -> None:
        """Come back when it serves."""
        self.failures: list[str] = []
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="tree")
        self._thread.start()
        journal = Journal(files or RealFiles(), directory)
        self.connect = asyncio.run_coroutine_threadsafe(self._start(journal), self._loop).result(DEADLINE_S)
        """For `zookeeper.connect`."""

    async def _start(self, journal: Journal) -> str:
        self._server = TreeServer(self._loop, journal, SystemClock(), self.failures.append)
        self._server.start()
        return await self._server.listen()

    def stop(self) -> None:
        asyncio.run_coroutine_threadsafe(self._server.stop(), self._loop).result(DEADLINE_S)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(DEADLINE_S)
        self._loop.close()


@contextmanager
def running_tree(directory: Path) -> Iterator[RunningTree]:
    tree = RunningTree(directory)
    try:
        yield tree
    finally:
        tree.stop()
