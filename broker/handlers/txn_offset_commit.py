"""TxnOffsetCommit: v0-v6 (key 28)

Behaviour:
* When the answer is sent, the log has the offsets; they take effect when the producer's transaction commits. Until then
  OffsetFetch with require_stable answers UNSTABLE_OFFSET_COMMIT for them.
* The transaction must have the group's partition of `__consumer_offsets` (AddOffsetsToTxn), or the errors of Produce.
  From v5 on this request adds that partition itself (KIP-890).
* A request with a member and its generation gets the errors of OffsetCommit, except REBALANCE_IN_PROGRESS. A request
  without a member is not checked (KIP-447). A generation of a group that does not exist: GROUP_ID_NOT_FOUND; an old
  epoch in a consumer group: STALE_MEMBER_EPOCH; both are ILLEGAL_GENERATION up to v5.
* Partitions that do not exist: UNKNOWN_TOPIC_OR_PARTITION; metadata longer than offset.metadata.max.bytes:
  OFFSET_METADATA_TOO_LARGE. The other partitions of the request are still written.

Versions: below v2 COORDINATOR_NOT_AVAILABLE stands for COORDINATOR_LOAD_IN_PROGRESS, which those clients do not expect
(KAFKA-7296); v2 brings the leader epoch, v3 the member, v4 TRANSACTION_ABORTABLE (KIP-890). v5 is for clients of
version 2 of transactions; v6 names topics by id: UNKNOWN_TOPIC_ID for one that nobody knows (KIP-1319).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from kio.schema.errors import ErrorCode

from highwater.broker.group.commits import Outcomes
from highwater.broker.group.events import Committer
from highwater.broker.handlers.shared.committed_offsets import in_older_terms, outcomes_by_topic, requested_offsets
from highwater.broker.handlers.shared.reply import Deferred, Reply, RequestContext
from highwater.broker.handlers.shared.topics_by_id import with_names
from highwater.broker.handlers.shared.verification import (
    Verified,
    add_to_transaction,
    is_asked_elsewhere,
    verifier,
    verify_elsewhere,
)
from highwater.broker.node import Node
from highwater.broker.txn.transaction import Producer
from highwater.common.topic_partition import TopicPartition
from highwater.kafka.protocol.cold import Answer

_ADDS_FROM: Final = 5
_OLDER_TERMS: Final[Mapping[int, Mapping[ErrorCode, ErrorCode]]] = {
    2: {ErrorCode.coordinator_load_in_progress: ErrorCode.coordinator_not_available},
    6: dict.fromkeys((ErrorCode.group_id_not_found, ErrorCode.stale_member_epoch), ErrorCode.illegal_generation),
}
"""What stands for errors before the version that brings them, by that version."""


def handle(node: Node, context: RequestContext, request: Any) -> Reply:
    version = context.version
    request = replace(request, topics=with_names(node, request.topics))
    offsets, unknown = requested_offsets(request, node.cluster, node.clock.now_ms())
    if not offsets:
        return _answer(request, unknown, version)
    adds = version >= _ADDS_FROM
    deferred = Deferred()

    def answer(outcomes: Outcomes) -> None:
        deferred.complete(lambda: _answer(request, {**outcomes, **unknown}, version))

    committer = Committer(
        getattr(request, "member_id", ""),
        getattr(request, "group_instance_id", None),
        getattr(request, "generation_id", -1),
    )
    producer = Producer(request.producer_id, request.producer_epoch)
    partition = node.groups.partition(request.group_id)

    def commit(verified: Verified | None) -> None:
        verify = None
        if partition is not None:
            verify = verifier(
                node, request.transactional_id, partition, knows_abortable=version >= 4, verified=verified
            )
        node.groups.commits.commit_in_transaction(
            request.group_id, committer, producer, verify, offsets, answer, by_version_2=adds
        )

    def answered(verified: Mapping[TopicPartition, Verified]) -> None:
        commit(next(iter(verified.values())))

    if partition is None or not partition.would_begin(*producer, by_version_2=adds):
        commit(None)
    elif adds:
        context.client.uses_transactions_2 = True
        add_to_transaction(node, request.transactional_id, [(partition, producer)], answered)
    elif not is_asked_elsewhere(node, request.transactional_id):
        commit(None)
    else:
        verify_elsewhere(node, request.transactional_id, [(partition, producer)], answered)
    return deferred.now_or_later()


def _answer(request: Any, outcomes: Outcomes, version: int) -> Answer:
    terms = {error: older for since, each in _OLDER_TERMS.items() if version < since for error, older in each.items()}
    if terms:
        outcomes = in_older_terms(outcomes, terms)
    return {"topics": outcomes_by_topic(request, outcomes)}
