"""Produce: v3-v13 (key 0)

Behaviour:
* acks 0 gets no answer; when it fails the connection is closed, as the client can notice nothing else.
* acks other than -1, 0, 1: INVALID_REQUIRED_ACKS for every partition.
* acks -1 needs min.insync.replicas and is answered when the high watermark has passed the records. A log that must be
  flushed first (flush.messages) delays the answer with acks 1 too. Replicas that are slower than the client's time-out:
  REQUEST_TIMED_OUT.
* The checks of a batch are those of kafka.records.batch.validate_produced; the leader epoch in it is overwritten.
  If the topic's settings concern single records, kafka.records.produced checks these too, and the answer lists the
  refused records (v8). It also corrects the max timestamp of a header that is not near the broker's clock.
* Above the producer's quota the answer has a throttle time, and the connection is muted for that time.
* Only the broker writes to internal topics: INVALID_TOPIC_EXCEPTION.
* The first batch of a transaction is appended only if the coordinator confirms that the transaction has this partition;
  otherwise the answer has the coordinator's error, or NOT_ENOUGH_REPLICAS, which makes clients retry, if no coordinator
  can answer now. A coordinator on another broker is asked first, and later requests of the connection wait for it
  (except with acks 0). From v12 on the coordinator is asked first to add the partition, wherever it is. Transactional
  batches in a request without a transactional id: TRANSACTIONAL_ID_AUTHORIZATION_FAILED.
* With an authorizer: WRITE on each topic, else TOPIC_AUTHORIZATION_FAILED, or UNKNOWN_TOPIC_ID for an id that nobody
  knows; for transactional batches WRITE on the transactional id, else TRANSACTIONAL_ID_AUTHORIZATION_FAILED for every
  partition.

ApiVersions advertises versions 0 to 2, but they are not served: see kafka.protocol.apis. v7 brings zstd (KIP-110);
before it UNSUPPORTED_COMPRESSION_TYPE. v11 brings TRANSACTION_ABORTABLE (KIP-890); before it INVALID_TXN_STATE. v12 is
for clients of version 2 of transactions (KIP-890). v13 names topics by id: UNKNOWN_TOPIC_ID for one that nobody knows,
so that a request for a topic that was deleted does not write into one of the same name (KIP-516).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Final
from uuid import UUID

from kio.schema.errors import ErrorCode

from highwater.broker.clock import Timer
from highwater.broker.counters import TopicCounters
from highwater.broker.handlers.authorization.access import TOPIC_DENIED, TRANSACTION_DENIED, tell_denial
from highwater.broker.handlers.shared.reply import CloseConnection, Deferred, Reply, RequestContext
from highwater.broker.handlers.shared.verification import (
    Verified,
    add_to_transaction,
    is_asked_elsewhere,
    verifier,
    verify_elsewhere,
)
from highwater.broker.log.partition_log import Appended
from highwater.broker.node import Node
from highwater.broker.replica.partition import Partition, Verify
from highwater.broker.topics.internal_topic import ADMIN_CLIENT_ID, INTERNAL_TOPICS
from highwater.broker.topics.refusal import refusal
from highwater.broker.txn.transaction import Producer
from highwater.common.topic_partition import TopicPartition
from highwater.kafka.acl import Operation, ResourceType
from highwater.kafka.pacing import each, needs_turns, paced, takes_turns
from highwater.kafka.protocol.apis import PRODUCE
from highwater.kafka.protocol.frame import Part
from highwater.kafka.protocol.produce import (
    PartitionProduced,
    ProduceRequest,
    decode_request,
    encode_response,
)
from highwater.kafka.records.batch import BatchHeader, WritableBuffer, is_doubtful, is_zstd, transactional_producer
from highwater.kafka.records.produced import RefusedRecords, UnfoldBudget
from highwater.kafka.records.record_times import HeaderBudget

decode = decode_request

ZSTD_FROM: Final = 7
ABORTABLE_FROM: Final = 11
ADDS_FROM: Final = 12
"""A client of version 2 of transactions adds no partitions: its first batch does."""

_MESSAGES = {
    ErrorCode.message_too_large: "The record batch is larger than max.message.bytes of the topic allows.",
    ErrorCode.invalid_record: "The records are not one whole batch that a producer may write.",
}

_TELLS_NO_START: Final = (
    ErrorCode.not_leader_or_follower,
    ErrorCode.message_too_large,
    ErrorCode.record_list_too_large,
    ErrorCode.corrupt_message,
    ErrorCode.invalid_producer_id_mapping,
    ErrorCode.transactional_id_authorization_failed,
)
"""Answers with other errors of the log include its log start offset (ReplicaManager.appendToLocalLog)."""

_UNDECIDED: Final = (
    ErrorCode.coordinator_load_in_progress,
    ErrorCode.coordinator_not_available,
    ErrorCode.network_exception,
    ErrorCode.not_coordinator,
)
"""Clients do not retry after these errors, and before v12 not after CONCURRENT_TRANSACTIONS
(ReplicaManager.appendRecords)."""


_WRITE_TOPIC: Final = (Operation.WRITE, ResourceType.TOPIC)
_WRITE_TRANSACTION: Final = (Operation.WRITE, ResourceType.TRANSACTIONAL_ID)

Find = Callable[[str | UUID, int], Partition | None]
"""The partition of this broker that the client may write to."""


def handle(
    node: Node,
    context: RequestContext,
    request: ProduceRequest,
    verified: Mapping[TopicPartition, Verified] | None = None,
) -> Reply:
    """`verified` is the answer of the transaction's coordinator, if it was asked before."""
    now_ms = node.clock.now_ms()
    transactional_id, acks, timeout_ms = request.transactional_id, request.acks, request.timeout_ms
    find: Find = node.partitions.find
    if _opens_batches(find, request, now_ms):
        needs_turns()
    denied: Mapping[str | UUID, ErrorCode] = {}
    if node.acls is not None:
        denied = _denied(node, context, request)
        if denied:
            find = partial(_find_allowed, node, denied)
    adds = transactional_id is not None and acks != 0 and context.version >= ADDS_FROM
    if (
        transactional_id is not None
        and verified is None
        and acks != 0
        and (adds or is_asked_elsewhere(node, transactional_id))
    ):
        unverified = _unverified(find, request, adds)
        if unverified:
            return _ask_first(node, context, request, transactional_id, unverified)
    answers: list[tuple[str | UUID, list[PartitionProduced]]] = []
    waiting: list[tuple[Partition, int, list[PartitionProduced], int]] = []
    allowance, opening = HeaderBudget(), UnfoldBudget()
    for topic, partitions in each(request.topics):
        produced: list[PartitionProduced] = []
        answers.append((topic, produced))
        for index, records in each(partitions):
            partition = find(topic, index)
            if (
                partition is None
                or not partition.is_leader
                or (partition.topic in INTERNAL_TOPICS and context.client_id != ADMIN_CLIENT_ID)
            ):
                unfit = ErrorCode.invalid_topic_exception
                if topic in denied:
                    unfit = denied[topic]
                elif partition is None or not partition.is_leader:
                    unfit = refusal(node.partitions, node.cluster, topic, index)
                produced.append(PartitionProduced(index, unfit))
                counters = node.counters.unknown_topics if partition is None else partition.counters
                counters.produces += 1
                _count_failure(node, counters, unfit)
                continue
            verify: Verify | None = None
            if transactional_id is not None:
                outcome = None if verified is None else verified.get((partition.topic, index))
                verify = _come_again
                if outcome is not None or not adds:
                    verify = _verifier(node, context, transactional_id, partition, outcome)
            if context.version < ZSTD_FROM and is_zstd(records):
                answer, appended = PartitionProduced(index, ErrorCode.unsupported_compression_type), None
            else:
                answer, appended = _append(partition, records, acks, now_ms, verify, adds, allowance, opening)
            produced.append(answer)
            partition.counters.produces += 1
            if appended is None:
                _count_failure(node, partition.counters, answer.error_code)
            elif acks != 0 and not partition.is_acknowledged(appended.last_offset, acks):
                waiting.append((partition, appended.last_offset, produced, len(produced) - 1))
    if waiting:
        return _answer_when_acknowledged(node, context, waiting, answers, acks, timeout_ms)
    encoded = _answer(node, context, answers)
    if acks == 0:
        for topic, produced in answers:
            for answer in produced:
                if answer.error_code:
                    raise CloseConnection(
                        f"produce with acks=0 to {topic}-{answer.partition}: {answer.error_code.name}"
                    )
        return None
    return encoded


