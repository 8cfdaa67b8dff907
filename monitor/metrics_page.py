"""Writes the page for Prometheus with the names of kafka_exporter, kafka-lag-exporter, and its own."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from itertools import chain, product
from typing import Final, TypeVar

from highwater.common.prometheus_text import COUNTER, GAUGE, Family, Labels, LargeFamily
from highwater.monitor.figures.cluster import Figures
from highwater.monitor.figures.rows import (
    Duration,
    GroupFigures,
    GroupPartitionFigures,
    LagVerdict,
    Level,
    PartitionFigures,
    TopicFigures,
    TransactionVerdict,
)
from highwater.monitor.host_metrics import headroom_families, host_families
from highwater.monitor.model import Partition, Snapshot
from highwater.monitor.state import MonitorState

_Row = TypeVar("_Row")
CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"


def metrics_page(
    view: tuple[Snapshot, Figures] | None, state: MonitorState, now_ms: int, *, has_partitions: bool = False
) -> Iterator[str]:
    """Make the page in Prometheus' text format piece by piece, as it is large for a large cluster.

    view: None before the first snapshot: then only what the monitor says of itself. now_ms: Unix time.
    has_partitions: whether each partition has series of its own.
    """
    for family in _families(view, state, now_ms, has_partitions):
        yield from family.pieces()


def _families(
    view: tuple[Snapshot, Figures] | None, state: MonitorState, now_ms: int, has_partitions: bool
) -> Iterator[Family | LargeFamily]:
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


def _topics(snapshot: Snapshot, figures: Figures, has_partitions: bool) -> Iterator[LargeFamily]:
    values: tuple[tuple[str, str, Callable[[TopicFigures], float | None]], ...] = (
        ("kafka_topic_partitions", "Partitions of a topic.", lambda topic: topic.partitions),
        ("highwater_monitor_topic_offsets", "Sum of the end offsets of a topic.", lambda topic: topic.produced_offsets),
        (
            "highwater_monitor_topic_size_bytes",
            "Size of a topic with all replicas.",
            lambda topic: topic.size_bytes,
        ),
        (
            "highwater_monitor_topic_spread_ratio",
            "Share of the live brokers that hold a replica.",
            lambda topic: _ratio(topic.balance.spread_percent),
        ),
        (
            "highwater_monitor_topic_skew_ratio",
            "Share of its brokers with too many replicas.",
            lambda topic: _ratio(topic.balance.skew_percent),
        ),
        (
            "highwater_monitor_topic_leader_skew_ratio",
            "Share of its brokers with too many leaders.",
            lambda topic: _ratio(topic.balance.leader_skew_percent),
        ),
    )
    for name, help_text, value in values:
        yield _large(name, help_text, figures.topics.values(), value, lambda topic: {"topic": topic.name})
    if has_partitions:
        yield from _partitions(snapshot)
        yield from _min_isr(figures)


def _partitions(snapshot: Snapshot) -> Iterator[LargeFamily]:
    values: tuple[tuple[str, str, Callable[[Partition], float | None]], ...] = (
        ("current_offset", "End offset of a partition.", lambda each: each.end_offset),
        ("oldest_offset", "Log start offset of a partition.", lambda each: each.log_start_offset),
        ("in_sync_replica", "In-sync replicas of a partition.", lambda each: len(each.in_sync_replicas)),
        ("leader", "Node id of the leader; -1 without one.", lambda each: each.leader),
        (
            "leader_is_preferred",
            "1 if the first replica leads.",
            lambda each: int(each.replicas[:1] == (each.leader,)),
        ),
        ("replicas", "Replicas of a partition.", lambda each: len(each.replicas)),
        (
            "under_replicated_partition",
            "1 if a replica is out of sync.",
            lambda each: int(len(each.in_sync_replicas) < len(each.replicas)),
        ),
    )
    for name, help_text, value in values:
        rows = chain.from_iterable(topic.partitions for topic in snapshot.topics.values())
        yield _large(f"kafka_topic_partition_{name}", help_text, rows, value, _labels_of_partition)


def _min_isr(figures: Figures) -> Iterator[LargeFamily]:
    """Brokers have these names too; Strimzi's dashboard shows them beside those of kafka_exporter."""
    values: tuple[tuple[str, str, Callable[[PartitionFigures], bool | None]], ...] = (
        (
            "atminisr",
            "1 if one lost replica more would make writes with acks=all fail.",
            lambda row: row.is_at_min_isr,
        ),
        (
            "underminisr",
            "1 if writes with acks=all fail for lack of in-sync replicas.",
            lambda row: row.is_under_min_isr,
        ),
    )
    for name, help_text, value in values:
        rows = chain.from_iterable(figures.partitions.values())
        yield _large(f"kafka_cluster_partition_{name}", help_text, rows, value, _labels_of_partition)


