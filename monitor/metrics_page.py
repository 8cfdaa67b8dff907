"""Writes the page for Prometheus with the names of kafka_exporter, kafka-lag-exporter, and its own."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain, product
from typing import Final

from highwater.common.prometheus_text import COUNTER, GAUGE, Family, Labels, LargeFamily, Samples
from highwater.monitor.figures.cluster import Figures
from highwater.monitor.figures.rows import (
    Duration,
    GroupPartitionFigures,
    LagVerdict,
    Level,
    PartitionFigures,
    TransactionVerdict,
)
from highwater.monitor.figures.sums import known_max
from highwater.monitor.host_metrics import headroom_families, host_families
from highwater.monitor.model import Partition, Snapshot
from highwater.monitor.state import MonitorState

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
_OWN: Final = "highwater_monitor_"
_GROUP: Final = "kafka_consumergroup_"


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
        yield from _clients(snapshot)
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


def _clients(snapshot: Snapshot) -> Iterable[Family]:
    """Counts alone: a series for each client could be any number of series."""
    known = snapshot.client_metrics
    instances = Family(f"{_OWN}client_instances", GAUGE, "Client instances that push what they measure.")
    pushes = Family(f"{_OWN}client_pushes_total", COUNTER, "Pushes of clients, by whether they were read.")
    if known is not None:
        instances.add(len(known.pushes))
        pushes.add(known.read, result="read")
        pushes.add(known.passed_over, result="passed_over")
    return instances, pushes


def _topics(snapshot: Snapshot, figures: Figures, has_partitions: bool) -> Iterator[LargeFamily]:
    topics = Samples(figures.topics.values, lambda r: {"topic": r.name})
    yield topics.gauge("kafka_topic_partitions", "Partitions of a topic.", lambda r: r.partitions)
    own = f"{_OWN}topic_"
    yield topics.gauge(f"{own}offsets", "Sum of the end offsets of a topic.", lambda r: r.produced_offsets)
    yield topics.gauge(f"{own}size_bytes", "Size of a topic with all replicas.", lambda r: r.size_bytes)
    help_text = "Share of the live brokers that hold a replica."
    yield topics.gauge(f"{own}spread_ratio", help_text, lambda r: _ratio(r.balance.spread_percent))
    help_text = "Share of its brokers with too many replicas."
    yield topics.gauge(f"{own}skew_ratio", help_text, lambda r: _ratio(r.balance.skew_percent))
    help_text = "Share of its brokers with too many leaders."
    yield topics.gauge(f"{own}leader_skew_ratio", help_text, lambda r: _ratio(r.balance.leader_skew_percent))
    if has_partitions:
        yield from _partitions(snapshot)
        yield from _min_isr(figures)


def _partitions(snapshot: Snapshot) -> Iterator[LargeFamily]:
    """Yield the names of kafka_exporter."""
    topics = snapshot.topics.values()
    rows = Samples(lambda: chain.from_iterable(topic.partitions for topic in topics), _of_partition)
    start = "kafka_topic_partition_"
    yield rows.gauge(f"{start}current_offset", "End offset of a partition.", lambda r: r.end_offset)
    yield rows.gauge(f"{start}oldest_offset", "Log start offset of a partition.", lambda r: r.log_start_offset)
    yield rows.gauge(f"{start}in_sync_replica", "In-sync replicas of a partition.", lambda r: len(r.in_sync_replicas))
    yield rows.gauge(f"{start}leader", "Node id of the leader; -1 without one.", lambda r: r.leader)
    help_text = "1 if the first replica leads."
    yield rows.gauge(f"{start}leader_is_preferred", help_text, lambda r: r.replicas[:1] == (r.leader,))
    yield rows.gauge(f"{start}replicas", "Replicas of a partition.", lambda r: len(r.replicas))
    name, help_text = f"{start}under_replicated_partition", "1 if a replica is out of sync."
    yield rows.gauge(name, help_text, lambda r: len(r.in_sync_replicas) < len(r.replicas))


def _min_isr(figures: Figures) -> Iterator[LargeFamily]:
    """Brokers have these names too; Strimzi's dashboard shows them beside those of kafka_exporter."""
    rows = Samples(lambda: chain.from_iterable(figures.partitions.values()), _of_partition)
    start = "kafka_cluster_partition_"
    help_text = "1 if one lost replica more would make writes with acks=all fail."
    yield rows.gauge(f"{start}atminisr", help_text, lambda r: r.is_at_min_isr)
    help_text = "1 if writes with acks=all fail for lack of in-sync replicas."
    yield rows.gauge(f"{start}underminisr", help_text, lambda r: r.is_under_min_isr)


