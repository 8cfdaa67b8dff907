"""The kinds of rows that the history keeps, their columns, and how long each tier is kept."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final

MINUTE_MS: Final = 60_000
HOUR_MS: Final = 60 * MINUTE_MS
DAY_MS: Final = 24 * HOUR_MS

Value = int | float | str | None
"""None where the cluster did not say."""


class Nature(Enum):
    """What a column holds, which decides what remains of it in a coarser tier."""

    COUNTER = "counter"
    """Rises from the beginning of its entity: the last value of a bucket is kept, so that no rate is lost."""
    GAUGE = "gauge"
    """Minimum, maximum and average over time are kept."""
    STATE = "state"
    """A whole number that names something, such as a leader: the last value is kept."""
    TEXT = "text"
    """A name, such as a verdict: the last value is kept."""


@dataclass(frozen=True, slots=True)
class Column:
    name: str
    nature: Nature
    meaning: str

    @property
    def unit(self) -> str:
        """The unit of the values, by the column's name; empty for counts."""
        if "bytes" in self.name:
            return "B"
        return _UNITS.get(self.name.rpartition("_")[2], "")


_UNITS: Final = {"s": "s", "ms": "ms", "percent": "%"}


class Tier(Enum):
    """How fine rows are. The value is a part of the names of tables."""

    RAW = "raw"
    MINUTES = "5min"
    HOURS = "1h"

    @property
    def bucket_ms(self) -> int:
        """The time that one row stands for; 0 of the raw tier, whose rows are ticks."""
        return _BUCKETS_MS[self]


_BUCKETS_MS: Final = {Tier.RAW: 0, Tier.MINUTES: 5 * MINUTE_MS, Tier.HOURS: HOUR_MS}


@dataclass(frozen=True, slots=True)
class Kind:
    name: str
    columns: tuple[Column, ...]
    is_detail: bool = False
    """Rows are of partitions: the raw ones are five minutes apart, and stand for the tier of minutes as well."""

    @property
    def tiers(self) -> tuple[Tier, ...]:
        """The tiers from the finest to the coarsest."""
        return (Tier.RAW, Tier.HOURS) if self.is_detail else tuple(Tier)

    @property
    def every_ms(self) -> int:
        """The time between two rows at least; 0 for a row in each tick."""
        return Tier.MINUTES.bucket_ms if self.is_detail else 0

    @property
    def heartbeat_ms(self) -> int:
        """A row is written once in this time although nothing changed: a bucket of the next tier never lacks a row."""
        return self.tiers[1].bucket_ms

    def column(self, name: str) -> Column | None:
        return next((column for column in self.columns if column.name == name), None)


@dataclass(frozen=True, slots=True)
class Retention:
    """How long the rows of each tier are kept."""

    raw_ms: int = 48 * HOUR_MS
    minutes_ms: int = 30 * DAY_MS
    hours_ms: int = 730 * DAY_MS
    events_ms: int = 730 * DAY_MS

    def kept_ms(self, kind: Kind, tier: Tier) -> int:
        if tier is Tier.HOURS:
            return self.hours_ms
        return self.minutes_ms if tier is Tier.MINUTES or kind.is_detail else self.raw_ms


def _counter(name: str, meaning: str) -> Column:
    return Column(name, Nature.COUNTER, meaning)


def _gauge(name: str, meaning: str) -> Column:
    return Column(name, Nature.GAUGE, meaning)


def _state(name: str, meaning: str) -> Column:
    return Column(name, Nature.STATE, meaning)


def _text(name: str, meaning: str) -> Column:
    return Column(name, Nature.TEXT, meaning)


