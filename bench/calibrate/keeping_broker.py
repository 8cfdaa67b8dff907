"""A broker that keeps records in memory and serves them: shows the ceiling of consumers.

It stores batches as they are and sets only their offsets. Besides the APIs for producers it has those for consumers
without a group: Fetch 4, ListOffsets 2, FindCoordinator 0. Each connection has its own thread, since the answer to a
fetch without data must wait.
"""

from __future__ import annotations

import json
import select
import socket
import struct
import threading
import time
from bisect import bisect_right
from collections import defaultdict
from contextlib import AbstractContextManager, suppress
from typing import Final

from highwater.bench.calibrate.broker_process import serve
from highwater.bench.calibrate.dialect import (
    FETCH,
    HEADER,
    LEADER,
    LENGTH,
    PRODUCE,
    Dialect,
    ProtocolError,
    produce_head,
    string,
)
from highwater.common.child_process import Serving, serving

_LIST_OFFSETS, _FIND_COORDINATOR = 2, 10
_LAST_OFFSET_DELTA_AT: Final = 23
_LEADER_EPOCH_AT: Final = 12
_EARLIEST: Final = -2
_FETCH_HEAD: Final = struct.Struct(">iiiib")  # replica, longest wait, least and most bytes, isolation level
_FETCH_PARTITION: Final = struct.Struct(">iqi")  # partition, offset, most bytes
_LIST_OFFSETS_HEAD_BYTES: Final = 5
_LIST_OFFSETS_PARTITION: Final = struct.Struct(">iq")  # partition, timestamp
_LOOK_S: Final = 0.005


class KeptPartition:
    """The batches of one partition, by the offsets of their first records."""

    def __init__(self) -> None:
        self.log_end_offset = 0
        self._batches: list[bytes] = []
        self._base_offsets: list[int] = []

    def append(self, batch: bytearray) -> None:
        """Set base offset and leader epoch, which the checksum does not cover, and append the batch."""
        struct.pack_into(">q", batch, 0, self.log_end_offset)
        struct.pack_into(">i", batch, _LEADER_EPOCH_AT, 0)
        self._batches.append(bytes(batch))
        self._base_offsets.append(self.log_end_offset)
        self.log_end_offset += LENGTH.unpack_from(batch, _LAST_OFFSET_DELTA_AT)[0] + 1

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
        self._kept: defaultdict[tuple[bytes, int], KeptPartition] = defaultdict(KeptPartition)
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
        with connection, suppress(OSError, EOFError, ProtocolError, struct.error):
            while True:
                request = _receive(connection, LENGTH.unpack(_receive(connection, LENGTH.size))[0])
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
            raise ProtocolError
        batch = request[found.records_at : found.records_at + found.records_bytes]
        with self._lock:
            self._kept[found.topic, found.partition].append(batch)
            return self.acknowledge(found, bytes(batch), correlation, version)

    def answer_to(self, api: int, version: int, body: bytes) -> bytes:
        if (api, version) == (FETCH, 4):
            return self._fetch(body)
        if (api, version) == (_LIST_OFFSETS, 2):
            return self._list_offsets(body)
        if (api, version) == (_FIND_COORDINATOR, 0):
            host, port = self.address
            return struct.pack(">hi", 0, LEADER) + string(host) + LENGTH.pack(port)
        return super().answer_to(api, version, body)

    def _fetch(self, body: bytes) -> bytes:
        """Answer a fetch; waits, as a broker does, while there is no data."""
        _, max_wait_ms, _, max_bytes, _ = _FETCH_HEAD.unpack_from(body)
        asked = _topics(body, _FETCH_HEAD.size, _FETCH_PARTITION)
        deadline_s = time.monotonic() + max_wait_ms / 1000
        while True:
            parts, left_bytes = [bytes(4), LENGTH.pack(len(asked))], max_bytes
            for topic, partitions in asked:
                parts += [struct.pack(">h", len(topic)), topic, LENGTH.pack(len(partitions))]
                for partition, offset, partition_max_bytes in partitions:
                    with self._lock:
                        kept = self._kept[topic, partition]
                        end = kept.log_end_offset
                        batches = kept.read(offset, min(partition_max_bytes, left_bytes)) if left_bytes > 0 else []
                    records_bytes = sum(map(len, batches))
                    left_bytes -= records_bytes
                    parts += [struct.pack(">ihqqii", partition, 0, end, end, 0, records_bytes), *batches]
            if left_bytes < max_bytes or time.monotonic() >= deadline_s:
                return b"".join(parts)
            time.sleep(_LOOK_S)

    def _list_offsets(self, body: bytes) -> bytes:
        asked = _topics(body, _LIST_OFFSETS_HEAD_BYTES, _LIST_OFFSETS_PARTITION)
        parts = [bytes(4), LENGTH.pack(len(asked))]
        for topic, partitions in asked:
            parts += [struct.pack(">h", len(topic)), topic, LENGTH.pack(len(partitions))]
            for partition, timestamp in partitions:
                with self._lock:
                    offset = 0 if timestamp == _EARLIEST else self._kept[topic, partition].log_end_offset
                parts.append(struct.pack(">ihqq", partition, 0, -1, offset))
        return b"".join(parts)


def _topics(body: bytes, at: int, partition: struct.Struct) -> list[tuple[bytes, list[tuple[int, ...]]]]:
    """Parse an array of topics; `partition` is the layout of each partition."""
    (count,) = LENGTH.unpack_from(body, at)
    at += LENGTH.size
    found = []
    for _ in range(count):
        (name_bytes,) = struct.unpack_from(">h", body, at)
        name_end = at + 2 + name_bytes
        (partitions,) = LENGTH.unpack_from(body, name_end)
        rows_at = name_end + LENGTH.size
        at_end = rows_at + partitions * partition.size
        found.append((body[at + 2 : name_end], list(partition.iter_unpack(body[rows_at:at_end]))))
        at = at_end
    return found


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
