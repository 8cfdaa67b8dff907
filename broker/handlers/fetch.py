"""Fetch: v4-v17 (key 1)

Behaviour:
* Answers at once when min_bytes are there (each partition counts up to its limit, whole batches or not), when a read
  ends with its segment, when a partition has an error, a diverging epoch or a nearer replica, when max_wait_ms is not
  positive, or when there is no partition to read. Otherwise the fetch is parked until its partitions have min_bytes,
  one of them changes its role, or the time is up.
* Whole batches only: a fetch offset inside a batch gets that batch from its start. The first partition with data gets
  at least one batch, however small the limits (KIP-74).
* Above the client's quota the answer has a throttle time and no records, and the connection is muted for that time. No
  answer is larger than the quota allows in all its windows, unless its one batch is (KIP-219).
* Consumers read below the high watermark. With read_committed they read below the last stable offset, and the answer
  lists the aborted transactions (KIP-98).
* Followers read up to the end of the leader's log, and their fetch offsets report their log end offsets to the leader.
  They wait for the log to grow; client quotas do not apply to them. A broker that is not a replica gets
  UNKNOWN_LEADER_EPOCH, as it may become one, or in older versions NOT_LEADER_OR_FOLLOWER.
* A follower out of sync gets no records of throttled replicas while leader.replication.throttled.rate is exceeded.
* From v11 a consumer may read from a follower, below the follower's high watermark. Instead of records the leader
  returns an in-sync follower in the consumer's rack that has the offset, if there is one, the leader is in another
  rack, and `replica.selector.class` is the rack-aware one (KIP-392).
* Records are empty, not null, on errors: librdkafka refuses null.
* With an authorizer: READ on each topic, and for followers CLUSTER_ACTION on the cluster, else
  TOPIC_AUTHORIZATION_FAILED. A session keeps what is denied and asks each time.

Versions:
* v7 brings fetch sessions (KIP-227); broker.replica.fetch_sessions stores them and selects what an answer contains.
* v9 brings current_leader_epoch: FENCED_LEADER_EPOCH if it is too low, UNKNOWN_LEADER_EPOCH if too high (KIP-320).
* v10 brings zstd (KIP-110): earlier versions get UNSUPPORTED_COMPRESSION_TYPE for a topic with compression.type zstd.
* v12 brings last_fetched_epoch: a reader whose log diverges gets diverging_epoch and no records (KIP-595).
* v13 names topics by id: UNKNOWN_TOPIC_ID for an unknown one (KIP-516).
* v15 brings the follower's broker epoch (KIP-903), which is not checked, and v17 its directory, which only KRaft needs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final
from uuid import UUID

from kio.schema.errors import ErrorCode

from highwater.broker.handlers.authorization.access import TOPIC_DENIED, access_of, tell_denial
from highwater.broker.handlers.reply import Deferred, Reply, RequestContext
from highwater.broker.node import Node
from highwater.broker.protocol.apis import FETCH
from highwater.broker.protocol.fetch import (
    READ_COMMITTED,
    TOPIC_IDS_FROM,
    FetchPartition,
    FetchRequest,
    FetchTopic,
    PartitionFetched,
    decode_request,
    encode_response,
)
from highwater.broker.protocol.frame import Part
from highwater.broker.quota.replication_throttle import ReplicationThrottle
from highwater.broker.records.batch import Codec
from highwater.broker.replica.alone import Alone
from highwater.broker.replica.fetch_sessions import FetchContext, Fetched
from highwater.broker.replica.leader import Leader
from highwater.broker.replica.nearer import NONE_NEARER, nearer_replica
from highwater.broker.replica.partition import Partition
from highwater.broker.replica.waiters import FetchWaiter
from highwater.broker.security.acl import Operation, ResourceType
from highwater.broker.topics.refusal import refusal

decode = decode_request

ZSTD_FROM: Final = 10
FROM_FOLLOWERS_FROM: Final = 11

_READ_TOPIC: Final = (Operation.READ, ResourceType.TOPIC)


def handle(node: Node, context: RequestContext, request: FetchRequest) -> Reply:
    version = context.version
    session = node.fetch_sessions.open(
        request.session_id,
        request.session_epoch,
        request.topics,
        request.forgotten,
        uses_topic_ids=version >= TOPIC_IDS_FROM,
        is_follower=request.replica_id >= 0,
        now_ms=node.clock.now_ms(),
    )
    if isinstance(session, ErrorCode):
        return _refuse(node, version, session)
    read = _read if request.replica_id < 0 else _read_as_follower
    if request.replica_id >= 0 and not _may_follow(node, context):
        return _answer(node, context, session, [_denied(*topic) for topic in session.topics], 0)
    fetched, byte_count, must_answer = read(node, context, request, session.topics)
    missing_bytes = 0
    if not must_answer and request.max_wait_ms > 0:
        missing_bytes = _missing_bytes(node, request, session.topics, byte_count)
    if missing_bytes <= 0:
        answer = _answer if request.replica_id < 0 else _answer_follower
        return answer(node, context, session, fetched, byte_count)
    return _park(node, context, request, session, missing_bytes)


def _missing_bytes(node: Node, request: FetchRequest, topics: Sequence[FetchTopic], byte_count: int) -> int:
    """Return how many bytes the fetch still waits for; 0 or less when it must be answered now.

    Readable bytes count up to each partition's limit, whole batches or not. At the end of a segment waiting brings no
    more bytes. (Kafka: DelayedFetch.tryComplete, cases F and G.)
    """
    if not 0 < byte_count < request.min_bytes:
        return request.min_bytes - byte_count
    there_bytes = 0
    find = node.partitions.find
    throttle = _exceeded_throttle(node) if request.replica_id >= 0 else None
    for topic, partitions in topics:
        for wanted in partitions:
            partition = find(topic, wanted.partition)
            if partition is None or (throttle and _is_held_back(throttle, partition, request.replica_id)):
                continue
            if request.replica_id >= 0:
                end_offset = partition.log.log_end_offset
            elif request.isolation_level == READ_COMMITTED:
                end_offset = partition.last_stable_offset
            else:
                end_offset = partition.high_watermark
            readable_bytes = partition.log.readable_bytes(wanted.fetch_offset, end_offset=end_offset)
            if readable_bytes is None:
                return 0
            there_bytes += min(readable_bytes, wanted.partition_max_bytes)
    return request.min_bytes - there_bytes


def _refuse(node: Node, version: int, error_code: ErrorCode) -> Reply:
    node.counters.failed(FETCH, error_code)
    return encode_response([], version, error_code=error_code)


def _answer(
    node: Node, context: RequestContext, session: FetchContext, fetched: Fetched, byte_count: int
) -> list[Part]:
    """Count the request and encode its answer, without the records if the client is above its quota."""
    throttle_ms = context.throttle_ms
    if node.quotas.limits_bytes and not throttle_ms:
        throttle_ms = node.quotas.fetched(context.client.principal, context.client_id, byte_count, _now_ms(node))
        if throttle_ms:
            node.counters.fetch_throttle_ms += throttle_ms
            context.client.mute(throttle_ms)
    if throttle_ms:
        error_code, session_id, told = session.answer_nothing()
        return encode_response(
            told, context.version, error_code=error_code, session_id=session_id, throttle_time_ms=throttle_ms
        )
    for name, partitions in fetched:
        topic = node.partitions.topic(name)
        counters = node.counters.unknown_topics if topic is None else topic.counters
        counters.fetches += len(partitions)
        for answer in partitions:
            counters.bytes_out += len(answer.records)
            if answer.error_code:
                counters.failed_fetches += 1
                node.counters.failed(FETCH, answer.error_code)
    error_code, session_id, told = session.answer(fetched, node.clock.now_ms())
    return encode_response(told, context.version, error_code=error_code, session_id=session_id)


def _answer_follower(
    node: Node, context: RequestContext, session: FetchContext, fetched: Fetched, byte_count: int
) -> list[Part]:
    node.counters.replication_bytes_out += byte_count
    throttle = node.replication_throttles.leader
    if throttle.is_active:
        throttled_bytes = sum(
            len(answer.records)
            for name, partitions in fetched
            if (topic := node.partitions.topic(name)) is not None
            for answer in partitions
            if throttle.is_throttled(topic.name, answer.partition)
        )
        throttle.record(throttled_bytes, _now_ms(node))
    for _, partitions in fetched:
        for answer in partitions:
            if answer.error_code:
                node.counters.failed(FETCH, answer.error_code)
    error_code, session_id, told = session.answer(fetched, node.clock.now_ms())
    return encode_response(told, context.version, error_code=error_code, session_id=session_id)


def _now_ms(node: Node) -> int:
    return node.clock.monotonic_ns() // 1_000_000


def _park(
    node: Node, context: RequestContext, request: FetchRequest, session: FetchContext, missing_bytes: int
) -> Deferred:
    deferred = Deferred()
    is_follower = request.replica_id >= 0
    throttle = _exceeded_throttle(node) if is_follower else None

    def finish() -> None:
        read, answer = (_read_as_follower, _answer_follower) if is_follower else (_read, _answer)
        fetched, byte_count, _ = read(node, context, request, session.topics)
        deferred.complete(answer(node, context, session, fetched, byte_count))

    find = node.partitions.find
    partitions = [
        (partition, entry.fetch_offset)
        for topic, wanted in session.topics
        for entry in wanted
        if (partition := find(topic, entry.partition)) is not None
        and (throttle is None or not _is_held_back(throttle, partition, request.replica_id))
    ]
    waiter = FetchWaiter(
        [partition.waiters(for_followers=is_follower) for partition, _ in partitions],
        missing_bytes,
        request.max_wait_ms,
        node.scheduler,
        finish,
        read_committed=request.isolation_level == READ_COMMITTED,
    )
    if is_follower and any(partition.log.log_end_offset > offset for partition, offset in partitions):
        # This request advanced a high watermark, and a coordinator that waited for that has appended more.
        waiter.wake()
    deferred.on_cancel = waiter.cancel
    deferred.holds_line = True
    return deferred


def _read(
    node: Node, context: RequestContext, request: FetchRequest, topics: Sequence[FetchTopic]
) -> tuple[Fetched, int, bool]:
    """Return what can be read now, its size in bytes, and whether to answer even if that is less than min_bytes."""
    left_bytes = min(request.max_bytes, node.fetch_max_bytes)
    if node.quotas.limits_bytes:
        most_bytes = node.quotas.most_fetch_bytes(context.client.principal, context.client_id, _now_ms(node))
        left_bytes = left_bytes if most_bytes is None else min(left_bytes, most_bytes)
    total_bytes = 0
    must_answer = not topics
    read_committed = request.isolation_level == READ_COMMITTED
    answers: Fetched = []
    find = node.partitions.find
    may_read = None
    if node.acls is not None:
        may_read = context.client.permissions(node.acls.authorizer).answers(_READ_TOPIC)
        node.counters.authorizations_asked += len(topics)
    for topic, partitions in topics:
        # A topic that is not known is told as such: its name is not known here.
        if may_read is not None and (name := _name_of(node, topic)) is not None and not may_read[name]:
            tell_denial(node, context, "Fetch", (*_READ_TOPIC, name))
            answers.append(_denied(topic, partitions))
            must_answer = True
            continue
        fetched: list[PartitionFetched] = []
        answers.append((topic, fetched))
        for wanted in partitions:
            partition = find(topic, wanted.partition)
            if partition is None or not (partition.is_leader or context.version >= FROM_FOLLOWERS_FROM):
                error = refusal(node.partitions, node.cluster, topic, wanted.partition)
                answer = PartitionFetched(wanted.partition, error)
            elif context.version < ZSTD_FROM and partition.log.config.compression is Codec.ZSTD:
                answer = PartitionFetched(wanted.partition, ErrorCode.unsupported_compression_type)
            elif (
                request.rack_id
                and node.member is not None
                and (
                    nearer := nearer_replica(node.config, node.cluster, partition, wanted.fetch_offset, request.rack_id)
                )
                != NONE_NEARER
            ):
                answer = PartitionFetched(
                    wanted.partition,
                    ErrorCode.none,
                    partition.high_watermark,
                    partition.last_stable_offset,
                    partition.log.log_start_offset,
                    preferred_read_replica=nearer,
                )
                must_answer = True
            else:
                answer = _read_partition(partition, wanted, left_bytes, total_bytes == 0, read_committed)
            fetched.append(answer)
            size = len(answer.records)
            total_bytes += size
            left_bytes -= size
            if answer.error_code or answer.diverging_epoch is not None:
                must_answer = True
    return answers, total_bytes, must_answer


def _may_follow(node: Node, context: RequestContext) -> bool:
    access = access_of(node, context, "Fetch")
    if access is None and node.inside_listener is not None:
        from highwater.broker.handlers.authorization.inside import access_from_outside  # here, as few brokers need it

        access = access_from_outside(node, context, "Fetch")
    return access is None or access.to_cluster(Operation.CLUSTER_ACTION)


def _name_of(node: Node, topic: str | UUID) -> str | None:
    if isinstance(topic, str):
        return topic
    view = node.cluster.topic(topic)
    return None if view is None else view.name


def _denied(topic: str | UUID, partitions: Sequence[FetchPartition]) -> tuple[str | UUID, list[PartitionFetched]]:
    return topic, [PartitionFetched(wanted.partition, TOPIC_DENIED, aborted_transactions=()) for wanted in partitions]


def _read_as_follower(
    node: Node, context: RequestContext, request: FetchRequest, topics: Sequence[FetchTopic]
) -> tuple[Fetched, int, bool]:
    """Note the follower's fetch offsets, then return what it can read now.

    The offsets of all partitions come first: a high watermark that advances lets coordinators append, maybe to a
    partition of this request.
    """
    noted = [
        [_note_follower(node, topic, wanted, request.replica_id) for wanted in partitions]
        for topic, partitions in topics
    ]
    throttle = _exceeded_throttle(node)
    left_bytes = request.max_bytes
    total_bytes = 0
    must_answer = not topics
    answers: Fetched = []
    for (topic, partitions), found in zip(topics, noted, strict=True):
        fetched: list[PartitionFetched] = []
        answers.append((topic, fetched))
        for wanted, partition in zip(partitions, found, strict=True):
            if isinstance(partition, PartitionFetched):
                answer = partition
            else:
                max_bytes = max(min(wanted.partition_max_bytes, left_bytes), 0)
                is_first = total_bytes == 0
                if throttle is not None and _is_held_back(throttle, partition, request.replica_id):
                    max_bytes, is_first = 0, False
                answer = _read_log_end(partition, wanted, max_bytes, is_first=is_first)
                size = len(answer.records)
                total_bytes += size
                left_bytes -= size
            fetched.append(answer)
            if answer.error_code or answer.diverging_epoch is not None:
                must_answer = True
    return answers, total_bytes, must_answer


def _note_follower(
    node: Node, topic: str | UUID, wanted: FetchPartition, replica_id: int
) -> Partition | PartitionFetched:
    """Note the fetch offset of a follower. Returns the partition, or why it gets no records."""
    index, offset = wanted.partition, wanted.fetch_offset
    partition = node.partitions.find(topic, index)
    if partition is None or isinstance(partition.role, Alone):
        return PartitionFetched(index, refusal(node.partitions, node.cluster, topic, index))
    if error := partition.check_leader_epoch(wanted.current_leader_epoch):
        return PartitionFetched(index, error)
    leader = partition.role
    if not (isinstance(leader, Leader) and leader.is_follower(replica_id)):
        has_epoch = wanted.current_leader_epoch >= 0
        error = ErrorCode.unknown_leader_epoch if has_epoch else ErrorCode.not_leader_or_follower
        return PartitionFetched(index, error)
    log = partition.log
    if wanted.last_fetched_epoch >= 0:
        divergence = partition.diverging_epoch(wanted.last_fetched_epoch, offset)
        if isinstance(divergence, ErrorCode):
            return PartitionFetched(index, divergence)
        if divergence is not None:
            return PartitionFetched(
                index,
                ErrorCode.none,
                partition.high_watermark,
                partition.last_stable_offset,
                log.log_start_offset,
                diverging_epoch=divergence,
            )
    if not log.log_start_offset <= offset <= log.log_end_offset:
        return PartitionFetched(index, ErrorCode.offset_out_of_range)
    leader.follower_fetched(replica_id, offset, wanted.log_start_offset)
    return partition


def _exceeded_throttle(node: Node) -> ReplicationThrottle | None:
    throttle = node.replication_throttles.leader
    return throttle if throttle.is_active and throttle.is_exceeded(_now_ms(node)) else None


def _is_held_back(throttle: ReplicationThrottle, partition: Partition, replica_id: int) -> bool:
    """Whether the throttle stops this replica: one in sync is never stopped, as it would leave the ISR (KIP-73)."""
    return throttle.is_throttled(partition.topic, partition.index) and replica_id not in partition.in_sync_replicas


def _read_log_end(partition: Partition, wanted: FetchPartition, max_bytes: int, *, is_first: bool) -> PartitionFetched:
    log, offset = partition.log, wanted.fetch_offset
    end_offset = log.log_end_offset
    records = b""
    if offset < end_offset and (max_bytes or is_first):
        read = log.read(offset, max_bytes, end_offset=end_offset, at_least_one_batch=is_first)
        if isinstance(read, ErrorCode):
            return PartitionFetched(wanted.partition, read)
        records = read
    return PartitionFetched(
        wanted.partition,
        ErrorCode.none,
        partition.high_watermark,
        partition.last_stable_offset,
        log.log_start_offset,
        records,
    )


def _read_partition(
    partition: Partition, wanted: FetchPartition, left_bytes: int, is_first: bool, read_committed: bool
) -> PartitionFetched:
    if error := partition.check_leader_epoch(wanted.current_leader_epoch, needs_leader=False):
        return PartitionFetched(wanted.partition, error)
    log = partition.log
    diverging = None
    if wanted.last_fetched_epoch >= 0:
        divergence = partition.diverging_epoch(wanted.last_fetched_epoch, wanted.fetch_offset)
        if isinstance(divergence, ErrorCode):
            return PartitionFetched(wanted.partition, divergence)
        diverging = divergence
    records = b""
    aborted: list[tuple[int, int]] | None = [] if read_committed else None
    end_offset = partition.last_stable_offset if read_committed else partition.high_watermark
    max_bytes = max(min(wanted.partition_max_bytes, left_bytes), 0)
    if diverging is None and wanted.fetch_offset != end_offset and (max_bytes or is_first):
        read = log.read(wanted.fetch_offset, max_bytes, end_offset=end_offset, at_least_one_batch=is_first)
        if isinstance(read, ErrorCode):
            return PartitionFetched(wanted.partition, read)
        records = read
        if read_committed and records:
            found = log.aborted_transactions(wanted.fetch_offset, len(records), end_offset)
            if isinstance(found, ErrorCode):
                return PartitionFetched(wanted.partition, found)
            aborted = found
    return PartitionFetched(
        wanted.partition,
        ErrorCode.none,
        partition.high_watermark,
        partition.last_stable_offset,
        log.log_start_offset,
        records,
        aborted,
        diverging,
    )
