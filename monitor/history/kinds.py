"""The kinds of rows that the history stores, their columns, and how long each tier is stored."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final, Generic, NamedTuple, TypeVar

from highwater.common.host_answer import HostAnswer
from highwater.monitor.figures.clients import ClientFigures
from highwater.monitor.figures.cluster import Figures
from highwater.monitor.figures.rows import (
    BrokerFigures,
    Duration,
    GroupFigures,
    GroupPartitionFigures,
    PartitionRow,
    TopicFigures,
    Totals,
)
from highwater.monitor.figures.sums import known_sum, whole_sum
from highwater.monitor.model import Snapshot

MINUTE_MS: Final = 60_000
HOUR_MS: Final = 60 * MINUTE_MS
DAY_MS: Final = 24 * HOUR_MS

Value = int | float | str | None
"""None where the cluster did not say."""
Row = TypeVar("Row")


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
class HistoryColumn(Generic[Row]):
    name: str
    nature: Nature
    meaning: str
    read: Callable[[Row], Value]

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
class Kind(Generic[Row]):
    name: str
    columns: tuple[HistoryColumn[Row], ...]
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

    def column(self, name: str) -> HistoryColumn[Row] | None:
        return next((column for column in self.columns if column.name == name), None)

    def values(self, row: Row) -> tuple[Value, ...]:
        return tuple([column.read(row) for column in self.columns])


@dataclass(frozen=True, slots=True)
class Retention:
    """How long the rows of each tier are kept."""

    raw_ms: int = 48 * HOUR_MS
    minutes_ms: int = 30 * DAY_MS
    hours_ms: int = 730 * DAY_MS
    events_ms: int = 730 * DAY_MS

    def kept_ms(self, kind: Kind[Any], tier: Tier) -> int:
        if tier is Tier.HOURS:
            return self.hours_ms
        return self.minutes_ms if tier is Tier.MINUTES or kind.is_detail else self.raw_ms


def storable(text: str) -> str:
    """Return a name as every database takes it: PostgreSQL has no NUL, and nobody has half of a character."""
    if text.isascii():
        return text.replace("\0", "\N{SYMBOL FOR NULL}") if "\0" in text else text
    return text.replace("\0", "\N{SYMBOL FOR NULL}").encode("utf-8", "replace").decode()


def _counter(name: str, meaning: str, read: Callable[[Row], Value]) -> HistoryColumn[Row]:
    return HistoryColumn(name, Nature.COUNTER, meaning, read)


def _gauge(name: str, meaning: str, read: Callable[[Row], Value]) -> HistoryColumn[Row]:
    return HistoryColumn(name, Nature.GAUGE, meaning, read)


def _state(name: str, meaning: str, read: Callable[[Row], Value]) -> HistoryColumn[Row]:
    return HistoryColumn(name, Nature.STATE, meaning, read)


def _text(name: str, meaning: str, read: Callable[[Row], Value]) -> HistoryColumn[Row]:
    return HistoryColumn(name, Nature.TEXT, meaning, read)


def _seconds(duration: Duration | None) -> float | None:
    return round(duration.ms / 1000, 1) if duration is not None and duration.is_known else None


class ClusterRow(NamedTuple):
    snapshot: Snapshot
    figures: Figures
    cost: Mapping[str, Value]
    """What the tick cost the monitor, by the names of columns."""

    @property
    def totals(self) -> Totals:
        return self.figures.totals


def _disk_used(row: BrokerFigures) -> int | None:
    total, usable = row.disk_total_bytes, row.disk_usable_bytes
    return None if total is None or usable is None else total - usable


def _busy_s(row: HostAnswer) -> float | None:
    return sum(disk.busy_ms for disk in row.disks) / 1000 if row.disks else None


def _own(metric: str) -> Callable[[BrokerFigures], Value]:
    """Return the reader of a metric of the broker's own page (docs/metrics.md)."""
    return lambda row: None if row.metrics is None else row.metrics.get(metric)


def _own_total(metric: str) -> Callable[[BrokerFigures], Value]:
    return _own(f"kafka_server_brokertopicmetrics_{metric}_total")


