"""OffsetDelete: v0-v0 (key 47)

Behaviour: deletes committed offsets of a group (KIP-496). A topic that a member of a consumer group reads:
GROUP_SUBSCRIBED_TO_TOPIC; another kind of group must be empty, else NON_EMPTY_GROUP. An unknown group:
GROUP_ID_NOT_FOUND; a partition that does not exist: UNKNOWN_TOPIC_OR_PARTITION.
"""

from __future__ import annotations

from typing import Any

from kio.schema.errors import ErrorCode

from highwater.broker.group.commits import Outcomes
from highwater.broker.handlers.shared.committed_offsets import outcomes_by_topic
from highwater.broker.handlers.shared.reply import Deferred, Reply, RequestContext
from highwater.broker.node import Node
from highwater.kafka.pacing import paced


def handle(node: Node, context: RequestContext, request: Any) -> Reply:
    wanted = [(topic.name, entry.partition_index) for topic in request.topics for entry in topic.partitions]
    known = [partition for partition in paced(wanted) if node.cluster.partition(*partition) is not None]
    unknown = dict.fromkeys(wanted, ErrorCode.unknown_topic_or_partition)
    deferred = Deferred()

    def answer(outcomes: ErrorCode | Outcomes) -> None:
        deferred.complete(
            lambda: (
                {"error_code": outcomes, "topics": []}
                if isinstance(outcomes, ErrorCode)
                else {"error_code": ErrorCode.none, "topics": outcomes_by_topic(request, {**unknown, **outcomes})}
            )
        )

    node.groups.commits.delete(request.group_id, known, answer)
    return deferred.now_or_later()