def _opens_batches(find: Find, request: ProduceRequest, now_ms: int) -> bool:
    """Whether the settings of some topic ask for it, or the header of a compressed batch may be wrong."""
    for topic, partitions in each(request.topics):
        for index, records in each(partitions):
            partition = find(topic, index)
            if is_doubtful(records, now_ms) or (
                partition is not None and partition.log.config.record_rules is not None
            ):
                return True
    return False


def _denied(node: Node, context: RequestContext, request: ProduceRequest) -> Mapping[str | UUID, ErrorCode]:
    """Why the client may not write to topics: all of them, if it may not use its transactional id.

    An id that nobody knows is not denied: there is no name to ask about.
    """
    assert node.acls is not None
    client = context.client.permissions(node.acls.authorizer)
    may_write = client.answers(_WRITE_TOPIC)
    denied: dict[str | UUID, str] = {}
    for topic, _ in each(request.topics):
        name = topic if isinstance(topic, str) else node.topic_name(topic)
        if name is not None and not may_write[name]:
            denied[topic] = name
    # The log refuses a single batch of a transaction that has no id: looking at it here would cost each request.
    if (denied or not _is_one_batch_without_id(request)) and _is_transactional(request):
        transactional_id = request.transactional_id
        if transactional_id is not None:
            node.counters.authorizations_asked += 1
        if transactional_id is None or not client.allows(*_WRITE_TRANSACTION, transactional_id):
            if transactional_id is not None:
                tell_denial(node, context, "Produce", (*_WRITE_TRANSACTION, transactional_id))
            return {topic: TRANSACTION_DENIED for topic, _ in each(request.topics)}
    node.counters.authorizations_asked += len(request.topics)
    for name in paced(denied.values()):
        tell_denial(node, context, "Produce", (*_WRITE_TOPIC, name))
    return dict.fromkeys(denied, TOPIC_DENIED)


