"""The tables of groups: all groups, those of a topic, and the partitions and members of one."""

from __future__ import annotations

from typing import Final, NamedTuple

from highwater.common.units import NONE, count_text
from highwater.monitor.figures.cluster import Figures
from highwater.monitor.figures.rows import GroupFigures, GroupPartitionFigures
from highwater.monitor.model import Group, Member, Snapshot
from highwater.monitor.web import cells, words
from highwater.monitor.web.filters import Kind
from highwater.monitor.web.tables import Column, Table

_MOST_TOPICS: Final = 3
_VERDICTS: Final = (
    "OK: it keeps up. WARN: it reads, but lag rises. LOSS: records were deleted before it read them. "
    "REWIND: its commit went back. STALL: it has members, but commits nothing. STOP: nobody reads. "
    "UNKNOWN: not seen for long enough."
)
_LAG_NOTE: Final = "Offsets between commit and end. From–to: records came between the two answers."


class GroupRow(NamedTuple):
    group: Group
    figures: GroupFigures


def groups_table(snapshot: Snapshot, figures: Figures) -> Table[GroupRow]:
    rows = tuple(GroupRow(snapshot.groups[name], row) for name, row in figures.groups.items())
    return Table(
        name="groups",
        title="Groups",
        columns=_GROUPS,
        rows=rows,
        empty="The cluster has no consumer groups.",
        sort="-verdict",
        level=lambda row: words.LEVEL_CLASSES[row.figures.level],
    )


def _group_lag(row: GroupRow) -> str:
    rest = words.group_lag_rest(row.figures)
    lag = words.group_lag(row.figures)
    return cells.with_note(lag, rest)


def _topics(row: GroupRow) -> str:
    names = row.figures.topics
    if not names:
        return NONE
    more = f" and {count_text(len(names) - _MOST_TOPICS)} more" if len(names) > _MOST_TOPICS else ""
    return cells.joined([cells.topic_link(name) for name in names[:_MOST_TOPICS]]) + more


def _verdict(row: GroupRow) -> str:
    return cells.with_note(cells.verdict(row.figures.verdict, row.figures.level), row.figures.sentence)


_GROUPS: Final[tuple[Column[GroupRow], ...]] = (
    Column("group", "Group", Kind.TEXT, lambda r: r.group.name, lambda r: cells.group_link(r.group.name)),
    Column(
        "verdict",
        "Verdict",
        Kind.TEXT,
        lambda r: r.figures.verdict.value,
        _verdict,
        lambda r: (r.figures.level.rank, r.figures.verdict.rank, r.figures.lag or 0),
        note=_VERDICTS,
        is_prose=True,
    ),
    Column("state", "State", Kind.TEXT, lambda r: r.group.state.value),
    Column("members", "Members", Kind.NUMBER, lambda r: r.figures.members),
    Column("lag", "Lag", Kind.NUMBER, lambda r: r.figures.lag, _group_lag, note=_LAG_NOTE),
    Column(
        "lag_time",
        "Lag in time",
        Kind.MILLISECONDS,
        lambda r: r.figures.lag_time.ms if r.figures.lag_time else None,
        lambda r: words.age(r.figures.lag_time),
        note="How old the first record is that the group has not read.",
    ),
    Column(
        "trend",
        "Lag trend",
        Kind.NUMBER,
        lambda r: _growth(r.figures),
        lambda r: words.trend(r.figures.produced_per_s, r.figures.consumed_per_s),
        note="What is produced minus what is committed, per second.",
    ),
    Column(
        "catch_up",
        "Caught up in",
        Kind.MILLISECONDS,
        lambda r: r.figures.catch_up_ms,
        lambda r: words.catch_up(r.figures),
        note="At the present rates.",
    ),
    Column(
        "topics",
        "Topics",
        Kind.TEXT,
        lambda r: " ".join(r.figures.topics),
        _topics,
        lambda r: len(r.figures.topics),
        is_prose=True,
    ),
    Column("level", "Level", Kind.TEXT, lambda r: r.figures.level.value, is_shown=False),
    Column("partitions", "Partitions", Kind.NUMBER, lambda r: r.figures.partitions, is_shown=False),
    Column("no_commit", "Without a commit", Kind.NUMBER, lambda r: r.figures.no_commit, is_shown=False),
    Column("lost", "Lost", Kind.NUMBER, lambda r: r.figures.lost, is_shown=False),
    Column("coordinator", "Coordinator", Kind.NUMBER, lambda r: r.group.coordinator, is_shown=False),
    Column("kind", "Kind", Kind.TEXT, lambda r: r.group.kind, is_shown=False),
    Column("protocol", "Assignor", Kind.TEXT, lambda r: r.group.protocol, is_shown=False),
    Column("sentence", "Reason", Kind.TEXT, lambda r: r.figures.sentence, is_shown=False),
)


