"""The events and effects of a group: requests, answers, records to store."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from typing import Final, NamedTuple

from kio.schema.errors import ErrorCode

NO_GENERATION: Final = -1
NO_MEMBER_ID: Final = ""
NO_STATE_TIMESTAMP: Final = -1


class Now(NamedTuple):
    """The time of an event: monotonic for time-outs, and of the wall clock for stored values."""

    monotonic_ms: int
    wall_ms: int


class Protocol(NamedTuple):
    """An assignor that a member supports, and the member's metadata for it."""

    name: str
    metadata: bytes


class JoinRequest(NamedTuple):
    member_id: str
    protocol_type: str
    protocols: tuple[Protocol, ...]
    session_timeout_ms: int
    rebalance_timeout_ms: int
    group_instance_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    must_know_member_id: bool = False
    """A first join only returns a member id; the client must join again with this id (KIP-394)."""
    may_skip_assignment: bool = False
    """The client supports being the leader without a new assignment (KIP-814)."""
    reason: str = "not provided"

    def new_member_id(self, unique: str) -> str:
        return f"{self.client_id if self.group_instance_id is None else self.group_instance_id}-{unique}"


class SyncRequest(NamedTuple):
    member_id: str
    generation_id: int
    group_instance_id: str | None = None
    protocol_type: str | None = None
    protocol_name: str | None = None
    assignments: Mapping[str, bytes] = {}


class Leaver(NamedTuple):
    """A member to remove, by member id, or by instance id only, as administrators remove static members."""

    member_id: str
    group_instance_id: str | None = None
    reason: str = "not provided"


class Committer(NamedTuple):
    """The member and generation of a commit; the defaults are a simple consumer, which is not a member."""

    member_id: str = NO_MEMBER_ID
    group_instance_id: str | None = None
    generation_id: int = NO_GENERATION
    """The epoch of a member of a consumer group."""
    knows_epochs: bool = True
    """Whether the request is of a version for members of consumer groups."""


class JoinedMember(NamedTuple):
    """A member in the leader's answer to JoinGroup."""

    member_id: str
    group_instance_id: str | None
    metadata: bytes


class JoinAnswer(NamedTuple):
    error_code: ErrorCode
    member_id: str = NO_MEMBER_ID
    generation_id: int = NO_GENERATION
    protocol_type: str | None = None
    protocol_name: str | None = None
    leader_id: str = ""
    members: tuple[JoinedMember, ...] = ()
    """All members for the leader; empty for the others."""
    skip_assignment: bool = False


class SyncAnswer(NamedTuple):
    error_code: ErrorCode
    protocol_type: str | None = None
    protocol_name: str | None = None
    assignment: bytes = b""


AnswerJoin = Callable[[JoinAnswer], None]
AnswerSync = Callable[[SyncAnswer], None]
AnswerLeave = Callable[[list[ErrorCode]], None]
"""Takes an error code for each of those that leave, in order."""


class StoredMember(NamedTuple):
    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    subscription: bytes
    assignment: bytes


class StoredGroup(NamedTuple):
    """The membership of a group as it is stored in the log."""

    protocol_type: str
    generation_id: int
    protocol_name: str | None
    leader_id: str | None
    state_timestamp_ms: int
    """When the group entered its state; -1 if an old format does not have it."""
    members: tuple[StoredMember, ...] = ()


class Answer(NamedTuple):
    """Effect: answer a waiting or new request."""

    deliver: Callable[[], None]


class Store(NamedTuple):
    """Effect: append these keys and values to the log as one batch; their outcome goes to `GroupProtocol.stored`."""

    records: Sequence[tuple[bytes, bytes | None]]
    then: Callable[[ErrorCode, Now], None]
    is_patient: bool = False
    """Wait for replicas as long as it takes, as it must be known whether the log has the records."""


class Work(NamedTuple):
    """Effect: run these steps in slices, then execute the effects that they return."""

    steps: Generator[None, None, Sequence[Effect]]


Effect = Answer | Store | Work
