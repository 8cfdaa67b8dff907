"""A member of a consumer group of KIP-848: it does as the Java client does, and tells the checker what it was told."""

from __future__ import annotations

from collections import defaultdict
from random import Random
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from uuid import UUID

from kio.schema.errors import ErrorCode

from highwater.broker.cluster.peers import PeerFailure, ask
from highwater.broker.topics.internal_topic import OFFSETS_TOPIC
from highwater.common.topic_partition import TopicPartition
from tests.broker.simulation.checker import Violation
from tests.broker.simulation.clients import Client
from tests.broker.simulation.group_checker import NEVER_MS, GroupChecker, Told, TopicPartitionId, shown

if TYPE_CHECKING:
    from tests.broker.simulation.cluster import Cluster

GROUP: Final = "members"
COORDINATOR: Final[TopicPartition] = (OFFSETS_TOPIC, 0)
"""The topic of offsets has one partition in simulations, so that is where every group is."""
_OFFSET_COMMIT: Final = 8
_OFFSET_COMMIT_VERSION: Final = 10
_OFFSET_FETCH: Final = 9
_OFFSET_FETCH_VERSION: Final = 10
FIND_COORDINATOR: Final = 10
_FIND_COORDINATOR_VERSION: Final = 2
HEARTBEAT: Final = 68
HEARTBEAT_VERSION: Final = 1
_JOIN: Final = 0
_LEAVE: Final = -1
_LEAVE_FOR_A_WHILE: Final = -2
_TIMEOUT_MS: Final = 3000
_BACKOFF_MS: Final = 100

TRY_AGAIN: Final = (
    ErrorCode.coordinator_load_in_progress,
    ErrorCode.coordinator_not_available,
    ErrorCode.not_coordinator,
)
_FENCED: Final = (ErrorCode.unknown_member_id, ErrorCode.fenced_member_epoch)
_COMMIT_LATER: Final = (
    *TRY_AGAIN,
    *_FENCED,
    ErrorCode.stale_member_epoch,
    # The coordinator is new, and does not know the topics yet.
    ErrorCode.unknown_topic_or_partition,
    ErrorCode.unknown_topic_id,
)


class Subscription(NamedTuple):
    topics: tuple[str, ...] = ()
    regex: str = ""


class MemberSettings(NamedTuple):
    subscription: Subscription
    instance_id: str | None = None
    rebalance_timeout_ms: int = 5000
    revoke_ms: int = 50
    """How long it works on partitions that it must give up; longer than the rebalance timeout for one that hangs."""
    commit_every_ms: int = 200


