"""A broker that keeps records in memory and serves them: shows the ceiling of consumers.

It stores batches as they are and sets only their offsets. Besides the APIs for producers it has those for consumers
without a group: Fetch 4, ListOffsets 2, FindCoordinator 0. Each connection has its own thread, since the answer to a
fetch without data must wait.
"""

from __future__ import annotations

import json
import select
import socket
import threading
import time
from bisect import bisect_right
from collections import defaultdict
from contextlib import AbstractContextManager, suppress
from typing import Any, Final

from kio.schema.errors import ErrorCode

from highwater.bench.calibrate.broker_process import serve
from highwater.bench.calibrate.dialect import FETCH, HEADER, LEADER, LENGTH, PRODUCE, Dialect, produce_head
from highwater.common.child_process import Serving, serving
from highwater.kafka.protocol import cold, fetch
from highwater.kafka.protocol.primitives import Decoder, MalformedRequestError
from highwater.kafka.records.batch import CorruptBatch, assign, read_header

_LIST_OFFSETS, _FIND_COORDINATOR = 2, 10
_EARLIEST: Final = -2
_LOOK_S: Final = 0.005


class KeptPartition:
    """The batches of one partition, by the offsets of their first records."""

    def __init__(self) -> None:
        self.log_end_offset = 0
        self._batches: list[bytes] = []
        self._base_offsets: list[int] = []

    def append(self, batch: bytearray) -> None:
        """Set base offset and leader epoch, which the checksum does not cover, and append the batch."""
        assign(batch, len(batch), self.log_end_offset, 0)
        self._batches.append(bytes(batch))
        self._base_offsets.append(self.log_end_offset)
        self.log_end_offset = read_header(batch).next_offset

    def read(self, offset: int, max_bytes: int) -> list[bytes]:
        """Batches from the one with `offset` on, up to `max_bytes` but at least that one."""
        if not 0 <= offset < self.log_end_offset:
            return []
        first = end = bisect_right(self._base_offsets, offset) - 1
        left_bytes = max_bytes
        while end < len(self._batches) and (end == first or len(self._batches[end]) <= left_bytes):
            left_bytes -= len(self._batches[end])
            end += 1
        return self._batches[first:end]


class KeepingBroker(Dialect):
    """A thread for each connection."""

    spoken = (*Dialect.spoken, (_LIST_OFFSETS, 2, 2), (_FIND_COORDINATOR, 0, 0))

    def __init__(self, topics: dict[str, int]) -> None:
        super().__init__(topics)
        self._kept: defaultdict[tuple[str, int], KeptPartition] = defaultdict(KeptPartition)
        self._lock = threading.Lock()

    def serve(self, control: int) -> None:
        """Serve until `control` is readable."""
        threading.Thread(target=self._accept, daemon=True).start()
        select.select([control], [], [])

    def _accept(self) -> None:
        while True:
            connection, _ = self.listener.accept()
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            threading.Thread(target=self._converse, args=(connection,), daemon=True).start()

    def _converse(self, connection: socket.socket) -> None:
        """Answer requests until the peer is gone or sends something invalid."""
        with connection, suppress(OSError, EOFError, MalformedRequestError, CorruptBatch):
            while True:
                request = _receive(connection, LENGTH.unpack(_receive(connection, LENGTH.size))[0])
                if len(request) < HEADER.size:
                    return
                api, version, correlation = HEADER.unpack_from(request)
                if api == PRODUCE:
                    answer = self._keep(request, correlation, version)
                else:
                    answer = self.answer(api, version, correlation, bytes(request[HEADER.size :]))
                if answer:
                    connection.sendall(LENGTH.pack(len(answer)) + answer)

    def _keep(self, request: bytearray, correlation: int, version: int) -> bytes:
        found = produce_head(request, HEADER.size)
        if found is None:
            raise MalformedRequestError("a Produce request is cut short")
        batch = request[found.records_at : found.records_at + found.records_bytes]
        with self._lock:
            self._kept[found.topic.decode(), found.partition].append(batch)
            return self.acknowledge(found, bytes(batch), correlation, version)

    def answer_to(self, api: int, version: int, request: Decoder) -> bytes:
        if (api, version) == (FETCH, 4):
            return self._fetch(fetch.decode_request(request, version))
        if (api, version) == (_LIST_OFFSETS, 2):
            return self._list_offsets(cold.decode_request("list_offsets", version, request))
        if (api, version) == (_FIND_COORDINATOR, 0):
            host, port = self.address
            return cold.encode_response("find_coordinator", version, {"node_id": LEADER, "host": host, "port": port})
        return super().answer_to(api, version, request)

    def _fetch(self, request: fetch.FetchRequest) -> bytes:
        """Answer a fetch; waits, as a broker does, while there is no data."""
        deadline_s = time.monotonic() + request.max_wait_ms / 1000
        while True:
            left_bytes, answers = request.max_bytes, []
            for topic, partitions in request.topics:
                answered = []
                for asked in partitions:
                    with self._lock:
                        kept = self._kept[str(topic), asked.partition]
                        end = kept.log_end_offset
                        most = min(asked.partition_max_bytes, left_bytes)
                        records = b"".join(kept.read(asked.fetch_offset, most)) if left_bytes > 0 else b""
                    left_bytes -= len(records)
                    answered.append(fetch.PartitionFetched(asked.partition, ErrorCode.none, end, end, records=records))
                answers.append((topic, answered))
            if left_bytes < request.max_bytes or time.monotonic() >= deadline_s:
                return b"".join(fetch.encode_response(answers, 4))
            time.sleep(_LOOK_S)

    def _list_offsets(self, request: Any) -> bytes:
        with self._lock:
            topics = [
                {
                    "name": topic.name,
                    "partitions": [
                        {
                            "partition_index": asked.partition_index,
                            "offset": 0
                            if asked.timestamp == _EARLIEST
                            else self._kept[topic.name, asked.partition_index].log_end_offset,
                        }
                        for asked in topic.partitions
                    ],
                }
                for topic in request.topics
            ]
        return cold.encode_response("list_offsets", 2, {"topics": topics})


def _receive(connection: socket.socket, size: int) -> bytearray:
    """Raises EOFError when the peer is gone."""
    received = bytearray(size)
    if connection.recv_into(received, size, socket.MSG_WAITALL) < size:
        raise EOFError
    return received


def keeping_broker(topics: dict[str, int]) -> AbstractContextManager[Serving]:
    """Start the broker in its own process. topics: name -> number of partitions."""
    return serving("highwater.bench.calibrate.keeping_broker", json.dumps(topics))


if __name__ == "__main__":
    serve(KeepingBroker)
