"""Paths and values of Kafka 3.9's znodes (kafka.zk.ZkData): what they hold as Python values, and back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple
from uuid import UUID, uuid4

from broker.log.checkpoint import decode_topic_id, encode_topic_id

CLUSTER_ID: Final = "/cluster/id"
CONTROLLER_EPOCH: Final = "/controller_epoch"
TOPICS: Final = "/brokers/topics"
TOPIC_CONFIGS: Final = "/config/topics"
BROKER_CONFIGS: Final = "/config/brokers"
DEFAULT_ENTITY: Final = "<default>"
"""The name under which settings of all brokers are kept."""
DELETE_TOPICS: Final = "/admin/delete_topics"
PRODUCER_ID_BLOCK: Final = "/latest_producer_id_block"

PRODUCER_ID_BLOCK_SIZE: Final = 1000

Assignment = Mapping[int, list[int]]
"""Replicas by partition, the preferred leader first."""


class ProducerIdBlock(NamedTuple):
    broker_id: int
    first: int
    last: int


def random_topic_id() -> UUID:
    """A topic id as Kafka's Uuid.randomUuid makes it: its text has no dash in front, which tools take for an option."""
    while True:
        topic_id = uuid4()
        if not encode_topic_id(topic_id).startswith("-"):
            return topic_id


def cluster_id_value(cluster_id: str) -> dict[str, Any]:
    return {"version": "1", "id": cluster_id}


def topic_value(topic_id: UUID, assignment: Assignment) -> dict[str, Any]:
    return {
        "version": 3,
        "topic_id": encode_topic_id(topic_id),
        "partitions": {str(partition): list(replicas) for partition, replicas in assignment.items()},
        "adding_replicas": {},
        "removing_replicas": {},
    }


def parse_topic(value: Mapping[str, Any]) -> tuple[UUID, dict[int, list[int]]]:
    assignment = {int(partition): list(replicas) for partition, replicas in value["partitions"].items()}
    return decode_topic_id(value["topic_id"]), dict(sorted(assignment.items()))


def config_value(config: Mapping[str, str]) -> dict[str, Any]:
    return {"version": 1, "config": dict(config)}


def producer_id_block_value(block: ProducerIdBlock) -> dict[str, Any]:
    return {"version": 1, "broker": block.broker_id, "block_start": str(block.first), "block_end": str(block.last)}


def parse_producer_id_block(value: Mapping[str, Any]) -> ProducerIdBlock:
    return ProducerIdBlock(int(value["broker"]), int(value["block_start"]), int(value["block_end"]))
