"""Loads of fetches on one connection, for `tools.request_cost`: at the end of a log, behind it, and in a large session.

The client is Python and waits for each answer: the broker's CPU time is what counts here.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter
from typing import Final

from highwater.bench.native.clients import record_batch
from highwater.common.errors import TrialError
from highwater.kafka.protocol.apis import FETCH, PRODUCE
from highwater.kafka.protocol.fetch import (
    FLEXIBLE_FROM,
    FetchPartition,
    FetchRequest,
    decode_consumer_response,
    encode_consumer_request,
)
from highwater.kafka.protocol.primitives import Decoder
from tools.versions import WITHIN_S, Running

Send = Callable[[int], float]
"""Sends so many requests; returns in how many seconds they were answered."""

_RECORD_BYTES: Final = 1024
_MOST_BYTES: Final = 50 << 20
_LENGTH: Final = struct.Struct(">i")
_SESSION: Final = struct.Struct(">ihi")
"""Throttle time, error, id of the session; before them in an answer the correlation id and a byte for tags."""
_BODY: Final = 5
_FULL_FETCH: Final = (0, 0)
_NO_SESSION: Final = (0, -1)
"""(id, epoch) of a session"""


@dataclass(frozen=True, slots=True)
class AtTheEnd:
    """Fetches of the last record of a partition, as of a consumer that keeps up."""

    requests: int

    def prepare(self, broker: Running, topic: str) -> Send:
        broker.create_topic(topic)
        client = _Client(broker.port)
        _fill(client, topic, partitions=1, batches=1000, records=1)
        body = _fetch(topic, [_wanted(0, 999)], max_wait_ms=0)

        def send() -> None:
            _expect(client.ask(FETCH, FLEXIBLE_FROM, body), 1)

        return _timed(send)


@dataclass(frozen=True, slots=True)
class Behind:
    """Fetches of `partition_bytes` from each of many partitions, as of a consumer that catches up."""

    requests: int
    partitions: int
    partition_bytes: int

    def prepare(self, broker: Running, topic: str) -> Send:
        broker.create_topic(topic, self.partitions)
        client = _Client(broker.port)
        _fill(client, topic, self.partitions, batches=16, records=16)
        wanted = [_wanted(index, 64, self.partition_bytes) for index in range(self.partitions)]
        body = _fetch(topic, wanted, max_wait_ms=0)

        def send() -> None:
            _expect(client.ask(FETCH, FLEXIBLE_FROM, body), self.partitions)

        return _timed(send)


@dataclass(frozen=True, slots=True)
class WaitingInSession:
    """A consumer waits for records of many partitions, and one comes to one of them: a Produce and a Fetch."""

    requests: int
    partitions: int

    def prepare(self, broker: Running, topic: str) -> Send:
        broker.create_topic(topic, self.partitions)
        consumer, producer = _Client(broker.port), _Client(broker.port)
        wanted = [_wanted(index, 0) for index in range(self.partitions)]
        began = consumer.ask(FETCH, FLEXIBLE_FROM, _fetch(topic, wanted, _FULL_FETCH, max_wait_ms=0))
        _, _, session_id = _SESSION.unpack_from(began, _BODY)
        batch = record_batch(1, _RECORD_BYTES)
        offsets = [0] * self.partitions
        steps = iter(range(1 << 30))
        named: list[FetchPartition] = []

        def send() -> None:
            step = next(steps)
            index = step % self.partitions
            consumer.send(FETCH, FLEXIBLE_FROM, _fetch(topic, named, (session_id, step + 1), max_wait_ms=10_000))
            producer.ask(PRODUCE, 7, _produce(topic, index, batch))
            _expect(consumer.receive(), 1)
            offsets[index] += 1
            named[:] = [_wanted(index, offsets[index])]

        return _timed(send)


FETCHES: Final[dict[str, AtTheEnd | Behind | WaitingInSession]] = {
    "the last record, fetched": AtTheEnd(20_000),
    "16 KiB of each of 100 partitions, fetched": Behind(500, 100, 17_000),
    "a record produced and waited for": WaitingInSession(20_000, 1),
    "a record for one of 1,000 partitions of a session": WaitingInSession(2_000, 1000),
}


class _Client:
    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=WITHIN_S)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._buffer = bytearray(1 << 20)

    def ask(self, api_key: int, version: int, body: bytes) -> memoryview:
        self.send(api_key, version, body)
        return self.receive()

    def send(self, api_key: int, version: int, body: bytes) -> None:
        tags = b"\0" if api_key == FETCH else b""
        frame = struct.pack(">hhih", api_key, version, 7, -1) + tags + body
        self._socket.sendall(_LENGTH.pack(len(frame)) + frame)

    def receive(self) -> memoryview:
        """The answer from its correlation id on, until the next one is received."""
        (size,) = _LENGTH.unpack(self._take(_LENGTH.size))
        return self._take(size)

    def _take(self, size: int) -> memoryview:
        if size > len(self._buffer):
            self._buffer = bytearray(size)
        view = memoryview(self._buffer)[:size]
        done = 0
        while done < size:
            count = self._socket.recv_into(view[done:])
            if not count:
                raise TrialError("the broker closed the connection of a consumer")
            done += count
        return view


def _wanted(index: int, offset: int, max_bytes: int = 1 << 20) -> FetchPartition:
    return FetchPartition(index, -1, offset, -1, max_bytes)


def _fetch(
    topic: str, wanted: list[FetchPartition], session: tuple[int, int] = _NO_SESSION, *, max_wait_ms: int
) -> bytes:
    topics = [(topic, wanted)] if wanted else []
    request = FetchRequest(-1, max_wait_ms, 1, _MOST_BYTES, 0, *session, topics, [], "")
    return encode_consumer_request(request, FLEXIBLE_FROM)


def _produce(topic: str, index: int, batch: bytes) -> bytes:
    name = topic.encode()
    head = struct.pack(f">hhiih{len(name)}si", -1, 1, 30_000, 1, len(name), name, 1)
    return head + struct.pack(">ii", index, len(batch)) + batch


def _expect(answer: memoryview, partitions: int) -> None:
    """Raise TrialError unless so many partitions have records."""
    error, fetched = decode_consumer_response(Decoder(answer, _BODY, flexible=True), FLEXIBLE_FROM)
    found = sum(bool(len(each.records)) for each in fetched)
    if error or found != partitions:
        raise TrialError(f"a fetch brought records of {found} partitions, not of {partitions}, with {error!r}")


def _fill(client: _Client, topic: str, partitions: int, batches: int, records: int) -> None:
    """Produce so many batches to each partition."""
    batch = record_batch(records, _RECORD_BYTES)
    for index in [*range(partitions)] * batches:
        client.ask(PRODUCE, 7, _produce(topic, index, batch))


def _timed(send: Callable[[], None]) -> Send:
    def timed(requests: int) -> float:
        began = perf_counter()
        for _ in range(requests):
            send()
        return perf_counter() - began

    return timed