def _is_one_batch_without_id(request: ProduceRequest) -> bool:
    topics = request.topics
    return request.transactional_id is None and len(topics) == 1 and len(topics[0][1]) == 1


def _is_transactional(request: ProduceRequest) -> bool:
    """Whether any batch is of a transaction: each counts, not the first alone (CVE-2018-17196)."""
    return any(
        transactional_producer(records) is not None
        for _, partitions in each(request.topics)
        for _, records in each(partitions)
    )


def _find_allowed(
    node: Node, denied: Mapping[str | UUID, ErrorCode], topic: str | UUID, index: int
) -> Partition | None:
    return None if topic in denied else node.partitions.find(topic, index)


def _answer(
    node: Node, context: RequestContext, answers: list[tuple[str | UUID, list[PartitionProduced]]]
) -> list[Part]:
    """Encode the answer, with the throttle time of a client above its quota."""
    throttle_ms = context.throttle_ms
    if node.quotas.limits_bytes:
        now_ms = node.clock.monotonic_ns() // 1_000_000
        excess_ms = node.quotas.produced(context.client.principal, context.client_id, context.size_bytes, now_ms)
        if excess_ms:
            node.counters.produce_throttle_ms += excess_ms
            context.client.mute(excess_ms)
            throttle_ms = max(throttle_ms, excess_ms)
    return encode_response(answers, context.version, throttle_ms)


def _count_failure(node: Node, counters: TopicCounters, error_code: ErrorCode) -> None:
    counters.failed_produces += 1
    node.counters.failed(PRODUCE, error_code)


def _unverified(find: Find, request: ProduceRequest, adds: bool) -> list[tuple[Partition, Producer]]:
    """Return the partitions of this broker in which the request begins a transaction, with the producers."""
    found = []
    for topic, partitions in each(request.topics):
        for index, records in each(partitions):
            partition = find(topic, index)
            producer = transactional_producer(records)
            if partition is not None and producer is not None and partition.would_begin(*producer, by_version_2=adds):
                found.append((partition, Producer(*producer)))
    return found


