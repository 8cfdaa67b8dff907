"""Fetch: v4-v18 (key 1)

Behaviour:
* Answers at once when min_bytes are there (each partition counts up to its limit, whole batches or not), when a read
  ends with its segment, when a partition has an error, a diverging epoch or a nearer replica, when max_wait_ms is not
  positive, or when there is no partition to read. Otherwise the fetch is parked until its partitions have min_bytes,
  one of them changes its role, or the time is up.
* Does not wait for the disk in the event loop. Threads bring what is not in the page cache. A fetch that has less than
  min_bytes without that waits for it, however long, and reads again; others are answered without it.
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
* v15 brings the follower's broker epoch (KIP-903), which is not checked. v17 brings its directory and v18 the high
  watermark that it knows (KIP-1166): both are for the replicas of KRaft's metadata, and left unread.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from kio.schema.errors import ErrorCode

from highwater.broker.handlers.authorization.access import access_of
from highwater.broker.handlers.fetch_reads import (
    Cold,
    denied,
    exceeded_throttle,
    is_held_back,
    missing_bytes,
    now_ms,
    read,
    read_as_follower,
)
from highwater.broker.handlers.shared.reply import Deferred, Reply, RequestContext
from highwater.broker.log.files import FilePiece
from highwater.broker.log.partition_log import PartitionLog
from highwater.broker.node import Node
from highwater.broker.replica.fetch_sessions import FetchContext, Fetched
from highwater.broker.replica.waiters import FetchWaiter
from highwater.kafka.acl import Operation
from highwater.kafka.pacing import FEW_ITEMS, each
from highwater.kafka.protocol.apis import FETCH
from highwater.kafka.protocol.fetch import (
    READ_COMMITTED,
    TOPIC_IDS_FROM,
    FetchRequest,
    decode_request,
    encode_response,
)
from highwater.kafka.protocol.frame import Part

decode = decode_request

MOST_DISK_READS: Final = 5
"""How often a fetch has pieces of files read into the page cache. If the cache has lost them each time, because
memory is scarce, the fetch waits for the disk in the event loop."""


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
    if request.replica_id >= 0 and not _may_follow(node, context):
        return _answer(node, context, session, [denied(*topic) for topic in each(session.topics)], 0)
    cold = _none_cold(node)
    fetched, byte_count, must_answer = _read(node, context, request, session, cold)
    missing = 0
    if cold:
        if not _is_enough(request, byte_count, must_answer):
            late = _LateAnswer(node, context, request, session)
            late.wait_for_disk(cold)
            return late.deferred
        _bring_into_cache(node, cold)
    elif not must_answer and request.max_wait_ms > 0:
        missing = missing_bytes(node, request, session, byte_count)
    if missing <= 0:
        answer = _answer if request.replica_id < 0 else _answer_follower
        return answer(node, context, session, fetched, byte_count)
    late = _LateAnswer(node, context, request, session)
    late.park(missing, request.max_wait_ms)
    return late.deferred


def _read(
    node: Node, context: RequestContext, request: FetchRequest, session: FetchContext, cold: Cold | None
) -> tuple[Fetched, int, bool]:
    if request.replica_id < 0:
        return read(node, context, request, session, cold)
    return read_as_follower(node, request, session, cold)


def _refuse(node: Node, version: int, error_code: ErrorCode) -> Reply:
    node.counters.failed(FETCH, error_code)
    return encode_response([], version, error_code=error_code)


def _answer(
    node: Node, context: RequestContext, session: FetchContext, fetched: Fetched, byte_count: int
) -> list[Part]:
    """Count the request and encode its answer, without the records if the client is above its quota."""
    throttle_ms = context.throttle_ms
    if node.quotas.limits_bytes and not throttle_ms:
        throttle_ms = node.quotas.fetched(context.client.principal, context.client_id, byte_count, now_ms(node))
        if throttle_ms:
            node.counters.fetch_throttle_ms += throttle_ms
            context.client.mute(throttle_ms)
    if throttle_ms:
        error_code, session_id, told = session.answer_nothing()
        return encode_response(
            told, context.version, error_code=error_code, session_id=session_id, throttle_time_ms=throttle_ms
        )
    for left_out in session.left_out:
        left_out.fetches += 1
    for name, partitions in each(fetched):
        topic = node.partitions.topic(name)
        counters = node.counters.unknown_topics if topic is None else topic.counters
        counters.fetches += len(partitions)
        for answer in each(partitions):
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
        throttle.record(throttled_bytes, now_ms(node))
    for _, partitions in each(fetched):
        for answer in each(partitions):
            if answer.error_code:
                node.counters.failed(FETCH, answer.error_code)
    error_code, session_id, told = session.answer(fetched, node.clock.now_ms())
    return encode_response(told, context.version, error_code=error_code, session_id=session_id)


class _LateAnswer:
    """A fetch that waits for the disk, or for more bytes, and then reads again."""

    __slots__ = (
        "_context",
        "_disk_reads",
        "_is_cancelled",
        "_node",
        "_pending",
        "_request",
        "_session",
        "_since_ms",
        "deferred",
    )

    def __init__(self, node: Node, context: RequestContext, request: FetchRequest, session: FetchContext) -> None:
        self._node = node
        self._context = context
        self._request = request
        self._session = session
        self._pending = 0
        """How many partitions wait for the disk."""
        self._disk_reads = 0
        self._since_ms = now_ms(node)
        self._is_cancelled = False
        self.deferred = Deferred()
        self.deferred.holds_line = True

    def wait_for_disk(self, cold: Cold) -> None:
        self._disk_reads += 1
        self._pending = len(cold)
        self.deferred.on_cancel = self._cancel
        _bring_into_cache(self._node, cold, self._is_in_cache)

    def _cancel(self) -> None:
        self._is_cancelled = True

    def _is_in_cache(self) -> None:
        self._pending -= 1
        if not self._pending and not self._is_cancelled:
            self._read_again(may_park=True)

    def park(self, missing: int, wait_ms: int) -> None:
        """Wait for so many more bytes, but no longer than `wait_ms`."""
        node, request = self._node, self._request
        is_follower = request.replica_id >= 0
        throttle = exceeded_throttle(node) if is_follower else None
        partitions = self._session.partitions(node.partitions.find)
        if throttle is not None:
            partitions = [place for place in partitions if not is_held_back(throttle, place[0], request.replica_id)]
        waiter = FetchWaiter(
            [partition.waiters(for_followers=is_follower) for partition, _ in partitions],
            missing,
            wait_ms,
            node.scheduler,
            partial(self._read_again, may_park=False),
            read_committed=request.isolation_level == READ_COMMITTED,
        )
        if is_follower and any(partition.log.log_end_offset > offset for partition, offset in each(partitions)):
            # This request advanced a high watermark, and a coordinator that waited for that has appended more. Or it
            # gave way while it read.
            waiter.wake()
        elif (
            len(partitions) > FEW_ITEMS
            and missing == request.min_bytes
            and any(partition.high_watermark > offset for partition, offset in each(partitions))
        ):
            waiter.wake()  # It gave way while it read.
        self.deferred.on_cancel = waiter.cancel

    def _read_again(self, *, may_park: bool) -> None:
        """Answer, or wait again: for the disk, or if it `may_park` for more bytes."""
        if self._session.is_long:
            # Whoever woke this fetch is in the midst of something.
            self._node.turns.run(partial(self._read_now, may_park), self)
        else:
            self._read_now(may_park)

    def _read_now(self, may_park: bool) -> None:
        node, request, session = self._node, self._request, self._session
        is_follower = request.replica_id >= 0
        cold = _none_cold(node) if self._disk_reads < MOST_DISK_READS else None
        fetched, byte_count, must_answer = _read(node, self._context, request, session, cold)
        if cold:
            if not _is_enough(request, byte_count, must_answer):
                self.wait_for_disk(cold)
                return
            _bring_into_cache(node, cold)
        elif may_park and not must_answer:
            left_ms = self._since_ms + request.max_wait_ms - now_ms(node)
            missing = missing_bytes(node, request, session, byte_count) if left_ms > 0 else 0
            if missing > 0:
                self.park(missing, left_ms)
                return
        answer = _answer_follower if is_follower else _answer
        self.deferred.complete(answer(node, self._context, session, fetched, byte_count))


def _none_cold(node: Node) -> Cold | None:
    """None if nobody brings records into the page cache: then the event loop reads them from the disk."""
    return None if node.storage.bring_into_cache is None else {}


def _is_enough(request: FetchRequest, byte_count: int, must_answer: bool) -> bool:
    """Whether to answer although some partitions wait for the disk: the next fetch gets their records."""
    return must_answer or 0 < byte_count >= request.min_bytes


def _bring_into_cache(node: Node, cold: Cold, then: Callable[[], None] | None = None) -> None:
    """Have the records of these partitions read; `then` is called after each."""
    bring = node.storage.bring_into_cache
    assert bring is not None
    node.counters.fetches_from_disk += len(cold)

    def done(log: PartitionLog, pieces: Sequence[FilePiece], failure: OSError | None) -> None:
        if failure is not None:
            log.not_brought(pieces, failure)
        if then is not None:
            then()

    for partition, pieces in cold.items():
        bring(pieces, partial(done, partition.log, pieces))


def _may_follow(node: Node, context: RequestContext) -> bool:
    access = access_of(node, context, "Fetch")
    if access is None and node.inside_listener is not None:
        from highwater.broker.handlers.authorization.inside import access_from_outside  # here, as few brokers need it

        access = access_from_outside(node, context, "Fetch")
    return access is None or access.to_cluster(Operation.CLUSTER_ACTION)
