"""What must hold of a group of consumers, as its members see it: who uses which partition, and who commits."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable
from typing import Final, NamedTuple, Protocol
from uuid import UUID

from tests.broker.simulation.checker import Violation

TopicPartitionId = tuple[UUID, int]
NEVER_MS: Final = -1


class Watched(Protocol):
    """A member, as far as it is looked at."""

    name: str
    epoch: int
    owned: set[TopicPartitionId]
    is_gone: bool
    asked_since_ms: int
    revoking_since_ms: int

    @property
    def instance_id(self) -> str | None: ...

    @property
    def rebalance_timeout_ms(self) -> int: ...

    @property
    def is_at_rest(self) -> bool: ...


class Told(NamedTuple):
    """An answer to a heartbeat that a member took."""

    epoch: int
    assigned: frozenset[TopicPartitionId]
    """What the member may use now."""
    decided_after_ms: int
    """The coordinator decided this at that time or later."""
    is_of_the_coordinator: bool
    """Whether it came from the broker that was the coordinator all the while."""


class _Life(NamedTuple):
    """Of a member that the group may not have given up."""

    told: Told
    heard_ms: int
    """The coordinator heard it at that time or later."""


class GroupChecker:
    def __init__(self, session_timeout_ms: int, *, may_lose: bool = False) -> None:
        self.session_timeout_ms = session_timeout_ms
        self.may_lose = may_lose
        """Whether unclean elections may cost the group records: it may do anything then."""
        self._users: defaultdict[TopicPartitionId, set[Watched]] = defaultdict(set)
        self._told_last: dict[TopicPartitionId, Watched] = {}
        self._lives: dict[Watched, _Life] = {}
        self.committed: dict[TopicPartitionId, int] = {}
        """The latest offset whose commit was acknowledged."""
        self._tried: dict[TopicPartitionId, int] = {}
        self.contested: set[str] = set()
        """Instances that may be taken over any time, by a join that somebody sent who is gone."""
        self.dismissed: set[Watched] = set()
        """Members that an administrator has removed, or will have."""
        self.handovers = 0
        """How often a partition went from one member to another."""

    # Members

    def told(self, member: Watched, told: Told, now_ms: int) -> None:
        life = self._lives.get(member)
        # A group that had no member counts anew, so that epochs of a member count until it is fenced.
        if life is not None and told.epoch < life.told.epoch and not self.may_lose:
            raise Violation(f"{member.name} was told epoch {told.epoch} after epoch {life.told.epoch}")
        heard_ms = told.decided_after_ms if told.is_of_the_coordinator else NEVER_MS
        self._lives[member] = _Life(told, max(heard_ms, NEVER_MS if life is None else life.heard_ms))
        for partition in told.assigned:
            if member not in self._users[partition]:
                self._begins_to_use(member, partition, now_ms)

    def _begins_to_use(self, member: Watched, partition: TopicPartitionId, now_ms: int) -> None:
        for other in self._users[partition] - {member}:
            if self._is_alive(other, now_ms) and not self.may_lose:
                raise Violation(
                    f"{member.name} was given {shown(partition)}, which {other.name} uses: {self._lives[other]}"
                )
        self.handovers += self._told_last.get(partition, member) is not member
        self._users[partition].add(member)
        self._told_last[partition] = member

    def _is_alive(self, member: Watched, now_ms: int) -> bool:
        """Whether the group cannot have given this member up: neither for its session nor for a slow revocation.

        It may have been told to give partitions up by an answer that was lost.
        """
        life = self._lives.get(member)
        if life is None or member.is_gone or member.instance_id in self.contested or member in self.dismissed:
            return False
        if now_ms >= life.heard_ms + self.session_timeout_ms:
            return False
        since = [each for each in (member.asked_since_ms, member.revoking_since_ms) if each != NEVER_MS]
        return not since or now_ms < min(since) + member.rebalance_timeout_ms

    def gave_up(self, member: Watched, partitions: Iterable[TopicPartitionId]) -> None:
        """The member uses these no more; it has not told the group yet."""
        for partition in partitions:
            self._users[partition].discard(member)

    def check_fencing(self, member: Watched, now_ms: int) -> None:
        """The coordinator says that this is no member, or one of another epoch."""
        if self._is_alive(member, now_ms) and not self.may_lose:
            raise Violation(f"{member.name} is fenced, which was heard in time: {self._lives[member]}")

    def fenced(self, member: Watched) -> None:
        """The member was told that it is none any more, or it leaves: it uses nothing now."""
        self._lives.pop(member, None)
        for users in self._users.values():
            users.discard(member)

    # Offsets

    def commits(self, member: Watched, partition: TopicPartitionId, offset: int) -> bool:
        """A commit goes out; whether it may be accepted: nobody else was told of the partition since the member was."""
        self._tried[partition] = max(offset, self._tried.get(partition, -1))
        return self._told_last.get(partition) is member

    def accepted(self, member: Watched, partition: TopicPartitionId, offset: int, *, may_be: bool) -> None:
        if not may_be and not self.may_lose:
            raise Violation(
                f"a commit of {member.name} for {shown(partition)} was accepted, which "
                f"{self._told_last[partition].name} had been given before it was sent"
            )
        self.committed[partition] = max(offset, self.committed.get(partition, -1))

    def found(self, member: Watched, partition: TopicPartitionId, offset: int, at_least: int) -> None:
        """A member that was given a partition read the offset that is committed."""
        if not at_least <= offset <= self._tried.get(partition, -1) and not self.may_lose:
            raise Violation(
                f"{member.name} found offset {offset} of {shown(partition)} committed; {at_least} was acknowledged, "
                f"{self._tried.get(partition, -1)} tried"
            )

    # The end

    def why_not_at_rest(self, members: Collection[Watched], partitions: Iterable[TopicPartitionId]) -> str | None:
        """Why a group whose members subscribe to the same topics is not as it is to be in the end, or None."""
        waiting = [member.name for member in members if not member.is_at_rest]
        if waiting:
            return f"not at rest: {waiting}"
        epochs = {member.name: member.epoch for member in members}
        if len(set(epochs.values())) > 1:
            return f"epochs {epochs}"
        owned = sorted(partition for member in members for partition in member.owned)
        if owned != sorted(partitions):
            return f"owned {[shown(each) for each in owned]}"
        sizes = {member.name: len(member.owned) for member in members}
        return f"shares {sizes}" if max(sizes.values()) - min(sizes.values()) > 1 else None


def shown(partition: TopicPartitionId) -> str:
    return f"{str(partition[0])[:8]}-{partition[1]}"
