"""ElectLeaders: v0-v2 (key 43)

Behaviour: this broker leads every partition and is its only replica, so no election is ever needed: ELECTION_NOT_NEEDED
for each partition named, nothing for null, which asks for all that need one. v1 brings unclean elections (KIP-460).
"""

from __future__ import annotations

from typing import Any, Final

from kio.schema.errors import ErrorCode

from broker.handlers.reply import Reply, RequestContext
from broker.node import Node
from broker.protocol.cold import Answer

_PREFERRED: Final = 0
_UNCLEAN: Final = 1


def handle(node: Node, context: RequestContext, request: Any) -> Reply:
    if context.version >= 1 and request.election_type not in (_PREFERRED, _UNCLEAN):
        return {"error_code": ErrorCode.invalid_request, "replica_election_results": ()}
    wanted = request.topic_partitions or ()
    return {
        "replica_election_results": [
            {"topic": topic.topic, "partition_result": [_result(node, topic.topic, i) for i in topic.partitions]}
            for topic in wanted
        ]
    }


def _result(node: Node, topic: str, index: int) -> Answer:
    if node.partition(topic, index) is None:
        return {
            "partition_id": index,
            "error_code": ErrorCode.unknown_topic_or_partition,
            "error_message": "The partition does not exist.",
        }
    return {
        "partition_id": index,
        "error_code": ErrorCode.election_not_needed,
        "error_message": "The leader is the only replica.",
    }
