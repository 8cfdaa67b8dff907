"""Requests that confluent-kafka cannot send: one request on one plaintext connection to one broker."""

from __future__ import annotations

import socket
import struct
import time
from typing import Any, Final, NamedTuple

from kio.schema.errors import ErrorCode

from highwater.broker.commands.client import CONNECT_TIMEOUT_S, REQUEST_TIMEOUT_S, Cluster
from highwater.broker.commands.terminal import CommandError, UsageError
from highwater.broker.protocol import cold
from highwater.broker.protocol.apis import APIS
from highwater.broker.protocol.primitives import Decoder, MalformedRequestError

_HEADER: Final = struct.Struct(">hhih")
_NO_CLIENT_ID: Final = -1
_CORRELATION_ID: Final = struct.Struct(">i")
_LENGTH: Final = struct.Struct(">i")
_MAX_ANSWER_BYTES: Final = 64 << 20
_RETRY_S: Final = 0.2
_KEYS: Final = {api.name: api for api in APIS.values()}
_WHILE_A_COORDINATOR_STARTS: Final = (ErrorCode.coordinator_not_available, ErrorCode.coordinator_load_in_progress)
GROUP: Final = 0
TRANSACTIONAL_ID: Final = 1
"""The key types of FindCoordinator."""


class Node(NamedTuple):
    """A broker of the cluster."""

    node_id: int
    host: str
    port: int

    def ask(self, api: str, version: int, /, **fields: Any) -> Any:
        """Send one request, with kio's names, and return the response. Raises UsageError when none comes."""
        try:
            return self._exchange(api, version, fields)
        except (OSError, EOFError, MalformedRequestError) as error:
            reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
            raise UsageError(
                f"broker {self.node_id} at {self.host}:{self.port} does not answer {api} version {version}, asked over "
                f"a plain connection: {reason}"
            ) from None

    def _exchange(self, api: str, version: int, fields: cold.Answer) -> Any:
        flexible = _KEYS[api].is_flexible(version)
        header = _HEADER.pack(_KEYS[api].key, version, 1, _NO_CLIENT_ID) + (b"\0" if flexible else b"")
        request = header + cold.encode_request(api, version, fields)
        with socket.create_connection((self.host, self.port), CONNECT_TIMEOUT_S) as connection:
            connection.settimeout(REQUEST_TIMEOUT_S)
            connection.sendall(_LENGTH.pack(len(request)) + request)
            (size,) = _LENGTH.unpack(_receive(connection, _LENGTH.size))
            if not _CORRELATION_ID.size <= size <= _MAX_ANSWER_BYTES:
                raise EOFError(f"an answer of {size} bytes")
            decoder = Decoder(memoryview(_receive(connection, size)), _CORRELATION_ID.size, flexible=flexible)
        decoder.skip_tags()
        return cold.decode_response(api, version, decoder)


def nodes_of(cluster: Cluster) -> list[Node]:
    return sorted(Node(int(node.id), str(node.host), int(node.port)) for node in cluster.metadata.brokers.values())


def ask_any(cluster: Cluster, api: str, version: int, /, **fields: Any) -> Any:
    """Return the response of the first broker that answers; metadata may still list brokers that just died."""
    *others, last = nodes_of(cluster)
    for node in others:
        try:
            return node.ask(api, version, **fields)
        except UsageError:
            continue
    return last.ask(api, version, **fields)


def coordinator_of(cluster: Cluster, key: str, key_type: int = TRANSACTIONAL_ID) -> Node:
    """Find a coordinator, and wait while it starts. Raises CommandError when there is none."""
    deadline = time.monotonic() + REQUEST_TIMEOUT_S
    while True:
        answer = ask_any(cluster, "find_coordinator", 1, key=key, key_type=key_type)
        if answer.error_code is ErrorCode.none:
            return Node(answer.node_id, answer.host, answer.port)
        if answer.error_code not in _WHILE_A_COORDINATOR_STARTS or time.monotonic() >= deadline:
            raise CommandError(f"{key}: no coordinator of it can be found ({answer.error_code.name})")
        time.sleep(_RETRY_S)


def ask_controller(cluster: Cluster, api: str, version: int, /, **fields: Any) -> Any:
    """Return the response of the controller; waits for an election. Raises CommandError when there is none."""
    deadline = time.monotonic() + REQUEST_TIMEOUT_S
    while True:
        metadata = ask_any(cluster, "metadata", 9, topics=[], allow_auto_topic_creation=False)
        controller = next((each for each in metadata.brokers if each.node_id == metadata.controller_id), None)
        reason = "the cluster has no controller now"
        if controller is not None:
            try:
                answer = Node(controller.node_id, controller.host, controller.port).ask(api, version, **fields)
            except UsageError as error:
                reason = str(error)  # the controller may have died a moment ago
            else:
                if answer.error_code is not ErrorCode.not_controller:
                    return answer
        if time.monotonic() >= deadline:
            raise CommandError(reason)
        time.sleep(_RETRY_S)


def _receive(connection: socket.socket, size: int) -> bytes:
    data = bytearray()
    while len(data) < size:
        piece = connection.recv(size - len(data))
        if not piece:
            raise EOFError("it closed the connection")
        data += piece
    return bytes(data)