def _ask_first(
    node: Node,
    context: RequestContext,
    request: ProduceRequest,
    transactional_id: str,
    unverified: list[tuple[Partition, Producer]],
) -> Reply:
    deferred = Deferred()
    deferred.keeps_frame = True
    # The producer's next batches must not be appended before this one.
    deferred.holds_line = True

    def answered(verified: Mapping[TopicPartition, Verified]) -> None:
        node.turns.run(partial(go_on, verified), deferred)

    def go_on(verified: Mapping[TopicPartition, Verified]) -> None:
        reply = handle(node, context, request, verified)
        assert reply is not None, "without acks nobody is asked before"
        if isinstance(reply, Deferred):
            reply.on_ready(deferred.complete)
        else:
            deferred.complete(reply)

    adds = context.version >= ADDS_FROM
    if adds:
        context.client.uses_transactions_2 = True
    ask = add_to_transaction if adds else verify_elsewhere
    ask(node, transactional_id, unverified, answered)
    return deferred.now_or_later()


def _verifier(
    node: Node, context: RequestContext, transactional_id: str, partition: Partition, verified: Verified | None
) -> Verify:
    version = context.version
    knows_abortable = version >= ABORTABLE_FROM
    verify = verifier(node, transactional_id, partition, knows_abortable=knows_abortable, verified=verified)

    def verify_or_retry(producer_id: int, producer_epoch: int) -> ErrorCode:
        error = verify(producer_id, producer_epoch)
        is_undecided = error in _UNDECIDED or (version < ADDS_FROM and error is ErrorCode.concurrent_transactions)
        return ErrorCode.not_enough_replicas if is_undecided else error

    return verify_or_retry


def _come_again(producer_id: int, producer_epoch: int) -> ErrorCode:
    """Refuse what was to continue a transaction that has ended since: the client's next try adds the partition."""
    return ErrorCode.not_enough_replicas


def _append(
    partition: Partition,
    records: WritableBuffer | None,
    acks: int,
    now_ms: int,
    verify: Verify | None,
    by_version_2: bool,
    allowance: HeaderBudget,
    opening: UnfoldBudget,
) -> tuple[PartitionProduced, Appended | None]:
    if acks not in (-1, 0, 1):
        return PartitionProduced(partition.index, ErrorCode.invalid_required_acks), None
    header: BatchHeader | None = None
    appended: Appended | ErrorCode | RefusedRecords | None = None
    if takes_turns():
        conformed = partition.conform(records, acks, now_ms, opening, allowance)
        if isinstance(conformed, ErrorCode | RefusedRecords):
            appended = conformed
        elif conformed is not None:
            records, header = conformed
    try:
        if appended is None:
            appended = partition.append(
                records,
                acks,
                now_ms,
                verify=verify,
                by_version_2=by_version_2,
                allowance=allowance,
                conformed=header,
            )
    except OSError:
        return PartitionProduced(partition.index, ErrorCode.kafka_storage_error), None
    if isinstance(appended, ErrorCode):
        start = -1 if appended in _TELLS_NO_START else partition.log.log_start_offset
        return PartitionProduced(partition.index, appended, -1, -1, start, _MESSAGES.get(appended)), None
    if isinstance(appended, RefusedRecords):
        error_code, message, record_errors = appended
        start = partition.log.log_start_offset
        return PartitionProduced(partition.index, error_code, -1, -1, start, message, record_errors), None
    answer = PartitionProduced(
        partition.index,
        ErrorCode.none,
        appended.base_offset,
        appended.log_append_time_ms,
        partition.log.log_start_offset,
    )
    return answer, appended


def _answer_when_acknowledged(
    node: Node,
    context: RequestContext,
    waiting: list[tuple[Partition, int, list[PartitionProduced], int]],
    answers: list[tuple[str | UUID, list[PartitionProduced]]],
    acks: int,
    timeout_ms: int,
) -> Deferred:
    deferred = Deferred()
    undecided = set(range(len(waiting)))
    timer: Timer | None = None

    def decide(slot: int, error: ErrorCode) -> None:
        if slot not in undecided:
            return
        undecided.discard(slot)
        if error:
            _, _, produced, position = waiting[slot]
            produced[position] = PartitionProduced(produced[position].partition, error)
            node.counters.failed(PRODUCE, error)
        if not undecided:
            if timer is not None:
                timer.cancel()
            deferred.complete(_answer(node, context, answers))

    def give_up() -> None:
        for slot in tuple(undecided):
            decide(slot, ErrorCode.request_timed_out)

    if node.member is not None:
        timer = node.scheduler.call_later(max(timeout_ms, 0), give_up)
    for slot, (partition, last_offset, _, _) in enumerate(each(waiting)):
        partition.when_acknowledged(last_offset, partial(decide, slot), acks)
    return deferred
