"""Faults on command in a running broker: connections, disk, clock, and the endpoint for scripts."""

from __future__ import annotations

import asyncio
import json
import logging
from collections import deque
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Final, cast
from uuid import UUID

from highwater.broker.clock import Scheduler
from highwater.broker.faults.dispatching import FaultyDispatch
from highwater.broker.faults.effects import Drop, Slow
from highwater.broker.faults.injector import Injector
from highwater.broker.faults.machine import FaultyClock, FaultyFiles
from highwater.broker.faults.request import FaultRequest
from highwater.broker.faults.script import Script, read_script
from highwater.broker.node import Node
from highwater.broker.server.connection import Connection, Dispatch
from highwater.broker.settings.config import BrokerConfig
from highwater.common.bounded_http import is_loopback
from highwater.common.errors import UsageError
from highwater.common.http_endpoint import HttpEndpoint, Page
from highwater.common.listen_address import ListenAddress, listening_at, read_listen_address

_logger = logging.getLogger(__name__)
PATH: Final = "/faults"
FOR_FAULTS: Final = {"max.incremental.fetch.session.cache.slots": "0"}
"""The sessions of Fetch would leave the partitions that are to fail out of the requests."""
_TICKS_PER_S: Final = 20


def read_address(text: str, *, anywhere: bool) -> ListenAddress:
    """Read the value of --faults-listen. Raises UsageError."""
    try:
        address = read_listen_address(text)
    except UsageError as error:
        raise UsageError(f"--faults-listen: {error}, such as 127.0.0.1:7000") from None
    if not anywhere and not is_loopback(address.host):
        raise UsageError(
            f"--faults-listen: {address.host} is not a loopback address: everybody who reaches it can make the broker "
            "fail; listen on 127.0.0.1, or add --faults-from-network"
        )
    return address


def plane_of(config: BrokerConfig, path: Path | None, listen: str | None, *, anywhere: bool) -> FaultPlane:
    """Raises UsageError."""
    if anywhere and listen is None:
        raise UsageError("--faults-from-network: say with --faults-listen where to listen")
    if config.is_set("highwater.processes"):
        raise UsageError("faults are for a broker of one process: leave --processes out")
    return FaultPlane(path, None if listen is None else read_address(listen, anywhere=anywhere))


