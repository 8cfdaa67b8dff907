"""ConsumerGroupHeartbeat: v0-v1 (key 68)

Behaviour:
* A member of a consumer group (KIP-848) joins, says that it is alive and what it owns, and leaves. The answer with its
  new epoch and assignment comes when the log has them; see broker.group.consumer.
* Where the feature `group.version` is 0: UNSUPPORTED_VERSION, as of Kafka, except to groups that have members already.
  The Java client and librdkafka end with this error; franz-go goes on with the classic protocol.
* No group, or a classic one, for a member that does not join: GROUP_ID_NOT_FOUND. So it is for one that joins a classic
  group with members, if that cannot become a consumer group; see broker.group.consumer.migration.

Versions: v1 brings regular expressions, and member ids that clients make.
"""

from __future__ import annotations

from typing import Any
from uuid import UUID

from kio.schema.errors import ErrorCode

from highwater.broker.features import GROUP_VERSION
from highwater.broker.group.assignors.assignor import Assignment
from highwater.broker.group.consumer.events import HeartbeatAnswer, HeartbeatRequest
from highwater.broker.handlers.authorization.access import access_of
from highwater.broker.handlers.shared.reply import Deferred, Reply, RequestContext
from highwater.broker.node import Node
from highwater.kafka.acl import Operation
from highwater.kafka.protocol.cold import Answer, milliseconds


def handle(node: Node, context: RequestContext, request: Any) -> Reply:
    if not node.features.level(GROUP_VERSION) and not node.groups.has_consumers(request.group_id):
        return {
            "error_code": ErrorCode.unsupported_version,
            "error_message": "consumer groups (KIP-848) are off: set group.protocol=classic, or group.version=1",
            "member_id": request.member_id,
            "member_epoch": request.member_epoch,
        }
    deferred = Deferred()
    access = access_of(node, context, "ConsumerGroupHeartbeat")

    def sees(topic: str) -> bool:
        return access is None or access.to_topic(Operation.DESCRIBE, topic, is_told=False)

    def answer(value: HeartbeatAnswer) -> None:
        deferred.complete(_encode(value))

    node.groups.consumer_heartbeat(request.group_id, context.version, _read(context, request), sees, answer)
    return deferred.now_or_later()


def _read(context: RequestContext, request: Any) -> HeartbeatRequest:
    names = request.subscribed_topic_names
    return HeartbeatRequest(
        request.member_id,
        request.member_epoch,
        request.instance_id,
        request.rack_id,
        milliseconds(request.rebalance_timeout),
        None if names is None else frozenset(names),
        getattr(request, "subscribed_topic_regex", None),
        request.server_assignor,
        _owned(request.topic_partitions),
        context.client_id or "",
        f"/{context.client.host}",
    )


def _owned(topics: Any) -> Assignment | None:
    if topics is None:
        return None
    owned: dict[UUID, set[int]] = {}
    for topic in topics:
        owned.setdefault(topic.topic_id, set()).update(topic.partitions)
    return {topic_id: frozenset(partitions) for topic_id, partitions in owned.items() if partitions}


def _encode(value: HeartbeatAnswer) -> Answer:
    answer: Answer = {
        "error_code": value.error_code,
        "error_message": value.error_message,
        "member_id": value.member_id,
        "member_epoch": value.member_epoch,
        "heartbeat_interval": value.heartbeat_interval_ms,
        "assignment": None,
    }
    if value.assignment is not None:
        answer["assignment"] = {
            "topic_partitions": [
                {"topic_id": topic_id, "partitions": sorted(partitions)}
                for topic_id, partitions in value.assignment.items()
            ]
        }
    return answer
