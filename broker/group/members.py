"""The members of one classic group: their ids, the leader, and the assignors that all support.

Invariants: an instance id maps to exactly one static member; the leader, if there is one, is a member; a client that
has a member id but has not joined with it yet (KIP-394) is pending and not a member.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, ValuesView
from typing import Final

from highwater.broker.group.events import AnswerJoin, AnswerSync, JoinedMember, JoinRequest, Protocol, StoredMember

CONSUMER: Final = "consumer"
"""The protocol type of consumers (KIP-26); other users of groups, such as Kafka Connect, have their own."""


class GroupMember:
    __slots__ = (
        "assignment",
        "client_host",
        "client_id",
        "expires_ms",
        "group_instance_id",
        "is_new",
        "join",
        "member_id",
        "protocols",
        "rebalance_timeout_ms",
        "session_timeout_ms",
        "sync",
    )

    def __init__(self, member_id: str, request: JoinRequest) -> None:
        self.member_id = member_id
        self.group_instance_id = request.group_instance_id
        self.client_id = request.client_id
        self.client_host = request.client_host
        self.rebalance_timeout_ms = request.rebalance_timeout_ms
        self.session_timeout_ms = request.session_timeout_ms
        self.protocols = request.protocols
        self.assignment = b""
        self.is_new = False
        """The first join is unanswered, so the client cannot send heartbeats yet."""
        self.expires_ms: int | None = None
        self.join: AnswerJoin | None = None
        """Takes the answer to its JoinGroup, while that waits."""
        self.sync: AnswerSync | None = None
        """Takes the answer to its SyncGroup, while that waits."""

    @classmethod
    def restored(cls, stored: StoredMember, protocol_type: str, protocol_name: str | None) -> GroupMember:
        member = cls(
            stored.member_id,
            JoinRequest(
                stored.member_id,
                protocol_type,
                () if protocol_name is None else (Protocol(protocol_name, stored.subscription),),
                stored.session_timeout_ms,
                stored.rebalance_timeout_ms,
                stored.group_instance_id,
                stored.client_id,
                stored.client_host,
            ),
        )
        member.assignment = stored.assignment
        return member

    @property
    def is_static(self) -> bool:
        return self.group_instance_id is not None

    def metadata(self, protocol_name: str) -> bytes:
        return next(metadata for name, metadata in self.protocols if name == protocol_name)

    def as_told_to_leader(self, protocol_name: str) -> JoinedMember:
        return JoinedMember(self.member_id, self.group_instance_id, self.metadata(protocol_name))

    def stored(self, protocol_name: str, assignment: bytes) -> StoredMember:
        return StoredMember(
            self.member_id,
            self.group_instance_id,
            self.client_id,
            self.client_host,
            self.rebalance_timeout_ms,
            self.session_timeout_ms,
            self.metadata(protocol_name),
            assignment,
        )


class Members:
    def __init__(self) -> None:
        self.leader_id: str | None = None
        self._by_id: dict[str, GroupMember] = {}
        self._static_ids: dict[str, str] = {}
        self._supporters: Counter[str] = Counter()
        """How many members support each assignor."""

    def __len__(self) -> int:
        return len(self._by_id)

    def __iter__(self) -> Iterator[GroupMember]:
        return iter(tuple(self._by_id.values()))

    def __contains__(self, member_id: str) -> bool:
        return member_id in self._by_id

    def __getitem__(self, member_id: str) -> GroupMember:
        return self._by_id[member_id]

    def get(self, member_id: str) -> GroupMember | None:
        return self._by_id.get(member_id)

    def values(self) -> ValuesView[GroupMember]:
        return self._by_id.values()

    def static_id(self, group_instance_id: str) -> str | None:
        """Return the current member id of this instance."""
        return self._static_ids.get(group_instance_id)

    def is_leader(self, member_id: str) -> bool:
        return self.leader_id == member_id

    @property
    def rebalance_timeout_ms(self) -> int:
        """Return the longest rebalance timeout of all members."""
        return max((member.rebalance_timeout_ms for member in self._by_id.values()), default=0)

    def add(self, member: GroupMember) -> None:
        if member.group_instance_id is not None:
            self._static_ids[member.group_instance_id] = member.member_id
        if self.leader_id is None:
            self.leader_id = member.member_id
        self._by_id[member.member_id] = member
        self._supporters.update(_names(member.protocols))

    def remove(self, member_id: str) -> GroupMember | None:
        member = self._by_id.pop(member_id, None)
        if member is None:
            return None
        self._supporters.subtract(_names(member.protocols))
        self._supporters = +self._supporters
        if member.group_instance_id is not None:
            self._static_ids.pop(member.group_instance_id, None)
        if self.leader_id == member_id:
            self.leader_id = next(iter(self._by_id), None)
        return member

    def rename(self, group_instance_id: str, new_member_id: str) -> GroupMember:
        """Give a static member that came back a new member id; its other fields stay."""
        member = self._by_id.pop(self._static_ids[group_instance_id])
        if self.leader_id == member.member_id:
            self.leader_id = new_member_id
        member.member_id = new_member_id
        self._by_id[new_member_id] = member
        self._static_ids[group_instance_id] = new_member_id
        return member

    def update(
        self, member: GroupMember, protocols: tuple[Protocol, ...], rebalance_timeout_ms: int, session_timeout_ms: int
    ) -> None:
        self._supporters.subtract(_names(member.protocols))
        self._supporters.update(_names(protocols))
        self._supporters = +self._supporters
        member.protocols = protocols
        member.rebalance_timeout_ms = rebalance_timeout_ms
        member.session_timeout_ms = session_timeout_ms

    def elect_joined_leader(self) -> bool:
        """Keep the leader if it has joined, else elect a member that has. Returns False when no member has joined."""
        leader = None if self.leader_id is None else self._by_id[self.leader_id]
        if leader is None or leader.join is not None:
            return leader is not None
        self.leader_id = next((member.member_id for member in self._by_id.values() if member.join is not None), None)
        if self.leader_id is None:
            self.leader_id = leader.member_id
            return False
        return True

    # Assignors

    def can_agree(self, protocols: tuple[Protocol, ...]) -> bool:
        """Whether every member supports one of these."""
        return any(self._supporters[name] == len(self._by_id) for name in _names(protocols))

    def vote(self) -> str:
        """Return the assignor that most members prefer, among those that all members support."""
        candidates = {name for name, count in self._supporters.items() if count == len(self._by_id)}
        votes = Counter(
            next(name for name, _ in member.protocols if name in candidates) for member in self._by_id.values()
        )
        return votes.most_common(1)[0][0]


def _names(protocols: tuple[Protocol, ...]) -> frozenset[str]:
    return frozenset(name for name, _ in protocols)