CLUSTER: Final = Kind(
    "cluster",
    (
        _gauge("brokers", "brokers that are alive"),
        _state("controller", "node id of the controller"),
        _gauge("topics", "topics"),
        _gauge("partitions", "partitions"),
        _gauge("offline", "partitions without a leader"),
        _gauge("under_replicated", "partitions with a replica out of sync"),
        _gauge("under_min_isr", "partitions with fewer in-sync replicas than min.insync.replicas"),
        _gauge("groups", "groups"),
        _gauge("lag", "lag of all groups, in offsets"),
        _counter("end_offsets", "sum of all end offsets"),
        _gauge("size_bytes", "size of all replicas"),
        _gauge("tick_ms", "time that the tick took"),
        _gauge("requests", "requests of the tick"),
        _gauge("monitor_rss_bytes", "resident memory of the monitor"),
        _counter("monitor_cpu_s", "CPU time of the monitor since its start"),
    ),
)
BROKER: Final = Kind(
    "broker",
    (
        _state("up", "1 if metadata lists it"),
        _state("is_controller", "1 if it is the controller"),
        _gauge("leaders", "partitions that it leads"),
        _gauge("replicas", "replicas that it holds"),
        _gauge("under_replicated", "partitions that it leads with a replica out of sync"),
        _gauge("size_bytes", "size of its replicas"),
        _gauge("disk_used_bytes", "used space of the file systems of its log directories"),
        _gauge("disk_total_bytes", "size of the file systems of its log directories"),
        _counter("bytes_in", "bytes that clients produced"),
        _counter("bytes_out", "bytes that clients fetched"),
        _counter("messages_in", "records that clients produced"),
        _counter("replication_bytes_in", "bytes that its followers fetched from other brokers"),
        _counter("replication_bytes_out", "bytes that other brokers fetched from it"),
        _counter("produce_requests", "requests to produce"),
        _counter("fetch_requests", "requests to fetch"),
        _gauge("connections", "open connections"),
        _counter("cpu_s", "CPU time of its process"),
        _gauge("rss_bytes", "resident memory of its process"),
    ),
)
TOPIC: Final = Kind(
    "topic",
    (
        _counter("end_offsets", "sum of the end offsets"),
        _counter("start_offsets", "sum of the log start offsets"),
        _gauge("size_bytes", "size of all replicas"),
        _gauge("leader_bytes", "size of the leaders' replicas"),
        _gauge("partitions", "partitions"),
        _gauge("under_replicated", "partitions with a replica out of sync"),
        _gauge("under_min_isr", "partitions with fewer in-sync replicas than min.insync.replicas"),
        _gauge("offline", "partitions without a leader"),
        _gauge("spread_percent", "share of the brokers that hold a replica"),
        _gauge("skew_percent", "share of its brokers with too many replicas"),
        _gauge("leader_skew_percent", "share of its brokers with too many leaders"),
    ),
)
GROUP: Final = Kind(
    "group",
    (
        _text("state", "as kafka-consumer-groups prints it"),
        _gauge("members", "members"),
        _gauge("lag", "lag of all partitions with a commit, in offsets"),
        _gauge("lag_s", "age of the oldest record that it has not committed, in seconds"),
        _gauge("partitions", "partitions with a commit"),
        _gauge("no_commit", "assigned partitions without a commit"),
        _text("verdict", "what the monitor concludes"),
    ),
)
PARTITION: Final = Kind(
    "partition",
    (
        _state("leader", "node id of the leader; -1 without one"),
        _state("leader_epoch", "leader epoch"),
        _counter("end_offset", "high watermark"),
        _counter("start_offset", "log start offset"),
        _counter("last_stable_offset", "last stable offset"),
        _gauge("size_bytes", "size of all replicas"),
        _gauge("in_sync", "in-sync replicas"),
    ),
    is_detail=True,
)
GROUP_PARTITION: Final = Kind(
    "group_partition",
    (
        _counter("committed", "committed offset"),
        _gauge("lag", "lag in offsets"),
        _gauge("lag_s", "age of the oldest record that it has not committed, in seconds"),
        _text("verdict", "what the monitor concludes"),
        _text("member", "client id of the member that has the partition"),
    ),
    is_detail=True,
)
HOST: Final = Kind(
    "host",
    (
        _counter("cpu_busy_s", "CPU time of all its CPUs since boot"),
        _counter("cpu_steal_s", "CPU time that the hypervisor took"),
        _counter("io_wait_s", "time in which something waited for a disk (PSI)"),
        _gauge("memory_available_bytes", "memory that is available to programs"),
        _gauge("page_cache_bytes", "page cache without shared memory"),
        _gauge("dirty_bytes", "dirty bytes"),
        _gauge("writeback_bytes", "bytes under write-back"),
        _gauge("log_bytes", "segments of its log directories"),
        _gauge("resident_bytes", "of the segments, what the page cache holds"),
        _counter("disk_read_bytes", "read by the disks below its log directories"),
        _counter("disk_written_bytes", "written by the disks below its log directories"),
        _counter("disk_busy_s", "time in which these disks had something to do"),
        _counter("broker_read_bytes", "what its brokers' reads took from disks"),
        _counter("received_bytes", "received over the network"),
        _counter("sent_bytes", "sent over the network"),
        _state("drifted", "settings that are not as they were applied"),
        _text("tuning", "fingerprint of its settings"),
        _text("kernel", "its kernel"),
    ),
)
KINDS: Final = {kind.name: kind for kind in (CLUSTER, BROKER, TOPIC, GROUP, PARTITION, GROUP_PARTITION, HOST)}
DETAILS: Final = tuple(kind for kind in KINDS.values() if kind.is_detail)


def group_partition_name(group: str, topic: str, partition: int) -> str:
    """The name of the entity: `payments/orders-3`. A topic's name has no `/`, so that it is unambiguous."""
    return f"{group}/{topic}-{partition}"