def _growth(figures: GroupFigures) -> float | None:
    if figures.produced_per_s is None or figures.consumed_per_s is None:
        return None
    return figures.produced_per_s - figures.consumed_per_s


def group_partitions_table(group: str, figures: Figures) -> Table[GroupPartitionFigures]:
    return Table(
        name="group/partitions",
        title="Partitions",
        columns=_PARTITIONS,
        rows=figures.group_partitions.get(group, ()),
        empty="The group has no commit and no member has a partition.",
        sort="-lag",
        level=lambda row: words.LEVEL_CLASSES[row.level],
    )


# How a group reads a partition; whose row it is stands before it.
_READING: Final[tuple[Column[GroupPartitionFigures], ...]] = (
    Column("partition", "Partition", Kind.NUMBER, lambda r: r.partition, lambda r: str(r.partition)),
    Column(
        "verdict",
        "Verdict",
        Kind.TEXT,
        lambda r: r.verdict.value,
        lambda r: cells.verdict(r.verdict, r.level),
        lambda r: (r.level.rank, r.verdict.rank, r.lag or 0),
        note=_VERDICTS,
    ),
    Column("lag", "Lag", Kind.NUMBER, lambda r: r.lag, words.partition_lag, note=_LAG_NOTE),
    Column(
        "lag_time",
        "Lag in time",
        Kind.MILLISECONDS,
        lambda r: r.lag_time.ms if r.lag_time else None,
        lambda r: words.age(r.lag_time),
        note="How old the first record is that the group has not read.",
    ),
)
_CLIENT: Final[Column[GroupPartitionFigures]] = Column(
    "client_id", "Client", Kind.TEXT, lambda r: r.client_id, lambda r: cells.name_text(r.client_id or NONE)
)

_PARTITIONS: Final[tuple[Column[GroupPartitionFigures], ...]] = (
    Column("topic", "Topic", Kind.TEXT, lambda r: r.topic, lambda r: cells.topic_link(r.topic)),
    *_READING,
    Column("committed", "Committed", Kind.NUMBER, lambda r: r.committed_offset),
    Column("end", "End", Kind.NUMBER, lambda r: r.end_offset),
    Column("consumed", "Reads", Kind.NUMBER, lambda r: r.consumed_per_s, lambda r: words.rate(r.consumed_per_s)),
    Column("produced", "Produced", Kind.NUMBER, lambda r: r.produced_per_s, lambda r: words.rate(r.produced_per_s)),
    Column("catch_up", "Caught up in", Kind.MILLISECONDS, lambda r: r.catch_up_ms, words.catch_up),
    Column(
        "loss_eta",
        "Data lost in",
        Kind.MILLISECONDS,
        lambda r: r.loss_eta_ms,
        note="Until retention deletes what the group has not read.",
    ),
    _CLIENT,
    Column("host", "Host", Kind.TEXT, lambda r: r.host, lambda r: cells.name_text(r.host or NONE)),
    Column("member_id", "Member", Kind.TEXT, lambda r: r.member_id, is_shown=False),
    Column("state", "State", Kind.TEXT, lambda r: r.state.value, is_shown=False),
    Column("lost", "Lost", Kind.NUMBER, lambda r: r.lost, is_shown=False),
    Column("sentence", "Reason", Kind.TEXT, lambda r: r.sentence, is_shown=False),
)


def topic_groups_table(topic: str, figures: Figures) -> Table[GroupPartitionFigures]:
    names = figures.topics[topic].groups if topic in figures.topics else ()
    rows = tuple(row for name in names for row in figures.group_partitions.get(name, ()) if row.topic == topic)
    return Table("topic/groups", "Groups", _TOPIC_GROUPS, rows, "No group reads this topic.", "-lag")


_TOPIC_GROUPS: Final[tuple[Column[GroupPartitionFigures], ...]] = (
    Column("group", "Group", Kind.TEXT, lambda r: r.group, lambda r: cells.group_link(r.group)),
    *_READING,
    _CLIENT,
)


def members_table(group: Group) -> Table[Member]:
    return Table("group/members", "Members", _MEMBERS, group.members, "The group has no members.", "client_id")


_MEMBERS: Final[tuple[Column[Member], ...]] = (
    Column("client_id", "Client", Kind.TEXT, lambda r: r.client_id, lambda r: cells.name_text(r.client_id)),
    Column("host", "Host", Kind.TEXT, lambda r: r.host, lambda r: cells.name_text(r.host)),
    Column("partitions", "Partitions", Kind.NUMBER, lambda r: len(r.assigned)),
    Column(
        "instance_id",
        "Static id",
        Kind.TEXT,
        lambda r: r.instance_id,
        lambda r: cells.name_text(r.instance_id or NONE),
    ),
    Column("member_id", "Member id", Kind.TEXT, lambda r: r.member_id, lambda r: cells.name_text(r.member_id)),
)
