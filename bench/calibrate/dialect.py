"""The answers of a calibration broker, which leads every partition of every topic.

It has the APIs that producers need: ApiVersions 0 and 3, Metadata 5, InitProducerId 0 and 1, Produce up to 7 with one
partition per request, as librdkafka and the wire driver send them. The null broker and the keeping broker receive the
requests and handle the records.
"""

from __future__ import annotations

import socket
import struct
from collections import Counter
from collections.abc import Iterator
from typing import ClassVar, Final, NamedTuple

PRODUCE: Final = 0
FETCH: Final = 1
_METADATA, _API_VERSIONS, _INIT_PRODUCER_ID = 3, 18, 22
LEADER: Final = 1
LENGTH: Final = struct.Struct(">i")
HEADER: Final = struct.Struct(">hhi")
BATCH_HEADER_BYTES: Final = 61
_COUNT_AT: Final = 57


class ProtocolError(Exception):
    """A client sent a request that this broker does not support."""


class ProduceHead(NamedTuple):
    """The fields of a Produce request before its records."""

    acks: int
    topic: bytes
    partition: int
    records_bytes: int
    records_at: int


class Dialect:
    """Makes answers from the bytes of requests; the listening socket gives the address for Metadata."""

    # Fetch is listed because librdkafka assumes that a broker without Fetch does not know record batches.
    spoken: ClassVar[tuple[tuple[int, int, int], ...]] = (
        (PRODUCE, 3, 7),
        (FETCH, 4, 4),
        (_METADATA, 5, 5),
        (_API_VERSIONS, 0, 3),
        (_INIT_PRODUCER_ID, 0, 1),
    )

    def __init__(self, topics: dict[str, int]) -> None:
        """topics: name -> partitions, for Metadata requests of all topics; any other topic has 1 partition."""
        self._topics = topics
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=256)
        self.address: tuple[str, int] = self.listener.getsockname()
        self._next_offset: Counter[tuple[bytes, int]] = Counter()

    @property
    def records(self) -> int:
        return self._next_offset.total()

    def error_for(self, topic: str, partition: int, batch_header: bytes) -> int:
        """The error code of the next Produce answer; subclasses may override it."""
        return 0

    def acknowledge(self, found: ProduceHead, batch_header: bytes, correlation: int, version: int) -> bytes:
        """Count the records and return the answer, which is empty with acks=0."""
        error = self.error_for(found.topic.decode(), found.partition, batch_header)
        key = found.topic, found.partition
        offset = self._next_offset[key]
        self._next_offset[key] += 0 if error else LENGTH.unpack_from(batch_header, _COUNT_AT)[0]
        if not found.acks:
            return b""
        start_offset = b"" if version < 5 else bytes(8)
        topic = struct.pack(">h", len(found.topic)) + found.topic
        partition = struct.pack(">iihqq", 1, found.partition, error, offset, -1)
        return b"".join((struct.pack(">ii", correlation, 1), topic, partition, start_offset, bytes(4)))

    def answer(self, api: int, version: int, correlation: int, body: bytes) -> bytes:
        """The answer to any request except Produce; `body` begins with the client id. Raises ProtocolError."""
        after_client_id = 2 + max(0, struct.unpack_from(">h", body)[0])
        return LENGTH.pack(correlation) + self.answer_to(api, version, body[after_client_id:])

    def answer_to(self, api: int, version: int, body: bytes) -> bytes:
        """The answer's body. Raises ProtocolError."""
        if api == _API_VERSIONS:
            return self._api_versions(version)
        if (api, version) == (_METADATA, 5):
            return self._metadata(body)
        if api == _INIT_PRODUCER_ID and version <= 1:
            return struct.pack(">ihqh", 0, 0, 1, 0)
        raise ProtocolError

    def _api_versions(self, version: int) -> bytes:
        if version < 3:
            throttle = bytes(4) if version else b""
            rows = b"".join(struct.pack(">hhh", *row) for row in self.spoken)
            return struct.pack(">hi", 0, len(self.spoken)) + rows + throttle
        rows = b"".join(struct.pack(">hhhb", *row, 0) for row in self.spoken)
        return struct.pack(">hB", 0, len(self.spoken) + 1) + rows + bytes(5)

    def _metadata(self, body: bytes) -> bytes:
        (count,) = LENGTH.unpack_from(body)
        names = list(self._topics) if count < 0 else list(strings(body, count))
        host, port = self.address
        parts = [struct.pack(">iii", 0, 1, LEADER), string(host), struct.pack(">ihhi", port, -1, -1, LEADER)]
        parts.append(LENGTH.pack(len(names)))
        for name in names:
            partitions = self._topics.get(name, 1)
            parts += [struct.pack(">h", 0), string(name), struct.pack(">bi", 0, partitions)]
            parts += [
                struct.pack(">hiiiiiii", 0, partition, LEADER, 1, LEADER, 1, LEADER, 0)
                for partition in range(partitions)
            ]
        return b"".join(parts)


def produce_head(request: bytes | bytearray, at: int) -> ProduceHead | None:
    """Parse a request whose body begins at `at`; None while bytes are missing. Raises ProtocolError."""
    try:
        for _ in range(2):  # client id, transactional id
            at += 2 + max(0, struct.unpack_from(">h", request, at)[0])
        acks, _, topics, name_bytes = struct.unpack_from(">hiih", request, at)
        name_end = at + 12 + name_bytes
        partitions, partition, records_bytes = struct.unpack_from(">iii", request, name_end)
    except struct.error:
        return None
    if (topics, partitions) != (1, 1):
        raise ProtocolError
    return ProduceHead(acks, bytes(request[at + 12 : name_end]), partition, records_bytes, name_end + 12)


def string(text: str) -> bytes:
    return struct.pack(">h", len(text)) + text.encode()


def strings(body: bytes, count: int) -> Iterator[str]:
    at = LENGTH.size
    for _ in range(count):
        (size,) = struct.unpack_from(">h", body, at)
        yield body[at + 2 : at + 2 + size].decode()
        at += 2 + size