CLUSTER: Final[Kind[ClusterRow]] = Kind(
    "cluster",
    (
        _gauge("brokers", "brokers that are alive", lambda r: r.totals.brokers_alive),
        _state("controller", "node id of the controller", lambda r: r.snapshot.controller),
        _gauge("topics", "topics", lambda r: r.totals.topics),
        _gauge("partitions", "partitions", lambda r: r.totals.partitions),
        _gauge("offline", "partitions without a leader", lambda r: r.totals.health.offline),
        _gauge("under_replicated", "partitions with a replica out of sync", lambda r: r.totals.health.under_replicated),
        _gauge(
            "under_min_isr",
            "partitions with too few replicas in sync for acks=all",
            lambda r: r.totals.health.under_min_isr,
        ),
        _gauge("groups", "groups", lambda r: r.totals.groups),
        _gauge("lag", "lag of all groups, in offsets", lambda r: known_sum(g.lag for g in r.figures.groups.values())),
        _counter("end_offsets", "sum of all end offsets", lambda r: r.totals.produced_offsets),
        _gauge("size_bytes", "size of all replicas", lambda r: r.totals.size_bytes),
        _gauge("tick_ms", "time that the tick took", lambda r: r.cost.get("tick_ms")),
        _gauge("requests", "requests of the tick", lambda r: sum(s.requests for s in r.snapshot.sources.values())),
        _gauge("monitor_rss_bytes", "resident memory of the monitor", lambda r: r.cost.get("monitor_rss_bytes")),
        _counter("monitor_cpu_s", "CPU time of the monitor since its start", lambda r: r.cost.get("monitor_cpu_s")),
    ),
)
BROKER: Final[Kind[BrokerFigures]] = Kind(
    "broker",
    (
        _state("up", "1 if metadata lists it", lambda r: int(r.is_alive)),
        _state("is_controller", "1 if it is the controller", lambda r: int(r.is_controller)),
        _gauge("leaders", "partitions that it leads", lambda r: r.leaders),
        _gauge("replicas", "replicas that it holds", lambda r: r.replicas),
        _gauge(
            "under_replicated",
            "partitions that it leads with a replica out of sync",
            lambda r: r.health.under_replicated,
        ),
        _gauge("size_bytes", "size of its replicas", lambda r: r.size_bytes),
        _gauge("disk_used_bytes", "used space of the file systems of its log directories", _disk_used),
        _gauge("disk_total_bytes", "size of the file systems of its log directories", lambda r: r.disk_total_bytes),
        _counter("bytes_in", "bytes that clients produced", _own_total("bytesin")),
        _counter("bytes_out", "bytes that clients fetched", _own_total("bytesout")),
        _counter("messages_in", "records that clients produced", _own_total("messagesin")),
        _counter("replication_bytes_in", "bytes that it fetched from other brokers", _own_total("replicationbytesin")),
        _counter(
            "replication_bytes_out", "bytes that other brokers fetched from it", _own_total("replicationbytesout")
        ),
        _counter("produce_requests", "requests to produce", _own_total("totalproducerequests")),
        _counter("fetch_requests", "requests to fetch", _own_total("totalfetchrequests")),
        _gauge("connections", "open connections", _own("kafka_server_socketservermetrics_connection_count")),
        _counter("cpu_s", "CPU time of its process", _own("process_cpu_seconds_total")),
        _gauge("rss_bytes", "resident memory of its process", _own("process_resident_memory_bytes")),
    ),
)
TOPIC: Final[Kind[TopicFigures]] = Kind(
    "topic",
    (
        _counter("end_offsets", "sum of the end offsets", lambda r: r.end_offsets),
        _counter("start_offsets", "sum of the log start offsets", lambda r: r.start_offsets),
        _gauge("size_bytes", "size of all replicas", lambda r: r.size_bytes),
        _gauge("leader_bytes", "size of the leaders' replicas", lambda r: r.leader_size_bytes),
        _gauge("partitions", "partitions", lambda r: r.partitions),
        _gauge("under_replicated", "partitions with a replica out of sync", lambda r: r.health.under_replicated),
        _gauge(
            "under_min_isr", "partitions with too few replicas in sync for acks=all", lambda r: r.health.under_min_isr
        ),
        _gauge("offline", "partitions without a leader", lambda r: r.health.offline),
        _gauge("spread_percent", "share of the brokers that hold a replica", lambda r: r.balance.spread_percent),
        _gauge("skew_percent", "share of its brokers with too many replicas", lambda r: r.balance.skew_percent),
        _gauge(
            "leader_skew_percent", "share of its brokers with too many leaders", lambda r: r.balance.leader_skew_percent
        ),
    ),
)
GROUP: Final[Kind[GroupFigures]] = Kind(
    "group",
    (
        _text("state", "as kafka-consumer-groups prints it", lambda r: r.state.value),
        _gauge("members", "members", lambda r: r.members),
        _gauge("lag", "lag of all partitions with a commit, in offsets", lambda r: r.lag),
        _gauge("lag_s", "age of the oldest record not committed, in seconds", lambda r: _seconds(r.lag_time)),
        _gauge("partitions", "partitions with a commit", lambda r: r.partitions),
        _gauge("no_commit", "assigned partitions without a commit", lambda r: r.no_commit),
        _text("verdict", "what the monitor concludes", lambda r: r.verdict.value),
    ),
)
PARTITION: Final[Kind[PartitionRow]] = Kind(
    "partition",
    (
        _state("leader", "node id of the leader; -1 without one", lambda r: r.partition.leader),
        _state("leader_epoch", "leader epoch", lambda r: r.partition.leader_epoch),
        _counter("end_offset", "high watermark", lambda r: r.partition.end_offset),
        _counter("start_offset", "log start offset", lambda r: r.partition.log_start_offset),
        _counter("last_stable_offset", "last stable offset", lambda r: r.partition.last_stable_offset),
        _gauge("size_bytes", "size of all replicas", lambda r: r.figures.size_bytes),
        _gauge("in_sync", "in-sync replicas", lambda r: len(r.partition.in_sync_replicas)),
    ),
    is_detail=True,
)
GROUP_PARTITION: Final[Kind[GroupPartitionFigures]] = Kind(
    "group_partition",
    (
        _counter("committed", "committed offset", lambda r: r.committed_offset),
        _gauge("lag", "lag in offsets", lambda r: r.lag),
        _gauge("lag_s", "age of the oldest record not committed, in seconds", lambda r: _seconds(r.lag_time)),
        _text("verdict", "what the monitor concludes", lambda r: r.verdict.value),
        _text("member", "client id of the member that has the partition", lambda r: storable(r.owner.client_id)),
    ),
    is_detail=True,
)
HOST: Final[Kind[HostAnswer]] = Kind(
    "host",
    (
        _counter("cpu_busy_s", "CPU time of all its CPUs since boot", lambda r: round(r.cpu.busy_s, 2)),
        _counter("cpu_steal_s", "CPU time that the hypervisor took", lambda r: round(r.cpu.steal_s, 2)),
        _counter("io_wait_s", "time in which something waited for a disk (PSI)", lambda r: r.pressure_s.get("io_some")),
        _gauge("memory_available_bytes", "memory that is available to programs", lambda r: r.memory.available_bytes),
        _gauge(
            "page_cache_bytes",
            "page cache without shared memory",
            lambda r: max(0, r.memory.cached_bytes - r.memory.shared_bytes),
        ),
        _gauge("dirty_bytes", "dirty bytes", lambda r: r.memory.dirty_bytes),
        _gauge("writeback_bytes", "bytes under write-back", lambda r: r.memory.writeback_bytes),
        _gauge("log_bytes", "segments of its log directories", lambda r: whole_sum(d.log_bytes for d in r.directories)),
        _gauge(
            "resident_bytes",
            "of the segments, what the page cache holds",
            lambda r: whole_sum(d.resident_bytes for d in r.directories),
        ),
        _counter(
            "disk_read_bytes",
            "read by the disks below its log directories",
            lambda r: whole_sum(d.read_bytes for d in r.disks),
        ),
        _counter(
            "disk_written_bytes",
            "written by the disks below its log directories",
            lambda r: whole_sum(d.written_bytes for d in r.disks),
        ),
        _counter("disk_busy_s", "time in which these disks had something to do", _busy_s),
        _counter(
            "broker_read_bytes",
            "what its brokers' reads took from disks",
            lambda r: whole_sum(d.read_bytes for d in r.brokers),
        ),
        _counter("received_bytes", "received over the network", lambda r: r.network.received_bytes),
        _counter("sent_bytes", "sent over the network", lambda r: r.network.sent_bytes),
        _state(
            "drifted",
            "settings that are not as they were applied",
            lambda r: None if r.tuning is None else len(r.tuning.drift),
        ),
        _text(
            "tuning",
            "fingerprint of its settings",
            lambda r: None if r.tuning is None else storable(r.tuning.fingerprint),
        ),
        _text("kernel", "its kernel", lambda r: storable(r.kernel)),
    ),
)
CLIENT: Final[Kind[ClientFigures]] = Kind(
    "client",
    (
        _gauge("instances", "client instances that push", lambda r: r.instances),
        _gauge("produce_ms", "mean time from a produce request to its answer", lambda r: r.produce_ms),
        _gauge("produce_max_ms", "the longest of these times", lambda r: r.produce_max_ms),
        _gauge("queue_ms", "mean time that records wait in the client", lambda r: r.queue_ms),
        _gauge("fetch_ms", "mean time from a fetch request to its answer", lambda r: r.fetch_ms),
        _gauge("fetch_max_ms", "the longest of these times", lambda r: r.fetch_max_ms),
        _gauge("commit_ms", "mean time of commits", lambda r: r.commit_ms),
        _gauge("rebalance_max_ms", "the longest rebalance", lambda r: r.rebalance_max_ms),
        _gauge("throttle_ms", "mean throttle time", lambda r: r.throttle_ms),
        _gauge("errors", "records a second that could not be sent", lambda r: r.errors_per_s),
        _gauge("retries", "records a second that were sent again", lambda r: r.retries_per_s),
        _gauge("broker_produce_ms", "mean time of Produce in the brokers", lambda r: r.broker_produce_ms),
        _gauge("broker_fetch_ms", "mean time of Fetch in the brokers", lambda r: r.broker_fetch_ms),
    ),
)
KINDS: Final[dict[str, Kind[Any]]] = {
    kind.name: kind for kind in (CLUSTER, BROKER, TOPIC, GROUP, PARTITION, GROUP_PARTITION, HOST, CLIENT)
}
DETAILS: Final = tuple(kind for kind in KINDS.values() if kind.is_detail)


def group_partition_name(group: str, topic: str, partition: int) -> str:
    """The name of the entity: `payments/orders-3`. A topic's name has no `/`, so that it is unambiguous."""
    return f"{group}/{topic}-{partition}"
