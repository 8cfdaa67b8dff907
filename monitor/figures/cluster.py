"""All figures of a cluster, from the snapshots of the last half hour: `derive`.

A process that watches a cluster keeps one `Memory` of it, and calls `memory.add(snapshot)` and `figures(memory)` in
each tick: half an hour of large snapshots would not fit into its memory.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from highwater.common.ceilings import Ceilings
from highwater.kafka.client.host_processes import SETTINGS, HostProcesses, host_processes
from highwater.monitor.figures.brokers import broker_figures, sharing_a_disk, tally
from highwater.monitor.figures.clients import Felt, felt
from highwater.monitor.figures.distribution import balance
from highwater.monitor.figures.findings import findings, verdict
from highwater.monitor.figures.groups import GroupRows, group_figures
from highwater.monitor.figures.headroom import Headroom, headroom_of
from highwater.monitor.figures.health import default_min_isr
from highwater.monitor.figures.host_findings import findings_of_headroom, findings_of_hosts
from highwater.monitor.figures.hosts import HostFigures, host_figures
from highwater.monitor.figures.memory import Memory
from highwater.monitor.figures.rates import consumed_per_s, produced_per_s
from highwater.monitor.figures.rows import (
    Balance,
    BrokerFigures,
    Finding,
    GroupFigures,
    GroupPartitionFigures,
    Health,
    LagVerdict,
    Level,
    PartitionFigures,
    TopicFigures,
    Totals,
    TransactionFigures,
)
from highwater.monitor.figures.sums import known_sum
from highwater.monitor.figures.topics import UNREAD, Context, holdings_of, partition_figures, readings_of, topic_figures
from highwater.monitor.figures.transactions import hanging, transaction_figures
from highwater.monitor.model import Snapshot


@dataclass(frozen=True, slots=True)
class Figures:
    """What is known of a cluster at the tick of one snapshot."""

    cluster: str
    number: int
    """The number of the snapshot that the figures belong to."""
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
    """The balance of all partitions."""
    brokers: Mapping[int, BrokerFigures]
    topics: Mapping[str, TopicFigures]
    partitions: Mapping[str, tuple[PartitionFigures, ...]]
    """Rows by topic, in the order of partition numbers."""
    groups: Mapping[str, GroupFigures]
    group_partitions: Mapping[str, tuple[GroupPartitionFigures, ...]]
    """Rows by group, in the order of topic and partition."""
    transactions: tuple[TransactionFigures, ...] = ()
    """Open for long, in the order of partition and start offset."""
    hosts: Mapping[str, HostFigures] = field(default_factory=dict)
    felt: Felt | None = None
    """Latency and errors as clients feel them; None if none pushes."""
    headroom: tuple[Headroom, ...] = ()
    """A row for each broker and resource; empty without hosts and without ceilings."""


def derive(window: Sequence[Snapshot], ceilings: Sequence[Ceilings] = ()) -> Figures:
    """Return the figures of the newest snapshot of `window`, which is its last one.

    Raises ValueError if `window` is empty.
    """
    memory = Memory()
    for snapshot in window:
        memory.add(snapshot)
    return figures(memory, ceilings)


def figures(memory: Memory, ceilings: Sequence[Ceilings] = ()) -> Figures:
    """Return the figures of the newest snapshot that `memory` took. Raises ValueError if it took none."""
    newest = memory.newest
    alive = sum(broker.is_alive for broker in newest.brokers.values())
    default = default_min_isr(newest)
    undecided = memory.undecided.by_partition
    transactions = transaction_figures(newest, undecided)
    context = Context(
        memory=memory,
        rates=produced_per_s(memory),
        live_brokers=alive,
        default_min_isr=default,
        hanging=hanging(transactions, undecided, newest),
        reassigning=newest.reassigning,
    )
    partitions = {name: partition_figures(topic, context) for name, topic in newest.topics.items()}
    rows = GroupRows(memory, partitions, consumed_per_s(memory))
    group_partitions = {name: rows.of(group) for name, group in newest.groups.items()}
    groups = {name: group_figures(group, group_partitions[name]) for name, group in newest.groups.items()}
    readings = readings_of(group_partitions)
    holdings = {name: holdings_of(topic) for name, topic in newest.topics.items()}
    topics = {
        name: topic_figures(topic, partitions[name], holdings[name], readings.get(name, UNREAD), context)
        for name, topic in newest.topics.items()
    }
    tallies = tally(newest, partitions, holdings, default)
    brokers = {node_id: broker_figures(broker, memory, tallies) for node_id, broker in newest.brokers.items()}
    totals = _totals(newest, topics, brokers, groups)
    tick_ms = newest.at_ms - memory.ticks[-2].at_ms if len(memory.ticks) > 1 else 0
    hosts = {name: host_figures(host, memory.hosts[name], newest) for name, host in newest.hosts.items()}
    left = headroom_of(newest, brokers, partitions, hosts, ceilings)
    of_hosts = (*findings_of_hosts(newest), *findings_of_headroom(left, newest.hosts))
    found = findings(newest, totals, brokers, topics, groups, transactions, tick_ms, of_hosts)
    level, sentence = verdict(newest, totals, found)
    return Figures(
        cluster=newest.cluster,
        number=newest.number,
        at_ms=newest.at_ms,
        taken_at_ms=newest.taken_at_ms,
        window_ms=memory.window_ms,
        level=level,
        sentence=sentence,
        findings=found,
        totals=totals,
        balance=_balance(brokers, alive),
        brokers=brokers,
        topics=topics,
        partitions=partitions,
        groups=groups,
        group_partitions=group_partitions,
        transactions=transactions,
        hosts=hosts,
        felt=felt(newest.client_metrics),
        headroom=left,
    )


def _totals(
    snapshot: Snapshot,
    topics: Mapping[str, TopicFigures],
    brokers: Mapping[int, BrokerFigures],
    groups: Mapping[str, GroupFigures],
) -> Totals:
    health = Health()
    for topic in topics.values():
        health.add(topic.health)
    sharing = sharing_a_disk(snapshot, brokers)
    with_disks = [row for number, row in brokers.items() if sharing.get(number) != ()]
    return Totals(
        brokers=len(brokers),
        brokers_alive=sum(row.is_alive for row in brokers.values()),
        topics=len(topics),
        partitions=sum(row.partitions for row in topics.values()),
        replicas=sum(len(one.replicas) for topic in snapshot.topics.values() for one in topic.partitions),
        groups=len(groups),
        groups_by_verdict=Counter(row.verdict for row in groups.values()),
        unjudged_groups=sum(
            row.verdict is LagVerdict.UNKNOWN and row.no_commit < row.partitions for row in groups.values()
        ),
        idle_groups=sum(_is_idle(row) for row in groups.values()),
        health=health,
        produced_offsets=known_sum(row.produced_offsets for row in topics.values()),
        offsets_per_s=known_sum(row.offsets_per_s for row in topics.values()),
        bytes_in_per_s=known_sum(row.bytes_in_per_s for row in brokers.values()),
        bytes_out_per_s=known_sum(row.bytes_out_per_s for row in brokers.values()),
        size_bytes=known_sum(row.size_bytes for row in topics.values()),
        disk_total_bytes=known_sum(row.disk_total_bytes for row in with_disks),
        disk_usable_bytes=known_sum(row.disk_usable_bytes for row in with_disks),
        processes=_processes(snapshot),
    )


def _processes(snapshot: Snapshot) -> HostProcesses | None:
    told = {node_id: broker.config for node_id, broker in snapshot.brokers.items() if broker.config is not None}
    return host_processes(
        {
            node_id: {name: entry.value for name in SETTINGS if (entry := config.get(name)) is not None}
            for node_id, config in told.items()
        }
    )


def _is_idle(row: GroupFigures) -> bool:
    return row.level is Level.UNKNOWN and row.verdict in (LagVerdict.STOP, LagVerdict.LOSS)


def _balance(brokers: Mapping[int, BrokerFigures], alive: int) -> Balance:
    return balance(
        {node_id: row.replicas for node_id, row in brokers.items() if row.replicas},
        {node_id: row.leaders for node_id, row in brokers.items() if row.leaders},
        alive,
        {node_id: row.bytes_in_per_s for node_id, row in brokers.items() if row.bytes_in_per_s is not None},
        {node_id: row.size_bytes for node_id, row in brokers.items() if row.size_bytes is not None},
    )
