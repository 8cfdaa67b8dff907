"""A member of a group that speaks the classic protocol: it does as the Java client does, and leads when it is told to.

An eager one gives up everything before it joins again. A cooperative one goes on with what it has, gives up what it is
no longer assigned, and then joins again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from enum import Enum, auto
from random import Random
from typing import TYPE_CHECKING, Any, Final

from kio.schema.errors import ErrorCode

from highwater.broker.cluster.peers import PeerFailure, ask
from highwater.broker.group.embedded import read_assignment, read_subscription
from tests.broker.group.consumer_bytes import assignment, subscription
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

_JOIN: Final = 11
_HEARTBEAT: Final = 12
_LEAVE: Final = 13
_SYNC: Final = 14
_VERSIONS: Final = {_JOIN: 9, _HEARTBEAT: 4, _LEAVE: 5, _SYNC: 5}
_HEARTBEAT_MS: Final = 500
_JOIN_AGAIN: Final = (ErrorCode.rebalance_in_progress, ErrorCode.request_timed_out)
NO_GENERATION: Final = -1


class _Phase(Enum):
    JOINING = auto()
    SYNCING = auto()
    MEMBER = auto()


class ClassicConsumer(GroupReader):
    def __init__(
        self,
        cluster: Cluster,
        checker: GroupChecker,
        name: str,
        settings: MemberSettings,
        rng: Random,
        *,
        is_cooperative: bool,
        topics: Callable[[], Mapping[str, int]],
    ) -> None:
        """`topics`: those that a leader divides, with their partition counts; it does so anew when these change."""
        super().__init__(cluster, checker, name, settings, rng)
        self._is_cooperative = is_cooperative
        self._topics = topics
        self._topics_divided: Mapping[str, int] = {}
        self._phase = _Phase.JOINING
        self._is_asking = False
        self._is_revoking = False
        self._joined_ms = NEVER_MS
        """The coordinator knows since then, or later, what it had at its last join."""
        self._subscription_told: Subscription | None = None
        self._leads: Iterable[Any] = ()
        """The members that it leads, as it was told."""
        self.epoch = NO_GENERATION
        self._begin()

    @property
    def is_at_rest(self) -> bool:
        is_subscribed = self.settings.subscription == self._subscription_told
        is_settled = self._phase is _Phase.MEMBER and not self._is_revoking
        return is_settled and is_subscribed and self.owned == self._told

    @property
    def _identity(self) -> dict[str, Any]:
        return {"member_id": None, "member_epoch": -1}

    def _whose(self) -> dict[str, Any]:
        return {
            "group_id": GROUP,
            "generation_id": self.epoch,
            "member_id": self.member_id,
            "group_instance_id": self.settings.instance_id,
        }

    # What happens to it

    def leave(self, *, for_a_while: bool = False) -> None:
        """Told to the group once, and not at all by a static member: its session ends, or its instance comes back."""
        self._stop_using()
        self.is_gone = True
        if self.instance_id is not None and self._is_asking:
            self.checker.contested.add(self.instance_id)
        found = self.leader_of(COORDINATOR)
        if found is not None and not for_a_while:
            member = {"member_id": self.member_id, "group_instance_id": self.settings.instance_id, "reason": None}
            fields = {"group_id": GROUP, "members": [member]}
            ask(found[0], _LEAVE, _VERSIONS[_LEAVE], fields, lambda _: None, timeout_ms=TIMEOUT_MS)

    # Requests

    def _beat(self) -> None:
        if self.is_gone or self._is_asking or self._is_revoking:
            return
        has_other_topics = bool(self._leads) and self._topics() != self._topics_divided
        if self._phase is _Phase.MEMBER and (has_other_topics or self.settings.subscription != self._subscription_told):
            self._rejoin()
            return
        if self._phase is _Phase.JOINING:
            self._join()
        elif self._phase is _Phase.SYNCING:
            self._ask(_SYNC, self._whose() | self._lead(), self._synced)
        else:
            self._ask(_HEARTBEAT, self._whose(), self._heard)

    def _ask(
        self, key: int, fields: dict[str, Any], take: Callable[[Any, int], None], *, timeout_ms: int = TIMEOUT_MS
    ) -> None:
        """`take` is told since when the coordinator knows that the member lives."""
        found = self.leader_of(COORDINATOR)
        if found is None:
            self._have_the_topic_made()
            return
        peer, leader_epoch = found
        self._is_asking = True
        sent_ms = self.cluster.world.now_ms

        def answered(answer: Any | PeerFailure) -> None:
            self._is_asking = False
            if self.is_gone:
                return
            if isinstance(answer, PeerFailure) or answer.error_code in TRY_AGAIN:
                self._beat_in(BACKOFF_MS)
                return
            heard_ms = self._coordinated_since(leader_epoch, sent_ms)
            if answer.error_code is ErrorCode.fenced_instance_id:
                self.is_gone = True
                self._stop_using()
            elif answer.error_code in (ErrorCode.unknown_member_id, ErrorCode.illegal_generation):
                self._lost(answer.error_code, heard_ms)
            else:
                take(answer, heard_ms)

        ask(peer, key, _VERSIONS[key], fields, answered, timeout_ms=timeout_ms)

    def _lost(self, error_code: ErrorCode, heard_ms: int) -> None:
        self.cluster.tell(f"{self.name} is told {error_code.name}")
        if error_code is ErrorCode.unknown_member_id:
            if heard_ms != NEVER_MS:
                self.checker.check_fencing(self, self.cluster.world.now_ms)
            self.member_id = ""
        self._stop_using()
        self.epoch = NO_GENERATION
        self.asked_since_ms = NEVER_MS
        self._phase = _Phase.JOINING
        self._beat_in(BACKOFF_MS)

    # Joining

    def _rejoin(self) -> None:
        self._phase = _Phase.JOINING
        if self._is_cooperative or not self.owned:
            self._beat_in(0)
        else:
            self._is_revoking = True
            self.process.call_later(self.settings.revoke_ms, lambda: self._give_up(set(self.owned)))

    def _give_up(self, partitions: set[TopicPartitionId]) -> None:
        if self.is_gone:
            return
        if self._commits_under_way:
            self.process.call_later(BACKOFF_MS, lambda: self._give_up(partitions))
            return
        self._is_revoking = False
        self.checker.gave_up(self, partitions)
        self.owned -= partitions
        for partition in partitions:
            self._positions.pop(partition, None)
        self._phase = _Phase.JOINING
        self._beat_in(0)

    def _join(self) -> None:
        settings = self.settings
        owned: dict[str, list[int]] = {}
        for topic_id, index in sorted(self.owned):
            owned.setdefault(self._name_of(topic_id), []).append(index)
        asked = settings.subscription

        def joined(answer: Any, heard_ms: int) -> None:
            if answer.error_code is ErrorCode.member_id_required:
                self.member_id = answer.member_id
                self._beat_in(0)
            elif answer.error_code is ErrorCode.none:
                self.member_id, self.epoch = answer.member_id, answer.generation_id
                self._subscription_told = asked
                self._joined_ms = heard_ms
                self._leads = answer.members if answer.leader == self.member_id else ()
                self._phase = _Phase.SYNCING
                self._beat_in(0)
            else:
                self._join_again(answer.error_code)

        fields = {
            "group_id": GROUP,
            "session_timeout": self.checker.session_timeout_ms,
            "rebalance_timeout": settings.rebalance_timeout_ms,
            "member_id": self.member_id,
            "group_instance_id": settings.instance_id,
            "protocol_type": "consumer",
            "protocols": [{"name": "even", "metadata": subscription(asked.topics, owned)}],
            "reason": None,
        }
        # As long as the others may take.
        self._ask(_JOIN, fields, joined, timeout_ms=25_000)

    def _join_again(self, error_code: ErrorCode) -> None:
        if error_code not in _JOIN_AGAIN and not self.checker.may_lose:
            raise Violation(f"{self.name} was told {error_code.name}")
        self._phase = _Phase.JOINING
        self._beat_in(BACKOFF_MS)

    def _name_of(self, topic_id: Any) -> str:
        return next(name for name, each in self.cluster.topic_ids.items() if each == topic_id)

    # Partitions

    def _lead(self) -> dict[str, Any]:
        readers = {}
        claimed: dict[tuple[str, int], str] = {}
        for member in self._leads:
            said = read_subscription(bytes(member.metadata))
            assert said is not None
            readers[member.member_id] = said.topics
            for topic, indexes in said.owned.items():
                claimed.update(dict.fromkeys(((topic, index) for index in indexes), member.member_id))
        self._topics_divided = self._topics()
        shares = divided(self._topics_divided, readers, claimed)
        return {
            "protocol_type": "consumer",
            "protocol_name": "even",
            "assignments": [{"member_id": id_, "assignment": assignment(share)} for id_, share in shares.items()],
        }

    def _synced(self, answer: Any, heard_ms: int) -> None:
        if answer.error_code is not ErrorCode.none:
            self._rejoin() if answer.error_code in _JOIN_AGAIN else self._join_again(answer.error_code)
            return
        given = read_assignment(bytes(answer.assignment))
        assert given is not None
        topic_ids = self.cluster.topic_ids
        self._told = frozenset(
            (topic_ids[topic], index) for topic, indexes in given.partitions.items() for index in indexes
        )
        self.cluster.tell(f"{self.name} is told generation {self.epoch}: {sorted(map(shown, self._told))}")
        # The time to give up what it is not told began with its join.
        self._is_heard(heard_ms if self._joined_ms == NEVER_MS else self._joined_ms)
        self.checker.told(self, Told(self.epoch, self._told, heard_ms, heard_ms != NEVER_MS), self.cluster.world.now_ms)
        self._phase = _Phase.MEMBER
        for partition in sorted(self._told - self.owned):
            self.owned.add(partition)
            self._fetch_offset(partition)
        if taken := self.owned - self._told:
            self._is_revoking = True
            self.process.call_later(self.settings.revoke_ms, lambda: self._give_up(taken))
        else:
            self._beat_in(_HEARTBEAT_MS)

    def _heard(self, answer: Any, heard_ms: int) -> None:
        if answer.error_code is ErrorCode.rebalance_in_progress:
            self._rejoin()
        elif answer.error_code is ErrorCode.none:
            self._is_heard(heard_ms)
            self.checker.told(
                self, Told(self.epoch, self._told, heard_ms, heard_ms != NEVER_MS), self.cluster.world.now_ms
            )
            self._beat_in(_HEARTBEAT_MS)
        elif not self.checker.may_lose:
            raise Violation(f"{self.name} was told {answer.error_code.name}")

    def _is_heard(self, heard_ms: int) -> None:
        """Its rebalance time may have begun as soon as it was heard the last time."""
        if heard_ms != NEVER_MS:
            self.asked_since_ms = heard_ms


def divided(
    topics: Mapping[str, int], readers: Mapping[str, frozenset[str]], claimed: Mapping[tuple[str, int], str]
) -> dict[str, dict[str, list[int]]]:
    """Share evenly, keep what members have, and withhold what one has that goes to another."""
    wanted = frozenset().union(*readers.values()) if readers else frozenset()
    partitions = [(topic, index) for topic in sorted(wanted & topics.keys()) for index in range(topics[topic])]
    loads = dict.fromkeys(sorted(readers), 0)
    owners: dict[tuple[str, int], str] = {}
    floor, extra = divmod(len(partitions), len(readers)) if readers else (0, 0)
    for most in (floor, floor + 1):
        for partition in partitions:
            owner = claimed.get(partition)
            if owner is None or partition in owners or partition[0] not in readers[owner] or loads[owner] >= most:
                continue
            if most > floor:
                if not extra:
                    continue
                extra -= 1
            owners[partition] = owner
            loads[owner] += 1
    for partition in partitions:
        if partition not in owners:
            owner = min((id_ for id_ in loads if partition[0] in readers[id_]), key=loads.__getitem__)
            owners[partition] = owner
            loads[owner] += 1
    shares: dict[str, dict[str, list[int]]] = {id_: {} for id_ in readers}
    for (topic, index), owner in owners.items():
        if claimed.get((topic, index), owner) == owner:
            shares[owner].setdefault(topic, []).append(index)
    return shares
