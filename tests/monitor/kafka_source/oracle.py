"""A small cluster at work for the collector, and the answers of confluent-kafka's admin client to compare with."""

from __future__ import annotations

import asyncio
from typing import Any, Final

from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    ConfigResource,
    NewTopic,
    OffsetSpec,
    ResourceType,
)

from highwater.kafka.client.settings import settings_of
from highwater.monitor.kafka_source.source import KafkaSource
from highwater.monitor.model import GroupState, Snapshot
from tests.topics import create_topics
from tests.waiting import wait_until

PATIENT_TICK_S: Final = 240.0
"""A broker has a quarter of a tick to answer, which a busy machine may need."""


def snapshot_of(properties: dict[str, Any], ticks: int = 1) -> Snapshot:
    async def collecting() -> Snapshot:
        source = KafkaSource("c", settings_of(properties), PATIENT_TICK_S)
        try:
            return [await source.snapshot(number) for number in range(ticks)][-1]
        finally:
            await source.close()

    return asyncio.run(collecting())


def fill(bootstrap: str, replication: int) -> AdminClient:
    """Topics, records, an open transaction, a group with a member, and groups that only committed."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    topics = [
        NewTopic("orders", 3, replication, config={"retention.ms": "3600000"}),
        NewTopic("empty", 2, replication),
    ]
    create_topics(bootstrap, topics)
    producer = Producer({"bootstrap.servers": bootstrap})
    for number in range(60):
        producer.produce("orders", b"x", partition=number % 3)
    assert producer.flush(60) == 0
    for name, offsets in (("idle", (4, 5, 6)), ("behind", (0, 20, -1))):
        wanted = [TopicPartition("orders", at, offset) for at, offset in enumerate(offsets) if offset >= 0]
        committer = Consumer({"bootstrap.servers": bootstrap, "group.id": name})
        try:
            wait_until(lambda by=committer, offsets=wanted: is_committed(by, offsets), "a commit")  # type: ignore[misc]
        finally:
            committer.close()
    return admin


def is_committed(committer: Consumer, offsets: list[TopicPartition]) -> bool:
    """False while the coordinator starts."""
    try:
        return all(each.error is None for each in committer.commit(offsets=offsets, asynchronous=False) or ())
    except KafkaException:
        return False


def check(found: Snapshot, admin: AdminClient) -> None:
    """Compare every offset, commit and setting with the answers of the admin client."""
    assert {state.error for state in found.sources.values()} == {""}
    partitions = [part for topic in found.topics.values() for part in topic.partitions if not topic.is_internal]
    assert {part.key for part in partitions} == {
        ("orders", 0),
        ("orders", 1),
        ("orders", 2),
        ("empty", 0),
        ("empty", 1),
    }
    for specification, values in (
        (OffsetSpec.latest(), {part.key: part.end_offset for part in partitions}),  # type: ignore[no-untyped-call]
        (OffsetSpec.earliest(), {part.key: part.log_start_offset for part in partitions}),  # type: ignore[no-untyped-call]
    ):
        asked = admin.list_offsets({TopicPartition(*key): specification for key in values}, request_timeout=30)
        assert {(each.topic, each.partition): one.result(60).offset for each, one in asked.items()} == values
    for name in ("idle", "behind"):
        (one,) = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(name)]).values()
        committed = {(each.topic, each.partition): each.offset for each in one.result(60).topic_partitions}
        assert {key: commit.offset for key, commit in found.groups[name].commits.items()} == committed
        assert found.groups[name].state is GroupState.EMPTY
    resources = [ConfigResource(ResourceType.TOPIC, "orders")]
    resources += [ConfigResource(ResourceType.BROKER, str(node_id)) for node_id in found.brokers]
    for resource, one in [pair for each in resources for pair in admin.describe_configs([each]).items()]:
        ours = found.topics["orders"].config if resource.restype is ResourceType.TOPIC else None
        ours = found.brokers[int(resource.name)].config if ours is None else ours
        assert ours is not None
        assert {name: value.value for name, value in ours.items()} == {
            name: entry.value for name, entry in one.result(60).items()
        }
    retention = (found.topics["orders"].config or {})["retention.ms"]
    assert (retention.value, retention.source) == ("3600000", "DYNAMIC_TOPIC_CONFIG")
    # Apache Kafka names no synonym for a time that its configuration gives in hours.
    assert retention.default in ("604800000", None)
