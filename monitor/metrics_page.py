"""Writes the page for Prometheus with the names of kafka_exporter, kafka-lag-exporter, and its own."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from highwater.monitor.figures.cluster import Figures
from highwater.monitor.figures.rows import LagVerdict, Level
from highwater.monitor.model import Snapshot
from highwater.monitor.state import MonitorState

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
_GAUGE: Final = "gauge"
_COUNTER: Final = "counter"
_ESCAPES: Final = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})

Labels = Mapping[str, object]


@dataclass(slots=True)
class _Family:
    name: str
    kind: str
    help: str
    samples: list[tuple[Labels, float]] = field(default_factory=list)

    def add(self, value: float | None, **labels: object) -> None:
        """What is not known has no sample: 0 would be a lie, and NaN breaks sums."""
        if value is not None:
            self.samples.append((labels, value))

    def lines(self) -> Iterator[str]:
        if not self.samples:
            return
        yield f"# HELP {self.name} {self.help}"
        yield f"# TYPE {self.name} {self.kind}"
        for labels, value in self.samples:
            shown = ",".join(f'{name}="{_escaped(text)}"' for name, text in labels.items())
            yield f"{self.name}{{{shown}}} {_number(value)}" if shown else f"{self.name} {_number(value)}"


def metrics_page(
    view: tuple[Snapshot, Figures] | None, state: MonitorState, now_ms: int, *, has_partitions: bool = False
) -> str:
    """Return the page in Prometheus' text format.

    view: None before the first snapshot: then only what the monitor says of itself. now_ms: Unix time.
    has_partitions: whether each partition has series of its own.
    """
    families: list[_Family] = []
    if view is not None:
        snapshot, figures = view
        families += _cluster(snapshot, figures)
        families += _topics(snapshot, figures, has_partitions)
        families += _groups(snapshot, figures, has_partitions)
    families += _own(view, state, now_ms)
    return "".join(f"{line}\n" for family in families for line in family.lines())


def _cluster(snapshot: Snapshot, figures: Figures) -> Iterable[_Family]:
    brokers = _Family("kafka_brokers", _GAUGE, "Brokers that are alive.")
    brokers.add(figures.totals.brokers_alive)
    info = _Family("kafka_broker_info", _GAUGE, "The address of a broker; always 1.")
    for broker in snapshot.brokers.values():
        if broker.is_alive:
            info.add(1, id=broker.node_id, address=f"{broker.host}:{broker.port}")
    return brokers, info


def _topics(snapshot: Snapshot, figures: Figures, has_partitions: bool) -> Iterable[_Family]:
    count = _Family("kafka_topic_partitions", _GAUGE, "Partitions of a topic.")
    produced = _Family("highwater_monitor_topic_offsets", _GAUGE, "Sum of the end offsets of a topic.")
    size = _Family("highwater_monitor_topic_size_bytes", _GAUGE, "Size of a topic with all replicas.")
    spread = _Family("highwater_monitor_topic_spread_ratio", _GAUGE, "Share of the live brokers that hold a replica.")
    skew = _Family("highwater_monitor_topic_skew_ratio", _GAUGE, "Share of its brokers with too many replicas.")
    leader_skew = _Family(
        "highwater_monitor_topic_leader_skew_ratio", _GAUGE, "Share of its brokers with too many leaders."
    )
    for name, topic in figures.topics.items():
        count.add(topic.partitions, topic=name)
        produced.add(topic.produced_offsets, topic=name)
        size.add(topic.size_bytes, topic=name)
        spread.add(_ratio(topic.balance.spread_percent), topic=name)
        skew.add(_ratio(topic.balance.skew_percent), topic=name)
        leader_skew.add(_ratio(topic.balance.leader_skew_percent), topic=name)
    made = [count, produced, size, spread, skew, leader_skew]
    return [*made, *_partitions(snapshot), *_min_isr(figures)] if has_partitions else made


def _partitions(snapshot: Snapshot) -> Iterable[_Family]:
    start = "kafka_topic_partition_"
    current = _Family(f"{start}current_offset", _GAUGE, "End offset of a partition.")
    oldest = _Family(f"{start}oldest_offset", _GAUGE, "Log start offset of a partition.")
    in_sync = _Family(f"{start}in_sync_replica", _GAUGE, "In-sync replicas of a partition.")
    leader = _Family(f"{start}leader", _GAUGE, "Node id of the leader; -1 without one.")
    preferred = _Family(f"{start}leader_is_preferred", _GAUGE, "1 if the first replica leads.")
    replicas = _Family(f"{start}replicas", _GAUGE, "Replicas of a partition.")
    under = _Family(f"{start}under_replicated_partition", _GAUGE, "1 if a replica is out of sync.")
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


def _min_isr(figures: Figures) -> Iterable[_Family]:
    """Brokers have these names too; Strimzi's dashboard shows them beside those of kafka_exporter."""
    start = "kafka_cluster_partition_"
    at_limit = _Family(f"{start}atminisr", _GAUGE, "1 if one lost replica more would make writes with acks=all fail.")
    under = _Family(f"{start}underminisr", _GAUGE, "1 if writes with acks=all fail for lack of in-sync replicas.")
    for rows in figures.partitions.values():
        for row in rows:
            if row.is_under_min_isr is not None:
                labels = {"topic": row.topic, "partition": row.partition}
                at_limit.add(int(bool(row.is_at_min_isr)), **labels)
                under.add(int(row.is_under_min_isr), **labels)
    return at_limit, under


