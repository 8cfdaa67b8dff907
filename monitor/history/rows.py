"""Makes the rows of a tick from a snapshot and its figures."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from highwater.monitor.events import partition_name
from highwater.monitor.figures.cluster import Figures
from highwater.monitor.figures.rows import PartitionRow
from highwater.monitor.history.kinds import (
    BROKER,
    CLIENT,
    CLUSTER,
    GROUP,
    GROUP_PARTITION,
    HOST,
    PARTITION,
    TOPIC,
    ClusterRow,
    Value,
    group_partition_name,
)
from highwater.monitor.history.tick import EntityKey, entity_key
from highwater.monitor.model import Snapshot

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
    clients = () if figures.felt is None else (*figures.felt.clients, figures.felt.all)
    cluster = ClusterRow(snapshot, figures, cost or {})
    return {
        CLUSTER.name: {entity_key(CLUSTER, snapshot.cluster): CLUSTER.values(cluster)},
        BROKER.name: {entity_key(BROKER, str(number)): BROKER.values(row) for number, row in figures.brokers.items()},
        TOPIC.name: {entity_key(TOPIC, name, row.topic_id): TOPIC.values(row) for name, row in figures.topics.items()},
        GROUP.name: {entity_key(GROUP, name): GROUP.values(row) for name, row in figures.groups.items()},
        **details,
        HOST.name: dict(_hosts(snapshot)),
        CLIENT.name: {entity_key(CLIENT, row.name): CLIENT.values(row) for row in clients},
    }


def read_at_ms(snapshot: Snapshot) -> dict[EntityKey, int]:
    """Return when agents read what the rows of hosts and of their brokers have, in Unix time: they may answer late."""
    read = {entity_key(BROKER, str(node_id)): broker.metrics_at_ms for node_id, broker in snapshot.brokers.items()}
    for name, host in snapshot.hosts.items():
        if host.answer is not None and host.is_new:
            read[entity_key(HOST, name, host.answer.boot_id)] = host.answered_at_ms
    return {key: snapshot.taken_at_ms + at_ms - snapshot.at_ms for key, at_ms in read.items() if at_ms is not None}


def _partitions(snapshot: Snapshot, figures: Figures) -> Iterator[tuple[EntityKey, tuple[Value, ...]]]:
    for name, topic in snapshot.topics.items():
        for partition, its_figures in zip(topic.partitions, figures.partitions.get(name, ()), strict=False):
            key = entity_key(PARTITION, partition_name(*partition.key), topic.topic_id)
            yield key, PARTITION.values(PartitionRow(partition, its_figures))


def _group_partitions(figures: Figures) -> Iterator[tuple[EntityKey, tuple[Value, ...]]]:
    for group, partitions in figures.group_partitions.items():
        for each in partitions:
            key = entity_key(GROUP_PARTITION, group_partition_name(group, each.topic, each.partition))
            yield key, GROUP_PARTITION.values(each)


def _hosts(snapshot: Snapshot) -> Iterator[tuple[EntityKey, tuple[Value, ...]]]:
    """Yield rows of hosts that answered since the tick before: counters that are read twice would make wrong rates."""
    for name, host in snapshot.hosts.items():
        if host.answer is not None and host.is_new and not host.error:
            # Counters begin anew with each boot, and a counter of the history rises from the beginning of its entity.
            yield entity_key(HOST, name, host.answer.boot_id), HOST.values(host.answer)
