"""Writes the page for Prometheus with the names of kafka_exporter, kafka-lag-exporter, and its own."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from highwater.common.prometheus_text import COUNTER, GAUGE, Family
from highwater.monitor.figures.cluster import Figures
from highwater.monitor.figures.rows import LagVerdict, Level, TransactionVerdict
from highwater.monitor.host_metrics import headroom_families, host_families
from highwater.monitor.model import Snapshot
from highwater.monitor.state import MonitorState

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"


def metrics_page(
    view: tuple[Snapshot, Figures] | None, state: MonitorState, now_ms: int, *, has_partitions: bool = False
) -> Iterator[str]:
    """Make the page in Prometheus' text format piece by piece, as it is large for a large cluster.

    view: None before the first snapshot: then only what the monitor says of itself. now_ms: Unix time.
    has_partitions: whether each partition has series of its own.
    """
    for family in _families(view, state, now_ms, has_partitions):
        if text := family.text:
            yield text


def _families(
    view: tuple[Snapshot, Figures] | None, state: MonitorState, now_ms: int, has_partitions: bool
) -> Iterator[Family]:
    if view is not None:
        snapshot, figures = view
        yield from _cluster(snapshot, figures)
        yield from _topics(snapshot, figures, has_partitions)
        yield from _groups(snapshot, figures, has_partitions)
        yield from _transactions(figures)
        yield from host_families(snapshot, figures)
        yield from headroom_families(figures.headroom)
    yield from _own(view, state, now_ms)


def _cluster(snapshot: Snapshot, figures: Figures) -> Iterable[Family]:
    brokers = Family("kafka_brokers", GAUGE, "Brokers that are alive.")
    brokers.add(figures.totals.brokers_alive)
    info = Family("kafka_broker_info", GAUGE, "The address of a broker; always 1.")
    for broker in snapshot.brokers.values():
        if broker.is_alive:
            info.add(1, id=broker.node_id, address=f"{broker.host}:{broker.port}")
    return brokers, info


def _topics(snapshot: Snapshot, figures: Figures, has_partitions: bool) -> Iterator[Family]:
    count = Family("kafka_topic_partitions", GAUGE, "Partitions of a topic.")
    produced = Family("highwater_monitor_topic_offsets", GAUGE, "Sum of the end offsets of a topic.")
    size = Family("highwater_monitor_topic_size_bytes", GAUGE, "Size of a topic with all replicas.")
    spread = Family("highwater_monitor_topic_spread_ratio", GAUGE, "Share of the live brokers that hold a replica.")
    skew = Family("highwater_monitor_topic_skew_ratio", GAUGE, "Share of its brokers with too many replicas.")
    leader_skew = Family(
        "highwater_monitor_topic_leader_skew_ratio", GAUGE, "Share of its brokers with too many leaders."
    )
    for name, topic in figures.topics.items():
        count.add(topic.partitions, topic=name)
        produced.add(topic.produced_offsets, topic=name)
        size.add(topic.size_bytes, topic=name)
        spread.add(_ratio(topic.balance.spread_percent), topic=name)
        skew.add(_ratio(topic.balance.skew_percent), topic=name)
        leader_skew.add(_ratio(topic.balance.leader_skew_percent), topic=name)
    yield from (count, produced, size, spread, skew, leader_skew)
    if has_partitions:
        yield from _partitions(snapshot)
        yield from _min_isr(figures)


def _partitions(snapshot: Snapshot) -> Iterable[Family]:
    start = "kafka_topic_partition_"
    current = Family(f"{start}current_offset", GAUGE, "End offset of a partition.")
    oldest = Family(f"{start}oldest_offset", GAUGE, "Log start offset of a partition.")
    in_sync = Family(f"{start}in_sync_replica", GAUGE, "In-sync replicas of a partition.")
    leader = Family(f"{start}leader", GAUGE, "Node id of the leader; -1 without one.")
    preferred = Family(f"{start}leader_is_preferred", GAUGE, "1 if the first replica leads.")
    replicas = Family(f"{start}replicas", GAUGE, "Replicas of a partition.")
    under = Family(f"{start}under_replicated_partition", GAUGE, "1 if a replica is out of sync.")
    for name, topic in snapshot.topics.items():
        for each in topic.partitions:
            labels = {"topic": name, "partition": each.partition}
            current.add(each.end_offset, **labels)
            oldest.add(each.log_start_offset, **labels)
            in_sync.add(len(each.in_sync_replicas), **labels)
            leader.add(each.leader, **labels)
            preferred.add(int(each.replicas[:1] == (each.leader,)), **labels)
            replicas.add(len(each.replicas), **labels)
            under.add(int(len(each.in_sync_replicas) < len(each.replicas)), **labels)
    return current, oldest, in_sync, leader, preferred, replicas, under


def _min_isr(figures: Figures) -> Iterable[Family]:
    """Brokers have these names too; Strimzi's dashboard shows them beside those of kafka_exporter."""
    start = "kafka_cluster_partition_"
    at_limit = Family(f"{start}atminisr", GAUGE, "1 if one lost replica more would make writes with acks=all fail.")
    under = Family(f"{start}underminisr", GAUGE, "1 if writes with acks=all fail for lack of in-sync replicas.")
    for rows in figures.partitions.values():
        for row in rows:
            if row.is_under_min_isr is not None:
                labels = {"topic": row.topic, "partition": row.partition}
                at_limit.add(int(bool(row.is_at_min_isr)), **labels)
                under.add(int(row.is_under_min_isr), **labels)
    return at_limit, under


