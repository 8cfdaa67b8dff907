"""Makes the rows of a tick from a snapshot and its figures."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from highwater.common.host_answer import HostAnswer
from highwater.monitor.events import partition_name
from highwater.monitor.figures.cluster import Figures
from highwater.monitor.figures.rows import Duration, TopicFigures
from highwater.monitor.history.kinds import (
    BROKER,
    CLUSTER,
    GROUP,
    GROUP_PARTITION,
    HOST,
    PARTITION,
    TOPIC,
    Value,
    group_partition_name,
)
from highwater.monitor.history.tick import EntityKey, entity_key, storable
from highwater.monitor.model import Broker, Snapshot, Topic

_TOPIC_METRICS: Final = "kafka_server_brokertopicmetrics_"
# Column -> the metric of a broker's page (docs/metrics.md).
_BROKER_METRICS: Final = {
    "bytes_in": f"{_TOPIC_METRICS}bytesin_total",
    "bytes_out": f"{_TOPIC_METRICS}bytesout_total",
    "messages_in": f"{_TOPIC_METRICS}messagesin_total",
    "replication_bytes_in": f"{_TOPIC_METRICS}replicationbytesin_total",
    "replication_bytes_out": f"{_TOPIC_METRICS}replicationbytesout_total",
    "produce_requests": f"{_TOPIC_METRICS}totalproducerequests_total",
    "fetch_requests": f"{_TOPIC_METRICS}totalfetchrequests_total",
    "connections": "kafka_server_socketservermetrics_connection_count",
    "cpu_s": "process_cpu_seconds_total",
    "rss_bytes": "process_resident_memory_bytes",
}

Rows = dict[EntityKey, tuple[Value, ...]]


def rows_of(
    snapshot: Snapshot, figures: Figures, cost: Mapping[str, Value] | None = None, *, has_details: bool = True
) -> dict[str, Rows]:
    """Return the values of all entities, by the name of their kind.

    cost: of the monitor itself, by the columns of CLUSTER. has_details: with the kinds that are details.
    """
    details: dict[str, Rows] = {}
    if has_details:
        details[PARTITION.name] = dict(_partitions(snapshot, figures))
        details[GROUP_PARTITION.name] = dict(_group_partitions(figures))
    return {
        CLUSTER.name: {entity_key(CLUSTER, snapshot.cluster): _cluster(snapshot, figures, cost or {})},
        BROKER.name: dict(_brokers(snapshot, figures)),
        TOPIC.name: dict(_topics(snapshot, figures)),
        GROUP.name: dict(_groups(snapshot, figures)),
        **details,
        HOST.name: dict(_hosts(snapshot)),
    }


def read_at_ms(snapshot: Snapshot) -> dict[EntityKey, int]:
    """Return when agents read what the rows of hosts and of their brokers have, in Unix time: they may answer late."""
    read = {entity_key(BROKER, str(node_id)): broker.metrics_at_ms for node_id, broker in snapshot.brokers.items()}
    for name, host in snapshot.hosts.items():
        if host.answer is not None and host.is_new:
            read[entity_key(HOST, name, host.answer.boot_id)] = host.answered_at_ms
    return {key: snapshot.taken_at_ms + at_ms - snapshot.at_ms for key, at_ms in read.items() if at_ms is not None}


def _cluster(snapshot: Snapshot, figures: Figures, cost: Mapping[str, Value]) -> tuple[Value, ...]:
    totals = figures.totals
    values: dict[str, Value] = {
        "brokers": totals.brokers_alive,
        "controller": snapshot.controller,
        "topics": totals.topics,
        "partitions": totals.partitions,
        "offline": totals.health.offline,
        "under_replicated": totals.health.under_replicated,
        "under_min_isr": totals.health.under_min_isr,
        "groups": totals.groups,
        "lag": _sum(group.lag for group in figures.groups.values()),
        "end_offsets": totals.produced_offsets,
        "size_bytes": totals.size_bytes,
        "requests": sum(source.requests for source in snapshot.sources.values()),
        **cost,
    }
    return tuple(values.get(column.name) for column in CLUSTER.columns)


def _brokers(snapshot: Snapshot, figures: Figures) -> Iterator[tuple[EntityKey, tuple[Value, ...]]]:
    for node_id, broker in figures.brokers.items():
        known = snapshot.brokers.get(node_id)
        total, usable = broker.disk_total_bytes, broker.disk_usable_bytes
        values: dict[str, Value] = {
            "up": int(broker.is_alive),
            "is_controller": int(broker.is_controller),
            "leaders": broker.leaders,
            "replicas": broker.replicas,
            "under_replicated": broker.health.under_replicated,
            "size_bytes": broker.size_bytes,
            "disk_used_bytes": None if total is None or usable is None else total - usable,
            "disk_total_bytes": total,
            **(_metrics(known) if known is not None else {}),
        }
        key = entity_key(BROKER, str(node_id))
        yield key, tuple(values.get(column.name) for column in BROKER.columns)


def _metrics(broker: Broker) -> dict[str, Value]:
    if broker.metrics is None:
        return {}
    return {column: broker.metrics.get(name) for column, name in _BROKER_METRICS.items()}


def _topics(snapshot: Snapshot, figures: Figures) -> Iterator[tuple[EntityKey, tuple[Value, ...]]]:
    for name, topic in figures.topics.items():
        known = snapshot.topics.get(name)
        yield entity_key(TOPIC, name, topic.topic_id), _topic(topic, known)


def _topic(topic: TopicFigures, known: Topic | None) -> tuple[Value, ...]:
    """Return values in the order of TOPIC's columns. An incomplete sum is None: it would make a wrong rate."""
    partitions = known.partitions if known is not None else ()
    return (
        _complete_sum(partition.end_offset for partition in partitions),
        _complete_sum(partition.log_start_offset for partition in partitions),
        topic.size_bytes,
        topic.leader_size_bytes,
        topic.partitions,
        topic.health.under_replicated,
        topic.health.under_min_isr,
        topic.health.offline,
        topic.balance.spread_percent,
        topic.balance.skew_percent,
        topic.balance.leader_skew_percent,
    )


