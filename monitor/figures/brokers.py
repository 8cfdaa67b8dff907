"""Rows of brokers: what each leads and holds, its disks, and what depends on it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from highwater.common.units import percent_text, plural
from highwater.monitor.figures.broker_loss import BrokerLoss
from highwater.monitor.figures.health import min_isr
from highwater.monitor.figures.memory import BYTES_IN, BYTES_OUT, Memory, Points
from highwater.monitor.figures.rates import counter_per_s
from highwater.monitor.figures.rows import BrokerFigures, Health, Level, PartitionFigures
from highwater.monitor.figures.sums import known_sum
from highwater.monitor.figures.topics import Holdings, count_partition
from highwater.monitor.figures.trend import slope
from highwater.monitor.model import Broker, Snapshot

DISK_WARN_PERCENT = 15.0
DISK_ERROR_PERCENT = 5.0
_SAME_DISK = 0.01
"""Brokers say at different moments how much is left."""


@dataclass(slots=True)
class Tally:
    """What one broker leads and holds, counted while partitions are gone through."""

    leaders: int = 0
    preferred_leaders: int = 0
    replicas: int = 0
    out_of_sync: int = 0
    health: Health = field(default_factory=Health)
    loss: BrokerLoss = field(default_factory=BrokerLoss)
    size_bytes: int = 0
    knows_size: bool = False
    offsets_per_s: float = 0.0
    knows_rate: bool = False
    bytes_in_per_s: float = 0.0
    knows_bytes: bool = False


def tally(
    snapshot: Snapshot,
    rows: Mapping[str, Sequence[PartitionFigures]],
    holdings: Mapping[str, Holdings],
    default_min_isr: int | None,
) -> dict[int, Tally]:
    """Return the counts of all brokers that the snapshot or a partition names."""
    tallies = {node_id: Tally() for node_id in snapshot.brokers}
    for topic in snapshot.topics.values():
        limit = min_isr(topic, default_min_isr)
        held = holdings[topic.name]
        for broker, count in held.replicas.items():
            if broker not in tallies:
                tallies[broker] = Tally()
            tallies[broker].replicas += count
        for broker, size in held.disk_bytes.items():
            if (one := tallies.get(broker)) is not None:
                one.size_bytes += size
                one.knows_size = True
        for partition, row in zip(topic.partitions, rows[topic.name], strict=True):
            in_sync = partition.in_sync_replicas
            # Mostly only the leader's death changes anything; partitions are many.
            if limit is None or len(in_sync) <= max(limit, 1) or len(in_sync) < len(partition.replicas):
                for broker in partition.replicas:
                    if broker not in in_sync:
                        tallies[broker].out_of_sync += 1
                    tallies[broker].loss.add(broker, partition, limit)
            elif partition.leader in tallies:
                tallies[partition.leader].loss.add(partition.leader, partition, limit)
            if not partition.replicas:
                continue
            tallies[partition.replicas[0]].preferred_leaders += 1
            one = tallies.get(partition.leader)
            if one is None:
                count_partition(tallies[partition.replicas[0]].health, partition, row)
                continue
            one.leaders += 1
            count_partition(one.health, partition, row)
            if row.offsets_per_s is not None:
                one.offsets_per_s += row.offsets_per_s
                one.knows_rate = True
            if row.bytes_in_per_s is not None:
                one.bytes_in_per_s += row.bytes_in_per_s
                one.knows_bytes = True
    return tallies


def broker_figures(broker: Broker, memory: Memory, tallies: Mapping[int, Tally]) -> BrokerFigures:
    own = tallies[broker.node_id]
    leaders = sum(each.leaders for each in tallies.values())
    replicas = sum(each.replicas for each in tallies.values())
    read_ms = memory.newest.at_ms if broker.metrics_at_ms is None else broker.metrics_at_ms
    counted_in = counter_per_s(memory.counters.get((broker.node_id, BYTES_IN)), read_ms)
    estimated_in = own.bytes_in_per_s if own.knows_bytes else None
    percents = [
        100 * directory.usable_bytes / directory.total_bytes
        for directory in broker.directories
        if directory.usable_bytes is not None and directory.total_bytes
    ]
    full = (full_ms(memory.usable_bytes.get((broker.node_id, each.path))) for each in broker.directories)
    offline = tuple(directory.path for directory in broker.directories if directory.error)
    least_percent = min(percents, default=None)
    level, sentence = _judge(broker, own, offline, least_percent)
    return BrokerFigures(
        node_id=broker.node_id,
        is_alive=broker.is_alive,
        is_controller=memory.newest.controller == broker.node_id,
        level=level,
        sentence=sentence,
        leaders=own.leaders,
        preferred_leaders=own.preferred_leaders,
        replicas=own.replicas,
        leader_share=own.leaders / leaders if leaders else None,
        replica_share=own.replicas / replicas if replicas else None,
        health=own.health,
        out_of_sync_replicas=own.out_of_sync,
        size_bytes=own.size_bytes if own.knows_size else None,
        disk_total_bytes=known_sum(directory.total_bytes for directory in broker.directories),
        disk_usable_bytes=known_sum(directory.usable_bytes for directory in broker.directories),
        disk_usable_percent=least_percent,
        disk_full_ms=min((eta for eta in full if eta is not None), default=None),
        offline_directories=offline,
        offsets_per_s=own.offsets_per_s if own.knows_rate else None,
        bytes_in_per_s=estimated_in if counted_in is None else counted_in,
        bytes_out_per_s=counter_per_s(memory.counters.get((broker.node_id, BYTES_OUT)), read_ms),
        metrics=broker.metrics,
        if_it_dies=own.loss if broker.is_alive else None,
    )


def full_ms(points: Points | None) -> float | None:
    """Return the time until usable bytes are 0 at their trend; None if they do not fall for certain, or too few."""
    if points is None:
        return None
    trend = slope([at_ms for at_ms, _ in points], [usable for _, usable in points])
    return points[-1][1] / -trend.median if trend is not None and trend.high < 0 else None


def _judge(broker: Broker, own: Tally, offline: Sequence[str], usable_percent: float | None) -> tuple[Level, str]:
    if not broker.is_alive:
        return Level.ERROR, f"It is gone: the cluster does not list it. {plural(own.replicas, 'replica')} are on it."
    if offline:
        return Level.ERROR, f"Log directory {offline[0]} is offline: {_error_of(broker, offline[0])}"
    if usable_percent is not None and usable_percent < DISK_WARN_PERCENT:
        level = Level.ERROR if usable_percent < DISK_ERROR_PERCENT else Level.WARN
        return level, f"Only {percent_text(usable_percent / 100)} of a disk is usable."
    if broker.error:
        return Level.UNKNOWN, f"It did not answer: {broker.error}"
    if own.out_of_sync:
        return Level.WARN, f"{plural(own.out_of_sync, 'replica')} on it {_is(own.out_of_sync)} out of sync."
    return Level.OK, "All replicas on it are in sync."


def _error_of(broker: Broker, path: str) -> str:
    return next(directory.error for directory in broker.directories if directory.path == path)


def _is(count: int) -> str:
    return "is" if count == 1 else "are"


def sharing_a_disk(snapshot: Snapshot, brokers: Mapping[int, BrokerFigures]) -> dict[int, tuple[int, ...]]:
    """Brokers of one host whose file systems have the same size and fill: the first has the others, the others nobody.

    A disk counts once, and is one finding when it fills, however many brokers are on it. Brokers of which host or disk
    is not known are left out.
    """
    first: dict[tuple[str, int], BrokerFigures] = {}
    sharing: dict[int, tuple[int, ...]] = {}
    for number, row in brokers.items():
        host, total, usable = snapshot.brokers[number].host, row.disk_total_bytes, row.disk_usable_bytes
        if not (host and total and usable is not None):
            continue
        other = first.setdefault((host, total), row)
        if other is row:
            sharing[number] = (number,)
        elif abs(usable - (other.disk_usable_bytes or 0)) < total * _SAME_DISK:
            sharing[other.node_id] += (number,)
            sharing[number] = ()
    return sharing