def _groups(snapshot: Snapshot, figures: Figures, has_partitions: bool) -> Iterator[Family]:
    cluster = {"cluster_name": snapshot.cluster}
    members = Family("kafka_consumergroup_members", GAUGE, "Members of a group.")
    max_lag = Family("kafka_consumergroup_group_max_lag", GAUGE, "Largest lag of a partition of a group.")
    max_s = Family("kafka_consumergroup_group_max_lag_seconds", GAUGE, "Largest lag of a group in seconds.")
    total = Family("kafka_consumergroup_group_sum_lag", GAUGE, "Lag of a group in offsets.")
    verdict = Family("highwater_monitor_group_verdict", GAUGE, "1 for what the monitor concludes of a group.")
    no_commit = Family(
        "highwater_monitor_group_partitions_without_commit", GAUGE, "Partitions of a group without a commit."
    )
    for name, group in figures.groups.items():
        members.add(group.members, consumergroup=name)
        lags = [each.lag for each in figures.group_partitions.get(name, ()) if each.lag is not None]
        max_lag.add(max(lags, default=None), **cluster, group=name)
        max_s.add(None if group.lag_time is None else group.lag_time.ms / 1000, **cluster, group=name)
        total.add(group.lag, **cluster, group=name)
        for each in LagVerdict:
            verdict.add(int(each is group.verdict), group=name, verdict=each.value)
        no_commit.add(group.no_commit, group=name)
    yield from (members, max_lag, max_s, total, verdict, no_commit)
    yield from _group_topics(figures)
    if has_partitions:
        yield from _group_partitions(cluster, figures)


def _group_topics(figures: Figures) -> Iterable[Family]:
    start = "kafka_consumergroup_"
    offsets = Family(f"{start}current_offset_sum", GAUGE, "Sum of the committed offsets of a group in a topic.")
    lag = Family(f"{start}lag_sum", GAUGE, "Lag of a group in a topic, in offsets.")
    for name, partitions in figures.group_partitions.items():
        committed: dict[str, int] = defaultdict(int)
        behind: dict[str, int] = defaultdict(int)
        for each in partitions:
            if each.committed_offset is not None:
                committed[each.topic] += each.committed_offset
            if each.lag is not None:
                behind[each.topic] += each.lag
        for topic, value in committed.items():
            offsets.add(value, consumergroup=name, topic=topic)
        for topic, value in behind.items():
            lag.add(value, consumergroup=name, topic=topic)
    return offsets, lag