def _groups(snapshot: Snapshot, figures: Figures) -> Iterator[tuple[EntityKey, tuple[Value, ...]]]:
    for name, group in figures.groups.items():
        known = snapshot.groups.get(name)
        yield (
            entity_key(GROUP, name),
            (
                known.state.value if known is not None else None,
                group.members,
                group.lag,
                _seconds(group.lag_time),
                group.partitions,
                group.no_commit,
                group.verdict.value,
            ),
        )


def _partitions(snapshot: Snapshot, figures: Figures) -> Iterator[tuple[EntityKey, tuple[Value, ...]]]:
    for name, topic in snapshot.topics.items():
        for partition, its_figures in zip(topic.partitions, figures.partitions.get(name, ()), strict=False):
            yield (
                entity_key(PARTITION, partition_name(*partition.key), topic.topic_id),
                (
                    partition.leader,
                    partition.leader_epoch,
                    partition.end_offset,
                    partition.log_start_offset,
                    partition.last_stable_offset,
                    its_figures.size_bytes,
                    len(partition.in_sync_replicas),
                ),
            )


def _group_partitions(figures: Figures) -> Iterator[tuple[EntityKey, tuple[Value, ...]]]:
    for group, partitions in figures.group_partitions.items():
        for each in partitions:
            yield (
                entity_key(GROUP_PARTITION, group_partition_name(group, each.topic, each.partition)),
                (
                    each.committed_offset,
                    each.lag,
                    _seconds(each.lag_time),
                    each.verdict.value,
                    storable(each.client_id),
                ),
            )


def _hosts(snapshot: Snapshot) -> Iterator[tuple[EntityKey, tuple[Value, ...]]]:
    """Yield rows of hosts that answered since the tick before: counters that are read twice would make wrong rates."""
    for name, host in snapshot.hosts.items():
        if host.answer is not None and host.is_new and not host.error:
            # Counters begin anew with each boot, and a counter of the history rises from the beginning of its entity.
            yield entity_key(HOST, name, host.answer.boot_id), _host(host.answer)


def _host(answer: HostAnswer) -> tuple[Value, ...]:
    memory, tuning = answer.memory, answer.tuning
    values: dict[str, Value] = {
        "cpu_busy_s": round(answer.cpu.busy_s, 2),
        "cpu_steal_s": round(answer.cpu.steal_s, 2),
        "io_wait_s": answer.pressure_s.get("io_some"),
        "memory_available_bytes": memory.available_bytes,
        "page_cache_bytes": max(0, memory.cached_bytes - memory.shared_bytes),
        "dirty_bytes": memory.dirty_bytes,
        "writeback_bytes": memory.writeback_bytes,
        "log_bytes": _complete_sum(each.log_bytes for each in answer.directories),
        "resident_bytes": _complete_sum(each.resident_bytes for each in answer.directories),
        "disk_read_bytes": _complete_sum(disk.read_bytes for disk in answer.disks),
        "disk_written_bytes": _complete_sum(disk.written_bytes for disk in answer.disks),
        "disk_busy_s": sum(disk.busy_ms for disk in answer.disks) / 1000 if answer.disks else None,
        "broker_read_bytes": _complete_sum(broker.read_bytes for broker in answer.brokers),
        "received_bytes": answer.network.received_bytes,
        "sent_bytes": answer.network.sent_bytes,
        "drifted": None if tuning is None else len(tuning.drift),
        "tuning": None if tuning is None else storable(tuning.fingerprint),
        "kernel": storable(answer.kernel),
    }
    return tuple(values.get(column.name) for column in HOST.columns)


def _seconds(duration: Duration | None) -> float | None:
    return None if duration is None else round(duration.ms / 1000, 1)


def _sum(values: Iterable[int | None]) -> int | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def _complete_sum(values: Iterable[int | None]) -> int | None:
    total, count = 0, 0
    for value in values:
        if value is None:
            return None
        total += value
        count += 1
    return total if count else None
