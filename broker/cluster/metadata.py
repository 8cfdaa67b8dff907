"""The metadata of the cluster as the controller last sent it (UpdateMetadata).

A request has all partitions or some of them, and always all live brokers. Nothing here is durable: a
starting broker knows nothing until the controller's first request (ZkMetadataCache).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any, Final
from uuid import UUID

from highwater.broker.cluster.peers import Endpoint
from highwater.broker.cluster.state import (
    LEADER_DURING_DELETE,
    NO_BROKER,
    BrokerInfo,
    PartitionView,
    TopicView,
)
from highwater.common.topic_partition import TopicPartition

_SECURITY_PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
"""Security protocols by number (org.apache.kafka.common.security.auth.SecurityProtocol)."""


class MetadataCache:
    """The cluster metadata of one broker."""

    def __init__(self, cluster_id: str) -> None:
        self.cluster_id = cluster_id
        self.controller_id = NO_BROKER
        self.is_complete = False
        """Whether all is known: after a partial answer clients forget the rest. librdkafka 2.10 and later drops brokers
        that Metadata does not name, with their connections."""
        self.topics_version = 0
        self.when_deleted: list[Callable[[list[TopicPartition]], None]] = []
        """Called with the partitions that an update removed, before the change of the view is reported."""
        self._keys = itertools.count()
        self._when_changed: dict[int, Callable[[], None]] = {}
        self._brokers: dict[int, BrokerInfo] = {}
        self._gone_lately: dict[int, BrokerInfo] = {}
        self._topics: dict[str, TopicView] = {}
        self._topics_by_id: dict[UUID, TopicView] = {}
        self._partitions: dict[str, dict[int, PartitionView]] = {}
        """The partitions of the same topics."""
        self._lists: dict[tuple[int, ...], list[int]] = {}
        """Thousands of partitions have the same replicas: they share one list."""

    def brokers(self) -> list[BrokerInfo]:
        return list(self._brokers.values())

    def brokers_gone_lately(self) -> list[BrokerInfo]:
        return list(self._gone_lately.values())

    def broker(self, broker_id: int) -> BrokerInfo | None:
        return self._brokers.get(broker_id)

    def topics(self) -> list[TopicView]:
        return list(self._topics.values())

    def topic(self, name: str | UUID) -> TopicView | None:
        return self._topics.get(name) if isinstance(name, str) else self._topics_by_id.get(name)

    def partition(self, topic: str | UUID, index: int) -> PartitionView | None:
        found = self.topic(topic)
        return None if found is None else found.partitions.get(index)

    def when_changed(self, tell: Callable[[], None]) -> Callable[[], None]:
        """Call `tell` after each update. Returns a function that ends these calls."""
        key = next(self._keys)
        self._when_changed[key] = tell

        def end() -> None:
            self._when_changed.pop(key, None)

        return end

    def update(self, request: Any, version: int) -> list[BrokerInfo]:
        """Apply an UpdateMetadata request; the caller has checked its epochs.

        Returns the brokers that are no longer alive; the caller forgets them after a while.
        """
        former = self._brokers
        self.controller_id = request.controller_id if request.controller_id >= 0 else NO_BROKER
        self._brokers = {
            broker.id: BrokerInfo(broker.id, -1, _endpoints(broker, version), broker.rack if version >= 2 else None)
            for broker in sorted(request.live_brokers, key=lambda broker: broker.id)
        }
        gone = {id_: broker for id_, broker in former.items() if id_ not in self._brokers}
        known = self._gone_lately | gone
        self._gone_lately = {id_: broker for id_, broker in known.items() if id_ not in self._brokers}
        deleted: list[TopicPartition] = []
        if version >= 5:
            for topic in request.topic_states:
                topic_id = topic.topic_id if version >= 7 else None
                for state in topic.partition_states:
                    self._take_in(topic.topic_name, topic_id, state, version, deleted)
        else:
            for state in request.ungrouped_partition_states:
                self._take_in(state.topic_name, None, state, version, deleted)
        if deleted:
            for tell_deleted in self.when_deleted:
                tell_deleted(deleted)
        self.is_complete = self.is_complete or bool(self._topics)
        self._tell()
        return list(gone.values())

    def forget(self, broker: BrokerInfo) -> None:
        """Remove a broker that has been gone for a while, unless it registered again since."""
        if self._gone_lately.get(broker.broker_id) is broker:
            del self._gone_lately[broker.broker_id]

    def complete(self) -> None:
        """Note that the metadata is complete."""
        if not self.is_complete:
            self.is_complete = True
            self._tell()

    def _tell(self) -> None:
        for tell in tuple(self._when_changed.values()):
            tell()

    def _take_in(
        self, name: str, topic_id: UUID | None, state: Any, version: int, deleted: list[TopicPartition]
    ) -> None:
        topic = self._topics.get(name)
        if state.leader == LEADER_DURING_DELETE:
            if topic is not None and self._partitions[name].pop(state.partition_index, None) is not None:
                deleted.append((name, state.partition_index))
                self.topics_version += 1
                if not topic.partitions:
                    del self._topics[name], self._partitions[name]
                    self._topics_by_id.pop(topic.topic_id, None)
            return
        if topic is None or (topic_id is not None and topic.topic_id != topic_id):
            # Another id: it was deleted and made anew, and no update reported the deletion.
            if topic is not None and self._topics_by_id.pop(topic.topic_id, None) is not None:
                deleted += [(name, index) for index in topic.partitions]
            partitions: dict[int, PartitionView] = {}
            self._partitions[name] = partitions
            topic = self._topics[name] = TopicView(name, topic_id or UUID(int=0), partitions)
            if topic_id is not None:
                self._topics_by_id[topic_id] = topic
        if state.partition_index not in topic.partitions:
            self.topics_version += 1
        self._partitions[name][state.partition_index] = PartitionView(
            state.leader,
            state.leader_epoch,
            self._shared(state.replicas),
            self._shared(state.isr),
            self._shared(state.offline_replicas) if version >= 4 else [],
        )

    def _shared(self, replicas: tuple[int, ...]) -> list[int]:
        found = self._lists.get(replicas)
        if found is None:
            found = self._lists[replicas] = list(replicas)
        return found


def _endpoints(broker: Any, version: int) -> tuple[Endpoint, ...]:
    if version == 0:
        return (Endpoint("PLAINTEXT", "PLAINTEXT", broker.v0_host, broker.v0_port),)
    endpoints = []
    for told in broker.endpoints:
        protocol = _SECURITY_PROTOCOLS[told.security_protocol]
        endpoints.append(Endpoint(told.listener if version >= 3 else protocol, protocol, told.host, told.port))
    return tuple(endpoints)
