"""Which topics there are; makes those in which records wait or are dead, where nothing expires."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from typing import Any, Final

from confluent_kafka import IsolationLevel, KafkaError, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    ConfigResource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ResourceType,
)

from highwater.common.nearest import no_topic
from highwater.common.topic_partition import TopicPartition as Partition
from highwater.pipeline.errors import ClientError, SettingsError
from highwater.pipeline.kafka.admission import check_admission
from highwater.pipeline.messaging.levels import WHEEL, WHEEL_SLOTS, GroupTopics, delay_topic
from highwater.pipeline.messaging.policy import Backoff

_TIMEOUT_S: Final = 30.0
_LOOK_AGAIN_S: Final = 1.0
_NEW_TOPIC_S: Final = 3.0
"""Brokers of Kafka 4 hear of a new topic a moment after the client that created it."""
_ROOM_FOR_HEADERS_BYTES: Final = 16 << 10
FOR_EVER: Final = {"retention.ms": "-1", "retention.bytes": "-1"}
"""A record waits until it is moved, and a dead letter until somebody drops it."""
OF_ALL: Final = {**FOR_EVER, "max.message.bytes": str(64 << 20)}
"""The settings of a topic for records of any topic, whatever size that one allows."""


class Topics:
    """An admin client that remembers which topics there are. Raises ClientError if no broker answers."""

    def __init__(self, client: Mapping[str, Any]) -> None:
        self._admin = AdminClient({"log_level": 0, **client})
        check_admission(self._admin, client)
        self._partitions: dict[str, int] = {}
        self._replicas: dict[str, int] = {}
        self._absences: dict[str, str] = {}
        """The sentence about each topic that was missed since the last check."""
        self._looked_s = float("-inf")

    def all(self) -> dict[str, int]:
        """The number of partitions of each topic."""
        self._look()
        return dict(self._partitions)

    def partitions(self, topic: str) -> int | None:
        """How many the topic has; None if it does not exist."""
        if topic not in self._partitions and time.monotonic() - self._looked_s >= _LOOK_AGAIN_S:
            self._look()
        return self._partitions.get(topic)

    def _look(self) -> None:
        try:
            found = self._admin.list_topics(timeout=_TIMEOUT_S).topics
        except KafkaException as failure:
            raise ClientError(f"the brokers do not list their topics: {failure.args[0].str()}") from None
        self._partitions = {name: len(topic.partitions) for name, topic in found.items()}
        self._replicas = {
            name: len(partition.replicas) for name, topic in found.items() for partition in topic.partitions.values()
        }
        self._absences.clear()
        self._looked_s = time.monotonic()

    def need(self, topic: str) -> int:
        """The number of its partitions. Raises SettingsError if it does not exist."""
        count = self.partitions(topic)
        if count is None:
            raise SettingsError(f"{self.absence_of(topic)}: create it first")
        return count

    def absence_of(self, topic: str) -> str:
        """The sentence for a topic that is not in the list, asked for by its name: a list has no hidden topics."""
        if topic not in self._absences:
            may_be_hidden = False
            try:
                self._admin.describe_topics(TopicCollection([topic]), request_timeout=_TIMEOUT_S)[topic].result()
            except KafkaException as failure:
                may_be_hidden = failure.args[0].code() == KafkaError.TOPIC_AUTHORIZATION_FAILED
            self._absences[topic] = no_topic(topic, may_be_hidden=may_be_hidden)
        return self._absences[topic]

    def await_topic(self, topic: str) -> int:
        """Return what `need` does, for a topic that may have been created a moment ago."""
        deadline_s = time.monotonic() + _NEW_TOPIC_S
        while self.partitions(topic) is None and time.monotonic() < deadline_s:
            time.sleep(_LOOK_AGAIN_S / 4)
        return self.need(topic)

    def ensure(self, topic: str, partitions: int, config: Mapping[str, str], *, like: str | None = None) -> None:
        """Make the topic if it does not exist, with as many replicas as the topic `like` and room for more headers."""
        if self.partitions(topic) is not None:
            return
        replicas = -1 if like is None else self._replicas.get(like, -1)
        config = {**self._size_limit(like), **config}
        new = NewTopic(topic, partitions, replicas, config=config)
        try:
            self._admin.create_topics([new], request_timeout=_TIMEOUT_S)[topic].result()
        except KafkaException as failure:
            if failure.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise ClientError(f"topic {topic} cannot be created: {failure.args[0].str()}") from None
        self._partitions[topic] = partitions

    def grow(self, topic: str, partitions: int) -> None:
        """Add partitions to a topic that has too few, as one that the broker made by itself for a producer."""
        if self.need(topic) >= partitions:
            return
        try:
            grown = self._admin.create_partitions([NewPartitions(topic, partitions)], request_timeout=_TIMEOUT_S)
            grown[topic].result()
        except KafkaException as failure:
            if failure.args[0].code() != KafkaError.INVALID_PARTITIONS:
                raise ClientError(f"topic {topic} cannot grow: {failure.args[0].str()}") from None
        self._partitions[topic] = partitions

    def _size_limit(self, like: str | None) -> dict[str, str]:
        if like is None or self.partitions(like) is None:
            return {}
        resource = ConfigResource(ResourceType.TOPIC, like)
        try:
            entries: Any = self._admin.describe_configs([resource], request_timeout=_TIMEOUT_S)[resource].result()
        except KafkaException:
            return {}  # not everybody may read settings; the broker's default holds then
        return {"max.message.bytes": str(int(entries["max.message.bytes"].value) + _ROOM_FOR_HEADERS_BYTES)}

    def ends(self, partitions: Iterable[Partition]) -> dict[Partition, int]:
        """The offsets after the last record of each, of open transactions too."""
        return self._offsets(partitions, OffsetSpec.latest())  # type: ignore[no-untyped-call]

    def starts(self, partitions: Iterable[Partition]) -> dict[Partition, int]:
        return self._offsets(partitions, OffsetSpec.earliest())  # type: ignore[no-untyped-call]

    def at_time(self, partitions: Iterable[Partition], timestamp_ms: int) -> dict[Partition, int]:
        """The offsets of the first records that are as late; the ends where there is none.

        A time up to 0 is no bound: brokers take negative times for signs, and −1 for the end.
        """
        if timestamp_ms <= 0:
            return self.starts(partitions)
        found = self._offsets(partitions, OffsetSpec.for_timestamp(timestamp_ms))
        without = [partition for partition, offset in found.items() if offset < 0]
        return found | (self.ends(without) if without else {})

    def _offsets(self, partitions: Iterable[Partition], specification: Any) -> dict[Partition, int]:
        wanted = {TopicPartition(*each): specification for each in partitions}
        if not wanted:
            return {}
        futures = self._admin.list_offsets(
            wanted, isolation_level=IsolationLevel.READ_UNCOMMITTED, request_timeout=_TIMEOUT_S
        )
        try:
            return {(each.topic, each.partition): future.result().offset for each, future in futures.items()}
        except KafkaException as failure:
            raise ClientError(f"the offsets of a partition are not known: {failure.args[0].str()}") from None

    def delete_before(self, offsets: Mapping[Partition, int]) -> None:
        """Delete the records before these offsets. Raises ClientError."""
        wanted = [TopicPartition(*partition, offset) for partition, offset in offsets.items()]
        asked = self._admin.delete_records(wanted, request_timeout=_TIMEOUT_S) if wanted else {}
        for partition, future in asked.items():
            try:
                future.result()
            except KafkaException as failure:
                raise ClientError(
                    f"{partition.topic}-{partition.partition}: its records cannot be deleted: {failure.args[0].str()}"
                ) from None


def ensure_delay_topics(topics: Topics, levels_ms: Iterable[int], partitions: int = 1) -> None:
    for level_ms in levels_ms:
        topics.ensure(delay_topic(level_ms), partitions, OF_ALL)
    topics.ensure(WHEEL, WHEEL_SLOTS, OF_ALL)
    topics.grow(WHEEL, WHEEL_SLOTS)


def ensure_group_topics(topics: Topics, names: GroupTopics, backoff: Backoff, *, by_key: bool) -> int:
    """Make what a group needs beside its topic, with equally many partitions, and return how many these are."""
    count = topics.await_topic(names.topic)
    topics.ensure(names.retry, count, FOR_EVER, like=names.topic)
    topics.grow(names.retry, count)
    topics.ensure(names.dead, count, FOR_EVER, like=names.topic)
    if by_key:
        topics.ensure(names.parked, count, {"cleanup.policy": "compact"}, like=names.topic)
        topics.grow(names.parked, count)
    else:
        for delay_ms in set(backoff.delays_ms):
            topics.ensure(names.waiting(delay_ms), count, FOR_EVER, like=names.topic)
    return count
