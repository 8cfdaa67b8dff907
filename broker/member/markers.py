"""Writes the markers of decided transactions to the leaders of their partitions.

A marker goes to the current leader of its partition. Markers for the same broker go in one request, and the
next request follows after the answer. The outcome of each marker is reported once; the caller retries a failed one,
as the leader may have changed. (Apache Kafka, TransactionMarkerChannelManager.scala.)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, Final, NamedTuple

from kio.schema.errors import ErrorCode

from highwater.broker.cluster.connections import Connections
from highwater.broker.cluster.peers import PeerFailure, ask
from highwater.broker.cluster.state import ClusterView
from highwater.broker.runtime import Runtime
from highwater.broker.txn.markers import LocalMarkers, Marked
from highwater.common.topic_partition import TopicPartition
from highwater.kafka.protocol.apis import WRITE_TXN_MARKERS
from highwater.kafka.protocol.cold import Answer
from highwater.kafka.records.record import TRANSACTIONS_2, TransactionMarker

_VERSION: Final = 1
"""The same as Kafka's at inter.broker.protocol.version 3.9."""
_STRICT_VERSION: Final = 2
"""Has the version of the transaction (KIP-1228). Every broker serves it once `transaction.version` is 2."""


class _Wanted(NamedTuple):
    marker: TransactionMarker
    partition: TopicPartition
    marked: Marked
    is_still_wanted: Callable[[], bool]


class RemoteMarkers:
    """Implements `Markers`."""

    def __init__(
        self,
        runtime: Runtime,
        cluster: ClusterView,
        local: LocalMarkers,
        connections: Connections,
        topic_is_gone: Callable[[str, Callable[[bool], None]], None],
        level: Callable[[], int],
    ) -> None:
        """`topic_is_gone` finds out, and calls back: False also if that cannot be known now.

        `level` gives the finalised level of `transaction.version`.
        """
        self._broker_id = runtime.broker_id
        self._scheduler = runtime.scheduler
        self._cluster = cluster
        self._local = local
        self._connections = connections
        self._topic_is_gone = topic_is_gone
        self._level = level
        self._timeout_ms = runtime.config.integer("request.timeout.ms")
        self._waiting: dict[int, list[_Wanted]] = {}
        """Markers for the next request, by broker; a broker is in it while a request to it is pending."""

    def write(
        self,
        partitions: Iterable[TopicPartition],
        marker: TransactionMarker,
        marked: Marked,
        is_still_wanted: Callable[[], bool],
    ) -> None:
        cluster = self._cluster
        for key in partitions:
            wanted = _Wanted(marker, key, marked, is_still_wanted)
            view = cluster.partition(*key)
            if view is None:
                # That it is unknown here is not enough: without its marker a transaction would never end there.
                self._topic_is_gone(key[0], partial(_tell_gone, wanted))
            elif view.leader == self._broker_id:
                self._write_here(wanted)
            elif cluster.broker(view.leader) is None:
                marked(key, ErrorCode.leader_not_available)
            else:
                self._line_up(view.leader, wanted)

    def close(self) -> None:
        self._connections.close()

    def _write_here(self, wanted: _Wanted) -> None:
        self._local.write_one(*wanted.partition, wanted.marker, partial(_tell, wanted))

    def _line_up(self, broker_id: int, wanted: _Wanted) -> None:
        waiting = self._waiting.get(broker_id)
        if waiting is not None:
            waiting.append(wanted)
            return
        self._waiting[broker_id] = [wanted]
        # Send markers that are written together in one request.
        self._scheduler.call_soon(lambda: self._send(broker_id))

    def _send(self, broker_id: int) -> None:
        batch = [wanted for wanted in self._waiting[broker_id] if wanted.is_still_wanted()]
        peer = self._connections.to(broker_id) if batch else None
        if peer is None:
            del self._waiting[broker_id]
            _tell_all(batch, ErrorCode.leader_not_available)
            return
        self._waiting[broker_id] = []

        def answered(answer: Any | PeerFailure) -> None:
            if self._waiting[broker_id]:
                self._send(broker_id)
            else:
                del self._waiting[broker_id]
            if isinstance(answer, PeerFailure):
                _tell_all(batch, ErrorCode.network_exception)
            else:
                _tell_each(batch, answer)

        version = _STRICT_VERSION if self._level() >= TRANSACTIONS_2 else _VERSION
        ask(peer, WRITE_TXN_MARKERS, version, _request(batch), answered, timeout_ms=self._timeout_ms)


def _tell_gone(wanted: _Wanted, is_gone: bool) -> None:
    unknown = ErrorCode.unknown_topic_or_partition
    wanted.marked(wanted.partition, unknown if is_gone else ErrorCode.leader_not_available)


def _tell(wanted: _Wanted, error: ErrorCode) -> None:
    # A leader that does not know the partition does not have it yet, or no longer leads it.
    moved = error is ErrorCode.unknown_topic_or_partition
    wanted.marked(wanted.partition, ErrorCode.not_leader_or_follower if moved else error)


def _tell_each(batch: Iterable[_Wanted], answer: Any) -> None:
    outcomes = {
        (told.producer_id, topic.name, partition.partition_index): ErrorCode(partition.error_code)
        for told in answer.markers
        for topic in told.topics
        for partition in topic.partitions
    }
    for wanted in batch:
        key = (wanted.marker.producer_id, *wanted.partition)
        _tell(wanted, outcomes.get(key, ErrorCode.unknown_server_error))


def _tell_all(batch: Iterable[_Wanted], error: ErrorCode) -> None:
    for wanted in batch:
        wanted.marked(wanted.partition, error)


def _request(batch: Iterable[_Wanted]) -> Answer:
    by_marker: dict[TransactionMarker, dict[str, list[int]]] = {}
    for wanted in batch:
        topic, index = wanted.partition
        by_marker.setdefault(wanted.marker, {}).setdefault(topic, []).append(index)
    return {
        "markers": [
            {
                "producer_id": marker.producer_id,
                "producer_epoch": marker.producer_epoch,
                "transaction_result": marker.is_commit,
                "topics": [{"name": topic, "partition_indexes": indexes} for topic, indexes in topics.items()],
                "coordinator_epoch": marker.coordinator_epoch,
                "transaction_version": marker.transaction_version,
            }
            for marker, topics in by_marker.items()
        ]
    }
