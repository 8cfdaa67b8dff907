"""The tables of groups: all groups, those of a topic, and the partitions and members of one."""

from __future__ import annotations

from typing import Final, NamedTuple

from highwater.monitor.figures.cluster import Figures
from highwater.monitor.figures.rows import GroupFigures, GroupPartitionFigures
from highwater.monitor.model import Group, Member, Snapshot
from highwater.monitor.web import cells, words
from highwater.monitor.web.tables import Column, Table
from highwater.monitor.web.units import COUNT, GROUP, ID, MILLISECONDS, NAME, NAME_IF_ANY, PER_S, PROSE, TEXT, TOPIC

_READING_NOTES: Final = {
    "verdict": (
        "OK: it keeps up. Falling behind (WARN): it reads, but lag rises. With lost records (LOSS): they were deleted "
        "before it read them. Set back (REWIND): its commit went back. Stalled (STALL): it has members, but commits "
        "nothing. Stopped (STOP): nobody reads. Not judged yet (UNKNOWN): not seen for long enough."
    ),
    "lag": "Offsets between commit and end. From–to: records came between the two answers.",
    "lag_time": "How old the first record is that the group has not read.",
}
_GROUPS_NOTES: Final = {
    **_READING_NOTES,
    "trend": "What is produced minus what is committed, per second.",
    "catch_up": "At the present rates.",
}
_PARTITIONS_NOTES: Final = {**_READING_NOTES, "loss_eta": "Until retention deletes what the group has not read."}


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
        level=lambda row: row.figures.level,
        notes=_GROUPS_NOTES,
    )


def _group_lag(row: GroupRow) -> str:
    return cells.with_note(words.group_lag(row.figures), words.group_lag_rest(row.figures))


def _verdict(row: GroupRow) -> str:
    return cells.with_note(cells.verdict(row.figures.verdict, row.figures.level), row.figures.sentence)


_GROUPS: Final[tuple[Column[GroupRow], ...]] = (
    Column("group", "Group", GROUP, lambda r: r.group.name),
    Column(
        "verdict",
        "Verdict",
        PROSE,
        lambda r: r.figures.verdict.value,
        _verdict,
        lambda r: (r.figures.level.rank, r.figures.verdict.rank, r.figures.lag or 0),
    ),
    Column("state", "State", TEXT, lambda r: r.group.state.value),
    Column("members", "Members", COUNT, lambda r: r.figures.members),
    Column("lag", "Lag", COUNT, lambda r: r.figures.lag, _group_lag),
    Column(
        "lag_time",
        "Lag in time",
        MILLISECONDS,
        lambda r: r.figures.lag_time.ms if r.figures.lag_time else None,
        lambda r: words.age(r.figures.lag_time),
    ),
    Column(
        "trend",
        "Lag trend",
        COUNT,
        lambda r: _growth(r.figures),
        lambda r: words.trend(r.figures.produced_per_s, r.figures.consumed_per_s),
    ),
    Column(
        "catch_up", "Caught up in", MILLISECONDS, lambda r: r.figures.catch_up_ms, lambda r: words.catch_up(r.figures)
    ),
    Column(
        "topics",
        "Topics",
        TEXT,
        lambda r: " ".join(r.figures.topics),
        lambda r: cells.few(r.figures.topics, cells.topic_link),
        lambda r: len(r.figures.topics),
    ),
    Column("level", "", TEXT, lambda r: r.figures.level.value),
    Column("partitions", "", COUNT, lambda r: r.figures.partitions),
    Column("no_commit", "", COUNT, lambda r: r.figures.no_commit),
    Column("lost", "", COUNT, lambda r: r.figures.lost),
    Column("coordinator", "", COUNT, lambda r: r.group.coordinator),
    Column("kind", "", TEXT, lambda r: r.group.kind),
    Column("protocol", "", TEXT, lambda r: r.group.protocol),
    Column("sentence", "", TEXT, lambda r: r.figures.sentence),
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
        level=lambda row: row.level,
        notes=_PARTITIONS_NOTES,
    )


# How a group reads a partition; whose row it is stands before it.
_READING: Final[tuple[Column[GroupPartitionFigures], ...]] = (
    Column("partition", "Partition", ID, lambda r: r.partition),
    Column(
        "verdict",
        "Verdict",
        TEXT,
        lambda r: r.verdict.value,
        lambda r: cells.verdict(r.verdict, r.level),
        lambda r: (r.level.rank, r.verdict.rank, r.lag or 0),
    ),
    Column("lag", "Lag", COUNT, lambda r: r.lag, words.partition_lag),
    Column(
        "lag_time",
        "Lag in time",
        MILLISECONDS,
        lambda r: r.lag_time.ms if r.lag_time else None,
        lambda r: words.age(r.lag_time),
    ),
)
_CLIENT: Final[Column[GroupPartitionFigures]] = Column("client_id", "Client", NAME_IF_ANY, lambda r: r.owner.client_id)

_PARTITIONS: Final[tuple[Column[GroupPartitionFigures], ...]] = (
    Column("topic", "Topic", TOPIC, lambda r: r.topic),
    *_READING,
    Column("committed", "Committed", COUNT, lambda r: r.committed_offset),
    Column("end", "End", COUNT, lambda r: r.end_offset),
    Column("consumed", "Reads", PER_S, lambda r: r.consumed_per_s),
    Column("produced", "Produced", PER_S, lambda r: r.produced_per_s),
    Column("catch_up", "Caught up in", MILLISECONDS, lambda r: r.catch_up_ms, words.catch_up),
    Column("loss_eta", "Data lost in", MILLISECONDS, lambda r: r.loss_eta_ms),
    _CLIENT,
    Column("host", "Host", NAME_IF_ANY, lambda r: r.owner.host),
    Column("member_id", "", TEXT, lambda r: r.owner.member_id),
    Column("state", "", TEXT, lambda r: r.state.value),
    Column("lost", "", COUNT, lambda r: r.lost),
    Column("sentence", "", TEXT, lambda r: r.sentence),
)


def topic_groups_table(topic: str, figures: Figures) -> Table[GroupPartitionFigures]:
    names = figures.topics[topic].groups if topic in figures.topics else ()
    rows = tuple(row for name in names for row in figures.group_partitions.get(name, ()) if row.topic == topic)
    empty = "No group reads this topic."
    return Table("topic/groups", "Groups", _TOPIC_GROUPS, rows, empty, "-lag", notes=_READING_NOTES)


_TOPIC_GROUPS: Final[tuple[Column[GroupPartitionFigures], ...]] = (
    Column("group", "Group", GROUP, lambda r: r.group),
    *_READING,
    _CLIENT,
)


def members_table(group: Group) -> Table[Member]:
    return Table("group/members", "Members", _MEMBERS, group.members, "The group has no members.", "client_id")


_MEMBERS: Final[tuple[Column[Member], ...]] = (
    Column("client_id", "Client", NAME, lambda r: r.client_id),
    Column("host", "Host", NAME, lambda r: r.host),
    Column("partitions", "Partitions", COUNT, lambda r: len(r.assigned)),
    Column("coming", "To come", COUNT, lambda r: len(r.coming)),
    Column("instance_id", "Static id", NAME_IF_ANY, lambda r: r.instance_id),
    Column("member_id", "Member id", NAME, lambda r: r.member_id),
)
