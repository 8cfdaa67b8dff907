"""OffsetCommit: v2-v9 (key 8)

Behaviour:
* The answer comes when the log has the offsets, so they survive a restart.
* Members commit in their generation; a commit with generation -1 and no member is a simple consumer's, and is accepted
  while the group has no members. In CompletingRebalance: REBALANCE_IN_PROGRESS.
* Partitions that do not exist: UNKNOWN_TOPIC_OR_PARTITION; metadata longer than offset.metadata.max.bytes:
  OFFSET_METADATA_TOO_LARGE. The other partitions of the request are still committed.

Versions: v2 to v4 may have a retention time, which v5 drops (KIP-211); v6 brings the leader epoch (KIP-320), v7 static
members; v9 is for groups of the newer protocol (KIP-848) too, of which there are none.
"""

from __future__ import annotations

from typing import Any, Final

from kio.schema.errors import ErrorCode

from highwater.broker.group.coordinator import Committer, Outcomes
from highwater.broker.group.offsets import CommittedOffset
from highwater.broker.handlers.reply import Deferred, Reply, RequestContext
from highwater.broker.node import Node
from highwater.broker.protocol.cold import Answer, milliseconds
from highwater.common.topic_partition import TopicPartition

_NO_RETENTION_MS: Final = -1


def handle(node: Node, context: RequestContext, request: Any) -> Reply:
    now_ms = node.clock.now_ms()
    retention = getattr(request, "retention_time", None)
    retention_ms = _NO_RETENTION_MS if retention is None else milliseconds(retention)
    expires_ms = None if retention_ms == _NO_RETENTION_MS else now_ms + retention_ms
    offsets: dict[TopicPartition, CommittedOffset] = {}
    unknown: dict[TopicPartition, ErrorCode] = {}
    for topic in request.topics:
        for wanted in topic.partitions:
            key = (topic.name, wanted.partition_index)
            if node.cluster.partition(*key) is None:
                unknown[key] = ErrorCode.unknown_topic_or_partition
                continue
            offsets[key] = CommittedOffset(
                wanted.committed_offset,
                getattr(wanted, "committed_leader_epoch", -1),
                wanted.committed_metadata or "",
                now_ms,
                expires_ms,
            )
    if not offsets:
        return _encode(request, unknown)
    deferred = Deferred()

    def answer(outcomes: Outcomes) -> None:
        deferred.complete(_encode(request, {**outcomes, **unknown}))

    instance_id = getattr(request, "group_instance_id", None)
    committer = Committer(request.member_id, instance_id, request.generation_id_or_member_epoch)
    node.groups.commit(request.group_id, committer, offsets, answer)
    return deferred.now_or_later()


def _encode(request: Any, outcomes: Outcomes) -> Answer:
    return {
        "topics": [
            {
                "name": topic.name,
                "partitions": [
                    {
                        "partition_index": wanted.partition_index,
                        "error_code": outcomes[topic.name, wanted.partition_index],
                    }
                    for wanted in topic.partitions
                ],
            }
            for topic in request.topics
        ]
    }
