"""A consumer group as its records have it: replaying a record is the only way to change it.

    Empty          no members
    Assigning      the group's epoch is above the target's: a new target is to be computed
    Reconciling    a member has not reached the target
    Stable         every member has

A partition has an owner from the record that assigns it until the record by which the member has given it up, so also
while it is pending revocation. Beside the records a group has timers, which no log keeps: they start when records are
applied or a member is heard, and anew after loading. Members may speak the classic protocol: see `classic_members`.
"""

from __future__ import annotations

from collections.abc import Iterable, MutableMapping
from copy import copy
from enum import Enum
from types import MappingProxyType
from typing import Final
from uuid import UUID
from weakref import WeakValueDictionary

from kio.schema.errors import ErrorCode

from highwater.broker.group.assignors.assignor import Assignment
from highwater.broker.group.consumer.deadlines import Deadlines
from highwater.broker.group.consumer.overlay import Overlay
from highwater.broker.group.consumer.schemas import (
    ClassicMember,
    ConsumerMember,
    CurrentAssignment,
    GroupEpoch,
    GroupRecord,
    Held,
    Key,
    MemberState,
    MemberTarget,
    RecordKind,
    ResolvedRegex,
    TargetEpoch,
)

NO_PARTITIONS: Final[Assignment] = MappingProxyType({})

_LOADING_ORDER: Final = (
    RecordKind.GROUP,
    RecordKind.PARTITIONS,
    RecordKind.MEMBER,
    RecordKind.REGEX,
    RecordKind.MEMBER_TARGET,
    RecordKind.TARGET,
    RecordKind.CURRENT,
)


_MAPPINGS: Final = (
    "members",
    "current",
    "targets",
    "regexes",
    "static_ids",
    "owners",
    "topic_counts",
    "regex_counts",
    "assignor_counts",
)


class ConsumerGroupState(Enum):
    """The names are those in the answers to ConsumerGroupDescribe and ListGroups."""

    EMPTY = "Empty"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    STABLE = "Stable"


