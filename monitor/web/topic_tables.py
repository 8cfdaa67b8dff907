"""The tables of topics: all topics, and the partitions and settings of one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from markupsafe import Markup

from highwater.common.units import NONE, count_text
from highwater.monitor.figures.cluster import Figures
from highwater.monitor.figures.distribution import FORMULAS
from highwater.monitor.figures.rows import Level, PartitionRow, TopicFigures
from highwater.monitor.model import ConfigValue, Topic
from highwater.monitor.web import cells, words
from highwater.monitor.web.setting_words import setting_text
from highwater.monitor.web.tables import Column, Table
from highwater.monitor.web.units import (
    BYTES,
    BYTES_PER_S,
    COUNT,
    COUNT_AND_NAMES,
    FACTOR,
    ID,
    PER_S,
    PERCENT,
    TEXT,
    TOPIC,
    YES_NO,
)

_DEFAULT_SOURCE: Final = "DEFAULT_CONFIG"


_SOURCES: Final = {
    _DEFAULT_SOURCE: "default",
    "STATIC_BROKER_CONFIG": "file of the broker",
    "DYNAMIC_TOPIC_CONFIG": "set for the topic",
    "DYNAMIC_BROKER_CONFIG": "set for the broker",
    "DYNAMIC_DEFAULT_BROKER_CONFIG": "set for all brokers",
}


_STATE_LEVELS: Final = {
    "offline": Level.ERROR,
    "under min ISR": Level.ERROR,
    "under-replicated": Level.WARN,
    "in sync": Level.OK,
}


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
        level=lambda row: row.level,
        notes=_TOPICS_NOTES,
    )


def _groups_of(row: TopicFigures) -> str:
    if not row.groups:
        return NONE
    lag = "no commit" if row.worst_lag is None else f"lag {count_text(row.worst_lag)}"
    return cells.below(cells.few(row.groups, cells.group_link), cells.state(row.worst_lag_level, lag))


_TOPICS: Final[tuple[Column[TopicFigures], ...]] = (
    Column("topic", "Topic", TOPIC, lambda r: r.name),
    Column(
        "state",
        "State",
        TEXT,
        lambda r: r.level.value,
        lambda r: cells.state(r.level, words.health(r.health) if r.level is not Level.UNKNOWN else ""),
        lambda r: r.level.rank,
    ),
    Column("lag", "Groups", COUNT_AND_NAMES, lambda r: r.worst_lag, _groups_of),
    Column("partitions", "Partitions", COUNT, lambda r: r.partitions),
    Column("replication", "Repl. factor", COUNT, lambda r: r.replication_factor),
    Column("spread", "Spread", PERCENT, lambda r: r.balance.spread_percent),
    Column("skew", "Skew", PERCENT, lambda r: r.balance.skew_percent),
    Column("leader_skew", "Leader skew", PERCENT, lambda r: r.balance.leader_skew_percent),
    Column("size", "Size", BYTES, lambda r: r.size_bytes),
    Column("rate", "Produce rate", PER_S, lambda r: r.offsets_per_s),
    Column("bytes_in", "Bytes in", BYTES_PER_S, lambda r: r.bytes_in_per_s),
    Column("offsets", "Offsets stored", COUNT, lambda r: r.held_offsets),
    Column("produced", "Produced", COUNT, lambda r: r.produced_offsets),
    Column("leader_max_over_mean", "Leaders max/mean", FACTOR, lambda r: r.balance.leader_max_over_mean),
    Column("groups", "", COUNT, lambda r: len(r.groups)),
    Column("offline", "", COUNT, lambda r: r.health.offline),
    Column("under_replicated", "", COUNT, lambda r: r.health.under_replicated),
    Column("under_min_isr", "", COUNT, lambda r: r.health.under_min_isr),
    Column("leader_size", "", BYTES, lambda r: r.leader_size_bytes),
    Column("internal", "", YES_NO, lambda r: r.is_internal),
    Column("topic_id", "", TEXT, lambda r: r.topic_id),
    Column("sentence", "", TEXT, lambda r: r.sentence),
)
_TOPICS_NOTES: Final = {
    "lag": "Sorted by the largest lag.",
    "replication": "That of the first partition.",
    "spread": FORMULAS["spread"],
    "skew": FORMULAS["skew"],
    "leader_skew": FORMULAS["leader skew"],
    "size": "The sum of all replicas.",
    "rate": "Offsets per second, which count records and transaction markers.",
    "bytes_in": "Per second; estimated from the rate and the mean size of an offset.",
    "offsets": "End minus log start: an upper bound of the records, as compaction and markers leave gaps.",
    "produced": "Sum of all end offsets.",
    "leader_max_over_mean": FORMULAS["max/mean"],
}


def partitions_table(topic: Topic, figures: Figures) -> Table[PartitionRow]:
    rows = tuple(PartitionRow(*pair) for pair in zip(topic.partitions, figures.partitions[topic.name], strict=True))
    return Table(
        "topic/partitions", "Partitions", _PARTITIONS, rows, "The topic has no partitions.", notes=_PARTITIONS_NOTES
    )


def _state_word(row: PartitionRow) -> str:
    figures = row.figures
    if figures.is_offline:
        return "offline"
    if figures.is_under_min_isr:
        return "under min ISR"
    return "under-replicated" if figures.is_under_replicated else "in sync"


def _partition_state(row: PartitionRow) -> str:
    figures, word = row.figures, _state_word(row)
    if word == "in sync" and figures.hanging_ms is not None:
        return cells.state(Level.WARN, f"transaction hangs for {words.time_ms(figures.hanging_ms)}")
    return cells.state(_STATE_LEVELS[word], word)


def _state_rank(row: PartitionRow) -> int:
    figures = row.figures
    return 3 * figures.is_offline + 2 * bool(figures.is_under_min_isr) + figures.is_under_replicated


def _follower_lag(row: PartitionRow) -> int | None:
    return max(row.partition.follower_lag.values(), default=None)


_PARTITIONS: Final[tuple[Column[PartitionRow], ...]] = (
    Column("partition", "Partition", ID, lambda r: r.partition.partition),
    Column("state", "State", TEXT, _state_word, _partition_state, _state_rank),
    Column("leader", "Leader", COUNT, lambda r: r.partition.leader, lambda r: words.leader(r.partition.leader)),
    Column("preferred", "Preferred leads", YES_NO, lambda r: r.figures.is_preferred_leader),
    Column("replicas", "Replicas", TEXT, lambda r: words.broker_ids(r.partition.replicas)),
    Column("isr", "In sync", TEXT, lambda r: words.broker_ids(r.partition.in_sync_replicas)),
    Column("start", "Log start", COUNT, lambda r: r.partition.log_start_offset),
    Column("end", "End", COUNT, lambda r: r.partition.end_offset),
    Column("undecided", "Uncommitted", COUNT, lambda r: r.figures.undecided_offsets),
    Column("size", "Size", BYTES, lambda r: r.figures.leader_size_bytes),
    Column("rate", "Produce rate", PER_S, lambda r: r.figures.offsets_per_s),
    Column("follower_lag", "Follower lag", COUNT, _follower_lag),
    Column("leader_epoch", "", COUNT, lambda r: r.partition.leader_epoch),
    Column("stable", "", COUNT, lambda r: r.partition.last_stable_offset),
)
_PARTITIONS_NOTES: Final = {
    "preferred": "The first replica is the preferred leader.",
    "end": "The high watermark.",
    "undecided": "End minus last stable offset: what read_committed consumers cannot read yet.",
    "size": "The size of the leader's replica.",
    "follower_lag": "That of the replica that is furthest behind.",
}


def config_table(name: str, config: Mapping[str, ConfigValue] | None, empty: str) -> Table[ConfigRow]:
    rows = tuple(ConfigRow(*pair) for pair in sorted((config or {}).items()))
    return Table(name, "Settings", _CONFIG, rows, empty, notes=_CONFIG_NOTES)


def _default(row: ConfigRow) -> str:
    return "" if row.config.is_sensitive else row.config.default or ""


def _value(name: str, value: str) -> Markup:
    return setting_text(name, value) if value else Markup(NONE)


def _differs(row: ConfigRow) -> str:
    return _SOURCES.get(row.config.source, row.config.source)


_CONFIG: Final[tuple[Column[ConfigRow], ...]] = (
    Column("setting", "Setting", TEXT, lambda r: r.name),
    Column("value", "Value", TEXT, lambda r: r.shown, lambda r: _value(r.name, r.shown)),
    Column("default", "If not set", TEXT, lambda r: _default(r) or None, lambda r: _value(r.name, _default(r))),
    Column("source", "Source", TEXT, lambda r: r.config.source, _differs),
)
_CONFIG_NOTES: Final = {
    "default": "The value if this topic or broker sets none.",
}
