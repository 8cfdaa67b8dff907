"""Loads of Produce over several partitions on one connection, for `tools.request_cost`.

The client is Python, sends many requests at once and waits for all of their answers: the broker's CPU time is what
counts here.
"""

from __future__ import annotations

import socket
import struct
import time
from dataclasses import dataclass
from typing import Final

from highwater.common.errors import TrialError
from highwater.kafka.protocol.apis import PRODUCE
from highwater.kafka.records.record import Record, encode_batch
from tools.fetch_loads import Send
from tools.versions import WITHIN_S, Running

_VERSION: Final = 7
_RECORD_BYTES: Final = 1024
_PARTITIONS: Final = 8
_FRESH_S: Final = 1.0
"""A broker may look closer at records that are older."""


@dataclass(frozen=True, slots=True)
class OverPartitions:
    """Requests, so many in flight, with a record for each of `partitions_each` of 8 partitions, which take turns."""

    requests: int
    in_flight: int
    partitions_each: int

    def prepare(self, broker: Running, topic: str) -> Send:
        broker.create_topic(topic, _PARTITIONS)
        stream = socket.create_connection(("127.0.0.1", broker.port), timeout=WITHIN_S)
        stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

        def send(requests: int) -> float:
            began = time.perf_counter()
            encoded_s, sent = 0.0, b""
            for done in range(0, requests, self.in_flight):
                if not done or time.monotonic() - encoded_s > _FRESH_S:
                    encoded_s, sent = time.monotonic(), self._encoded(topic)
                stream.sendall(sent)
                self._take_answers(stream)
            return time.perf_counter() - began

        return send

    def _encoded(self, topic: str) -> bytes:
        record = Record(bytes(_RECORD_BYTES), timestamp_ms=int(time.time() * 1000))
        batch = bytes(encode_batch([record]))
        name, sent, index = topic.encode(), bytearray(), 0
        for _ in range(self.in_flight):
            frame = struct.pack(">hhihhhi", PRODUCE, _VERSION, 7, -1, -1, 1, 30_000)
            frame += struct.pack(f">ih{len(name)}si", 1, len(name), name, self.partitions_each)
            for _ in range(self.partitions_each):
                frame += struct.pack(">ii", index % _PARTITIONS, len(batch)) + batch
                index += 1
            sent += struct.pack(">i", len(frame)) + frame
        return bytes(sent)

    def _take_answers(self, stream: socket.socket) -> None:
        held, answered = bytearray(), 0
        while answered < self.in_flight:
            received = stream.recv(1 << 20)
            if not received:
                raise TrialError("the broker closed the connection of a producer")
            held += received
            at = 0
            while len(held) - at >= 4 and len(held) - at >= (size := 4 + int.from_bytes(held[at : at + 4], "big")):
                # Behind size, correlation id, one topic and its name: error and offset of the first partition.
                (name_bytes,) = struct.unpack_from(">h", held, at + 12)
                error, offset = struct.unpack_from(">hq", held, at + 14 + name_bytes + 8)
                if error or offset < 0:
                    raise TrialError(f"a producer got error {error}")
                at += size
                answered += 1
            del held[:at]


OVER_PARTITIONS: Final[dict[str, OverPartitions]] = {
    "one record, 64 in flight over 8 partitions": OverPartitions(100_000, 64, 1),
    "a record for each of 8 partitions, 8 in flight": OverPartitions(12_500, 8, 8),
}
