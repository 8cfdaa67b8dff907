"""The answers of a calibration broker, which leads every partition of every topic.

It has the APIs that producers need: ApiVersions 0 and 3, Metadata 5, InitProducerId 0 and 1, Produce up to 7 with one
partition per request, as librdkafka and the wire driver send them. The null broker and the keeping broker receive the
requests and handle the records.
"""

from __future__ import annotations

import socket
import struct
from collections import Counter
from typing import ClassVar, Final, NamedTuple

from kio.schema.errors import ErrorCode

from highwater.kafka.protocol import cold, metadata
from highwater.kafka.protocol.primitives import Decoder, MalformedRequestError

PRODUCE: Final = 0
FETCH: Final = 1
_METADATA, _API_VERSIONS, _INIT_PRODUCER_ID = 3, 18, 22
LEADER: Final = 1
LENGTH: Final = struct.Struct(">i")
HEADER: Final = struct.Struct(">hhi")
BATCH_HEADER_BYTES: Final = 61
_COUNT_AT: Final = 57


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
        """The answer to any request except Produce; `body` begins with the client id. Raises MalformedRequestError."""
        decoder = Decoder(memoryview(body))
        decoder.nullable_string()
        return LENGTH.pack(correlation) + self.answer_to(api, version, decoder)

    def answer_to(self, api: int, version: int, request: Decoder) -> bytes:
        """The answer's body. Raises MalformedRequestError."""
        if api == _API_VERSIONS and version <= 3:
            spoken = [{"api_key": key, "min_version": first, "max_version": last} for key, first, last in self.spoken]
            return cold.encode_response("api_versions", version, {"api_keys": spoken})
        if (api, version) == (_METADATA, 5):
            return self._metadata(metadata.decode_request(request, version))
        if api == _INIT_PRODUCER_ID and version <= 1:
            return cold.encode_response("init_producer_id", version, {"producer_id": 1, "producer_epoch": 0})
        raise MalformedRequestError(f"API {api} in version {version} is not spoken")

    def _metadata(self, request: metadata.MetadataRequest) -> bytes:
        names = list(self._topics) if request.topics is None else [topic.name or "" for topic in request.topics]
        broker = metadata.BrokerMetadata(LEADER, *self.address, None)
        topics = [
            metadata.TopicMetadata(
                ErrorCode.none,
                name,
                partitions=[
                    metadata.PartitionMetadata(ErrorCode.none, partition, LEADER, 0, [LEADER], [LEADER], [])
                    for partition in range(self._topics.get(name, 1))
                ],
            )
            for name in names
        ]
        return b"".join(metadata.encode_response(metadata.ClusterMetadata([broker], None, LEADER, topics), 5))


def produce_head(request: bytes | bytearray, at: int) -> ProduceHead | None:
    """Parse a request whose body begins at `at`; None while bytes are missing. Raises MalformedRequestError."""
    try:
        for _ in range(2):  # client id, transactional id
            at += 2 + max(0, struct.unpack_from(">h", request, at)[0])
        acks, _, topics, name_bytes = struct.unpack_from(">hiih", request, at)
        name_end = at + 12 + name_bytes
        partitions, partition, records_bytes = struct.unpack_from(">iii", request, name_end)
    except struct.error:
        return None
    if (topics, partitions) != (1, 1):
        raise MalformedRequestError("more than one partition in a Produce request")
    return ProduceHead(acks, bytes(request[at + 12 : name_end]), partition, records_bytes, name_end + 12)