def _groups(snapshot: Snapshot, figures: Figures, has_partitions: bool) -> Iterable[_Family]:
    cluster = {"cluster_name": snapshot.cluster}
    members = _Family("kafka_consumergroup_members", _GAUGE, "Members of a group.")
    max_lag = _Family("kafka_consumergroup_group_max_lag", _GAUGE, "Largest lag of a partition of a group.")
    max_s = _Family("kafka_consumergroup_group_max_lag_seconds", _GAUGE, "Largest lag of a group in seconds.")
    total = _Family("kafka_consumergroup_group_sum_lag", _GAUGE, "Lag of a group in offsets.")
    verdict = _Family("highwater_monitor_group_verdict", _GAUGE, "1 for what the monitor concludes of a group.")
    no_commit = _Family(
        "highwater_monitor_group_partitions_without_commit", _GAUGE, "Partitions of a group without a commit."
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
    made = [members, max_lag, max_s, total, verdict, no_commit, *_group_topics(figures)]
    return [*made, *_group_partitions(cluster, figures)] if has_partitions else made


def _group_topics(figures: Figures) -> Iterable[_Family]:
    start = "kafka_consumergroup_"
    offsets = _Family(f"{start}current_offset_sum", _GAUGE, "Sum of the committed offsets of a group in a topic.")
    lag = _Family(f"{start}lag_sum", _GAUGE, "Lag of a group in a topic, in offsets.")
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


def _group_partitions(cluster: Mapping[str, str], figures: Figures) -> Iterable[_Family]:
    start = "kafka_consumergroup_"
    offset = _Family(f"{start}current_offset", _GAUGE, "Committed offset of a group in a partition.")
    lag = _Family(f"{start}lag", _GAUGE, "Lag of a group in a partition, in offsets.")
    lag_s = _Family(f"{start}group_lag_seconds", _GAUGE, "Lag of a group in a partition, in seconds.")
    for name, partitions in figures.group_partitions.items():
        for each in partitions:
            labels = {"consumergroup": name, "topic": each.topic, "partition": each.partition}
            offset.add(each.committed_offset, **labels)
            lag.add(each.lag, **labels)
            seconds = None if each.lag_time is None else each.lag_time.ms / 1000
            member = {"member_host": each.host, "client_id": each.client_id}
            lag_s.add(seconds, **cluster, group=name, topic=each.topic, partition=each.partition, **member)
    return offset, lag, lag_s


def _own(view: tuple[Snapshot, Figures] | None, state: MonitorState, now_ms: int) -> Iterable[_Family]:
    start = "highwater_monitor_"
    ticks = _Family(f"{start}ticks_total", _COUNTER, "Ticks with a snapshot since the start of the monitor.")
    ticks.add(state.ticks)
    failed = _Family(f"{start}failed_ticks_total", _COUNTER, "Ticks without a snapshot.")
    failed.add(state.failed_ticks)
    cpu = _Family("process_cpu_seconds_total", _COUNTER, "CPU time of the monitor.")
    cpu.add(state.cost.cpu_s)
    rss = _Family("process_resident_memory_bytes", _GAUGE, "Resident memory of the monitor.")
    rss.add(state.cost.rss_bytes)
    duration = _Family(f"{start}tick_seconds", _GAUGE, "Duration of the newest tick.")
    duration.add(state.cost.tick_ms / 1000)
    requests = _Family(f"{start}tick_requests", _GAUGE, "Requests of the newest tick.")
    requests.add(state.cost.requests)
    paused = _Family(f"{start}history_paused", _GAUGE, "1 while the history cannot be written.")
    if state.history is not None:
        paused.add(int(state.history.paused_since_ms is not None))
    age = _Family(f"{start}snapshot_age_seconds", _GAUGE, "Age of the newest snapshot.")
    source_up = _Family(f"{start}source_up", _GAUGE, "1 if a source answered all that it was asked.")
    level = _Family(f"{start}cluster_level", _GAUGE, "1 for how bad the worst finding is.")
    findings = _Family(f"{start}findings", _GAUGE, "Findings by kind and level.")
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


def _escaped(text: object) -> str:
    return str(text).translate(_ESCAPES)


def _number(value: float) -> str:
    return str(int(value)) if float(value).is_integer() else repr(float(value))
