"""Guards of requests about producers and transactions."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any, Final

from kio.schema.errors import ErrorCode

from highwater.broker.handlers.authorization.access import (
    CLUSTER_DENIED,
    GROUP_DENIED,
    TOPIC_DENIED,
    TRANSACTION_DENIED,
    Access,
    Handle,
    after,
    divided,
)
from highwater.broker.handlers.authorization.groups import COMMITTED_TOPICS, all_partitions
from highwater.broker.handlers.shared.reply import Reply
from highwater.broker.handlers.shared.topics_by_id import with_names
from highwater.broker.topics.internal_topic import INTERNAL_TOPICS
from highwater.kafka.acl import CLUSTER_NAME, Operation, ResourceType
from highwater.kafka.pacing import paced
from highwater.kafka.protocol.cold import Answer

_NO_PRODUCER: Final = {"producer_id": -1, "producer_epoch": -1}


def init_producer_id(access: Access, request: Any, handle: Handle) -> Reply:
    """WRITE on the transactional id. Without one IDEMPOTENT_WRITE on the cluster, or WRITE on any topic (KIP-679)."""
    if request.transactional_id is not None:
        if not access.to_transaction(Operation.WRITE, request.transactional_id):
            return {"error_code": TRANSACTION_DENIED} | _NO_PRODUCER
    elif not access.to_cluster(Operation.IDEMPOTENT_WRITE, is_told=False) and not access.client.allows_any(
        Operation.WRITE, ResourceType.TOPIC
    ):
        access.node.counters.authorizations_asked += 1
        access.denied(Operation.IDEMPOTENT_WRITE, ResourceType.CLUSTER, CLUSTER_NAME)
        return {"error_code": CLUSTER_DENIED} | _NO_PRODUCER
    return handle(request)


def add_partitions_to_txn(access: Access, request: Any, handle: Handle) -> Reply:
    """Up to v3 WRITE on the transactional id and on each topic, or nothing is added; from v4 on CLUSTER_ACTION."""
    if access.version >= 4:
        if access.to_cluster(Operation.CLUSTER_ACTION):
            return handle(request)
        return {"error_code": CLUSTER_DENIED, "results_by_transaction": []}
    topics = request.v3_and_below_topics
    if not access.to_transaction(Operation.WRITE, request.v3_and_below_transactional_id):
        return _results({topic.name: TRANSACTION_DENIED for topic in topics}, topics)
    refused = {
        topic.name
        for topic in topics
        if topic.name in INTERNAL_TOPICS or not access.to_topic(Operation.WRITE, topic.name)
    }
    if not refused:
        return handle(request)
    outcomes = {
        topic.name: TOPIC_DENIED if topic.name in refused else ErrorCode.operation_not_attempted for topic in topics
    }
    return _results(outcomes, topics)


def _results(outcomes: dict[str, ErrorCode], topics: Any) -> Answer:
    return {
        "results_by_topic_v3_and_below": [
            {
                "name": topic.name,
                "results_by_partition": [
                    {"partition_index": index, "partition_error_code": outcomes[topic.name]}
                    for index in topic.partitions
                ],
            }
            for topic in topics
        ]
    }


def add_offsets_to_txn(access: Access, request: Any, handle: Handle) -> Reply:
    if not access.to_transaction(Operation.WRITE, request.transactional_id):
        return {"error_code": TRANSACTION_DENIED}
    if not access.to_group(Operation.READ, request.group_id):
        return {"error_code": GROUP_DENIED}
    return handle(request)


def end_txn(access: Access, request: Any, handle: Handle) -> Reply:
    if not access.to_transaction(Operation.WRITE, request.transactional_id):
        return {"error_code": TRANSACTION_DENIED}
    return handle(request)


def write_txn_markers(access: Access, request: Any, handle: Handle) -> Reply:
    """ALTER on the cluster, for operators who abort a hanging transaction, or CLUSTER_ACTION."""
    if access.to_cluster(Operation.ALTER, is_told=False) or access.to_cluster(Operation.CLUSTER_ACTION):
        return handle(request)
    return {
        "markers": [
            {
                "producer_id": marker.producer_id,
                "topics": [
                    {
                        "name": topic.name,
                        "partitions": [
                            {"partition_index": index, "error_code": CLUSTER_DENIED}
                            for index in topic.partition_indexes
                        ],
                    }
                    for topic in marker.topics
                ],
            }
            for marker in request.markers
        ]
    }


def txn_offset_commit(access: Access, request: Any, handle: Handle) -> Reply:
    request = replace(request, topics=with_names(access.node, request.topics))
    error_code = None
    if not access.to_transaction(Operation.WRITE, request.transactional_id):
        error_code = TRANSACTION_DENIED
    elif not access.to_group(Operation.READ, request.group_id):
        error_code = GROUP_DENIED
    if error_code is None:
        return COMMITTED_TOPICS(access, request, handle)
    return {"topics": all_partitions(request, error_code)}


def describe_transactions(access: Access, request: Any, handle: Handle) -> Reply:
    """DESCRIBE on the transactional id; topics that the client may not describe are left out."""
    allowed, refused = divided(request.transactional_ids, partial(access.to_transaction, Operation.DESCRIBE))
    told = [{"error_code": TRANSACTION_DENIED, "transactional_id": name} for name in paced(refused)]

    def tell(answer: Answer) -> Answer:
        states = [
            state
            | {
                "topics": [
                    topic
                    for topic in paced(state.get("topics", ()))
                    if access.to_topic(Operation.DESCRIBE, topic["topic"], is_told=False)
                ]
            }
            for state in answer["transaction_states"]
        ]
        return answer | {"transaction_states": [*states, *told]}

    return after(handle(replace(request, transactional_ids=allowed)), tell)


def list_transactions(access: Access, request: Any, handle: Handle) -> Reply:
    def tell(answer: Answer) -> Answer:
        states = [
            state
            for state in answer.get("transaction_states", ())
            if access.to_transaction(Operation.DESCRIBE, state["transactional_id"], is_told=False)
        ]
        return answer | {"transaction_states": states}

    return after(handle(request), tell)
