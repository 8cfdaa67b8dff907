"""A member of a consumer group of KIP-848: it does as the Java client does, and tells the checker what it was told."""

from __future__ import annotations

from collections import defaultdict
from random import Random
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from kio.schema.errors import ErrorCode

from highwater.broker.cluster.peers import PeerFailure, ask
from tests.broker.simulation.checker import Violation
from tests.broker.simulation.group_checker import NEVER_MS, GroupChecker, Told, TopicPartitionId, shown
from tests.broker.simulation.group_reader import (
    BACKOFF_MS,
    COORDINATOR,
    GROUP,
    TIMEOUT_MS,
    TRY_AGAIN,
    GroupReader,
    MemberSettings,
    Subscription,
)

if TYPE_CHECKING:
    from tests.broker.simulation.cluster import Cluster

HEARTBEAT: Final = 68
HEARTBEAT_VERSION: Final = 1
_JOIN: Final = 0
_LEAVE: Final = -1
_LEAVE_FOR_A_WHILE: Final = -2
# A group that has become classic meanwhile does not exist for such a member.
_FENCED: Final = (ErrorCode.unknown_member_id, ErrorCode.fenced_member_epoch, ErrorCode.group_id_not_found)


class GroupMember(GroupReader):
    def __init__(
        self, cluster: Cluster, checker: GroupChecker, name: str, settings: MemberSettings, rng: Random
    ) -> None:
        super().__init__(cluster, checker, name, settings, rng)
        self.member_id = str(UUID(int=rng.getrandbits(128)))
        self._tells_all = True
        self._owned_told: set[TopicPartitionId] | None = None
        """What the group was told last that it owns."""
        self._subscription_told: Subscription | None = None
        self._interval_ms = BACKOFF_MS
        self._is_asking = False
        self.is_revoking = False
        self._begin()

    @property
    def is_at_rest(self) -> bool:
        is_told = self.owned == set(self._told) == self._owned_told
        is_subscribed = self.settings.subscription == self._subscription_told
        return not self.is_revoking and self.epoch > _JOIN and is_told and is_subscribed

    # What happens to it

    def leave(self, *, for_a_while: bool = False) -> None:
        """Told to the group once: if that is lost, its session ends."""
        self._stop_using()
        self.is_gone = True
        found = self.leader_of(COORDINATOR)
        if found is not None:
            fields = {
                "group_id": GROUP,
                "member_id": self.member_id,
                "member_epoch": _LEAVE_FOR_A_WHILE if for_a_while else _LEAVE,
                "instance_id": self.settings.instance_id,
                "topic_partitions": None,
            }
            ask(found[0], HEARTBEAT, HEARTBEAT_VERSION, fields, lambda _: None, timeout_ms=TIMEOUT_MS)

    # Heartbeats

    def _beat(self) -> None:
        if self.is_gone or self._is_asking:
            return
        found = self.leader_of(COORDINATOR)
        if found is None:
            self._have_the_topic_made()
            return
        peer, leader_epoch = found
        is_joining = self.epoch == _JOIN
        tells_all = self._tells_all or is_joining
        settings = self.settings
        owned = set() if is_joining else set(self.owned)
        subscription = settings.subscription
        tells_subscription = tells_all or subscription != self._subscription_told
        fields = {
            "group_id": GROUP,
            "member_id": self.member_id,
            "member_epoch": self.epoch,
            "instance_id": settings.instance_id,
            "rebalance_timeout": settings.rebalance_timeout_ms if tells_all else -1,
            "subscribed_topic_names": subscription.topics if tells_subscription else None,
            "subscribed_topic_regex": subscription.regex if tells_subscription else None,
            "topic_partitions": by_topic(owned) if tells_all or owned != self._owned_told else None,
        }
        self._is_asking = True
        now_ms = self.cluster.world.now_ms
        if self.asked_since_ms == NEVER_MS:
            self.asked_since_ms = now_ms

        def answered(answer: Any | PeerFailure) -> None:
            self._is_asking = False
            if self.is_gone:
                return
            if isinstance(answer, PeerFailure):
                self._tells_all = True
                self._beat_in(BACKOFF_MS)
            elif answer.error_code is ErrorCode.none:
                self._tells_all = False
                self._owned_told, self._subscription_told = owned, subscription
                self._accepted(answer, owned, self._coordinated_since(leader_epoch, now_ms))
            else:
                is_of_the_coordinator = self._coordinated_since(leader_epoch, now_ms) != NEVER_MS
                self._refused(answer.error_code, answer.error_message, is_of_the_coordinator=is_of_the_coordinator)

        ask(peer, HEARTBEAT, HEARTBEAT_VERSION, fields, answered, timeout_ms=TIMEOUT_MS)

    def _accepted(self, answer: Any, owned: set[TopicPartitionId], heard_ms: int) -> None:
        """`owned` is what the member had told that it has."""
        epoch_before, self.epoch = self.epoch, answer.member_epoch
        self._interval_ms = max(1, int(answer.heartbeat_interval.total_seconds() * 1000))
        if answer.assignment is not None:
            self._told = frozenset(
                (each.topic_id, partition)
                for each in answer.assignment.topic_partitions
                for partition in each.partitions
            )
        if owned <= self._told:
            self.revoking_since_ms = NEVER_MS
        elif self.revoking_since_ms == NEVER_MS:
            self.revoking_since_ms = self.asked_since_ms
        self.asked_since_ms = NEVER_MS
        if answer.assignment is not None or self.epoch != epoch_before:
            self.cluster.tell(f"{self.name} is told epoch {self.epoch}: {sorted(map(shown, self._told))}")
        self.checker.told(self, Told(self.epoch, self._told, heard_ms, heard_ms != NEVER_MS), self.cluster.world.now_ms)
        self._reconcile()
        self._beat_in(self._interval_ms if self.owned == self._owned_told else 0)

    def _refused(self, error_code: ErrorCode, message: str | None, *, is_of_the_coordinator: bool) -> None:
        self._tells_all = True
        if error_code in _FENCED:
            self.cluster.tell(f"{self.name} is fenced: {message}")
            if is_of_the_coordinator:
                self.checker.check_fencing(self, self.cluster.world.now_ms)
            self._stop_using()
            self.epoch = _JOIN
            self.asked_since_ms = self.revoking_since_ms = NEVER_MS
            self.is_revoking = False
        elif error_code is ErrorCode.fenced_instance_id:
            self.is_gone = True
            self._stop_using()
            return
        elif error_code not in (*TRY_AGAIN, ErrorCode.unreleased_instance_id) and not self.checker.may_lose:
            raise Violation(f"{self.name} was told {error_code.name}: {message}")
        self._beat_in(BACKOFF_MS)

    # Partitions

    def _reconcile(self) -> None:
        """Give up first, then take."""
        if self.is_revoking:
            return
        if self.owned - self._told:
            self.is_revoking = True
            self.process.call_later(self.settings.revoke_ms, self._give_up)
            return
        for partition in sorted(self._told - self.owned):
            self.owned.add(partition)
            self._fetch_offset(partition)

    def _give_up(self) -> None:
        """What it was given again meanwhile, it keeps."""
        if self.is_gone or not self.is_revoking:
            return
        if self._commits_under_way:
            self.process.call_later(BACKOFF_MS, self._give_up)
            return
        self.is_revoking = False
        given_up = self.owned - self._told
        self.checker.gave_up(self, given_up)
        self.owned -= given_up
        for partition in given_up:
            self._positions.pop(partition, None)
        self._reconcile()
        self._beat_in(0)


def by_topic(partitions: set[TopicPartitionId]) -> list[dict[str, Any]]:
    topics: defaultdict[UUID, list[int]] = defaultdict(list)
    for topic_id, partition in sorted(partitions):
        topics[topic_id].append(partition)
    return [{"topic_id": topic_id, "partitions": entries} for topic_id, entries in topics.items()]
