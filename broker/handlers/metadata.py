"""Metadata: v0-v12 (key 3)

Behaviour:
* Null topics (v0: none) ask for all of them; an empty list asks for the brokers only.
* An unknown topic is created when auto.create.topics.enable and the request allow it; it is answered ready for use,
  where Kafka answers LEADER_NOT_AVAILABLE first. Otherwise UNKNOWN_TOPIC_OR_PARTITION, or the reason why not.
* The broker's address is that of the listener the client came through.
* Authorised operations, when asked for, are all of them: there is no authoriser.

Versions: v4 brings allow_auto_topic_creation; v10 topic ids, v12 asking by them (UNKNOWN_TOPIC_ID; never created).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from kio.schema.errors import ErrorCode

from broker.administration import Problem
from broker.handlers.reply import Reply, RequestContext
from broker.internal_topic import INTERNAL_TOPICS
from broker.node import Node
from broker.protocol.apis import METADATA
from broker.protocol.metadata import (
    OPERATIONS_NOT_ASKED,
    BrokerMetadata,
    ClusterMetadata,
    MetadataRequest,
    PartitionMetadata,
    RequestedTopic,
    TopicMetadata,
    decode_request,
    encode_response,
)
from broker.protocol.primitives import ZERO_UUID
from broker.topic import Topic
from broker.topic_names import topic_name_problem

decode = decode_request


def _operations(*codes: int) -> int:
    return sum(1 << code for code in codes)


# Numbered as in Kafka's AclOperation: 3 read, 4 write, 5 create, 6 delete, 7 alter, 8 describe, 9 cluster action,
# 10 describe configs, 11 alter configs, 12 idempotent write.
CLUSTER_OPERATIONS: Final = _operations(5, 7, 8, 9, 10, 11, 12)
TOPIC_OPERATIONS: Final = _operations(3, 4, 5, 6, 7, 8, 10, 11)


def handle(node: Node, context: RequestContext, request: MetadataRequest) -> Reply:
    operations = TOPIC_OPERATIONS if request.include_topic_authorized_operations else OPERATIONS_NOT_ASKED
    if request.topics is None:
        topics = [_describe(topic, operations) for topic in node.topics()]
    else:
        missing = _missing(node, request.topics)
        may_create = request.allow_auto_topic_creation and node.config.boolean("auto.create.topics.enable")
        created = node.local_topics.create_all_by_default(missing) if missing and may_create else {}
        topics = [_find(node, wanted, created, operations) for wanted in request.topics]
    for topic in topics:
        if topic.error_code:
            node.counters.failed(METADATA, topic.error_code)
    listener = context.client.listener
    return encode_response(
        ClusterMetadata(
            [BrokerMetadata(node.broker_id, listener.host, listener.port, node.config.string("broker.rack"))],
            node.store.cluster_id,
            node.broker_id,
            topics,
            CLUSTER_OPERATIONS if request.include_cluster_authorized_operations else OPERATIONS_NOT_ASKED,
        ),
        context.version,
    )


def _missing(node: Node, topics: Sequence[RequestedTopic]) -> list[str]:
    return [
        wanted.name
        for wanted in topics
        if wanted.name is not None and wanted.topic_id == ZERO_UUID and node.topic(wanted.name) is None
    ]


def _find(node: Node, wanted: RequestedTopic, created: Mapping[str, Topic | Problem], operations: int) -> TopicMetadata:
    if wanted.name is None or wanted.topic_id != ZERO_UUID:
        topic = node.topic(wanted.topic_id)
        if topic is None:
            return TopicMetadata(ErrorCode.unknown_topic_id, None, wanted.topic_id)
        return _describe(topic, operations)
    name = wanted.name
    topic = node.topic(name)
    if topic is not None:
        return _describe(topic, operations)
    if topic_name_problem(name) is not None:
        return TopicMetadata(ErrorCode.invalid_topic_exception, name)
    problem = created.get(name)
    return TopicMetadata(
        problem.error_code if isinstance(problem, Problem) else ErrorCode.unknown_topic_or_partition, name
    )


def _describe(topic: Topic, operations: int) -> TopicMetadata:
    return TopicMetadata(
        ErrorCode.none,
        topic.name,
        topic.topic_id,
        is_internal=topic.name in INTERNAL_TOPICS,
        partitions=[
            PartitionMetadata(
                ErrorCode.leader_not_available if partition.has_failed else ErrorCode.none,
                partition.index,
                -1 if partition.has_failed else partition.replicas[0],
                partition.leader_epoch,
                partition.replicas,
                partition.in_sync_replicas,
                partition.replicas if partition.has_failed else [],
            )
            for partition in topic.partitions.values()
        ],
        authorized_operations=operations,
    )
