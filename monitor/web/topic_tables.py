"""The tables of topics: all topics, and the partitions and settings of one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from markupsafe import Markup

from highwater.common.units import NONE, count_text
from highwater.monitor.figures.cluster import Figures
from highwater.monitor.figures.distribution import FORMULAS
from highwater.monitor.figures.rows import Level, PartitionFigures, TopicFigures
from highwater.monitor.model import ConfigValue, Partition, Topic
from highwater.monitor.web import cells, words
from highwater.monitor.web.filters import Kind
from highwater.monitor.web.setting_words import setting_text
from highwater.monitor.web.tables import Column, Table

_MOST_GROUPS: Final = 3
_DEFAULT_SOURCE: Final = "DEFAULT_CONFIG"


_SOURCES: Final = {
    _DEFAULT_SOURCE: "default",
    "STATIC_BROKER_CONFIG": "file of the broker",
    "DYNAMIC_TOPIC_CONFIG": "set for the topic",
    "DYNAMIC_BROKER_CONFIG": "set for the broker",
    "DYNAMIC_DEFAULT_BROKER_CONFIG": "set for all brokers",
}


class PartitionRow(NamedTuple):
    partition: Partition
    figures: PartitionFigures


class ConfigRow(NamedTuple):
    name: str
    config: ConfigValue

    @property
    def is_default(self) -> bool:
        return self.config.source == _DEFAULT_SOURCE

    @property
    def shown(self) -> str:
        if self.config.is_sensitive or self.config.value is None:
            return "(secret)" if self.config.is_sensitive else NONE
        return self.config.value


def differs_from_default(config: ConfigValue) -> bool:
    """Secrets that were set count too: nobody says what they are."""
    if config.source == _DEFAULT_SOURCE:
        return False
    return config.value is None or config.value != config.default


def topics_table(figures: Figures) -> Table[TopicFigures]:
    return Table(
        name="topics",
        title="Topics",
        columns=_TOPICS,
        rows=tuple(figures.topics.values()),
        empty="The cluster has no topics.",
        sort="topic",
        level=lambda row: words.LEVEL_CLASSES[row.level],
    )


def _groups_of(row: TopicFigures) -> str:
    if not row.groups:
        return NONE
    names = cells.joined([cells.group_link(name) for name in row.groups[:_MOST_GROUPS]])
    more = f" and {count_text(len(row.groups) - _MOST_GROUPS)} more" if len(row.groups) > _MOST_GROUPS else ""
    lag = "no commit" if row.worst_lag is None else f"lag {count_text(row.worst_lag)}"
    return cells.below(names + more, cells.state(row.worst_lag_level, lag))


_TOPICS: Final[tuple[Column[TopicFigures], ...]] = (
    Column("topic", "Topic", Kind.TEXT, lambda r: r.name, lambda r: cells.topic_link(r.name)),
    Column(
        "state",
        "State",
        Kind.TEXT,
        lambda r: r.level.value,
        lambda r: cells.state(r.level, words.health(r.health) if r.level is not Level.UNKNOWN else ""),
        lambda r: r.level.rank,
    ),
    Column(
        "lag",
        "Groups",
        Kind.NUMBER,
        lambda r: r.worst_lag,
        _groups_of,
        note="Sorted by the largest lag.",
        is_prose=True,
    ),
    Column("partitions", "Partitions", Kind.NUMBER, lambda r: r.partitions),
    Column("replication", "Repl. factor", Kind.NUMBER, lambda r: r.replication_factor, note="Of the first partition."),
    Column(
        "spread",
        "Spread",
        Kind.NUMBER,
        lambda r: r.balance.spread_percent,
        lambda r: words.percent(r.balance.spread_percent),
        note=FORMULAS["spread"],
    ),
    Column(
        "skew",
        "Skew",
        Kind.NUMBER,
        lambda r: r.balance.skew_percent,
        lambda r: words.percent(r.balance.skew_percent),
        note=FORMULAS["skew"],
    ),
    Column(
        "leader_skew",
        "Leader skew",
        Kind.NUMBER,
        lambda r: r.balance.leader_skew_percent,
        lambda r: words.percent(r.balance.leader_skew_percent),
        note=FORMULAS["leader skew"],
    ),
    Column("size", "Size", Kind.BYTES, lambda r: r.size_bytes, note="With all replicas."),
    Column(
        "rate",
        "Produce rate",
        Kind.NUMBER,
        lambda r: r.offsets_per_s,
        lambda r: words.rate(r.offsets_per_s),
        note="Offsets per second, which count records and transaction markers.",
    ),
    Column(
        "bytes_in",
        "Bytes in",
        Kind.BYTES,
        lambda r: r.bytes_in_per_s,
        lambda r: words.size_rate(r.bytes_in_per_s),
        note="Per second; estimated from the rate and the mean size of an offset.",
    ),
    Column(
        "offsets",
        "Offsets held",
        Kind.NUMBER,
        lambda r: r.held_offsets,
        note="End minus log start: an upper bound of the records, as compaction and markers leave gaps.",
    ),
    Column("produced", "Produced", Kind.NUMBER, lambda r: r.produced_offsets, note="Sum of all end offsets."),
    Column(
        "leader_max_over_mean",
        "Leaders max/mean",
        Kind.NUMBER,
        lambda r: r.balance.leader_max_over_mean,
        lambda r: words.factor(r.balance.leader_max_over_mean),
        note=FORMULAS["max/mean"],
    ),
    Column("groups", "Groups", Kind.NUMBER, lambda r: len(r.groups), is_shown=False),
    Column("offline", "Offline", Kind.NUMBER, lambda r: r.health.offline, is_shown=False),
    Column("under_replicated", "Under-replicated", Kind.NUMBER, lambda r: r.health.under_replicated, is_shown=False),
    Column("under_min_isr", "Under min ISR", Kind.NUMBER, lambda r: r.health.under_min_isr, is_shown=False),
    Column("leader_size", "Leaders' size", Kind.BYTES, lambda r: r.leader_size_bytes, is_shown=False),
    Column("internal", "Internal", Kind.YES_NO, lambda r: r.is_internal, is_shown=False),
    Column("topic_id", "Topic id", Kind.TEXT, lambda r: r.topic_id, is_shown=False),
    Column("sentence", "What is wrong", Kind.TEXT, lambda r: r.sentence, is_shown=False),
)


def partitions_table(topic: Topic, figures: Figures) -> Table[PartitionRow]:
    rows = tuple(PartitionRow(*pair) for pair in zip(topic.partitions, figures.partitions[topic.name], strict=True))
    return Table("topic/partitions", "Partitions", _PARTITIONS, rows, "The topic has no partitions.")


def _partition_state(row: PartitionRow) -> str:
    figures = row.figures
    if figures.is_offline:
        return cells.state(Level.ERROR, "offline")
    if figures.is_under_min_isr:
        return cells.state(Level.ERROR, "under min ISR")
    if figures.is_under_replicated:
        return cells.state(Level.WARN, "under-replicated")
    if figures.hanging_ms is not None:
        return cells.state(Level.WARN, f"transaction hangs for {words.time_ms(figures.hanging_ms)}")
    return cells.state(Level.OK, "in sync")


def _state_word(row: PartitionRow) -> str:
    figures = row.figures
    if figures.is_offline:
        return "offline"
    if figures.is_under_min_isr:
        return "under min ISR"
    return "under-replicated" if figures.is_under_replicated else "in sync"


def _state_rank(row: PartitionRow) -> int:
    figures = row.figures
    return 3 * figures.is_offline + 2 * bool(figures.is_under_min_isr) + figures.is_under_replicated


def _follower_lag(row: PartitionRow) -> int | None:
    return max(row.partition.follower_lag.values(), default=None)


_PARTITIONS: Final[tuple[Column[PartitionRow], ...]] = (
    Column(
        "partition", "Partition", Kind.NUMBER, lambda r: r.partition.partition, lambda r: str(r.partition.partition)
    ),
    Column("state", "State", Kind.TEXT, _state_word, _partition_state, _state_rank),
    Column("leader", "Leader", Kind.NUMBER, lambda r: r.partition.leader, lambda r: words.leader(r.partition.leader)),
    Column(
        "preferred",
        "Preferred leads",
        Kind.YES_NO,
        lambda r: r.figures.is_preferred_leader,
        note="The first replica is the preferred leader.",
    ),
    Column("replicas", "Replicas", Kind.TEXT, lambda r: words.broker_ids(r.partition.replicas)),
    Column("isr", "In sync", Kind.TEXT, lambda r: words.broker_ids(r.partition.in_sync_replicas)),
    Column("start", "Log start", Kind.NUMBER, lambda r: r.partition.log_start_offset),
    Column("end", "End", Kind.NUMBER, lambda r: r.partition.end_offset, note="The high watermark."),
    Column(
        "undecided",
        "Undecided",
        Kind.NUMBER,
        lambda r: r.figures.undecided_offsets,
        note="End minus last stable offset: what readers of committed data cannot read yet.",
    ),
    Column("size", "Size", Kind.BYTES, lambda r: r.figures.leader_size_bytes, note="Of the leader's replica."),
    Column(
        "rate",
        "Produce rate",
        Kind.NUMBER,
        lambda r: r.figures.offsets_per_s,
        lambda r: words.rate(r.figures.offsets_per_s),
    ),
    Column("follower_lag", "Follower lag", Kind.NUMBER, _follower_lag, note="Of the replica that is most behind."),
    Column("leader_epoch", "Leader epoch", Kind.NUMBER, lambda r: r.partition.leader_epoch, is_shown=False),
    Column("stable", "Last stable", Kind.NUMBER, lambda r: r.partition.last_stable_offset, is_shown=False),
)


def config_table(name: str, config: Mapping[str, ConfigValue] | None, empty: str) -> Table[ConfigRow]:
    rows = tuple(ConfigRow(*pair) for pair in sorted((config or {}).items()))
    return Table(name, "Settings", _CONFIG, rows, empty)


def _default(row: ConfigRow) -> str:
    return "" if row.config.is_sensitive else row.config.default or ""


def _value(name: str, value: str) -> Markup:
    return setting_text(name, value) if value else Markup(NONE)


def _differs(row: ConfigRow) -> str:
    return _SOURCES.get(row.config.source, row.config.source)


_CONFIG: Final[tuple[Column[ConfigRow], ...]] = (
    Column("setting", "Setting", Kind.TEXT, lambda r: r.name),
    Column("value", "Value", Kind.TEXT, lambda r: r.shown, lambda r: _value(r.name, r.shown)),
    Column(
        "default",
        "If not set",
        Kind.TEXT,
        lambda r: _default(r) or None,
        lambda r: _value(r.name, _default(r)),
        note="The value without what this topic or broker was given.",
    ),
    Column("source", "Source", Kind.TEXT, lambda r: r.config.source, _differs),
)
