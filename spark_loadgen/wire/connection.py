"""One non-blocking connection to one broker, and the blocking requests before the load."""

from __future__ import annotations

import errno
import os
import select
import socket
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Final, TypeVar

from confluent_kafka import KafkaError

from highwater.spark_loadgen.errors import LoadSetupError
from highwater.spark_loadgen.wire.batch import BatchBuffer
from highwater.spark_loadgen.wire.partition_state import Batch, PartitionState
from highwater.spark_loadgen.wire.protocol import (
    INIT_PRODUCER_ID,
    INIT_PRODUCER_ID_VERSION,
    LENGTH,
    METADATA,
    METADATA_VERSION,
    PRODUCE,
    PRODUCE_VERSION,
    Cluster,
    MalformedAnswerError,
    api_versions_request,
    correlation_of,
    init_producer_id_request,
    metadata_request,
    parse_api_versions,
    parse_init_producer_id,
    parse_metadata,
)

_CONNECT_TIMEOUT_S: Final = 10.0
_READ_BYTES: Final = 1 << 16
_ANSWER_BYTES_MAX: Final = 100 << 20
_PRODUCER_ID_WITHIN_S: Final = 30.0
_PRODUCER_ID_AGAIN_S: Final = 0.1
_NOTHING: Final = memoryview(b"")


class Connection:
    """A non-blocking connection for Produce requests. Raises OSError for errors of the network.

    in_flight: correlation id, partition, batch and send time of each request without an answer, oldest first.
    sending: a frame is not yet completely in the kernel; there is at most one such frame.
    """

    def __init__(self, address: tuple[str, int], buffer: BatchBuffer, send_buffer_bytes: int) -> None:
        self.address = address
        self.buffer = buffer
        self.in_flight: deque[tuple[int, PartitionState, Batch, int]] = deque()
        self.throttled_until_ns = 0
        self._outgoing = _NOTHING
        self._incoming = bytearray()
        self._correlation = 0
        family, kind, protocol, _, resolved = socket.getaddrinfo(*address, type=socket.SOCK_STREAM)[0]
        self.socket = socket.socket(family, kind, protocol)
        self.socket.setblocking(False)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if send_buffer_bytes:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, send_buffer_bytes)
        self._connecting = self.socket.connect_ex(resolved) == errno.EINPROGRESS

    @property
    def sending(self) -> bool:
        return self._connecting or bool(self._outgoing)

    def next_correlation(self) -> int:
        self._correlation = self._correlation + 1 & 0x7FFFFFFF
        return self._correlation

    def start(self, frame: memoryview) -> None:
        """Begin to send; call `push` until it returns True. The memory of the frame must not change before that."""
        self._outgoing = frame

    def push(self) -> bool:
        """Pass to the kernel what it accepts; True when nothing is left."""
        if self._connecting:
            if error := self.socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
                raise OSError(error, os.strerror(error))
            if not select.select([], [self.socket], [], 0)[1]:
                return False
            self._connecting = False
        while self._outgoing:
            try:
                self._outgoing = self._outgoing[self.socket.send(self._outgoing) :]
            except BlockingIOError:
                return False
        self._outgoing = _NOTHING
        return True

    def answers(self) -> Iterator[bytes]:
        """Every complete answer that has arrived, without its length field. Raises MalformedAnswerError."""
        try:
            data = self.socket.recv(_READ_BYTES)
        except BlockingIOError:
            return
        if not data:
            raise ConnectionResetError(errno.ECONNRESET, "the broker closed the connection")
        self._incoming += data
        while len(self._incoming) >= LENGTH.size:
            size = LENGTH.unpack_from(self._incoming)[0]
            if not LENGTH.size <= size <= _ANSWER_BYTES_MAX:
                raise MalformedAnswerError(f"an answer of {size} bytes")
            end = LENGTH.size + size
            if len(self._incoming) < end:
                return
            yield bytes(self._incoming[LENGTH.size : end])
            del self._incoming[:end]

    def close(self) -> None:
        self.socket.close()


def addresses_of(bootstrap_servers: str) -> list[tuple[str, int]]:
    """(host, port) of each bootstrap server. Raises LoadSetupError."""
    addresses = []
    for server in bootstrap_servers.split(","):
        host, colon, port = server.strip().rpartition(":")
        if not (colon and host and port.isdigit()):
            raise LoadSetupError(f"{server.strip()!r} is not HOST:PORT of a broker")
        addresses.append((host.strip("[]"), int(port)))
    return addresses


def fetch_cluster(addresses: Sequence[tuple[str, int]], client_id: str, topics: Sequence[str]) -> Cluster:
    """Fetch the leaders of `topics` from the first broker that answers; blocks.

    Raises OSError when no broker answers, MalformedAnswerError when the broker speaks an older protocol.
    """

    def ask(connection: socket.socket) -> Cluster:
        _check_versions(connection, client_id, ((PRODUCE, PRODUCE_VERSION), (METADATA, METADATA_VERSION)))
        return parse_metadata(exchange(connection, metadata_request(2, client_id, topics)))

    return first_to_answer(addresses, ask)


def fetch_producer_id(addresses: Sequence[tuple[str, int]], client_id: str) -> int:
    """Fetch a producer id for idempotence; retries for 30 s while brokers return an error. Raises as fetch_cluster."""

    def ask(connection: socket.socket) -> tuple[int, int]:
        _check_versions(connection, client_id, ((INIT_PRODUCER_ID, INIT_PRODUCER_ID_VERSION),))
        return parse_init_producer_id(exchange(connection, init_producer_id_request(2, client_id)))

    give_up_s = time.monotonic() + _PRODUCER_ID_WITHIN_S
    while True:
        error, producer_id = first_to_answer(addresses, ask)
        if not error:
            return producer_id
        if time.monotonic() > give_up_s:
            raise OSError(f"the broker returns no producer id: {KafkaError(error).str()}")
        time.sleep(_PRODUCER_ID_AGAIN_S)


_Answer = TypeVar("_Answer")


def first_to_answer(addresses: Sequence[tuple[str, int]], ask: Callable[[socket.socket], _Answer]) -> _Answer:
    """Ask one broker after the other until one answers. Raises OSError when none answers."""
    problem = OSError("no broker is named")
    for address in addresses:
        try:
            with socket.create_connection(address, timeout=_CONNECT_TIMEOUT_S) as connection:
                return ask(connection)
        except OSError as error:
            problem = error
    raise problem


def _check_versions(connection: socket.socket, client_id: str, needed: Sequence[tuple[int, int]]) -> None:
    spoken = parse_api_versions(exchange(connection, api_versions_request(1, client_id)))
    for api, version in needed:
        low, high = spoken.get(api, (0, -1))
        if not low <= version <= high:
            raise MalformedAnswerError("a protocol older than that of Kafka 2.1")


def exchange(connection: socket.socket, frame: bytes) -> bytes:
    """Send a frame and wait for its answer, which is returned without its length field."""
    connection.sendall(frame)
    size = LENGTH.unpack(_recv_exactly(connection, LENGTH.size))[0]
    if not LENGTH.size <= size <= _ANSWER_BYTES_MAX:
        raise MalformedAnswerError(f"an answer of {size} bytes")
    answer = _recv_exactly(connection, size)
    correlation_of(answer)
    return answer


def _recv_exactly(connection: socket.socket, size: int) -> bytes:
    data = bytearray()
    while len(data) < size:
        part = connection.recv(size - len(data))
        if not part:
            raise ConnectionResetError(errno.ECONNRESET, "the broker closed the connection")
        data += part
    return bytes(data)
