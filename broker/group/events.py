"""The events and effects of a classic group: requests, answers, records to store."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from kio.schema.errors import ErrorCode

NO_GENERATION: Final = -1
NO_MEMBER_ID: Final = ""


class Now(NamedTuple):
    """The time of an event: one for time-outs, which never goes back, and one for what is stored."""

    monotonic_ms: int
    wall_ms: int


class Protocol(NamedTuple):
    """One assignor a member offers, and what it wants that assignor to know."""

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
    """A first join only gets a member id, and must be repeated with it (KIP-394)."""
    may_skip_assignment: bool = False
    """The client understands that it leads and need not assign (KIP-814)."""
    reason: str = "not provided"


class SyncRequest(NamedTuple):
    member_id: str
    generation_id: int
    group_instance_id: str | None = None
    protocol_type: str | None = None
    protocol_name: str | None = None
    assignments: Mapping[str, bytes] = {}


class Leaver(NamedTuple):
    """Who is to leave: by member id, or a static member by its instance id only, as administrators do."""

    member_id: str
    group_instance_id: str | None = None
    reason: str = "not provided"


class JoinedMember(NamedTuple):
    """A member as the leader is told of it."""

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
    """Everybody, for the leader; nobody, for the others."""
    skip_assignment: bool = False


class SyncAnswer(NamedTuple):
    error_code: ErrorCode
    protocol_type: str | None = None
    protocol_name: str | None = None
    assignment: bytes = b""


AnswerJoin = Callable[[JoinAnswer], None]
AnswerSync = Callable[[SyncAnswer], None]


class StoredMember(NamedTuple):
    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    subscription: bytes
    assignment: bytes


@dataclass(frozen=True, slots=True)
class StoredGroup:
    """What outlives the broker of a group's membership."""

    protocol_type: str
    generation_id: int
    protocol_name: str | None
    leader_id: str | None
    state_timestamp_ms: int
    """When the group took its state; -1 where an old format does not tell."""
    members: tuple[StoredMember, ...] = ()


class Answer(NamedTuple):
    """Effect: a request that has waited, or has just come, gets its answer."""

    deliver: Callable[[], None]


class Store(NamedTuple):
    """Effect: write this down, then tell the group with `ClassicGroup.stored` how it went."""

    group: StoredGroup
    then: Callable[[ErrorCode, Now], None]


Effect = Answer | Store
