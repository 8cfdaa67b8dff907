"""What the members of a group have in common, whatever protocol they speak: they commit what they read, and read on."""

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
from tests.broker.simulation.group_checker import NEVER_MS, GroupChecker, TopicPartitionId

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
TIMEOUT_MS: Final = 3000
BACKOFF_MS: Final = 100

TRY_AGAIN: Final = (
    ErrorCode.coordinator_load_in_progress,
    ErrorCode.coordinator_not_available,
    ErrorCode.not_coordinator,
)
_COMMIT_LATER: Final = (
    *TRY_AGAIN,
    ErrorCode.unknown_member_id,
    ErrorCode.fenced_member_epoch,
    ErrorCode.fenced_instance_id,
    ErrorCode.stale_member_epoch,
    ErrorCode.illegal_generation,
    ErrorCode.rebalance_in_progress,
    # The coordinator is new, and does not know the topics yet.
    ErrorCode.unknown_topic_or_partition,
    ErrorCode.unknown_topic_id,
    # The group is another one: it has become classic, or it is lost.
    ErrorCode.group_id_not_found,
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


class GroupReader(Client):
    def __init__(
        self, cluster: Cluster, checker: GroupChecker, name: str, settings: MemberSettings, rng: Random
    ) -> None:
        super().__init__(cluster, name)
        self.checker = checker
        self.settings = settings
        self.rng = rng
        self.member_id = ""
        self.epoch = 0
        """Or the generation."""
        self.owned: set[TopicPartitionId] = set()
        self.is_gone = False
        """Whether it left or died."""
        self.may_commit = True
        self.revoking_since_ms = NEVER_MS
        """The group cannot have told it before that time to give up what it has not told yet that it gave up."""
        self.asked_since_ms = NEVER_MS
        """The group may wait for an answer of it since then."""
        self._told: frozenset[TopicPartitionId] = frozenset()
        self._commits_under_way = 0
        self._positions: dict[TopicPartitionId, int] = {}
        self._beats = 0
        """Of its timers only the last one counts."""

    def _begin(self) -> None:
        self._beat()
        self.process.call_later(self.settings.commit_every_ms, self._work)

    @property
    def instance_id(self) -> str | None:
        return self.settings.instance_id

    @property
    def rebalance_timeout_ms(self) -> int:
        return self.settings.rebalance_timeout_ms

    @property
    def is_at_rest(self) -> bool:
        raise NotImplementedError

    def subscribe(self, subscription: Subscription) -> None:
        self.settings = self.settings._replace(subscription=subscription)

    def leave(self, *, for_a_while: bool = False) -> None:
        raise NotImplementedError

    def die(self) -> None:
        self.is_gone = True
        self.process.kill()
        self._stop_using()

    def _stop_using(self) -> None:
        self.checker.fenced(self)
        self.owned.clear()
        self._told = frozenset()
        self._positions.clear()

    def _beat(self) -> None:
        """Ask the coordinator what is next."""
        raise NotImplementedError

    def _beat_in(self, delay_ms: int) -> None:
        self._beats += 1
        beat = self._beats
        self.process.call_later(delay_ms, lambda: self._beat() if beat == self._beats else None)

    def _coordinated_since(self, leader_epoch: int, sent_ms: int) -> int:
        """When the coordinator heard of this at the earliest; never if another one was elected meanwhile."""
        state = self.cluster.states.get(COORDINATOR)
        return sent_ms if state is not None and state.leader_epoch == leader_epoch else NEVER_MS

    @property
    def _identity(self) -> dict[str, Any]:
        """Who reads offsets."""
        return {"member_id": self.member_id, "member_epoch": self.epoch}

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

        ask(peer, _OFFSET_COMMIT, _OFFSET_COMMIT_VERSION, fields, answered, timeout_ms=TIMEOUT_MS)

    def _fetch_offset(self, partition: TopicPartitionId) -> None:
        """Where it begins to read; until it knows, it commits nothing."""
        if self.is_gone or partition not in self.owned or partition in self._positions:
            return
        found = self.leader_of(COORDINATOR)
        if found is None:
            self.process.call_later(BACKOFF_MS, lambda: self._fetch_offset(partition))
            return
        wanted = {"topic_id": partition[0], "partition_indexes": [partition[1]]}
        group = {"group_id": GROUP, "topics": [wanted]} | self._identity
        at_least = self.checker.committed.get(partition, -1)

        def answered(answer: Any | PeerFailure) -> None:
            if isinstance(answer, PeerFailure) or answer.groups[0].error_code is not ErrorCode.none:
                self.process.call_later(BACKOFF_MS, lambda: self._fetch_offset(partition))
                return
            entry = answer.groups[0].topics[0].partitions[0]
            if entry.error_code is not ErrorCode.none:
                self.process.call_later(BACKOFF_MS, lambda: self._fetch_offset(partition))
            elif partition in self.owned:
                self.checker.found(self, partition, entry.committed_offset, at_least)
                self._positions.setdefault(partition, max(entry.committed_offset, 0))

        fields = {"groups": [group], "require_stable": True}
        ask(found[0], _OFFSET_FETCH, _OFFSET_FETCH_VERSION, fields, answered, timeout_ms=TIMEOUT_MS)

    def _have_the_topic_made(self) -> None:
        endpoint = self.cluster.world.rng.choice(list(self.cluster.brokers.values())).endpoint
        fields = {"key": GROUP, "key_type": 0}
        peer = self.connection_to(endpoint)
        ask(
            peer,
            FIND_COORDINATOR,
            _FIND_COORDINATOR_VERSION,
            fields,
            lambda _: self._beat_in(BACKOFF_MS),
            timeout_ms=TIMEOUT_MS,
        )
