"""A broker that answers what a test says: for moves of leaders and for answers that lack something."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final
from uuid import UUID

from kio.schema.errors import ErrorCode

from highwater.kafka.protocol import cold, fetch, produce
from highwater.kafka.protocol.apis import API_VERSIONS, APIS, FETCH, PRODUCE, api_of
from highwater.kafka.protocol.frame import frame_response, read_request_header
from highwater.kafka.protocol.primitives import Decoder

Answers = Callable[[str, Any], Any]
"""(name of the API, request) → the fields of the answer; of Fetch, partitions; None to disconnect."""

_LENGTH: Final = struct.Struct(">i")
TOPIC_ID: Final = UUID(int=7)


class FakeBroker:
    """Listens on a free port until it is closed."""

    def __init__(self, answers: Answers) -> None:
        self.answers = answers
        self.asked: list[str] = []
        self.closed = 0
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listening.getsockname()[1]
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._threads[0].start()
        self._open: list[socket.socket] = []

    def close(self) -> None:
        if self._listening.fileno() < 0:
            return
        self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        for connection in self._open:
            try:
                connection.shutdown(socket.SHUT_RDWR)
            except OSError:
                continue
        for thread in self._threads:
            thread.join(60)

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listening.accept()
            except OSError:
                return
            self._open.append(connection)
            thread = threading.Thread(target=self._serve, args=(connection,), daemon=True)
            self._threads.append(thread)
            thread.start()

    def _serve(self, connection: socket.socket) -> None:
        with connection, connection.makefile("rb") as stream:
            while True:
                try:
                    head = stream.read(_LENGTH.size)
                    if len(head) < _LENGTH.size:
                        break
                    answer = self._answer(memoryview(stream.read(*_LENGTH.unpack(head))))
                    if answer is None:
                        break
                    self.send(connection, answer)
                except OSError:
                    break
            self.closed += 1

    def send(self, connection: socket.socket, answer: bytes) -> None:
        """A test can replace it."""
        connection.sendall(answer)

    def _answer(self, request: memoryview) -> bytes | None:
        header = read_request_header(request)
        api, version = api_of(header.api_key), header.api_version
        decoder = Decoder(request, header.body_position, flexible=api.is_flexible(version))
        decoder.skip_tags()
        self.asked.append(api.name)
        parts: list[Any]
        if api.key == API_VERSIONS:
            keys = [{"api_key": each.key, "min_version": 0, "max_version": each.max_version} for each in APIS.values()]
            parts = [cold.encode_response("api_versions", version, {"api_keys": keys})]
        elif api.key == FETCH:
            asked = fetch.decode_request(decoder, version)
            found = self.answers("fetch", asked)
            if found is None:
                return None
            parts = fetch.encode_response([(asked.topics[0][0], found)], version)
        else:
            decoded: Any = (
                produce.decode_request(decoder, version)
                if api.key == PRODUCE
                else cold.decode_request(api.name, version, decoder)
            )
            fields = self.answers(api.name, decoded)
            if fields is None:
                return None
            parts = [cold.encode_response(api.name, version, fields)]
        is_flexible = api.is_flexible(version) and api.key != API_VERSIONS
        return b"".join(map(bytes, frame_response(header.correlation_id, parts, flexible_header=is_flexible)))


@contextmanager
def fake_broker(answers: Answers) -> Iterator[FakeBroker]:
    broker = FakeBroker(answers)
    try:
        yield broker
    finally:
        broker.close()


def cluster_of(
    ports: Sequence[int],
    leaders: dict[int, int],
    *,
    topic_id: UUID | None = TOPIC_ID,
    error: ErrorCode = ErrorCode.none,
) -> cold.Answer:
    """The answer to Metadata of a cluster with a topic `t`; `leaders`: partition → index of the broker, −1 for none."""
    partitions = [
        {"partition_index": partition, "leader_id": leader, "leader_epoch": 1, "replica_nodes": [0], "isr_nodes": [0]}
        for partition, leader in leaders.items()
    ]
    return {
        "brokers": [{"node_id": node, "host": "127.0.0.1", "port": port} for node, port in enumerate(ports)],
        "cluster_id": "fake",
        "topics": [{"name": "t", "topic_id": topic_id, "partitions": partitions, "error_code": error}],
    }