def _group_partitions(cluster: Mapping[str, str], figures: Figures) -> Iterable[Family]:
    start = "kafka_consumergroup_"
    offset = Family(f"{start}current_offset", GAUGE, "Committed offset of a group in a partition.")
    lag = Family(f"{start}lag", GAUGE, "Lag of a group in a partition, in offsets.")
    lag_s = Family(f"{start}group_lag_seconds", GAUGE, "Lag of a group in a partition, in seconds.")
    for name, partitions in figures.group_partitions.items():
        for each in partitions:
            labels = {"consumergroup": name, "topic": each.topic, "partition": each.partition}
            offset.add(each.committed_offset, **labels)
            lag.add(each.lag, **labels)
            seconds = None if each.lag_time is None else each.lag_time.ms / 1000
            member = {"member_host": each.host, "client_id": each.client_id}
            lag_s.add(seconds, **cluster, group=name, topic=each.topic, partition=each.partition, **member)
    return offset, lag, lag_s


def _transactions(figures: Figures) -> Iterable[Family]:
    start = "highwater_monitor_"
    counts = Family(f"{start}open_transactions", GAUGE, "Transactions open in a partition for long, by verdict.")
    oldest = Family(f"{start}oldest_transaction_seconds", GAUGE, "Age of the oldest transaction that is open for long.")
    for verdict in TransactionVerdict:
        rows = [row for row in figures.transactions if row.verdict is verdict]
        counts.add(len(rows), verdict=verdict.value)
        oldest.add(max((row.age_ms / 1000 for row in rows), default=0), verdict=verdict.value)
    return counts, oldest


def _own(view: tuple[Snapshot, Figures] | None, state: MonitorState, now_ms: int) -> Iterable[Family]:
    start = "highwater_monitor_"
    ticks = Family(f"{start}ticks_total", COUNTER, "Ticks with a snapshot since the start of the monitor.")
    ticks.add(state.ticks)
    failed = Family(f"{start}failed_ticks_total", COUNTER, "Ticks without a snapshot.")
    failed.add(state.failed_ticks)
    cpu = Family("process_cpu_seconds_total", COUNTER, "CPU time of the monitor.")
    cpu.add(state.cost.cpu_s)
    rss = Family("process_resident_memory_bytes", GAUGE, "Resident memory of the monitor.")
    rss.add(state.cost.rss_bytes)
    duration = Family(f"{start}tick_seconds", GAUGE, "Duration of the newest tick.")
    duration.add(state.cost.tick_ms / 1000)
    requests = Family(f"{start}tick_requests", GAUGE, "Requests of the newest tick.")
    requests.add(state.cost.requests)
    paused = Family(f"{start}history_paused", GAUGE, "1 while the history cannot be written.")
    if state.history is not None:
        paused.add(int(state.history.paused_since_ms is not None))
    age = Family(f"{start}snapshot_age_seconds", GAUGE, "Age of the newest snapshot.")
    source_up = Family(f"{start}source_up", GAUGE, "1 if a source answered all that it was asked.")
    level = Family(f"{start}cluster_level", GAUGE, "1 for how bad the worst finding is.")
    findings = Family(f"{start}findings", GAUGE, "Findings by kind and level.")
    if view is not None:
        snapshot, figures = view
        age.add(max(0, now_ms - snapshot.taken_at_ms) / 1000)
        for source in snapshot.sources.values():
            source_up.add(int(not source.error), source=source.name)
        for each in Level:
            level.add(int(each is figures.level), level=each.value)
        counts: dict[tuple[str, str], int] = defaultdict(int)
        for finding in figures.findings:
            if not finding.is_near:
                counts[finding.kind.value, finding.level.value] += 1
        for (kind, how_bad), number in counts.items():
            findings.add(number, kind=kind, level=how_bad)
    return ticks, failed, cpu, rss, duration, requests, paused, age, source_up, level, findings


def _ratio(percent: int | None) -> float | None:
    return None if percent is None else percent / 100