def _groups(snapshot: Snapshot, figures: Figures, has_partitions: bool) -> Iterator[LargeFamily]:
    """Yield the names of kafka_exporter, which has the label `consumergroup`, and of kafka-lag-exporter."""
    groups, partitions = figures.groups.values, figures.group_partitions
    cluster = {"cluster_name": snapshot.cluster}
    exported = Samples(groups, lambda r: {"consumergroup": r.name})
    yield exported.gauge(f"{_GROUP}members", "Members of a group.", lambda r: r.members)
    rows = Samples(groups, lambda r: {**cluster, "group": r.name})
    help_text = "Largest lag of a partition of a group."
    yield rows.gauge(
        f"{_GROUP}group_max_lag", help_text, lambda r: known_max(p.lag for p in partitions.get(r.name, ()))
    )
    help_text = "Largest lag of a group in seconds."
    yield rows.gauge(f"{_GROUP}group_max_lag_seconds", help_text, lambda r: _seconds(r.lag_time))
    yield rows.gauge(f"{_GROUP}group_sum_lag", "Lag of a group in offsets.", lambda r: r.lag)
    verdicts = Samples(lambda: product(groups(), LagVerdict), lambda r: {"group": r[0].name, "verdict": r[1].value})
    help_text = "1 for what the monitor concludes of a group."
    yield verdicts.gauge(f"{_OWN}group_verdict", help_text, lambda r: r[0].verdict is r[1])
    own = Samples(groups, lambda r: {"group": r.name})
    help_text = "Partitions of a group without a commit."
    yield own.gauge(f"{_OWN}group_partitions_without_commit", help_text, lambda r: r.no_commit)
    help_text = "Sum of the committed offsets of a group in a topic."
    yield _by_topic(figures, "current_offset_sum", help_text, lambda r: r.committed_offset)
    yield _by_topic(figures, "lag_sum", "Lag of a group in a topic, in offsets.", lambda r: r.lag)
    if has_partitions:
        yield from _group_partitions(cluster, figures)


def _by_topic(
    figures: Figures, name: str, help_text: str, read: Callable[[GroupPartitionFigures], int | None]
) -> LargeFamily:
    """Sum what is known of each group in each of its topics."""

    def sums() -> Iterator[tuple[str, str, int]]:
        for group, rows in figures.group_partitions.items():
            totals: dict[str, int] = defaultdict(int)
            for row in rows:
                if (amount := read(row)) is not None:
                    totals[row.topic] += amount
            for topic, total in totals.items():
                yield group, topic, total

    labelled = Samples(sums, lambda r: {"consumergroup": r[0], "topic": r[1]})
    return labelled.gauge(f"{_GROUP}{name}", help_text, lambda r: r[2])


