"""All fetchers of a broker: which of them follows which partition."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from uuid import UUID
from zlib import crc32

from highwater.broker.clock import Clock, Scheduler
from highwater.broker.cluster.peers import Endpoint, Peers
from highwater.broker.replica.fetcher import Fetcher
from highwater.broker.replica.fetcher_inputs import FetchSettings, FetchThrottle, FollowerReplica, Leaders
from highwater.broker.settings.config import BrokerConfig


class Fetchers:
    """All fetchers of one broker."""

    def __init__(
        self,
        *,
        broker_id: int,
        broker_epoch: Callable[[], int],
        config: BrokerConfig,
        clock: Clock,
        scheduler: Scheduler,
        peers: Peers,
        endpoint_of: Callable[[int], Endpoint | None],
        leaders: Leaders,
        throttle: FetchThrottle | None = None,
    ) -> None:
        """`endpoint_of` returns the present address of a broker's inter-broker listener; None while it is away."""
        self._settings = FetchSettings(
            broker_id,
            broker_epoch,
            clock,
            scheduler,
            peers,
            endpoint_of,
            throttle,
            leaders,
            max_wait_ms=config.integer("replica.fetch.wait.max.ms"),
            min_bytes=config.integer("replica.fetch.min.bytes"),
            max_bytes=config.integer("replica.fetch.response.max.bytes"),
            partition_max_bytes=config.integer("replica.fetch.max.bytes"),
            backoff_ms=config.integer("replica.fetch.backoff.ms"),
            timeout_ms=config.integer("replica.socket.timeout.ms"),
        )
        self._fetchers_per_leader = config.integer("num.replica.fetchers")
        self._fetchers: dict[tuple[int, int], Fetcher] = {}
        self._fetcher_of: dict[tuple[UUID, int], Fetcher] = {}
        self._failed: set[tuple[UUID, int]] = set()
        self._is_closed = False

    def add(self, leader: int, replicas: Iterable[FollowerReplica]) -> None:
        """Fetch replicas from this leader alone, in their current leader epochs, from the ends of their logs on."""
        if self._is_closed:
            return
        replicas = list(replicas)
        left = self._leave(replicas)
        for replica in replicas:
            number = (crc32(replica.topic.encode()) + replica.index) % self._fetchers_per_leader
            fetcher = self._fetchers.get((leader, number))
            if fetcher is None:
                fetcher = self._fetchers[leader, number] = Fetcher(self._settings, leader, number, self._failed.add)
            self._fetcher_of[replica.topic_id, replica.index] = fetcher
            fetcher.add(replica)
        self._close_idle(left)

    def remove(self, replicas: Iterable[FollowerReplica]) -> None:
        """Fetch replicas no more. Answers under way are dropped: nothing is appended once this returns."""
        self._close_idle(self._leave(replicas))

    def _leave(self, replicas: Iterable[FollowerReplica]) -> Iterable[Fetcher]:
        left: dict[Fetcher, None] = {}
        for replica in replicas:
            key = replica.topic_id, replica.index
            self._failed.discard(key)
            fetcher = self._fetcher_of.pop(key, None)
            if fetcher is not None:
                fetcher.remove(key)
                left[fetcher] = None
        return left

    def _close_idle(self, fetchers: Iterable[Fetcher]) -> None:
        for fetcher in fetchers:
            key = fetcher.leader, fetcher.number
            # A fetcher whose other replicas failed may be closed already.
            if fetcher.is_idle and self._fetchers.get(key) is fetcher:
                fetcher.close()
                del self._fetchers[key]

    def close(self) -> None:
        self._is_closed = True
        for fetcher in self._fetchers.values():
            fetcher.close()
        self._fetchers.clear()
        self._fetcher_of.clear()

    @property
    def failed_count(self) -> int:
        """The number of partitions that are not fetched until LeaderAndIsr names them again."""
        return len(self._failed)

    def lags(self) -> Iterator[tuple[int, FollowerReplica, int]]:
        """(leader, replica, records that it lacks below the leader's high watermark) of all partitions fetched."""
        for fetcher in self._fetchers.values():
            for replica, lag in fetcher.lags():
                yield fetcher.leader, replica, lag
