"""A follower's side of Fetch: fetches the partitions that one leader has, and appends their records.

    state of a partition   event                                      next
    FETCHING               an answer with records                     FETCHING, from the new end of the log
    FETCHING               diverging epoch (KIP-595)                  truncation, FETCHING
    FETCHING               OFFSET_OUT_OF_RANGE                        LOOKING_UP: the start and end of the leader's log
    LOOKING_UP             the answer                                 truncation or a new start, FETCHING
    any                    an error                                   DELAYED
    any                    FENCED_LEADER_EPOCH of the current epoch   failed, until LeaderAndIsr brings a newer epoch
    any                    a bug in this broker                       failed

num.replica.fetchers fetchers ask each leader, each with a connection, a fetch session (KIP-227) and one request under
way. The next request leaves when the logs have the records of the answer, and reports the logs' new ends to the leader.
No partition delays the others. (Apache Kafka: AbstractFetcherThread, ReplicaFetcherThread.)

Two things differ from Kafka, as they decide how long a partition is unavailable after an election. After an error that
passes by itself the next try comes in 20 ms, doubled up to replica.fetch.backoff.ms. A fetch that waits at the leader
is cancelled when another partition must be fetched.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from enum import Enum, auto
from functools import partial
from typing import Final
from uuid import UUID

from kio.schema.errors import ErrorCode

from highwater.broker.clock import Timer
from highwater.broker.cluster.peers import Endpoint, Peer, PeerFailure
from highwater.broker.replica.fetcher_inputs import FetchSettings, FetchThrottle, FollowerReplica
from highwater.broker.replica.follower_session import FollowerSession
from highwater.broker.replica.log_bounds import ask_for_log_bounds
from highwater.kafka.protocol.apis import FETCH
from highwater.kafka.protocol.fetch import (
    FOLLOWER_VERSION,
    FetchPartition,
    FetchRequest,
    PartitionFetched,
    decode_follower_response,
    encode_follower_request,
)
from highwater.kafka.protocol.primitives import MalformedRequestError
from highwater.kafka.records.batch import CorruptBatch

_logger = logging.getLogger(__name__)

FIRST_BACKOFF_MS: Final = 20
BREAK_OFF_AFTER_MS: Final = 10
"""A leader that has records to send answers in less time."""
_BROKEN: Final = (PeerFailure.CLOSED, PeerFailure.DISCONNECTED)
"""How a connection ends with its process: the kernel closes it, or resets it if received bytes were not read."""
THROTTLED_MS: Final = 100
"""How long a throttled partition is left out of the requests."""


class _State(Enum):
    FETCHING = auto()
    LOOKING_UP = auto()
    DELAYED = auto()


class _Followed:
    """One partition, while it follows the same leader in the same epoch."""

    __slots__ = (
        "failures",
        "fetch_offset",
        "leader_epoch",
        "leader_high_watermark",
        "log_start_offset",
        "replica",
        "state",
    )

    def __init__(self, replica: FollowerReplica) -> None:
        self.replica = replica
        self.leader_epoch = replica.leader_epoch
        self.state = _State.FETCHING
        self.fetch_offset = -1
        """The offset of the last request to the leader."""
        self.log_start_offset = -1
        """The start of the log in that request."""
        self.leader_high_watermark = -1
        self.failures = 0
        """Failures in a row."""

    @property
    def name(self) -> str:
        return f"{self.replica.topic}-{self.replica.index}"

    @property
    def key(self) -> tuple[UUID, int]:
        return self.replica.topic_id, self.replica.index


class Fetcher:
    """Some of the partitions that one broker leads."""

    def __init__(
        self, settings: FetchSettings, leader: int, number: int, failed: Callable[[tuple[UUID, int]], object]
    ) -> None:
        self.leader = leader
        self.number = number
        self._settings = settings
        self._failed = failed
        self._partitions: dict[UUID, dict[int, _Followed]] = {}
        self._changed: dict[tuple[UUID, int], _Followed] = {}
        """Partitions in FETCHING that the next request must name: the session has another offset of them, or none."""
        self._session = FollowerSession()
        self._peer: tuple[Endpoint, Peer] | None = None
        self._has_fetch_under_way = False
        self._fetch_number = 0
        self._unflushed: set[_Followed] = set()
        """Partitions whose logs must be flushed (fsync) before the next request reports their ends."""
        self._looked_up: dict[_Followed, None] = {}
        self._failures = 0
        """Failed requests in a row."""
        self._has_answered = False
        """Whether the leader's last answer came after it last closed a connection."""
        self._retry: Timer | None = None
        self._is_wake_up_due = False
        self._is_closed = False

    @property
    def is_idle(self) -> bool:
        return not self._partitions

    def lags(self) -> Iterator[tuple[FollowerReplica, int]]:
        for partitions in self._partitions.values():
            for followed in partitions.values():
                yield followed.replica, max(0, followed.leader_high_watermark - followed.replica.log_end_offset)

    # What is followed

    def add(self, replica: FollowerReplica) -> None:
        followed = _Followed(replica)
        if replica.latest_epoch < 0 and replica.log_end_offset > replica.high_watermark:
            # Without epochs nobody knows where the log diverges from the leader's: only committed records are the same.
            replica.truncate_to(replica.high_watermark)
        self._partitions.setdefault(replica.topic_id, {})[replica.index] = followed
        self._ask_for(followed)

    def remove(self, key: tuple[UUID, int]) -> None:
        topic_id, index = key
        partitions = self._partitions.get(topic_id, {})
        followed = partitions.pop(index, None)
        if followed is None:
            return
        if not partitions:
            del self._partitions[topic_id]
        self._changed.pop(key, None)
        self._looked_up.pop(followed, None)
        self._session.forget(key)
        self._flushed(followed)

    def _is_followed(self, followed: _Followed) -> bool:
        topic_id, index = followed.key
        return self._partitions.get(topic_id, {}).get(index) is followed

    def _ask_for(self, followed: _Followed) -> None:
        """Name the partition in the next request, and send that soon."""
        followed.state = _State.FETCHING
        self._changed[followed.key] = followed
        if not self._is_wake_up_due:
            self._is_wake_up_due = True
            self._settings.scheduler.call_soon(self._wake_up)

    def _wake_up(self) -> None:
        self._is_wake_up_due = False
        if not self._has_fetch_under_way:
            self._fetch()
            return
        number = self._fetch_number

        def break_off() -> None:
            # The leader answers the requests of a connection in order, and drops a waiting one when it is closed.
            if self._has_fetch_under_way and number == self._fetch_number and not self._is_closed:
                self._disconnect()
                self._session.broken()
                self._fetch()

        self._settings.scheduler.call_later(BREAK_OFF_AFTER_MS, break_off)

    def _delay(self, delayed: list[_Followed], delay_ms: int) -> None:
        for followed in delayed:
            followed.state = _State.DELAYED
            self._changed.pop(followed.key, None)
            self._session.forget(followed.key)

        def resume() -> None:
            for followed in delayed:
                if self._is_followed(followed) and followed.state is _State.DELAYED:
                    self._ask_for(followed)

        if delayed:
            self._settings.scheduler.call_later(delay_ms, resume)

    def _ask_again_later(self, followed: _Followed) -> None:
        followed.failures += 1
        self._delay([followed], self._backoff_ms(followed.failures))

    def _backoff_ms(self, failures: int) -> int:
        return min(FIRST_BACKOFF_MS << min(failures - 1, 20), self._settings.backoff_ms)

    def _give_up(self, followed: _Followed) -> None:
        self.remove(followed.key)
        self._failed(followed.key)

    # The connection

    def close(self) -> None:
        self._is_closed = True
        self._disconnect()
        if self._retry is not None:
            self._retry.cancel()

    def _disconnect(self) -> None:
        self._has_fetch_under_way = False
        if self._peer is not None:
            self._peer[1].close()
            self._peer = None
        looked_up, self._looked_up = self._looked_up, {}
        for followed in looked_up:
            self._ask_for(followed)

    def _connected(self) -> Peer | None:
        """A connection to the present address of the leader; None if the leader is away."""
        endpoint = self._settings.endpoint_of(self.leader)
        if self._peer is not None and self._peer[0] == endpoint:
            return self._peer[1]
        self._disconnect()
        if endpoint is None:
            return None
        client_id = f"broker-{self._settings.broker_id}-fetcher-{self.number}"
        peer = self._settings.peers.connect(
            endpoint, client_id, name=f"broker {self.leader}", on_break=self._connection_broke
        )
        self._peer = endpoint, peer
        return peer

    def _connection_broke(self, failure: PeerFailure) -> None:
        """Also between two requests, while a log is flushed."""
        if self._has_answered and failure in _BROKEN:
            self._has_answered = False
            self._settings.leaders.closed(self.leader)

    def _request_failed(self) -> None:
        """Repeat the whole request later."""
        self._failures += 1
        if self._retry is None:
            self._retry = self._settings.scheduler.call_later(self._backoff_ms(self._failures), self._try_again)

    def _try_again(self) -> None:
        self._retry = None
        self._fetch()

    # Fetching

    def _fetch(self) -> None:
        if self._is_closed or self._has_fetch_under_way or self._retry is not None or self._unflushed:
            return
        settings = self._settings
        peer = self._connected()
        if peer is None:
            self._request_failed()
            return
        if settings.throttle is not None and settings.throttle.is_active:
            self._leave_out_throttled(settings.throttle)
        if self._session.is_new:
            named = [
                followed
                for partitions in self._partitions.values()
                for followed in partitions.values()
                if followed.state is _State.FETCHING
            ]
        else:
            named = list(self._changed.values())
        # The one place that decides this: an offset in a request promises that all records below it are safe here.
        for followed in named:
            if not followed.replica.call_when_flushed(partial(self._flushed, followed)):
                self._unflushed.add(followed)
        if self._unflushed:
            return
        self._changed.clear()
        topics: dict[UUID, list[FetchPartition]] = {}
        for followed in named:
            replica = followed.replica
            followed.fetch_offset, followed.log_start_offset = replica.log_end_offset, replica.log_start_offset
            self._session.name(followed.key)
            topics.setdefault(replica.topic_id, []).append(
                FetchPartition(
                    replica.index,
                    followed.leader_epoch,
                    followed.fetch_offset,
                    replica.latest_epoch,
                    settings.partition_max_bytes,
                    followed.log_start_offset,
                )
            )
        if not self._session.is_asking:
            return  # There is nothing to fetch until a delay ends or a partition is added.
        session_id, session_epoch, forgotten = self._session.next()
        body = encode_follower_request(
            FetchRequest(
                settings.broker_id,
                settings.max_wait_ms,
                settings.min_bytes,
                settings.max_bytes,
                0,
                session_id,
                session_epoch,
                list(topics.items()),
                forgotten,
                "",
                settings.broker_epoch(),
            )
        )
        self._has_fetch_under_way = True
        self._fetch_number += 1
        peer.send(FETCH, FOLLOWER_VERSION, [body], self._fetched, timeout_ms=settings.timeout_ms)

    def _leave_out_throttled(self, throttle: FetchThrottle) -> None:
        if not throttle.is_exceeded(self._now_ms()):
            return
        self._delay(
            [
                followed
                for partitions in self._partitions.values()
                for followed in partitions.values()
                if followed.state is _State.FETCHING
                # A replica that has all acknowledged records is in the ISR, or about to be: it must not fall out.
                and followed.leader_high_watermark > followed.replica.log_end_offset
                and throttle.is_throttled(followed.replica.topic, followed.replica.index)
            ],
            THROTTLED_MS,
        )

    def _now_ms(self) -> int:
        return self._settings.clock.monotonic_ns() // 1_000_000

    def _fetched(self, body: memoryview | PeerFailure) -> None:
        self._has_fetch_under_way = False
        if isinstance(body, PeerFailure):
            self._session.broken()
            self._request_failed()
            return
        try:
            answer = decode_follower_response(body)
        except MalformedRequestError as error:
            _logger.error("broker %d answers a fetch with what is not an answer: %s", self.leader, error)
            self._disconnect()
            self._session.broken()
            self._request_failed()
            return
        if not self._session.answered(answer.error_code, answer.session_id):
            if self._failures or answer.error_code not in _SESSION_IS_GONE:
                _logger.warning("broker %d refuses a fetch: %s", self.leader, answer.error_code.name)
                self._request_failed()
            else:
                self._failures = 1
                self._fetch()
            return
        self._failures = 0
        if not self._has_answered:
            self._has_answered = True
            self._settings.leaders.settled(self.leader)
        throttle = self._settings.throttle
        now_ms = self._settings.clock.now_ms()
        for topic_id, entries in answer.topics:
            partitions = self._partitions.get(topic_id)
            if partitions is None:
                continue
            for entry in entries:
                followed = partitions.get(entry.partition)
                if followed is None or followed.state is not _State.FETCHING or followed.key in self._changed:
                    continue  # The answer is to an earlier request for the partition.
                self._take_in(followed, entry, now_ms)
                if throttle is not None and throttle.is_active and entry.records:
                    self._record(throttle, followed, len(entry.records))
        self._fetch()

    def _record(self, throttle: FetchThrottle, followed: _Followed, size_bytes: int) -> None:
        if throttle.is_throttled(followed.replica.topic, followed.replica.index):
            throttle.record(size_bytes, self._now_ms())

    def _take_in(self, followed: _Followed, entry: PartitionFetched, now_ms: int) -> None:
        if entry.error_code:
            self._refused(followed, entry.error_code)
            return
        replica = followed.replica
        try:
            if entry.diverging_epoch is not None:
                if _truncate(replica, *entry.diverging_epoch):
                    self._changed[followed.key] = followed
                else:
                    self._ask_again_later(followed)
                return
            if entry.records and replica.log_end_offset != followed.fetch_offset:
                self._changed[followed.key] = followed
                return
            replica.append_as_follower(entry.records, entry.high_watermark, entry.log_start_offset, now_ms)
        except CorruptBatch as error:
            _logger.error("%s: cannot take what broker %d sends: %s", followed.name, self.leader, error)
            self._ask_again_later(followed)
            return
        except OSError:  # The partition has logged it, and there may be space again later.
            self._ask_again_later(followed)
            return
        except Exception:
            _logger.exception("%s: stopped following its leader, because of a bug in the broker", followed.name)
            self._give_up(followed)
            return
        followed.failures = 0
        followed.leader_high_watermark = entry.high_watermark
        if replica.log_start_offset != followed.log_start_offset:
            # Whoever deleted records waits until the leader knows that no replica has them.
            self._changed[followed.key] = followed
        if entry.records:
            self._changed[followed.key] = followed

    def _flushed(self, followed: _Followed) -> None:
        if followed in self._unflushed:
            self._unflushed.discard(followed)
            self._fetch()

    def _refused(self, followed: _Followed, error_code: ErrorCode) -> None:
        if error_code is ErrorCode.offset_out_of_range:
            self._look_up(followed)
        elif error_code is ErrorCode.fenced_leader_epoch:
            # This happens to all partitions of a leader at once, whenever it is elected again.
            _logger.debug("%s: broker %d is beyond epoch %d", followed.name, self.leader, followed.leader_epoch)
            self._give_up(followed)
        else:
            if error_code not in _PASSING:
                _logger.warning("%s: broker %d refuses a fetch: %s", followed.name, self.leader, error_code.name)
            self._ask_again_later(followed)

    # A log that ends outside of the leader's log

    def _look_up(self, followed: _Followed) -> None:
        """Ask the leader for the start and the end of its log."""
        peer = self._connected()
        if peer is None:
            self._ask_again_later(followed)
            return
        followed.state = _State.LOOKING_UP
        self._looked_up[followed] = None
        self._changed.pop(followed.key, None)
        self._session.forget(followed.key)

        def answered(bounds: tuple[int, int] | ErrorCode) -> None:
            if followed not in self._looked_up:
                return
            self._looked_up.pop(followed, None)
            if bounds is ErrorCode.fenced_leader_epoch:
                self._give_up(followed)
            elif isinstance(bounds, ErrorCode):
                self._ask_again_later(followed)
            else:
                self._begin_again(followed, *bounds)

        ask_for_log_bounds(
            peer,
            (followed.replica.topic, followed.replica.index),
            answered,
            leader_epoch=followed.leader_epoch,
            broker_id=self._settings.broker_id,
            timeout_ms=self._settings.timeout_ms,
        )

    def _begin_again(self, followed: _Followed, start_offset: int, end_offset: int) -> None:
        replica = followed.replica
        try:
            if end_offset < replica.log_end_offset:
                _logger.warning(
                    "%s: broker %d leads with a log that ends at %d, before ours at %d: it was elected uncleanly",
                    followed.name,
                    self.leader,
                    end_offset,
                    replica.log_end_offset,
                )
                replica.truncate_to(end_offset)
            elif start_offset > replica.log_end_offset:
                replica.truncate_fully(start_offset)
        except OSError:  # The partition has logged it.
            self._ask_again_later(followed)
            return
        self._ask_for(followed)


