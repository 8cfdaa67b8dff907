"""Connections between simulated processes as brokers and clients use them. Implements `Peers` and `Peer`."""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Callable
from typing import Final

from highwater.broker.cluster.peers import Endpoint, OnBreak, PeerFailure
from highwater.kafka.protocol.apis import api_of
from highwater.kafka.protocol.frame import Parts
from tests.broker.simulation.network import Connection, Network
from tests.broker.simulation.world import Event, Process

_REQUEST_HEADER: Final = struct.Struct(">hhih")
_CORRELATION_ID: Final = struct.Struct(">i")

Then = Callable[[memoryview | PeerFailure], None]


class SimulatedPeers:
    def __init__(self, network: Network, process: Process, host: str) -> None:
        self._network = network
        self._process = process
        self._host = host

    def connect(
        self, endpoint: Endpoint, client_id: str, *, name: str = "", on_break: OnBreak | None = None
    ) -> SimulatedPeer:
        return SimulatedPeer(self._network, self._process, self._host, endpoint, client_id, on_break)


class _Request:
    __slots__ = ("correlation_id", "frame", "is_flexible", "then", "timer")

    def __init__(self, correlation_id: int, frame: bytes, is_flexible: bool, then: Then, timer: Event) -> None:
        self.correlation_id = correlation_id
        self.frame = frame
        self.is_flexible = is_flexible
        self.then = then
        self.timer = timer


class SimulatedPeer:
    def __init__(
        self,
        network: Network,
        process: Process,
        host: str,
        endpoint: Endpoint,
        client_id: str,
        on_break: OnBreak | None,
    ) -> None:
        self._network = network
        self._process = process
        self._host = host
        self._endpoint = endpoint
        self._client_id = client_id.encode()
        self._on_break = on_break
        self._connection: Connection | None = None
        self._is_established = False
        self._is_closed = False
        self._under_way: deque[_Request] = deque()
        self._correlation_id = 0

    def send(self, api_key: int, version: int, body: Parts, then: Then, *, timeout_ms: int) -> None:
        assert not self._is_closed, "a request on a closed connection"
        self._network.requests[self._client_id.decode(), self._endpoint.host, api_key] += 1
        self._correlation_id += 1
        is_flexible = api_of(api_key).is_flexible(version)
        head = _REQUEST_HEADER.pack(api_key, version, self._correlation_id, len(self._client_id)) + self._client_id
        frame = b"".join((head, b"\x00" if is_flexible else b"", *body))
        timer = self._process.call_later(timeout_ms, self._timed_out)
        request = _Request(self._correlation_id, frame, is_flexible, then, timer)
        self._under_way.append(request)
        if self._connection is None:
            self._connection = self._network.connect(self._process, self._host, self._endpoint, self)
        elif self._is_established:
            self._send(request)

    def send_unanswered(self, api_key: int, version: int, body: Parts) -> None:
        """A request that gets no answer (Produce with acks=0), on a connection that stands."""
        if self._is_established and self._connection is not None:
            head = _REQUEST_HEADER.pack(api_key, version, 0, len(self._client_id)) + self._client_id
            self._connection.send_to_server(b"".join((head, *body)))

    def close(self) -> None:
        self._is_closed = True
        for request in self._under_way:
            request.timer.cancel()
        self._under_way.clear()
        self._hang_up()

    # The connection

    def established(self) -> None:
        self._is_established = True
        for request in self._under_way:
            self._send(request)

    def received(self, answer: bytes) -> None:
        request = self._under_way.popleft()
        request.timer.cancel()
        (correlation_id,) = _CORRELATION_ID.unpack_from(answer, 4)
        assert correlation_id == request.correlation_id, "answers come in the order of requests"
        request.then(memoryview(answer)[9 if request.is_flexible else 8 :])

    def broken(self, failure: PeerFailure) -> None:
        stood = self._is_established
        self._connection = None
        self._is_established = False
        self._fail(failure)
        if stood and self._on_break is not None and not self._is_closed:
            self._on_break(failure)

    def _send(self, request: _Request) -> None:
        assert self._connection is not None
        self._connection.send_to_server(request.frame)

    def _timed_out(self) -> None:
        stood = self._is_established
        self._hang_up()
        self._fail(PeerFailure.TIMED_OUT)
        if stood and self._on_break is not None and not self._is_closed:
            self._on_break(PeerFailure.TIMED_OUT)

    def _hang_up(self) -> None:
        connection, self._connection = self._connection, None
        self._is_established = False
        if connection is not None:
            connection.close()

    def _fail(self, failure: PeerFailure) -> None:
        failed, self._under_way = self._under_way, deque()
        for request in failed:
            request.timer.cancel()
        for request in failed:
            # One of them may close this.
            if not self._is_closed:
                request.then(failure)
