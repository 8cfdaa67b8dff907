"""Throttles the replication of replicas that are not in sync (KIP-73). Pure: the time is an argument.

The topic's settings list the throttled replicas (leader.replication.throttled.replicas on leaders,
follower.replication.throttled.replicas on followers), the broker's settings have the rate. Bytes are counted after
they were moved, and while the rate is exceeded no more are moved (Kafka's ReplicationQuotaManager).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from typing import Final

from highwater.broker.quota.rate import WindowedRate
from highwater.broker.settings.config import BrokerConfig, TopicConfig
from highwater.broker.settings.property_row import INT64_MAX

_EVERY_REPLICA: Final = "*"
THROTTLED_REPLICA: Final = re.compile(r"([0-9]{1,10}):([0-9]{1,10})")


class ReplicationThrottle:
    """The throttle of one direction of one broker."""

    def __init__(self, window_count: int, window_size_ms: int) -> None:
        self.bytes_per_second = INT64_MAX
        self._rate = WindowedRate(window_count, window_size_ms, counts_silence=False)
        self._partitions: dict[str, Collection[int] | None] = {}
        """The throttled partitions by topic; None for all of a topic."""

    @property
    def is_active(self) -> bool:
        """Whether anything is throttled."""
        return bool(self._partitions)

    def set_throttled(self, topic: str, replicas: Iterable[str], broker_id: int) -> None:
        """Replace the throttled replicas of a topic: `partition:broker` each, or `*`."""
        entries = list(replicas)
        if _EVERY_REPLICA in entries:
            self._partitions[topic] = None
            return
        pairs = [found.groups() for entry in entries if (found := THROTTLED_REPLICA.fullmatch(entry))]
        partitions = frozenset(int(partition) for partition, broker in pairs if int(broker) == broker_id)
        if partitions:
            self._partitions[topic] = partitions
        else:
            self._partitions.pop(topic, None)

    def forget(self, topic: str) -> None:
        self._partitions.pop(topic, None)

    def is_throttled(self, topic: str, partition: int) -> bool:
        partitions = self._partitions.get(topic, ())
        return partitions is None or partition in partitions

    def is_exceeded(self, now_ms: int) -> bool:
        # The first reading opens a window, like reading a SampledStat.
        self._rate.record(0, now_ms)
        return self._rate.per_second(now_ms) > self.bytes_per_second

    def record(self, size_bytes: int, now_ms: int) -> None:
        """Count bytes of throttled replicas."""
        self._rate.record(size_bytes, now_ms)


class ReplicationThrottles:
    """The throttles of a broker, by its settings and those of its topics."""

    def __init__(self, broker_id: int, config: BrokerConfig) -> None:
        self._broker_id = broker_id
        self._config = config
        windows = (
            config.integer("replication.quota.window.num"),
            config.integer("replication.quota.window.size.seconds") * 1000,
        )
        self.leader = ReplicationThrottle(*windows)
        self.follower = ReplicationThrottle(*windows)
        config.when_changed.append(self._take_rates)
        self._take_rates()

    def _take_rates(self) -> None:
        self.leader.bytes_per_second = self._config.integer("leader.replication.throttled.rate")
        self.follower.bytes_per_second = self._config.integer("follower.replication.throttled.rate")

    def topic_changed(self, topic: str, config: TopicConfig) -> None:
        """Update the throttles for a topic that is new here or whose settings changed."""
        for throttle, name in (
            (self.leader, "leader.replication.throttled.replicas"),
            (self.follower, "follower.replication.throttled.replicas"),
        ):
            value = config.value(name)
            throttle.set_throttled(topic, value if isinstance(value, list) else (), self._broker_id)

    def topic_forgotten(self, topic: str) -> None:
        self.leader.forget(topic)
        self.follower.forget(topic)
