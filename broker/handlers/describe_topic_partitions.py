"""DescribeTopicPartitions: v0-v0 (key 75)

Behaviour (KIP-966):
* An empty list requests all topics. Topics come sorted by name, partitions by number, and no more partitions than the
  request and max.request.partition.size.limit allow. The cursor of an answer says where the next request goes on.
* Topics before the cursor are left out. A cursor with a partition below 0, or with a topic that the list of the request
  lacks, is refused: INVALID_REQUEST for each named topic, as the answer has no other place for an error.
* Only named topics are answered with an error: UNKNOWN_TOPIC_OR_PARTITION, INVALID_TOPIC_EXCEPTION. Topics that the
  client may not describe come last, with TOPIC_AUTHORIZATION_FAILED and without their id.
* Partitions without a leader have the errors that they have in Metadata.
* No partition has eligible leader replicas: they are of KRaft. The lists are empty: the Java client of Kafka 4.4 fails
  on null, which the protocol allows.
"""

from __future__ import annotations

from collections.abc import Iterator
from heapq import merge
from typing import Any, Final

from kio.schema.errors import ErrorCode

from highwater.broker.handlers.authorization.access import TOPIC_DENIED, access_of
from highwater.broker.handlers.metadata import Description, live_brokers, may_describe, may_see
from highwater.broker.handlers.shared.reply import Reply, RequestContext
from highwater.broker.node import Node
from highwater.broker.topics.internal_topic import INTERNAL_TOPICS
from highwater.kafka.pacing import paced
from highwater.kafka.protocol.apis import APIS, METADATA
from highwater.kafka.protocol.cold import Answer
from highwater.kafka.topic_names import topic_name_problem

_AS_IN_METADATA: Final = APIS[METADATA].max_version
_CHUNK: Final = 1000
"""Names that are sorted in one step, which takes less than a millisecond."""


def handle(node: Node, context: RequestContext, request: Any) -> Reply:
    cursor, named = request.cursor, {topic.name for topic in paced(request.topics)}
    if cursor is not None and (cursor.partition_index < 0 or (named and cursor.topic_name not in named)):
        return {"topics": [_error(ErrorCode.invalid_request, topic.name) for topic in paced(request.topics)]}
    access = access_of(node, context, "DescribeTopicPartitions")
    begin = "" if cursor is None else cursor.topic_name
    names = named or {view.name for view in paced(node.cluster.topics())}
    may_tell = may_describe if named else may_see
    reachable = {broker.node_id for broker in live_brokers(node, context)}
    describe = Description(node, _AS_IN_METADATA, reachable, access, tells_operations=True)
    left = max(1, min(request.response_partition_limit, node.config.integer("max.request.partition.size.limit")))
    topics: list[Answer] = []
    denied: list[Answer] = []
    next_cursor = None
    for name in paced(_in_order([name for name in paced(names) if name >= begin])):
        if not may_tell(access, name):
            if named:
                denied.append(_error(TOPIC_DENIED, name))
            continue
        if left == 0:
            next_cursor = {"topic_name": name, "partition_index": 0}
            break
        view = node.cluster.topic(name)
        if view is None:
            if named:
                is_name = topic_name_problem(name) is None
                code = ErrorCode.unknown_topic_or_partition if is_name else ErrorCode.invalid_topic_exception
                topics.append(_error(code, name))
            continue
        first = cursor.partition_index if cursor is not None and name == begin else 0
        indexes = sorted(index for index in view.partitions if index >= first)
        told = {index: view.partitions[index] for index in indexes[:left]}
        topics.append(_topic(describe, view._replace(partitions=told)))
        if len(indexes) > left:
            next_cursor = {"topic_name": name, "partition_index": indexes[left]}
            break
        left -= len(told)
    return {"topics": [*topics, *denied], "next_cursor": next_cursor}


def _in_order(names: list[str]) -> Iterator[str]:
    """Yield the names sorted, without one long step: a request may have 200,000 of them."""
    return merge(*(sorted(names[at : at + _CHUNK]) for at in paced(range(0, len(names), _CHUNK))))


def _topic(describe: Description, view: Any) -> Answer:
    topic = describe.topic(view)
    return {
        "name": topic.name,
        "topic_id": topic.topic_id,
        "is_internal": topic.is_internal,
        "topic_authorized_operations": topic.authorized_operations,
        "partitions": [
            {
                "error_code": each.error_code,
                "partition_index": each.partition,
                "leader_id": each.leader_id,
                "leader_epoch": each.leader_epoch,
                "replica_nodes": each.replicas,
                "isr_nodes": each.in_sync_replicas,
                "eligible_leader_replicas": (),
                "last_known_elr": (),
                "offline_replicas": each.offline_replicas,
            }
            for each in paced(topic.partitions)
        ],
    }


def _error(error_code: ErrorCode, name: str) -> Answer:
    return {"error_code": error_code, "name": name, "is_internal": name in INTERNAL_TOPICS}