class FaultPlane:
    """What a broker with the option for faults has."""

    def __init__(self, path: Path | None, address: ListenAddress | None) -> None:
        """Raises UsageError for a file that is no script, and OSError for an address that cannot be had."""
        self.injector = Injector(lambda line: _logger.warning("%s", line))
        self.files = FaultyFiles()
        self.clock = FaultyClock()
        self.scheduler: Scheduler
        self._node: Node
        self._connections = 0
        self._open_connections = 0
        self._endpoint: HttpEndpoint | None = None
        if path is not None:
            try:
                self._set(read_script(path.read_text("utf-8"), str(path)))
            except (OSError, UnicodeDecodeError) as error:
                raise UsageError(f"{path}: cannot read it: {getattr(error, 'strerror', None) or error}") from None
        self._socket = None if address is None else listening_at(address, "--faults-listen")

    async def start(self, node: Node, scheduler: Scheduler) -> None:
        self._node, self.scheduler = node, scheduler
        _logger.warning("this broker fails on command: %d rules are set", len(self.injector.script.rules))
        if self._socket is None:
            return
        changes = {b"PUT": self._put, b"DELETE": self._delete}
        page = Page(self._history, "application/json", changes)
        self._endpoint = HttpEndpoint({PATH: page}, f"PUT, GET and DELETE {PATH}")
        await self._endpoint.start([self._socket])
        host, port = self._socket.getsockname()[:2]
        _logger.warning("faults at http://%s:%d%s", f"[{host}]" if ":" in host else host, port, PATH)

    def close(self) -> None:
        if self._endpoint is not None:
            self._endpoint.close()

    def _put(self, body: str) -> None:
        self._set(read_script(body))

    def _set(self, script: Script) -> None:
        self.injector.set(script, self.clock.monotonic_ns() // 1_000_000)

    def _delete(self, body: str) -> None:
        self.injector.clear()

    async def _history(self) -> str:
        injected = [each._asdict() for each in self.injector.history]
        return json.dumps({"rules": len(self.injector.script.rules), "history": injected})

    # What faults do to the broker

    def topic_name(self, topic: object) -> str:
        name = self._node.topic_name(topic) if isinstance(topic, UUID) else None
        return str(topic) if name is None else name

    def move_log_start(self, topic: str) -> None:
        found = self._node.partitions.topic(topic)
        for index in range(0 if found is None else found.partition_count):
            partition = self._node.partitions.find(topic, index)
            if partition is not None and partition.is_leader:
                partition.delete_records(-1)

    # Connections

    def connection(self, dispatch: Dispatch, listener: str, make: Callable[[Dispatch], Connection]) -> FaultyConnection:
        self._connections += 1
        return FaultyConnection(self, dispatch, listener, self._connections, make)

    def is_refused(self, connection: FaultyConnection) -> bool:
        """Count a connection that was made; True if a fault closes it."""
        self._open_connections += 1
        request = FaultRequest(
            None,
            listener=connection.listener,
            connection=connection.number,
            open_connections=self._open_connections,
        )
        hit = self.injector.on_request(request, self.clock.monotonic_ns() // 1_000_000)
        effects = () if hit is None else hit.effects
        for effect in effects:
            if isinstance(effect, Slow):
                connection.slow_down(effect.bytes_per_s)
        return any(isinstance(effect, Drop) for effect in effects)

    def lost(self) -> None:
        self._open_connections -= 1


class FaultyConnection(asyncio.BufferedProtocol):
    """Stands between the event loop and a connection."""

    def __init__(
        self,
        plane: FaultPlane,
        dispatch: Dispatch,
        listener: str,
        number: int,
        make: Callable[[Dispatch], Connection],
    ) -> None:
        self.listener = listener
        self.number = number
        self._plane = plane
        self._bytes_per_s = 0
        self._transport: _SlowTransport | None = None
        self._inner = make(FaultyDispatch(plane, dispatch, number, self.slow_down).dispatch)

    def slow_down(self, bytes_per_s: int) -> None:
        self._bytes_per_s = bytes_per_s
        if self._transport is not None:
            self._transport.bytes_per_s = bytes_per_s

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        stream = cast(asyncio.Transport, transport)  # uvloop's is none
        if self._plane.is_refused(self):
            stream.abort()
            return
        self._transport = _SlowTransport(stream, self._bytes_per_s)
        self._inner.connection_made(self._transport)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._inner.get_buffer(sizehint)

    def buffer_updated(self, nbytes: int) -> None:
        if self._transport is not None:
            self._inner.buffer_updated(nbytes)

    def pause_writing(self) -> None:
        self._inner.pause_writing()

    def resume_writing(self) -> None:
        self._inner.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        self._plane.lost()
        if self._transport is not None:
            self._transport.forget()
        self._inner.connection_lost(exc)


class _SlowTransport(asyncio.Transport):
    """Passes on what a connection writes, if that is wanted slowly."""

    def __init__(self, transport: asyncio.Transport, bytes_per_s: int) -> None:
        super().__init__()
        self._transport = transport
        self.bytes_per_s = bytes_per_s
        """0: as fast as it goes."""
        self._waiting: deque[memoryview] = deque()
        self._timer: asyncio.TimerHandle | None = None
        self._is_closing = False

    def writelines(self, list_of_data: Iterable[Any]) -> None:
        if not self.bytes_per_s:
            self._transport.writelines(list_of_data)
            return
        self._waiting.extend(memoryview(bytes(each)) for each in list_of_data)
        if self._timer is None:
            self._send()

    def _send(self) -> None:
        self._timer = None
        # At least one byte: less than so many a second need longer pauses.
        size = max(1, self.bytes_per_s // _TICKS_PER_S)
        pause_s = size / self.bytes_per_s
        while size and self._waiting:
            piece = self._waiting.popleft()
            self._transport.write(piece[:size])
            if len(piece) > size:
                self._waiting.appendleft(piece[size:])
            size -= min(size, len(piece))
        if self._waiting:
            self._timer = asyncio.get_running_loop().call_later(pause_s, self._send)
        elif self._is_closing:
            self._transport.close()

    def close(self) -> None:
        self._is_closing = True
        if not self._waiting:
            self._transport.close()

    def abort(self) -> None:
        self._transport.abort()

    def forget(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._waiting.clear()

    def get_write_buffer_size(self) -> int:
        return sum(map(len, self._waiting)) + self._transport.get_write_buffer_size()

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self._transport.set_write_buffer_limits(high, low)

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return self._transport.get_extra_info(name, default)

    def pause_reading(self) -> None:
        self._transport.pause_reading()

    def resume_reading(self) -> None:
        self._transport.resume_reading()