def _group_partitions(cluster: Mapping[str, str], figures: Figures) -> Iterator[LargeFamily]:
    def partitions() -> Iterator[GroupPartitionFigures]:
        return chain.from_iterable(figures.group_partitions.values())

    def with_member(row: GroupPartitionFigures) -> Labels:
        of = {"group": row.group, "topic": row.topic, "partition": row.partition}
        return {**cluster, **of, "member_host": row.owner.host, "client_id": row.owner.client_id}

    rows = Samples(partitions, lambda r: {"consumergroup": r.group, "topic": r.topic, "partition": r.partition})
    help_text = "Committed offset of a group in a partition."
    yield rows.gauge(f"{_GROUP}current_offset", help_text, lambda r: r.committed_offset)
    yield rows.gauge(f"{_GROUP}lag", "Lag of a group in a partition, in offsets.", lambda r: r.lag)
    help_text = "Lag of a group in a partition, in seconds."
    yield Samples(partitions, with_member).gauge(
        f"{_GROUP}group_lag_seconds", help_text, lambda r: _seconds(r.lag_time)
    )


def _of_partition(row: Partition | PartitionFigures) -> Labels:
    return {"topic": row.topic, "partition": row.partition}


def _seconds(duration: Duration | None) -> float | None:
    return None if duration is None else duration.ms / 1000


def _transactions(figures: Figures) -> Iterator[LargeFamily]:
    verdicts = Samples(lambda: TransactionVerdict, lambda verdict: {"verdict": verdict.value})

    def ages(verdict: TransactionVerdict) -> list[int]:
        return [row.age_ms for row in figures.transactions if row.verdict is verdict]

    help_text = "Transactions open in a partition for long, by verdict."
    yield verdicts.gauge(f"{_OWN}open_transactions", help_text, lambda verdict: len(ages(verdict)))
    name, help_text = f"{_OWN}oldest_transaction_seconds", "Age of the oldest transaction that is open for long."
    yield verdicts.gauge(name, help_text, lambda verdict: max(ages(verdict), default=0) / 1000)


def _own(view: tuple[Snapshot, Figures] | None, state: MonitorState, now_ms: int) -> Iterable[Family]:
    cost = state.cost
    paused = None if state.history is None else int(state.history.paused_since_ms is not None)
    yield _one(COUNTER, f"{_OWN}ticks_total", "Ticks with a snapshot since the start of the monitor.", state.ticks)
    yield _one(COUNTER, f"{_OWN}failed_ticks_total", "Ticks without a snapshot.", state.failed_ticks)
    yield _one(COUNTER, "process_cpu_seconds_total", "CPU time of the monitor.", cost.cpu_s)
    yield _one(GAUGE, "process_resident_memory_bytes", "Resident memory of the monitor.", cost.rss_bytes)
    yield _one(GAUGE, f"{_OWN}tick_seconds", "Duration of the newest tick.", cost.tick_ms / 1000)
    yield _one(GAUGE, f"{_OWN}tick_requests", "Requests of the newest tick.", cost.requests)
    yield _one(GAUGE, f"{_OWN}history_paused", "1 while the history cannot be written.", paused)
    if view is None:
        return
    snapshot, figures = view
    age_s = max(0, now_ms - snapshot.taken_at_ms) / 1000
    yield _one(GAUGE, f"{_OWN}snapshot_age_seconds", "Age of the newest snapshot.", age_s)
    source_up = Family(f"{_OWN}source_up", GAUGE, "1 if a source answered all that it was asked.")
    for source in snapshot.sources.values():
        source_up.add(int(not source.error), source=source.name)
    level = Family(f"{_OWN}cluster_level", GAUGE, "1 for how bad the worst finding is.")
    for each in Level:
        level.add(int(each is figures.level), level=each.value)
    findings = Family(f"{_OWN}findings", GAUGE, "Findings by kind and level.")
    counts = Counter((each.kind.value, each.level.value) for each in figures.findings if not each.is_near)
    for (kind, how_bad), number in counts.items():
        findings.add(number, kind=kind, level=how_bad)
    yield from (source_up, level, findings)


def _one(kind: str, name: str, help_text: str, value: float | None) -> Family:
    """Return the family of one sample without labels; empty if the value is not known."""
    family = Family(name, kind, help_text)
    family.add(value)
    return family


def _ratio(percent: int | None) -> float | None:
    return None if percent is None else percent / 100
