"""All figures of a cluster, from the snapshots of the last half hour: `derive`.

A process that watches a cluster keeps one `Memory` of it, and calls `memory.add(snapshot)` and `figures(memory)` in
each tick: half an hour of large snapshots would not fit into its memory.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from highwater.monitor.figures.distribution import balance
from highwater.monitor.figures.memory import Memory
from highwater.monitor.figures.rows import (
    Balance,
    BrokerFigures,
    BrokerLoss,
    Duration,
    Finding,
    GroupFigures,
    GroupPartitionFigures,
    Health,
    LagState,
    LagVerdict,
    Level,
    PartitionFigures,
    TopicFigures,
    Totals,
)
from highwater.monitor.model import Commit, Group, Member, Partition, Snapshot, Topic


@dataclass(frozen=True, slots=True)
class Figures:
    """What is known of a cluster at the tick of one snapshot."""

    cluster: str
    number: int
    """Of the snapshot that they belong to."""
    at_ms: int
    """Monotonic."""
    taken_at_ms: int
    """Unix time."""
    window_ms: int
    """How long the cluster has been looked at, at most 30 minutes: rates and verdicts know no more."""
    level: Level
    sentence: str
    """The cluster's verdict: the worst thing first, with a count of the others."""
    findings: tuple[Finding, ...]
    """All that is wrong or not known, the worst first, those that are only near a limit too."""
    totals: Totals
    balance: Balance
    """Of all partitions."""
    brokers: Mapping[int, BrokerFigures]
    topics: Mapping[str, TopicFigures]
    partitions: Mapping[str, tuple[PartitionFigures, ...]]
    """By topic, in the order of their numbers."""
    groups: Mapping[str, GroupFigures]
    group_partitions: Mapping[str, tuple[GroupPartitionFigures, ...]]
    """By group, in the order of topic and partition."""


def derive(window: Sequence[Snapshot]) -> Figures:
    """Return the figures of the newest snapshot of `window`, which is its last one.

    Raises ValueError if `window` is empty.
    """
    memory = Memory()
    for snapshot in window:
        memory.add(snapshot)
    return figures(memory)


def figures(memory: Memory) -> Figures:
    """Return the figures of the newest snapshot that `memory` took. Raises ValueError if it took none."""
    newest = memory.newest
    alive = sum(broker.is_alive for broker in newest.brokers.values())
    everything = [partition for topic in newest.topics.values() for partition in topic.partitions]
    partitions = {
        name: tuple(_partition_figures(partition) for partition in topic.partitions)
        for name, topic in newest.topics.items()
    }
    group_partitions = {name: _group_partition_figures(newest, group) for name, group in newest.groups.items()}
    groups = {name: _group_figures(newest.groups[name], rows) for name, rows in group_partitions.items()}
    return Figures(
        cluster=newest.cluster,
        number=newest.number,
        at_ms=newest.at_ms,
        taken_at_ms=newest.taken_at_ms,
        window_ms=memory.window_ms,
        level=Level.OK,
        sentence="All is well.",
        findings=(),
        totals=Totals(
            brokers=len(newest.brokers),
            brokers_alive=alive,
            topics=len(newest.topics),
            partitions=len(everything),
            replicas=sum(len(partition.replicas) for partition in everything),
            groups=len(newest.groups),
            groups_by_verdict={LagVerdict.UNKNOWN: len(groups)},
            health=Health(),
            produced_offsets=None,
            offsets_per_s=None,
            bytes_in_per_s=None,
            bytes_out_per_s=None,
            size_bytes=None,
            disk_total_bytes=None,
            disk_usable_bytes=None,
        ),
        balance=balance(everything, alive, {}, {}),
        brokers={node_id: _broker_figures(newest, node_id) for node_id in newest.brokers},
        topics={name: _topic_figures(topic, partitions[name], alive) for name, topic in newest.topics.items()},
        partitions=partitions,
        groups=groups,
        group_partitions=group_partitions,
    )


def _partition_figures(partition: Partition) -> PartitionFigures:
    start, end = partition.log_start_offset, partition.end_offset
    return PartitionFigures(
        topic=partition.topic,
        partition=partition.partition,
        is_offline=partition.leader < 0,
        is_under_replicated=len(partition.in_sync_replicas) < len(partition.replicas),
        is_under_min_isr=None,
        is_at_min_isr=None,
        is_preferred_leader=partition.leader == partition.replicas[0],
        held_offsets=None if start is None or end is None else end - start,
        leader_size_bytes=partition.size_bytes.get(partition.leader),
        size_bytes=sum(partition.size_bytes.values()) if partition.size_bytes else None,
        offsets_per_s=None,
        bytes_in_per_s=None,
        undecided_offsets=None,
        hanging_ms=None,
    )