class GroupMember(Client):
    def __init__(
        self, cluster: Cluster, checker: GroupChecker, name: str, settings: MemberSettings, rng: Random
    ) -> None:
        super().__init__(cluster, name)
        self.checker = checker
        self.settings = settings
        self.rng = rng
        self.member_id = str(UUID(int=rng.getrandbits(128)))
        self.epoch = _JOIN
        self.owned: set[TopicPartitionId] = set()
        self.is_gone = False
        """Whether it left or died."""
        self.may_commit = True
        self.revoking_since_ms = NEVER_MS
        """The group cannot have told it before that time to give up what it has not told yet that it gave up."""
        self.asked_since_ms = NEVER_MS
        """When the first heartbeat went out after the last one that was answered."""
        self._told: frozenset[TopicPartitionId] = frozenset()
        self._tells_all = True
        self._owned_told: set[TopicPartitionId] | None = None
        """What the group was told last that it owns."""
        self._subscription_told: Subscription | None = None
        self._interval_ms = _BACKOFF_MS
        self._is_asking = False
        self.is_revoking = False
        self._commits_under_way = 0
        self._positions: dict[TopicPartitionId, int] = {}
        self._beats = 0
        """Of its timers only the last one counts."""
        self._beat()
        self.process.call_later(settings.commit_every_ms, self._work)

    @property
    def rebalance_timeout_ms(self) -> int:
        return self.settings.rebalance_timeout_ms

    @property
    def is_at_rest(self) -> bool:
        is_told = self.owned == set(self._told) == self._owned_told
        is_subscribed = self.settings.subscription == self._subscription_told
        return not self.is_revoking and self.epoch > _JOIN and is_told and is_subscribed

    # What happens to it

    def subscribe(self, subscription: Subscription) -> None:
        self.settings = self.settings._replace(subscription=subscription)

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
            ask(found[0], HEARTBEAT, HEARTBEAT_VERSION, fields, lambda _: None, timeout_ms=_TIMEOUT_MS)

    def die(self) -> None:
        self.is_gone = True
        self.process.kill()
        self._stop_using()

    def _stop_using(self) -> None:
        self.checker.fenced(self)
        self.owned.clear()
        self._told = frozenset()
        self._positions.clear()

    # Heartbeats

    def _beat_in(self, delay_ms: int) -> None:
        self._beats += 1
        beat = self._beats
        self.process.call_later(delay_ms, lambda: self._beat() if beat == self._beats else None)

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
                self._beat_in(_BACKOFF_MS)
            elif answer.error_code is ErrorCode.none:
                self._tells_all = False
                self._owned_told, self._subscription_told = owned, subscription
                self._accepted(answer, owned, self._coordinated_since(leader_epoch, now_ms))
            else:
                is_of_the_coordinator = self._coordinated_since(leader_epoch, now_ms) != NEVER_MS
                self._refused(answer.error_code, answer.error_message, is_of_the_coordinator=is_of_the_coordinator)

        ask(peer, HEARTBEAT, HEARTBEAT_VERSION, fields, answered, timeout_ms=_TIMEOUT_MS)

    def _coordinated_since(self, leader_epoch: int, sent_ms: int) -> int:
        """When the coordinator heard of this at the earliest; never if another one was elected meanwhile."""
        state = self.cluster.states.get(COORDINATOR)
        return sent_ms if state is not None and state.leader_epoch == leader_epoch else NEVER_MS

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
        if error_code in _FENCED or (error_code is ErrorCode.group_id_not_found and self.checker.may_lose):
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
        self._beat_in(_BACKOFF_MS)

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
            self.process.call_later(_BACKOFF_MS, self._give_up)
            return
        self.is_revoking = False
        given_up = self.owned - self._told
        self.checker.gave_up(self, given_up)
        self.owned -= given_up
        for partition in given_up:
            self._positions.pop(partition, None)
        self._reconcile()
        self._beat_in(0)

    # Offsets

    def _work(self) -> None:
        if self.is_gone:
            return
        ready = sorted(self._positions.keys() & self.owned)
        found = self.leader_of(COORDINATOR)
        if ready and found is not None and self.may_commit and not self._commits_under_way:
            self._commit(found[0], self.rng.sample(ready, self.rng.randint(1, len(ready))))
        self.process.call_later(self.rng.randint(1, 2 * self.settings.commit_every_ms), self._work)

    def _commit(self, peer: Any, partitions: list[TopicPartitionId]) -> None:
        offsets: dict[TopicPartitionId, tuple[int, bool]] = {}
        topics: defaultdict[UUID, list[dict[str, Any]]] = defaultdict(list)
        for partition in partitions:
            offset = self._positions[partition] = self._positions[partition] + self.rng.randint(1, 5)
            offsets[partition] = offset, self.checker.commits(self, partition, offset)
            wanted = {"partition_index": partition[1], "committed_offset": offset, "committed_metadata": ""}
            topics[partition[0]].append(wanted)
        fields = {
            "group_id": GROUP,
            "generation_id_or_member_epoch": self.epoch,
            "member_id": self.member_id,
            "group_instance_id": self.settings.instance_id,
            "topics": [{"topic_id": topic_id, "partitions": entries} for topic_id, entries in topics.items()],
        }
        self._commits_under_way += 1

        def answered(answer: Any | PeerFailure) -> None:
            self._commits_under_way -= 1
            if isinstance(answer, PeerFailure):
                return
            for topic in answer.topics:
                for entry in topic.partitions:
                    offset, may_be = offsets[topic.topic_id, entry.partition_index]
                    if entry.error_code is ErrorCode.none:
                        self.checker.accepted(self, (topic.topic_id, entry.partition_index), offset, may_be=may_be)
                    elif entry.error_code not in _COMMIT_LATER and not self.checker.may_lose:
                        raise Violation(f"{self.name} was told {entry.error_code.name} for a commit")

        ask(peer, _OFFSET_COMMIT, _OFFSET_COMMIT_VERSION, fields, answered, timeout_ms=_TIMEOUT_MS)

    def _fetch_offset(self, partition: TopicPartitionId) -> None:
        """Where it begins to read; until it knows, it commits nothing."""
        if self.is_gone or partition not in self.owned or partition in self._positions:
            return
        found = self.leader_of(COORDINATOR)
        if found is None:
            self.process.call_later(_BACKOFF_MS, lambda: self._fetch_offset(partition))
            return
        wanted = {"topic_id": partition[0], "partition_indexes": [partition[1]]}
        group = {"group_id": GROUP, "member_id": self.member_id, "member_epoch": self.epoch, "topics": [wanted]}
        at_least = self.checker.committed.get(partition, -1)

        def answered(answer: Any | PeerFailure) -> None:
            if isinstance(answer, PeerFailure) or answer.groups[0].error_code is not ErrorCode.none:
                self.process.call_later(_BACKOFF_MS, lambda: self._fetch_offset(partition))
                return
            entry = answer.groups[0].topics[0].partitions[0]
            if entry.error_code is not ErrorCode.none:
                self.process.call_later(_BACKOFF_MS, lambda: self._fetch_offset(partition))
            elif partition in self.owned:
                self.checker.found(self, partition, entry.committed_offset, at_least)
                self._positions.setdefault(partition, max(entry.committed_offset, 0))

        fields = {"groups": [group], "require_stable": True}
        ask(found[0], _OFFSET_FETCH, _OFFSET_FETCH_VERSION, fields, answered, timeout_ms=_TIMEOUT_MS)

    def _have_the_topic_made(self) -> None:
        endpoint = self.cluster.world.rng.choice(list(self.cluster.brokers.values())).endpoint
        fields = {"key": GROUP, "key_type": 0}
        peer = self.connection_to(endpoint)
        ask(
            peer,
            FIND_COORDINATOR,
            _FIND_COORDINATOR_VERSION,
            fields,
            lambda _: self._beat_in(_BACKOFF_MS),
            timeout_ms=_TIMEOUT_MS,
        )


def by_topic(partitions: set[TopicPartitionId]) -> list[dict[str, Any]]:
    topics: defaultdict[UUID, list[int]] = defaultdict(list)
    for topic_id, partition in sorted(partitions):
        topics[topic_id].append(partition)
    return [{"topic_id": topic_id, "partitions": entries} for topic_id, entries in topics.items()]
