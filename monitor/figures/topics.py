"""Rows of topics and of their partitions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from highwater.common.topic_partition import TopicPartition
from highwater.common.units import plural
from highwater.monitor.figures.distribution import balance
from highwater.monitor.figures.health import effective, min_isr
from highwater.monitor.figures.memory import Memory
from highwater.monitor.figures.rates import Rates
from highwater.monitor.figures.rows import (
    GroupPartitionFigures,
    Health,
    LagState,
    Level,
    PartitionFigures,
    TopicFigures,
)
from highwater.monitor.figures.sums import known_max, known_sum, whole_sum
from highwater.monitor.model import Partition, Topic


@dataclass(frozen=True, slots=True)
class Context:
    """What the rows of all topics are made from."""

    memory: Memory
    rates: Rates
    """Rates of produced offsets."""
    live_brokers: int
    default_min_isr: int | None
    hanging: Mapping[TopicPartition, int]
    reassigning: frozenset[TopicPartition]


def partition_figures(topic: Topic, context: Context) -> tuple[PartitionFigures, ...]:
    limit = min_isr(topic, context.default_min_isr)
    series = context.memory.topic_series(topic.name)
    return tuple([_partition(*each, limit, context) for each in zip(topic.partitions, series, strict=False)])


def _partition(partition: Partition, series: int, wanted: int | None, context: Context) -> PartitionFigures:
    start, end, stable = partition.log_start_offset, partition.end_offset, partition.last_stable_offset
    replicas, leader, sizes = partition.replicas, partition.leader, partition.size_bytes
    is_offline = leader < 0
    in_sync, limit = len(partition.in_sync_replicas), effective(wanted, partition)
    held = None if start is None or end is None else end - start
    leader_size = sizes.get(leader)
    rate = None if end is None else context.rates[series]
    return PartitionFigures(
        partition.topic,
        partition.partition,
        is_offline,
        in_sync < len(replicas) and partition.key not in context.reassigning,
        None if limit is None else in_sync < limit and not is_offline,
        None if limit is None else in_sync == limit and len(replicas) > 1 and not is_offline,
        bool(replicas) and leader == replicas[0],
        held,
        leader_size,
        sum(sizes.values()) if sizes else None,
        rate,
        _bytes_per_s(rate, leader_size, held),
        None if end is None or stable is None else end - stable,
        context.hanging.get(partition.key) if context.hanging else None,
    )


def _bytes_per_s(rate: float | None, size_bytes: int | None, held: int | None) -> float | None:
    if rate == 0:
        return 0.0
    return rate * size_bytes / held if rate is not None and size_bytes is not None and held else None


@dataclass(slots=True)
class Holdings:
    """What the brokers have of a topic, by broker."""

    replicas: dict[int, int] = field(default_factory=dict)
    leaders: dict[int, int] = field(default_factory=dict)
    disk_bytes: dict[int, int] = field(default_factory=dict)


def holdings_of(topic: Topic) -> Holdings:
    made = Holdings()
    replicas, leaders, disk_bytes = made.replicas, made.leaders, made.disk_bytes
    for partition in topic.partitions:
        for broker in partition.replicas:
            replicas[broker] = replicas.get(broker, 0) + 1
        leader = partition.leader
        if leader >= 0:
            leaders[leader] = leaders.get(leader, 0) + 1
        for broker, size in partition.size_bytes.items():
            disk_bytes[broker] = disk_bytes.get(broker, 0) + size
    return made


@dataclass(slots=True)
class Reading:
    """Who reads a topic, and how well: the lag and the worst level of each group."""

    lags: dict[str, int | None] = field(default_factory=dict)
    level: Level = Level.OK


UNREAD: Final = Reading()


def readings_of(group_partitions: Mapping[str, Sequence[GroupPartitionFigures]]) -> dict[str, Reading]:
    """Return the reading of each topic that a group reads."""
    found: dict[str, Reading] = {}
    for group, rows in group_partitions.items():
        for row in rows:
            reading = found.get(row.topic)
            if reading is None:
                reading = found[row.topic] = Reading()
            before, lag = reading.lags.get(group), row.lag
            reading.lags[group] = before if lag is None else (before or 0) + lag
            # A partition without a commit says nothing of how well the others are read.
            if row.level.rank > reading.level.rank and row.state is not LagState.NO_COMMIT:
                reading.level = row.level
    return found


def topic_figures(
    topic: Topic,
    rows: Sequence[PartitionFigures],
    holdings: Holdings,
    reading: Reading,
    context: Context,
) -> TopicFigures:
    bytes_in: dict[int, float] = {}
    health = Health()
    for partition, row in zip(topic.partitions, rows, strict=True):
        count_partition(health, partition, row)
        if row.bytes_in_per_s is not None:
            bytes_in[partition.leader] = bytes_in.get(partition.leader, 0.0) + row.bytes_in_per_s
    rate = known_sum(row.offsets_per_s for row in rows)
    level, sentence = _judge(topic, health)
    return TopicFigures(
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic.is_internal,
        partitions=len(rows),
        replication_factor=len(topic.partitions[0].replicas) if topic.partitions else None,
        level=level,
        sentence=sentence,
        balance=balance(holdings.replicas, holdings.leaders, context.live_brokers, bytes_in, holdings.disk_bytes),
        health=health,
        produced_offsets=known_sum(each.end_offset for each in topic.partitions),
        end_offsets=whole_sum(each.end_offset for each in topic.partitions),
        start_offsets=whole_sum(each.log_start_offset for each in topic.partitions),
        held_offsets=known_sum(row.held_offsets for row in rows),
        leader_size_bytes=known_sum(row.leader_size_bytes for row in rows),
        size_bytes=known_sum(row.size_bytes for row in rows),
        offsets_per_s=rate,
        bytes_in_per_s=known_sum(row.bytes_in_per_s for row in rows),
        hottest_share=(known_max(row.offsets_per_s for row in rows) or 0.0) / rate if rate else None,
        groups=tuple(sorted(reading.lags)),
        worst_lag=known_max(reading.lags.values()),
        worst_lag_level=reading.level,
    )


def count_partition(count: Health, partition: Partition, row: PartitionFigures) -> None:
    if row.is_offline:
        count.offline += 1
    elif not row.is_preferred_leader:
        count.not_preferred += 1
    if row.is_under_replicated:
        count.under_replicated += 1
    if row.is_under_min_isr is None:
        count.unknown_min_isr += 1
    elif row.is_under_min_isr:
        count.under_min_isr += 1
    elif row.is_at_min_isr:
        count.at_min_isr += 1
    if partition.end_offset is None:
        count.unknown_offsets += 1
    if row.hanging_ms is not None:
        count.hanging_transactions += 1


def _judge(topic: Topic, health: Health) -> tuple[Level, str]:
    if health.offline:
        return Level.ERROR, f"{_has(health.offline)} no leader: clients cannot read or write there."
    if health.under_min_isr:
        return Level.ERROR, f"{_has(health.under_min_isr)} too few replicas in sync, and rejects writes with acks=all."
    if health.hanging_transactions:
        return Level.WARN, f"{_has(health.hanging_transactions)} a hanging transaction."
    if health.under_replicated:
        return Level.WARN, f"{_has(health.under_replicated)} replicas out of sync."
    if topic.error:
        return Level.UNKNOWN, f"Not all is known: {topic.error}"
    if health.unknown_offsets:
        return Level.UNKNOWN, f"The end offset of {plural(health.unknown_offsets, 'partition')} is not known."
    if health.unknown_min_isr:
        return Level.UNKNOWN, "All replicas are in sync; min.insync.replicas is not known."
    return Level.OK, "All replicas are in sync."


def _has(partitions: int) -> str:
    return f"{plural(partitions, 'partition')} {'has' if partitions == 1 else 'have'}"
