"""What an assignor of consumer groups is given, and what it answers."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from typing import NamedTuple
from uuid import UUID

Assignment = Mapping[UUID, frozenset[int]]
"""The partitions of a member by topic; no topic is without partitions. Nobody changes one after it was made."""


class AssignedMember(NamedTuple):
    """A member of a group that needs a new target."""

    instance_id: str | None
    topics: frozenset[UUID]
    """The topics that the member subscribes to, of those that exist."""
    assigned: Assignment
    """The member's target so far."""


class GroupToAssign(NamedTuple):
    """A group that needs a new target."""

    members: Mapping[str, AssignedMember]
    """Each by its member id."""
    partition_counts: Mapping[UUID, int]
    """The partitions of every topic that a member subscribes to."""
    is_homogeneous: bool
    """Whether all members subscribe to the same topics."""


Target = dict[str, Assignment]
"""The assignment of every member: the same object as before for a member whose partitions stay."""
Assignor = Callable[[GroupToAssign], Generator[None, None, Target]]
"""Yields now and then, so that a large group does not hold up the event loop (`slices`)."""
