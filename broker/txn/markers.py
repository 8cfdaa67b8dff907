"""Writes transaction markers to the partitions that this broker leads."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Protocol

from kio.schema.errors import ErrorCode

from highwater.broker.clock import Clock
from highwater.broker.cluster.state import ClusterView
from highwater.broker.topics.internal_topic import OFFSETS_TOPIC
from highwater.broker.topics.partitions import Partitions
from highwater.broker.topics.refusal import refusal
from highwater.common.topic_partition import TopicPartition
from highwater.kafka.records.record import TransactionMarker

Marked = Callable[[TopicPartition, ErrorCode], None]


class Markers(Protocol):
    def write(
        self,
        partitions: Iterable[TopicPartition],
        marker: TransactionMarker,
        marked: Marked,
        is_still_wanted: Callable[[], bool],
    ) -> None:
        """Write the marker to each partition and report each outcome, maybe before this returns.

        Stops when it is no longer wanted. Reports UNKNOWN_TOPIC_OR_PARTITION only for a deleted partition.
        """


class LocalMarkers:
    """Writes markers to partitions that this broker leads. A broker that runs alone uses it as its `Markers`."""

    def __init__(
        self,
        clock: Clock,
        partitions: Partitions,
        cluster: ClusterView,
        offsets_are_decided: Callable[[int, int, bool], None],
    ) -> None:
        """When a marker in `__consumer_offsets` is durable, `offsets_are_decided` is called with the partition, the
        producer id, and whether the transaction was committed.
        """
        self._clock = clock
        self._partitions = partitions
        self._cluster = cluster
        self._offsets_are_decided = offsets_are_decided

    def write(
        self,
        partitions: Iterable[TopicPartition],
        marker: TransactionMarker,
        marked: Marked,
        is_still_wanted: Callable[[], bool],
    ) -> None:
        for key in partitions:
            self.write_one(*key, marker, partial(marked, key))

    def write_one(self, topic: str, index: int, marker: TransactionMarker, then: Callable[[ErrorCode], None]) -> None:
        """End a producer's transaction on a partition, and call `then` when the marker is durable or refused.

        The call may come before this returns.
        """
        partition = self._partitions.find(topic, index)
        if partition is None:
            then(refusal(self._partitions, self._cluster, topic, index))
            return
        try:
            appended = partition.append_marker(marker, self._clock.now_ms())
        except OSError:  # the partition reports it
            then(ErrorCode.kafka_storage_error)
            return
        if isinstance(appended, ErrorCode):
            then(appended)
            return

        def written(error: ErrorCode) -> None:
            if topic == OFFSETS_TOPIC and not error:
                self._offsets_are_decided(index, marker.producer_id, marker.is_commit)
            then(error)

        partition.call_when_safe(appended.last_offset, written)