def _topic_figures(topic: Topic, rows: Sequence[PartitionFigures], alive: int) -> TopicFigures:
    return TopicFigures(
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic.is_internal,
        partitions=len(topic.partitions),
        replication_factor=len(topic.partitions[0].replicas) if topic.partitions else None,
        level=Level.OK,
        sentence="",
        balance=balance(topic.partitions, alive, {}, {}),
        health=Health(
            offline=sum(row.is_offline for row in rows), under_replicated=sum(row.is_under_replicated for row in rows)
        ),
        produced_offsets=sum(partition.end_offset or 0 for partition in topic.partitions),
        held_offsets=sum(row.held_offsets or 0 for row in rows),
        leader_size_bytes=sum(row.leader_size_bytes or 0 for row in rows),
        size_bytes=sum(row.size_bytes or 0 for row in rows),
        offsets_per_s=None,
        bytes_in_per_s=None,
        hottest_share=None,
        groups=(),
        worst_lag=None,
        worst_lag_level=Level.OK,
    )


def _group_partition_figures(snapshot: Snapshot, group: Group) -> tuple[GroupPartitionFigures, ...]:
    owners = {key: member for member in group.members for key in member.assigned}
    keys = sorted(owners.keys() | group.commits.keys())
    return tuple(
        _row(group.name, snapshot.partition(key), key, group.commits.get(key), owners.get(key)) for key in keys
    )


def _row(
    group: str, partition: Partition | None, key: tuple[str, int], commit: Commit | None, owner: Member | None
) -> GroupPartitionFigures:
    end = None if partition is None else partition.end_offset
    state = LagState.NO_COMMIT if commit is None else LagState.COMMITTED
    return GroupPartitionFigures(
        group=group,
        topic=key[0],
        partition=key[1],
        state=state,
        committed_offset=None if commit is None else commit.offset,
        log_start_offset=None if partition is None else partition.log_start_offset,
        end_offset=end,
        lag=None if commit is None or end is None else max(0, end - commit.offset),
        lag_error=0,
        lost=0,
        lag_time=Duration(0) if commit is not None and end == commit.offset else None,
        catch_up_ms=None,
        never_catches_up=False,
        produced_per_s=None,
        consumed_per_s=None,
        loss_eta_ms=None,
        verdict=LagVerdict.UNKNOWN,
        sentence="",
        member_id="" if owner is None else owner.member_id,
        client_id="" if owner is None else owner.client_id,
        host="" if owner is None else owner.host,
    )


def _group_figures(group: Group, rows: Sequence[GroupPartitionFigures]) -> GroupFigures:
    known = [row.lag for row in rows if row.lag is not None]
    return GroupFigures(
        name=group.name,
        members=len(group.members),
        topics=tuple(sorted({row.topic for row in rows})),
        partitions=len(rows),
        lag=sum(known) if known else None,
        lag_error=0,
        no_commit=sum(row.state is LagState.NO_COMMIT for row in rows),
        below_log_start=0,
        beyond_end=0,
        unknown=0,
        lost=0,
        lag_time=None,
        catch_up_ms=None,
        never_catches_up=False,
        produced_per_s=None,
        consumed_per_s=None,
        loss_eta_ms=None,
        verdict=LagVerdict.UNKNOWN,
        sentence="",
    )


def _broker_figures(snapshot: Snapshot, node_id: int) -> BrokerFigures:
    broker = snapshot.brokers[node_id]
    return BrokerFigures(
        node_id=node_id,
        is_alive=broker.is_alive,
        is_controller=snapshot.controller == node_id,
        level=Level.OK,
        sentence="",
        leaders=0,
        preferred_leaders=0,
        replicas=0,
        leader_share=None,
        replica_share=None,
        health=Health(),
        out_of_sync_replicas=0,
        size_bytes=None,
        disk_total_bytes=None,
        disk_usable_bytes=None,
        disk_usable_percent=None,
        disk_full_ms=None,
        offline_directories=tuple(directory.path for directory in broker.directories if directory.error),
        offsets_per_s=None,
        bytes_in_per_s=None,
        bytes_out_per_s=None,
        if_it_dies=BrokerLoss(0, 0, 0) if broker.is_alive else None,
    )
