"""Writes what clients pushed to the topic of client metrics, through the leader of its partition.

Each record is one push: its value is OpenTelemetry's MetricsData, uncompressed, its key the id of the client instance,
its headers what is known of the client. Nobody waits for it: a client has its answer before. While the leader cannot
be reached, what does not fit into memory is lost, the oldest first, and counted.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Mapping
from functools import partial
from typing import Any, Final

from kio.schema.errors import ErrorCode

from highwater.broker.cluster.connections import Connections
from highwater.broker.cluster.peers import PeerFailure, ask
from highwater.broker.cluster.state import ClusterView
from highwater.broker.log.partition_log import Appended
from highwater.broker.runtime import Runtime
from highwater.broker.telemetry.subscriptions import Identity
from highwater.broker.topics.auto_creation import AutoCreation
from highwater.broker.topics.internal_topic import CLIENT_METRICS_TOPIC
from highwater.broker.topics.partitions import Partitions
from highwater.kafka.pacing import aside
from highwater.kafka.protocol.apis import PRODUCE
from highwater.kafka.records.batch import Codec
from highwater.kafka.records.record import Record, encode_batch

_logger = logging.getLogger(__name__)

_LINGER_MS: Final = 200
_RETRY_MS: Final = 1000
_TELL_AGAIN_MS: Final = 60_000
_BATCH_BYTES: Final = 512 * 1024
_WAITING_BYTES_MAX: Final = 16 * 1024 * 1024
_VERSION: Final = 8
"""A version of Produce before topic ids and tags: each broker of a cluster serves it."""
_NEVER_TAKEN: Final = (ErrorCode.message_too_large, ErrorCode.record_list_too_large, ErrorCode.invalid_record)


class Publishing:
    def __init__(
        self,
        runtime: Runtime,
        partitions: Partitions,
        cluster: ClusterView,
        auto_creation: AutoCreation,
        connections: Connections | None,
    ) -> None:
        """`connections` lead to other brokers; None for a broker that runs alone."""
        self._runtime = runtime
        self._partitions = partitions
        self._cluster = cluster
        self._auto_creation = auto_creation
        self._connections = connections
        self._waiting: deque[Record] = deque()
        self._waiting_bytes = 0
        self._is_busy = False
        self._told_ms: int | None = None
        self.written = 0
        self.lost = 0

    def add(self, identity: Identity, payload: bytes, about: Mapping[str, str]) -> None:
        headers = {**identity._asdict(), **about, "broker_id": str(self._runtime.broker_id)}
        record = Record(
            payload,
            identity.client_instance_id.encode(),
            self._runtime.clock.now_ms(),
            tuple((name, text.encode()) for name, text in headers.items()),
        )
        self._waiting.append(record)
        self._waiting_bytes += _size_of(record)
        while self._waiting_bytes > _WAITING_BYTES_MAX and len(self._waiting) > 1:
            self._next()
            self.lost += 1
        if not self._is_busy:
            self._is_busy = True
            self._after(_LINGER_MS)

    def close(self) -> None:
        if self._connections is not None:
            self._connections.close()

    def _next(self) -> Record:
        record = self._waiting.popleft()
        self._waiting_bytes -= _size_of(record)
        return record

    def _after(self, delay_ms: int) -> None:
        turns = self._runtime.turns
        self._runtime.scheduler.call_later(delay_ms, lambda: turns.run(self._publish, self))

    def _publish(self) -> None:
        records = [self._next()]
        size_bytes = _size_of(records[0])
        while self._waiting and (size_bytes := size_bytes + _size_of(self._waiting[0])) <= _BATCH_BYTES:
            records.append(self._next())
        batch = aside(partial(encode_batch, records, codec=Codec.ZSTD))
        self._send(batch, len(records))

    def _send(self, batch: bytearray, count: int) -> None:
        view = self._cluster.partition(CLIENT_METRICS_TOPIC, 0)
        if view is None:
            self._auto_creation.create([CLIENT_METRICS_TOPIC])
            view = self._cluster.partition(CLIENT_METRICS_TOPIC, 0)
        if view is None:
            self._done(batch, count, ErrorCode.unknown_topic_or_partition)
        elif view.leader == self._runtime.broker_id:
            self._done(batch, count, self._append(batch))
        else:
            self._send_to(view.leader, batch, count)

    def _append(self, batch: bytearray) -> ErrorCode:
        partition = self._partitions.find(CLIENT_METRICS_TOPIC, 0)
        if partition is None:
            return ErrorCode.not_leader_or_follower
        try:
            appended = partition.append(memoryview(batch), 1, self._runtime.clock.now_ms())
        except OSError:  # the partition reports it
            return ErrorCode.kafka_storage_error
        if isinstance(appended, Appended):
            return ErrorCode.none
        return appended if isinstance(appended, ErrorCode) else appended.error_code

    def _send_to(self, broker_id: int, batch: bytearray, count: int) -> None:
        peer = None if self._connections is None else self._connections.to(broker_id)
        if peer is None:
            self._done(batch, count, ErrorCode.leader_not_available)
            return
        timeout_ms = self._runtime.config.integer("request.timeout.ms")
        partition = {"index": 0, "records": bytes(batch)}
        request = {
            "acks": 1,
            "timeout": timeout_ms,
            "topic_data": [{"name": CLIENT_METRICS_TOPIC, "partition_data": [partition]}],
        }

        def answered(answer: Any | PeerFailure) -> None:
            if isinstance(answer, PeerFailure):
                self._done(batch, count, ErrorCode.network_exception)
            else:
                self._done(batch, count, ErrorCode(answer.responses[0].partition_responses[0].error_code))

        ask(peer, PRODUCE, _VERSION, request, answered, timeout_ms=timeout_ms)

    def _done(self, batch: bytearray, count: int, error: ErrorCode) -> None:
        if error and error not in _NEVER_TAKEN:
            self._tell(error)
            self._runtime.scheduler.call_later(_RETRY_MS, lambda: self._send(batch, count))
            return
        if error:
            self._tell(error)
            self.lost += count
        else:
            self._told_ms = None
            self.written += count
        if self._waiting:
            self._after(0)
        else:
            self._is_busy = False

    def _tell(self, error: ErrorCode) -> None:
        """Say it once a minute, and not of a topic that is only just being made."""
        now_ms = self._runtime.clock.monotonic_ns() // 1_000_000
        if self._told_ms is None:
            self._told_ms = now_ms - _TELL_AGAIN_MS + 5 * _RETRY_MS
        if now_ms - self._told_ms >= _TELL_AGAIN_MS or error in _NEVER_TAKEN:
            self._told_ms = now_ms
            _logger.warning("metrics of clients cannot be written to %s: %s", CLIENT_METRICS_TOPIC, error.name.upper())


def _size_of(record: Record) -> int:
    """A client chooses its names, too, which may take more than what it measured."""
    return sum(len(text or b"") for text in (record.key, record.value, *(text for _, text in record.headers)))
