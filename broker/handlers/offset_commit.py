"""OffsetCommit: v2-v10 (key 8)

Behaviour:
* The answer comes when the log has the offsets, so they survive a restart.
* Members commit in their generation; a commit with generation -1 and no member is a simple consumer's, and is accepted
  while the group has no members. In CompletingRebalance: REBALANCE_IN_PROGRESS.
* A generation of a group that does not exist: GROUP_ID_NOT_FOUND, ILLEGAL_GENERATION up to v8.
* A member of a consumer group (KIP-848) may commit in an older epoch what it has had since (KIP-1251), else
  STALE_MEMBER_EPOCH; UNSUPPORTED_VERSION up to v8.
* Partitions that do not exist: UNKNOWN_TOPIC_OR_PARTITION; metadata longer than offset.metadata.max.bytes:
  OFFSET_METADATA_TOO_LARGE. The other partitions of the request are still committed.

Versions: v2 to v4 may have a retention time, which v5 drops (KIP-211); v6 brings the leader epoch (KIP-320), v7 static
members; v9 is for members of consumer groups too; v10 names topics by id:
UNKNOWN_TOPIC_ID for one that nobody knows.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from kio.schema.errors import ErrorCode

from highwater.broker.group.commits import Outcomes
from highwater.broker.group.events import Committer
from highwater.broker.handlers.shared.committed_offsets import in_older_terms, outcomes_by_topic, requested_offsets
from highwater.broker.handlers.shared.reply import Deferred, Reply, RequestContext
from highwater.broker.handlers.shared.topics_by_id import with_names
from highwater.broker.node import Node
from highwater.kafka.protocol.cold import milliseconds

_NO_RETENTION_MS: Final = -1
_KNOWS_CONSUMER_GROUPS_FROM: Final = 9


def handle(node: Node, context: RequestContext, request: Any) -> Reply:
    request = replace(request, topics=with_names(node, request.topics))
    now_ms = node.clock.now_ms()
    retention = getattr(request, "retention_time", None)
    retention_ms = _NO_RETENTION_MS if retention is None else milliseconds(retention)
    expires_ms = None if retention_ms == _NO_RETENTION_MS else now_ms + retention_ms
    offsets, unknown = requested_offsets(request, node.cluster, now_ms, expires_ms)
    if not offsets:
        return {"topics": outcomes_by_topic(request, unknown)}
    deferred = Deferred()

    def answer(outcomes: Outcomes) -> None:
        if context.version < _KNOWS_CONSUMER_GROUPS_FROM:
            outcomes = in_older_terms(outcomes, {ErrorCode.group_id_not_found: ErrorCode.illegal_generation})
        deferred.complete(lambda: {"topics": outcomes_by_topic(request, {**outcomes, **unknown})})

    instance_id = getattr(request, "group_instance_id", None)
    committer = Committer(
        request.member_id,
        instance_id,
        request.generation_id_or_member_epoch,
        knows_epochs=context.version >= _KNOWS_CONSUMER_GROUPS_FROM,
    )
    node.groups.commits.commit(request.group_id, committer, offsets, answer)
    return deferred.now_or_later()
