"""What a fetch can read now: of each partition its records, or why there are none.

With a `Cold` nothing here waits for the disk: a partition whose records are not in the page cache gets none for now,
and is noted in it. The caller has them brought into the cache and reads again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final
from uuid import UUID

from kio.schema.errors import ErrorCode

from highwater.broker.handlers.authorization.access import TOPIC_DENIED, tell_denial
from highwater.broker.handlers.shared.reply import RequestContext
from highwater.broker.log.errors import NotCached
from highwater.broker.log.files import FilePiece
from highwater.broker.node import Node
from highwater.broker.quota.replication_throttle import ReplicationThrottle
from highwater.broker.replica.alone import Alone
from highwater.broker.replica.fetch_sessions import FetchContext, Fetched
from highwater.broker.replica.leader import Leader
from highwater.broker.replica.nearer import NONE_NEARER, chooses_nearer, nearer_replica
from highwater.broker.replica.partition import Partition
from highwater.broker.topics.refusal import refusal
from highwater.kafka.acl import Operation, ResourceType
from highwater.kafka.pacing import each
from highwater.kafka.protocol.fetch import (
    NO_ERROR,
    READ_COMMITTED,
    FetchPartition,
    FetchRequest,
    PartitionFetched,
)
from highwater.kafka.protocol.frame import Part
from highwater.kafka.records.batch import Codec

ZSTD_FROM: Final = 10
FROM_FOLLOWERS_FROM: Final = 11

Cold = dict[Partition, Sequence[FilePiece]]
"""The pieces of files that a fetch lacks."""

_READ_TOPIC: Final = (Operation.READ, ResourceType.TOPIC)


def read(
    node: Node, context: RequestContext, request: FetchRequest, session: FetchContext, cold: Cold | None
) -> tuple[Fetched, int, bool]:
    """Return what can be read now, its size in bytes, and whether to answer even if that is less than min_bytes."""
    left_bytes = min(request.max_bytes, node.fetch_max_bytes)
    if node.quotas.limits_bytes:
        most_bytes = node.quotas.most_fetch_bytes(context.client.principal, context.client_id, now_ms(node))
        left_bytes = left_bytes if most_bytes is None else min(left_bytes, most_bytes)
    total_bytes = 0
    must_answer = not session.has_partitions
    read_committed = request.isolation_level == READ_COMMITTED
    answers: Fetched = []
    find = node.partitions.find
    may_read = None
    looks_for_nearer = node.member is not None and chooses_nearer(node.config, request.rack_id)
    if node.acls is not None:
        may_read = context.client.permissions(node.acls.authorizer).answers(_READ_TOPIC)
        node.counters.authorizations_asked += len(session.topics)
    # Whether a topic may be read, and where from, is asked at each fetch.
    asks_of_all = looks_for_nearer or may_read is not None
    topics = session.topics if asks_of_all else session.due_to_consumer(read_committed)
    for topic, partitions in each(topics):
        if may_read is not None:
            name = topic if isinstance(topic, str) else node.topic_name(topic)
            # A topic that is not known is reported as such: its name is not known here.
            if name is not None and not may_read[name]:
                tell_denial(node, context, "Fetch", (*_READ_TOPIC, name))
                answers.append(denied(topic, partitions))
                must_answer = True
                continue
        fetched: list[PartitionFetched] = []
        answers.append((topic, fetched))
        for wanted in each(partitions):
            partition = find(topic, wanted.partition)
            if partition is None or not (partition.is_leader or context.version >= FROM_FOLLOWERS_FROM):
                error = refusal(node.partitions, node.cluster, topic, wanted.partition)
                answer = PartitionFetched(wanted.partition, error)
            elif context.version < ZSTD_FROM and partition.log.config.compression is Codec.ZSTD:
                answer = PartitionFetched(wanted.partition, ErrorCode.unsupported_compression_type)
            elif (
                looks_for_nearer
                and (nearer := nearer_replica(node.cluster, partition, wanted.fetch_offset, request.rack_id))
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
                is_first = total_bytes == 0 and not cold
                answer = _read_for_consumer(partition, wanted, left_bytes, is_first, read_committed, cold)
            fetched.append(answer)
            size = len(answer.records)
            total_bytes += size
            left_bytes -= wanted.partition_max_bytes if cold and partition in cold else size
            if answer.error_code or answer.diverging_epoch is not None:
                must_answer = True
            elif not size and partition is not None:
                end_offset = answer.last_stable_offset if read_committed else answer.high_watermark
                if wanted.fetch_offset == end_offset:
                    session.settle(topic, wanted.partition, partition)
    return answers, total_bytes, must_answer


def read_as_follower(
    node: Node, request: FetchRequest, session: FetchContext, cold: Cold | None
) -> tuple[Fetched, int, bool]:
    """Note the follower's fetch offsets, then return what it can read now, of partitions that are not settled.

    The offsets come first, and of them those that the request names: a high watermark that advances lets coordinators
    append, maybe to a settled partition.
    """
    replica_id = request.replica_id
    noted = {
        (topic, wanted.partition): _note_follower(node, topic, wanted, replica_id)
        for topic, partitions in each(request.topics)
        for wanted in each(partitions)
    }
    topics = session.due(replica_id, now_ms(node))
    for topic, partitions in each(topics):
        for wanted in each(partitions):
            if (topic, wanted.partition) not in noted:
                noted[topic, wanted.partition] = _note_follower(node, topic, wanted, replica_id)
    throttle = exceeded_throttle(node)
    left_bytes = request.max_bytes
    total_bytes = 0
    must_answer = not session.has_partitions
    answers: Fetched = []
    for topic, partitions in each(topics):
        fetched: list[PartitionFetched] = []
        answers.append((topic, fetched))
        for wanted in each(partitions):
            partition = noted[topic, wanted.partition]
            if isinstance(partition, PartitionFetched):
                answer = partition
            else:
                max_bytes = max(min(wanted.partition_max_bytes, left_bytes), 0)
                is_first = total_bytes == 0 and not cold
                if throttle is not None and is_held_back(throttle, partition, replica_id):
                    max_bytes, is_first = 0, False
                end_offset = partition.log.log_end_offset
                answer = _read_partition(partition, wanted, max_bytes, end_offset, is_first, cold)
                size = len(answer.records)
                total_bytes += size
                left_bytes -= wanted.partition_max_bytes if cold and partition in cold else size
                if wanted.fetch_offset == end_offset:
                    session.settle(topic, wanted.partition, partition)
            fetched.append(answer)
            if answer.error_code or answer.diverging_epoch is not None:
                must_answer = True
    return answers, total_bytes, must_answer


def missing_bytes(node: Node, request: FetchRequest, session: FetchContext, byte_count: int) -> int:
    """Return how many bytes the fetch still waits for; 0 or less when it must be answered now.

    Readable bytes count up to each partition's limit, whole batches or not. At the end of a segment waiting brings no
    more bytes. (Kafka: DelayedFetch.tryComplete, cases F and G.)
    """
    if not 0 < byte_count < request.min_bytes:
        return request.min_bytes - byte_count
    there_bytes = 0
    find = node.partitions.find
    throttle = exceeded_throttle(node) if request.replica_id >= 0 else None
    for topic, partitions in each(session.topics):
        for wanted in each(partitions):
            partition = find(topic, wanted.partition)
            if partition is None or (throttle and is_held_back(throttle, partition, request.replica_id)):
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


def denied(topic: str | UUID, partitions: Sequence[FetchPartition]) -> tuple[str | UUID, list[PartitionFetched]]:
    return topic, [
        PartitionFetched(wanted.partition, TOPIC_DENIED, aborted_transactions=()) for wanted in each(partitions)
    ]


def exceeded_throttle(node: Node) -> ReplicationThrottle | None:
    throttle = node.replication_throttles.leader
    return throttle if throttle.is_active and throttle.is_exceeded(now_ms(node)) else None


def is_held_back(throttle: ReplicationThrottle, partition: Partition, replica_id: int) -> bool:
    """Whether the throttle stops this replica: one in sync is never stopped, as it would leave the ISR (KIP-73)."""
    return throttle.is_throttled(partition.topic, partition.index) and replica_id not in partition.in_sync_replicas


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


def _read_for_consumer(
    partition: Partition,
    wanted: FetchPartition,
    left_bytes: int,
    is_first: bool,
    read_committed: bool,
    cold: Cold | None,
) -> PartitionFetched:
    if error := partition.check_leader_epoch(wanted.current_leader_epoch, needs_leader=False):
        return PartitionFetched(wanted.partition, error)
    diverging = None
    if wanted.last_fetched_epoch >= 0:
        divergence = partition.diverging_epoch(wanted.last_fetched_epoch, wanted.fetch_offset)
        if isinstance(divergence, ErrorCode):
            return PartitionFetched(wanted.partition, divergence)
        diverging = divergence
    end_offset = partition.last_stable_offset if read_committed else partition.high_watermark
    max_bytes = max(min(wanted.partition_max_bytes, left_bytes), 0)
    return _read_partition(partition, wanted, max_bytes, end_offset, is_first, cold, read_committed, diverging)


def _read_partition(
    partition: Partition,
    wanted: FetchPartition,
    max_bytes: int,
    end_offset: int,
    is_first: bool,
    cold: Cold | None,
    read_committed: bool = False,
    diverging: tuple[int, int] | None = None,
) -> PartitionFetched:
    """Whole batches below `end_offset`; none if the log diverges, or if they are not in the page cache (see `cold`)."""
    log, offset = partition.log, wanted.fetch_offset
    records: Part = b""
    aborted: list[tuple[int, int]] | None = [] if read_committed else None
    if diverging is None and offset != end_offset and (max_bytes or is_first):
        if cold is None:
            read = log.read(offset, max_bytes, end_offset=end_offset, at_least_one_batch=is_first)
        else:
            found = log.read_cached(offset, max_bytes, end_offset=end_offset, at_least_one_batch=is_first)
            if isinstance(found, NotCached):
                cold[partition] = found.pieces
                found = b""
            read = found
        if isinstance(read, ErrorCode):
            return PartitionFetched(wanted.partition, read)
        records = read
        if read_committed and records:
            among = log.aborted_transactions(offset, len(records), end_offset)
            if isinstance(among, ErrorCode):
                return PartitionFetched(wanted.partition, among)
            aborted = among
    return PartitionFetched(
        wanted.partition,
        NO_ERROR,
        partition.high_watermark,
        partition.last_stable_offset,
        log.log_start_offset,
        records,
        aborted,
        diverging,
    )


def now_ms(node: Node) -> int:
    return node.clock.monotonic_ns() // 1_000_000