_PASSING: Final = {
    ErrorCode.not_leader_or_follower,
    ErrorCode.unknown_leader_epoch,
    ErrorCode.unknown_topic_or_partition,
    ErrorCode.unknown_topic_id,
}
"""Errors of a leader that does not know of its election yet."""
_SESSION_IS_GONE: Final = {
    ErrorCode.none,
    ErrorCode.fetch_session_id_not_found,
    ErrorCode.invalid_fetch_session_epoch,
    ErrorCode.fetch_session_topic_id_error,
}


def _truncate(replica: FollowerReplica, leaders_epoch: int, leaders_end_offset: int) -> bool:
    """Truncate the log where it diverges from the leader's, as far as that is known; whether that removed records.

    `leaders_epoch` is the leader's largest epoch at or below the log's last epoch; it ends at `leaders_end_offset`. A
    log without this epoch is truncated to the end of its largest epoch below, and the next fetch finds the next
    divergence.
    """
    log_end_offset = replica.log_end_offset
    epoch, end_offset = replica.end_of_epoch(leaders_epoch)
    if epoch == leaders_epoch:
        end_offset = min(end_offset, leaders_end_offset)
    elif epoch < 0:
        end_offset = leaders_end_offset
    if end_offset >= log_end_offset:
        return False
    replica.truncate_to(end_offset)
    return True
