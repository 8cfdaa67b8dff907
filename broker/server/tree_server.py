"""Runs a tree of znodes on an event loop: Unix sockets, and a thread for its journal.

Only the user of this process and root are served. The kernel keeps the user with each connection of a Unix socket, from
its beginning (SO_PEERCRED). The owner of a TCP connection would have to be looked up beside it, and a socket that its
process has closed has no owner: /proc/net/tcp names root.
"""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
import socket
import struct
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

from highwater.broker.clock import Clock
from highwater.broker.log.files import DISK_IS_FULL
from highwater.broker.server.strangers import Strangers
from highwater.broker.tree.journal import Journal
from highwater.broker.tree.serving import PASSWORD_BYTES, TICK_MS, Serving, TreeConnection
from highwater.broker.tree.snapshot import encode_tree
from highwater.kafka.client.host_processes import LOCAL

_logger = logging.getLogger(__name__)

_FULL_DISK_PAUSE_S: Final = 1.0
_ROOT_USER: Final = 0
_PEER: Final = struct.Struct("3i")
"""ucred: process, user, group."""


class TreeServer:
    def __init__(self, loop: asyncio.AbstractEventLoop, journal: Journal, clock: Clock, fail: Callable[[str], None]):
        """`fail` is called when the journal cannot go on, with the reason: nothing is answered from then on."""
        self._loop = loop
        self._journal = journal
        self._fail = fail
        self.serving = Serving(journal.tree, clock.now_ms, lambda: secrets.token_bytes(PASSWORD_BYTES))
        self.serving.has_changes = self._wake
        self._thread = ThreadPoolExecutor(1, "tree-journal")
        self._has_changes = asyncio.Event()
        self._servers: list[asyncio.Server] = []
        self._clients: set[_Client] = set()
        self._strangers = Strangers()
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        self._tasks = [self._loop.create_task(self._keep_journal()), self._loop.create_task(self._tick())]

    async def listen(self, group: int = 0) -> str:
        """Take clients at a socket of their own, and return its address. Their sessions are those of `group`."""
        listening = socket.socket(socket.AF_UNIX)
        listening.bind("")  # the kernel chooses an abstract name: it is no file, and ends with the socket
        name: bytes = listening.getsockname()
        self._servers.append(
            await self._loop.create_unix_server(
                lambda: _Client(self.serving, self._clients, self._strangers, group), sock=listening
            )
        )
        return LOCAL + name[1:].decode()

    async def stop(self) -> None:
        """Stop serving. What was answered is on the disk already; sessions stay."""
        for server in self._servers:
            server.close()
        for client in tuple(self._clients):
            client.abort()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await asyncio.to_thread(self._thread.shutdown)
        self._journal.close()

    async def _tick(self) -> None:
        while True:
            self.serving.tick(time.monotonic_ns() // 1_000_000)
            await asyncio.sleep(TICK_MS / 1000)

    # The journal

    def _wake(self) -> None:
        self._has_changes.set()

    async def _keep_journal(self) -> None:
        try:
            while True:
                await self._has_changes.wait()
                self._has_changes.clear()
                payload, zxid = self.serving.take_changes()
                snapshot = encode_tree(self.serving.tree) if self._journal.wants_snapshot else None
                await self._append(payload)
                self.serving.durable(zxid)
                if snapshot is not None:
                    await self._begin_anew(snapshot, zxid)
        except OSError as error:
            self._fail(f"the journal of the metadata cannot be written: {error.strerror}")

    async def _append(self, payload: bytes) -> None:
        is_told = False
        while True:
            try:
                await self._loop.run_in_executor(self._thread, self._journal.append, payload)
            except OSError as error:
                if error.errno not in DISK_IS_FULL:
                    raise
                if not is_told:
                    is_told = True
                    _logger.error(
                        "the disk of the metadata is full: changes of topics and settings wait until there is room"
                    )
                await asyncio.sleep(_FULL_DISK_PAUSE_S)
            else:
                return

    async def _begin_anew(self, snapshot: bytes, zxid: int) -> None:
        try:
            await self._loop.run_in_executor(self._thread, self._journal.begin_anew, snapshot, zxid)
        except OSError as error:
            if error.errno not in DISK_IS_FULL or self._journal.has_snapshot(zxid):
                raise
            _logger.warning("no room for a snapshot of the metadata: %s; its journal grows", error.strerror)


class _Client(asyncio.Protocol):
    def __init__(self, serving: Serving, clients: set[_Client], strangers: Strangers, group: int) -> None:
        self._serving = serving
        self._clients = clients
        self._strangers = strangers
        self._group = group
        self._transport: asyncio.Transport | None = None
        self._connection: TreeConnection | None = None

    def connection_made(self, transport: Any) -> None:
        self._transport = transport
        peer = transport.get_extra_info("socket").getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size)
        process, user, _ = _PEER.unpack(peer)
        if user not in (os.geteuid(), _ROOT_USER):
            reason = f"its user {user} may not see the metadata; only user {os.geteuid()} and root may"
            self._strangers.tell(f"process {process}", reason, time.monotonic_ns() // 1_000_000)
            transport.abort()
            return
        self._clients.add(self)
        self._connection = self._serving.connect(transport.write, transport.close, self._group)

    def data_received(self, data: bytes) -> None:
        if self._connection is not None:
            self._connection.receive(data)

    def connection_lost(self, exc: Exception | None) -> None:
        self._clients.discard(self)
        if self._connection is not None:
            self._connection.lose()

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()