def _groups(snapshot: Snapshot, figures: Figures, has_partitions: bool) -> Iterator[LargeFamily]:
    groups = figures.groups.values()
    cluster = {"cluster_name": snapshot.cluster}
    start = "kafka_consumergroup_"
    of_group: tuple[tuple[str, str, Callable[[GroupFigures], float | None]], ...] = (
        (
            "max_lag",
            "Largest lag of a partition of a group.",
            lambda group: max(_known_lags(figures.group_partitions.get(group.name, ())), default=None),
        ),
        ("max_lag_seconds", "Largest lag of a group in seconds.", lambda group: _seconds(group.lag_time)),
        ("sum_lag", "Lag of a group in offsets.", lambda group: group.lag),
    )
    yield _large(
        f"{start}members",
        "Members of a group.",
        groups,
        lambda group: group.members,
        lambda group: {"consumergroup": group.name},
    )
    for name, help_text, value in of_group:
        yield _large(f"{start}group_{name}", help_text, groups, value, lambda group: {**cluster, "group": group.name})
    yield _large(
        "highwater_monitor_group_verdict",
        "1 for what the monitor concludes of a group.",
        product(groups, LagVerdict),
        lambda pair: pair[0].verdict is pair[1],
        lambda pair: {"group": pair[0].name, "verdict": pair[1].value},
    )
    yield _large(
        "highwater_monitor_group_partitions_without_commit",
        "Partitions of a group without a commit.",
        groups,
        lambda group: group.no_commit,
        lambda group: {"group": group.name},
    )
    yield from _group_topics(figures)
    if has_partitions:
        yield from _group_partitions(cluster, figures)


def _group_topics(figures: Figures) -> Iterator[LargeFamily]:
    values: tuple[tuple[str, str, Callable[[GroupPartitionFigures], int | None]], ...] = (
        (
            "current_offset_sum",
            "Sum of the committed offsets of a group in a topic.",
            lambda row: row.committed_offset,
        ),
        ("lag_sum", "Lag of a group in a topic, in offsets.", lambda row: row.lag),
    )
    for name, help_text, value in values:
        yield _large(
            f"kafka_consumergroup_{name}",
            help_text,
            _sums(figures, value),
            lambda each: each[2],
            lambda each: {"consumergroup": each[0], "topic": each[1]},
        )


def _sums(figures: Figures, value: Callable[[GroupPartitionFigures], int | None]) -> Iterator[tuple[str, str, int]]:
    """Groups, their topics, and the sum of what is known."""
    for group, rows in figures.group_partitions.items():
        sums: dict[str, int] = defaultdict(int)
        for row in rows:
            amount = value(row)
            if amount is not None:
                sums[row.topic] += amount
        for topic, total in sums.items():
            yield group, topic, total


def _group_partitions(cluster: dict[str, str], figures: Figures) -> Iterator[LargeFamily]:
    start = "kafka_consumergroup_"
    values: tuple[tuple[str, str, Callable[[GroupPartitionFigures], int | None]], ...] = (
        ("current_offset", "Committed offset of a group in a partition.", lambda row: row.committed_offset),
        ("lag", "Lag of a group in a partition, in offsets.", lambda row: row.lag),
    )
    for name, help_text, value in values:
        rows = chain.from_iterable(figures.group_partitions.values())
        yield _large(
            f"{start}{name}",
            help_text,
            rows,
            value,
            lambda row: {"consumergroup": row.group, "topic": row.topic, "partition": row.partition},
        )
    yield _large(
        f"{start}group_lag_seconds",
        "Lag of a group in a partition, in seconds.",
        chain.from_iterable(figures.group_partitions.values()),
        lambda row: _seconds(row.lag_time),
        lambda row: {
            **cluster,
            "group": row.group,
            "topic": row.topic,
            "partition": row.partition,
            "member_host": row.host,
            "client_id": row.client_id,
        },
    )


def _known_lags(rows: Iterable[GroupPartitionFigures]) -> Iterator[int]:
    return (row.lag for row in rows if row.lag is not None)


def _labels_of_partition(row: Partition | PartitionFigures) -> Labels:
    return {"topic": row.topic, "partition": row.partition}


def _large(
    name: str,
    help_text: str,
    rows: Iterable[_Row],
    value: Callable[[_Row], float | None],
    labels: Callable[[_Row], Labels],
) -> LargeFamily:
    return LargeFamily(name, GAUGE, help_text, ((value(row), labels(row)) for row in rows))


def _seconds(duration: Duration | None) -> float | None:
    return None if duration is None else duration.ms / 1000


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