class ConsumerGroup:
    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.epoch = 0
        """0 for a group that was never stored."""
        self.metadata_hash = 0
        self.target_epoch = 0
        self.target_timestamp_ms = 0
        self.members: MutableMapping[str, ConsumerMember] = {}
        self.current: MutableMapping[str, CurrentAssignment] = {}
        """The assignment of every member."""
        self.targets: MutableMapping[str, Assignment] = {}
        """The targets of the members that have one."""
        self.regexes: MutableMapping[str, ResolvedRegex] = {}
        self.static_ids: MutableMapping[str, str] = {}
        """The member id of each instance id."""
        self.owners: MutableMapping[UUID, MutableMapping[int, str]] = {}
        """The member that has each partition, or that must give it up."""
        self.topic_counts: MutableMapping[str, int] = {}
        self.regex_counts: MutableMapping[str, int] = {}
        self.assignor_counts: MutableMapping[str, int] = {}
        """How many members name a topic, a regular expression, an assignor."""
        self.has_partition_metadata = False
        """Whether there is a record of Kafka 4.0 or before, to be removed."""
        # What no record has
        self.is_metadata_stale = True
        """A topic may have changed since the hash was computed. The broker sets it."""
        self.has_new_topics = True
        """There may be topics that no regular expression was matched against."""
        self._subscriptions: WeakValueDictionary[int, frozenset[str]] = WeakValueDictionary()
        """The sets of topics of the members, by their hashes. Members that name the same share one: it is most of what
        a member takes in memory.
        """
        self._begin_timers()

    def _begin_timers(self) -> None:
        self._session_ends = Deadlines()
        self._revocation_ends = Deadlines()
        self._answer_ends = Deadlines()
        """Until when members of the classic protocol must join again, or fetch what they are given."""

    @property
    def _timers(self) -> tuple[Deadlines, ...]:
        return self._session_ends, self._revocation_ends, self._answer_ends

    def draft(self) -> ConsumerGroup:
        """The group as it will be, without timers: it changes for itself, as long as this one does not change."""
        other = copy(self)
        for name in _MAPPINGS:
            setattr(other, name, Overlay(getattr(self, name)))
        other._begin_timers()
        return other

    # Records

    def replay(self, record: GroupRecord) -> None:
        """Change the group as the record says. Never raises: what contradicts the rest is left out."""
        (kind, _, name), value = record
        if kind is RecordKind.GROUP:
            self.epoch, self.metadata_hash = value if isinstance(value, GroupEpoch) else (0, 0)
        elif kind is RecordKind.PARTITIONS:
            self.has_partition_metadata = value is not None
        elif kind is RecordKind.MEMBER:
            self._set_member(name, value if isinstance(value, ConsumerMember) else None)
        elif kind is RecordKind.TARGET:
            self.target_epoch, self.target_timestamp_ms = value if isinstance(value, TargetEpoch) else (0, 0)
        elif kind is RecordKind.REGEX:
            if isinstance(value, ResolvedRegex):
                self.regexes[name] = value
            else:
                self.regexes.pop(name, None)
        elif name in self.members:
            if kind is RecordKind.CURRENT:
                self._set_current(name, value if isinstance(value, CurrentAssignment) else CurrentAssignment())
            elif isinstance(value, MemberTarget):
                self.targets[name] = value.partitions
            else:
                self.targets.pop(name, None)

    def _set_member(self, member_id: str, member: ConsumerMember | None) -> None:
        before = self.members.get(member_id)
        if before is not None:
            self._count(before, -1)
            if before.instance_id is not None and self.static_ids.get(before.instance_id) == member_id:
                del self.static_ids[before.instance_id]
        if member is not None:
            topics = self._subscriptions.setdefault(hash(member.topics), member.topics)
            if topics is not member.topics and topics == member.topics:
                member = member._replace(topics=topics)
            self.members[member_id] = member
            self.current.setdefault(member_id, CurrentAssignment())
            self._count(member, 1)
            if member.instance_id is not None:
                self.static_ids[member.instance_id] = member_id
        elif before is not None:
            self._set_current(member_id, CurrentAssignment())
            del self.members[member_id], self.current[member_id]
            self.targets.pop(member_id, None)

    def _count(self, member: ConsumerMember, change: int) -> None:
        for counts, names in (
            (self.topic_counts, member.topics),
            (self.regex_counts, (member.regex,)),
            (self.assignor_counts, (member.assignor,)),
        ):
            for name in names:
                if name:
                    counts[name] = counts.get(name, 0) + change
                    if not counts[name]:
                        del counts[name]

    def _set_current(self, member_id: str, current: CurrentAssignment) -> None:
        before = self.current[member_id]
        for topic, indexes in _by_topic(before.assigned, before.pending):
            owners = self._owners_to_change(topic)
            for index in indexes:
                if owners.get(index) == member_id:
                    del owners[index]
        self.current[member_id] = current
        for topic, indexes in _by_topic(current.assigned, current.pending):
            owners = self._owners_to_change(topic)
            for index in indexes:
                owner = owners.setdefault(index, member_id)
                if owner != member_id and self.current[owner].epoch < current.epoch:
                    owners[index] = member_id
        for topic in {*before.assigned, *before.pending}:
            if not self.owners[topic]:
                del self.owners[topic]

    def _owners_to_change(self, topic: UUID) -> MutableMapping[int, str]:
        owners = self.owners.get(topic)
        if owners is None:
            owners = self.owners[topic] = {}
        elif isinstance(self.owners, Overlay) and not isinstance(owners, Overlay):
            owners = self.owners[topic] = Overlay(owners)
        return owners

    def apply(self, records: Iterable[GroupRecord], session_timeout_ms: int, now_ms: int) -> None:
        """Replay records that are in the log now, and start the timers that they ask for (monotonic time)."""
        for record in records:
            self.replay(record)
            (kind, _, member_id), _ = record
            if kind not in (RecordKind.MEMBER, RecordKind.CURRENT):
                continue
            if member_id not in self.members:
                for timer in self._timers:
                    timer.discard(member_id)
                continue
            if kind is RecordKind.MEMBER:
                # It may speak another protocol than before, and have another session time.
                self.heard(member_id, session_timeout_ms, now_ms)
                if self.classic(member_id) is None:
                    self.answered(member_id)
            if kind is RecordKind.CURRENT:
                current = self.current[member_id]
                self._revocation_ends.discard(member_id)
                if current.state is MemberState.UNREVOKED_PARTITIONS and current.pending:
                    self._revocation_ends.set(member_id, now_ms + self.members[member_id].rebalance_timeout_ms)

    @classmethod
    def loaded(
        cls, group_id: str, records: Iterable[GroupRecord], session_timeout_ms: int, now_ms: int
    ) -> tuple[ConsumerGroup, list[str]]:
        """A group from the last record of each key, in any order; and what was contradictory, for the broker's log."""
        group = cls(group_id)
        in_order = sorted(records, key=lambda record: _LOADING_ORDER.index(record.key.kind))
        group.apply(in_order, session_timeout_ms, now_ms)
        return group, group._settle()

    def _settle(self) -> list[str]:
        """Resolve what cannot be: partitions of two members, and epochs above the group's."""
        complaints = []
        for member_id, current in tuple(self.current.items()):
            kept, pending = (self._owned_part(member_id, held) for held in (current.assigned, current.pending))
            if kept != current.assigned or pending != current.pending:
                # The member has to join again, and owns nothing until then that another one has.
                lost = current._replace(state=MemberState.UNKNOWN, assigned=kept, pending=pending)
                self.replay(GroupRecord(Key(RecordKind.CURRENT, self.group_id, member_id), lost))
                complaints.append(f"member {member_id} has partitions of another member and has to join again")
        epoch = max(self.epoch, self.target_epoch, *(current.epoch for current in self.current.values()), 0)
        if epoch > self.epoch:
            complaints.append(f"the epoch is {self.epoch} and was {epoch} before")
            self.replay(GroupRecord(Key(RecordKind.GROUP, self.group_id), GroupEpoch(epoch, self.metadata_hash)))
        return complaints

    def _owned_part(self, member_id: str, held: Held) -> Held:
        owned = {
            topic: {index: epoch for index, epoch in epochs.items() if self.owners[topic].get(index) == member_id}
            for topic, epochs in held.items()
            if topic in self.owners
        }
        return {topic: epochs for topic, epochs in owned.items() if epochs}

    def tombstones(self) -> list[GroupRecord]:
        """The records that delete the group."""
        names: list[tuple[RecordKind, Iterable[str]]] = [
            (RecordKind.CURRENT, self.members),
            (RecordKind.MEMBER_TARGET, self.members),
            (RecordKind.TARGET, ("",)),
            (RecordKind.MEMBER, self.members),
            (RecordKind.REGEX, self.regexes),
            (RecordKind.PARTITIONS, ("",) if self.has_partition_metadata else ()),
            (RecordKind.GROUP, ("",)),
        ]
        return [GroupRecord(Key(kind, self.group_id, name), None) for kind, of_kind in names for name in of_kind]

    # What is asked of it

    @property
    def state(self) -> ConsumerGroupState:
        if not self.members:
            return ConsumerGroupState.EMPTY
        if self.epoch > self.target_epoch:
            return ConsumerGroupState.ASSIGNING
        if all(self.is_reconciled(current) for current in self.current.values()):
            return ConsumerGroupState.STABLE
        return ConsumerGroupState.RECONCILING

    def is_reconciled(self, current: CurrentAssignment) -> bool:
        return current.state is MemberState.STABLE and current.epoch == self.target_epoch

    @property
    def is_empty(self) -> bool:
        return not self.members

    @property
    def topics(self) -> set[str]:
        """The names that the members subscribe to."""
        return set(self.topic_counts).union(*(resolved.topics for resolved in self.regexes.values()))

    def topics_of(self, member: ConsumerMember) -> frozenset[str]:
        """The names that a member subscribes to: those it names and those its regular expression matched."""
        resolved = self.regexes.get(member.regex)
        return member.topics if resolved is None else member.topics | resolved.topics

    def member_of(self, instance_id: str | None) -> str | None:
        """The id of the member that a static member is now."""
        return None if instance_id is None else self.static_ids.get(instance_id)

    def reads_topic(self, name: str) -> bool:
        """Whether a member subscribes to the topic."""
        return name in self.topic_counts or any(name in resolved.topics for resolved in self.regexes.values())

    def check_commit(
        self,
        member_id: str,
        member_epoch: int,
        partitions: Iterable[tuple[UUID | None, int]],
        *,
        is_transactional: bool = False,
    ) -> ErrorCode | None:
        """Return why this member may not commit offsets of these partitions now, or None.

        An epoch older than the member's is fine for partitions that it has had since (KIP-1251). A commit without a
        member, with an epoch below 0, is one of tools and needs a group without members; producers may always commit
        so (KIP-447).
        """
        if member_epoch < 0 and (not self.members or (is_transactional and not member_id)):
            return None
        current = self.current.get(member_id)
        if current is None:
            return ErrorCode.unknown_member_id
        if member_epoch == current.epoch:
            return None
        for topic, index in partitions if 0 <= member_epoch < current.epoch else [(None, 0)]:
            since = None
            if topic is not None:
                since = current.assigned.get(topic, {}).get(index, current.pending.get(topic, {}).get(index))
            if since is None or member_epoch < since:
                return self._stale(member_id)
        return None

    def check_fetch(self, member_id: str | None, member_epoch: int) -> ErrorCode | None:
        """Return why this member may not read the group's offsets now, or None."""
        if member_id is None and member_epoch < 0:
            return None
        current = self.current.get(member_id or "")
        if current is None:
            return ErrorCode.unknown_member_id
        return None if member_epoch == current.epoch else self._stale(member_id or "")

    def _stale(self, member_id: str) -> ErrorCode:
        return ErrorCode.stale_member_epoch if self.classic(member_id) is None else ErrorCode.illegal_generation

    def classic(self, member_id: str) -> ClassicMember | None:
        """What the member is in the classic protocol; None for a member of the consumer protocol, or nobody."""
        member = self.members.get(member_id)
        return None if member is None else member.classic

    # Timers, in monotonic time

    def heard(self, member_id: str, session_timeout_ms: int, now_ms: int) -> None:
        """Begin the member's session anew. Members of the classic protocol have session times of their own."""
        if member_id in self.members:
            classic = self.classic(member_id)
            session_ms = session_timeout_ms if classic is None else classic.session_timeout_ms
            self._session_ends.set(member_id, now_ms + session_ms)

    def expect(self, member_id: str, now_ms: int, *, anew: bool = False) -> None:
        """Give a member of the classic protocol its rebalance time to answer, unless it runs already."""
        if anew or member_id not in self._answer_ends:
            self._answer_ends.set(member_id, now_ms + self.members[member_id].rebalance_timeout_ms)

    def answered(self, member_id: str) -> None:
        self._answer_ends.discard(member_id)

    @property
    def wake_ms(self) -> int | None:
        """When to ask `leaving.expire` next."""
        return min([next_ms for timer in self._timers if (next_ms := timer.next_ms) is not None], default=None)

    def expired(self, now_ms: int) -> list[str]:
        """The members whose time is up."""
        return list(dict.fromkeys(member_id for timer in self._timers for member_id in timer.due(now_ms)))


def _by_topic(*held: Held) -> Iterable[tuple[UUID, Iterable[int]]]:
    return ((topic, indexes) for of_member in held for topic, indexes in of_member.items())
