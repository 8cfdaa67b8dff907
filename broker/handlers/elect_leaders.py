"""ElectLeaders: v0-v2 (key 43)

Behaviour: each partition by itself; ELECTION_NOT_NEEDED where the wanted replica leads already. Null requests all
partitions that need an election, and only those are answered. v1 brings unclean elections (KIP-460).
"""

from __future__ import annotations

from typing import Any

from kio.schema.errors import ErrorCode

from highwater.broker.handlers.shared.reply import Deferred, Reply, RequestContext
from highwater.broker.node import Node
from highwater.broker.topics.administration import ElectionType, PartitionOutcomes
from highwater.kafka.pacing import paced
from highwater.kafka.protocol.cold import Answer, milliseconds
from highwater.kafka.protocol.problem import Problem, error_fields


def handle(node: Node, context: RequestContext, request: Any) -> Reply:
    try:
        election_type = ElectionType(request.election_type) if context.version >= 1 else ElectionType.PREFERRED
    except ValueError:
        return {"error_code": ErrorCode.invalid_request, "replica_election_results": ()}
    wanted = (
        None
        if request.topic_partitions is None
        else [(topic.topic, index) for topic in request.topic_partitions for index in topic.partitions]
    )
    deferred = Deferred()
    node.administration.elect_leaders(
        wanted,
        election_type,
        milliseconds(request.timeout),
        deferred.complete_by(_answer),
    )
    return deferred.now_or_later()


def _answer(results: PartitionOutcomes) -> Answer:
    if isinstance(results, Problem):
        return {"error_code": results.error_code, "replica_election_results": ()}
    topics: dict[str, list[Answer]] = {}
    for (topic, index), problem in paced(results.items()):
        topics.setdefault(topic, []).append({"partition_id": index} | error_fields(problem))
    return {
        "replica_election_results": [
            {"topic": topic, "partition_result": partitions} for topic, partitions in paced(topics.items())
        ]
    }
