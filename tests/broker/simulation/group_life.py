"""A group of consumers in a history: members come, go, hang and die, and change what they read and how they speak.

The group is of KIP-848, classic, or mixed, as its members are.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING, Any, Final

from kio.schema.errors import ErrorCode

from highwater.broker.cluster import znodes
from highwater.broker.cluster.peers import PeerFailure, ask
from highwater.broker.features import GROUP_VERSION, Finalised
from highwater.broker.settings import metadata_tree
from tests.broker.simulation.checker import Violation
from tests.broker.simulation.classic_member import ClassicConsumer
from tests.broker.simulation.clients import Client
from tests.broker.simulation.group_checker import GroupChecker, TopicPartitionId
from tests.broker.simulation.group_member import GroupMember
from tests.broker.simulation.group_reader import COORDINATOR, GROUP, GroupReader, MemberSettings, Subscription

if TYPE_CHECKING:
    from tests.broker.simulation.cluster import Cluster

TOPICS: Final = {"g1": 5, "g2": 3}
SESSION_TIMEOUT_MS: Final = 12_000
"""Longer than any fault of a history, so that members that live are heard in time."""
_SOON_MS: Final = 8_000
"""In which members give up what they have and get what is new, a few times."""
PROPERTIES: Final = {
    "group.consumer.min.session.timeout.ms": "6000",
    "group.consumer.session.timeout.ms": str(SESSION_TIMEOUT_MS),
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.heartbeat.interval.ms": "500",
}
_LONGEST_REBALANCE_MS: Final = 20_000
_MOST_MEMBERS: Final = 6
_DESCRIBE: Final = 69
_DESCRIBE_VERSION: Final = 1
_DESCRIBE_CLASSIC: Final = 15
_DESCRIBE_CLASSIC_VERSION: Final = 5
_LEAVE_GROUP: Final = 13
_LEAVE_GROUP_VERSION: Final = 5
_CREATE_PARTITIONS: Final = 37
_INCREMENTAL_ALTER_CONFIGS: Final = 44
_ADMIN_VERSION: Final = 1
_GROUP_RESOURCE: Final = 32
_GROUP_SETTINGS: Final = {
    "consumer.assignment.interval.ms": ("0", "4000", None),
    "consumer.heartbeat.interval.ms": ("100", "2000", None),
}
_MOST_PARTITIONS: Final = 8
_TIMEOUT_MS: Final = 3000
_BACKOFF_MS: Final = 100


def finalise_group_version(cluster: Cluster) -> None:
    """Before its brokers start."""
    finalised = Finalised(1, {GROUP_VERSION: 1})
    cluster.ensemble.make(metadata_tree.FEATURES, znodes.encode(metadata_tree.features_value(finalised)))


class GroupLife:
    def __init__(
        self, cluster: Cluster, rng: Random, mixing_rng: Random | None, admin_rng: Random | None = None
    ) -> None:
        """`mixing_rng` decides who is a classic member, so that all else is the same without them; None for nobody.

        `admin_rng` decides what an administrator does; None for nothing.
        """
        self.cluster = cluster
        self.rng = rng
        self.checker = GroupChecker(SESSION_TIMEOUT_MS, may_lose=cluster.checker.may_lose)
        self.members: list[GroupReader] = []
        self._mixing_rng = mixing_rng
        self._admin_rng = admin_rng
        self._classic_share = 0.0 if mixing_rng is None else mixing_rng.choice((0.3, 0.5, 0.8))
        self._is_cooperative = mixing_rng is not None and mixing_rng.random() < 0.5
        finalise_group_version(cluster)
        self._admin = Client(cluster, "admin")
        self._count = 0
        self._is_over = False
        """Whether nothing befalls it any more: then all read the same, and nobody commits."""

    def start(self, replicas: Callable[[], list[int]]) -> None:
        for name, partition_count in TOPICS.items():
            self.cluster.create_topic(name, [replicas() for _ in range(partition_count)], is_used=False)
        for _ in range(self.rng.randint(1, 3)):
            self._join()

    @property
    def topics(self) -> dict[str, int]:
        """The topics of the group, with their partition counts."""
        counts = Counter(topic for topic, _ in self.cluster.assignments)
        return {name: counts[name] for name in TOPICS}

    @property
    def partitions(self) -> list[TopicPartitionId]:
        return [(self.cluster.topic_ids[name], index) for name, count in self.topics.items() for index in range(count)]

    # What befalls it

    def befall(self) -> None:
        self.members = [member for member in self.members if not member.is_gone]
        events = [self._join, self._join, self._leave, self._die, self._pause, self._subscribe, self._bounce]
        rolls = self._mixing_rng is not None and self._mixing_rng.random() < 0.2
        (self._roll if rolls else self.rng.choice(events))()
        if self._admin_rng is not None and self._admin_rng.random() < 0.25:
            self._admin_rng.choice((self._dismiss, self._grow, self._set))(self._admin_rng)

    def _join(
        self,
        instance_id: str | None = None,
        *,
        is_classic: bool | None = None,
        classic_subscription: Subscription | None = None,
    ) -> None:
        if len(self.members) >= _MOST_MEMBERS:
            return
        rng = self.rng
        self._count += 1
        if instance_id is None and rng.random() < 0.3:
            instance_id = f"instance{self._count}"
        if is_classic is None:
            is_classic = self._mixing_rng is not None and self._mixing_rng.random() < self._classic_share
        subscription = self._subscription(is_classic=is_classic)
        settings = MemberSettings(
            (is_classic and classic_subscription) or subscription,
            instance_id,
            rebalance_timeout_ms=rng.choice((2000, 5000, _LONGEST_REBALANCE_MS)),
            revoke_ms=20 if self._is_over else rng.choice((0, 20, 500, 3000)),
        )
        name = f"member{self._count}"
        self._tell(f"{name} joins {'in the classic way ' if is_classic else ''}for {settings}")
        own_rng = Random(rng.getrandbits(64))
        member: GroupReader
        if is_classic:
            is_cooperative = self._is_cooperative
            member = ClassicConsumer(
                self.cluster,
                self.checker,
                name,
                settings,
                own_rng,
                is_cooperative=is_cooperative,
                topics=lambda: self.topics,
            )
        else:
            member = GroupMember(self.cluster, self.checker, name, settings, own_rng)
        member.may_commit = not self._is_over
        self.members.append(member)

    def _subscription(self, *, is_classic: bool) -> Subscription:
        if is_classic:
            names = (("g1", "g2"),) if self._is_over else (("g1", "g2"), ("g2", "g1"), ("g1",), ("g2", "not-there"))
            return Subscription(self.rng.choice(names))
        everything = (Subscription(("g1", "g2")), Subscription(regex="g[12]"), Subscription(("g2",), "g1|not-there"))
        if self._is_over:
            return self.rng.choice(everything)
        some = (
            Subscription(("g1",)),
            Subscription(regex="g2"),
            Subscription(("not-there",), "g1|side.*"),
            Subscription(),
        )
        return self.rng.choice((*everything, *some))

    def _a_member(self) -> GroupReader | None:
        return self.rng.choice(self.members) if self.members else None

    def _leave(self) -> None:
        member = self._a_member()
        if member is not None:
            self._tell(f"{member.name} leaves")
            member.leave()

    def _die(self) -> None:
        member = self._a_member()
        if member is not None:
            self._tell(f"{member.name} dies")
            member.die()

    def _pause(self) -> None:
        member = self._a_member()
        if member is not None and not member.process.is_paused:
            self._tell(f"{member.name} is paused")
            member.process.pause()
            self.cluster.world.call_later(self.rng.choice((500, 4000, 15_000)), member.process.resume)

    def _subscribe(self) -> None:
        member = self._a_member()
        if member is not None:
            member.subscribe(self._subscription(is_classic=isinstance(member, ClassicConsumer)))
            self._tell(f"{member.name} subscribes to {member.settings.subscription}")

    def _bounce(self) -> None:
        """A static member goes and comes back with another member id, and maybe in another protocol.

        A classic group of Kafka does not notice if its subscription is another one then (ClassicGroup, state Stable).
        """
        member = self._a_member()
        if member is None or member.settings.instance_id is None:
            return
        instance_id = member.settings.instance_id
        self._tell(f"{member.name} leaves for a while")
        member.leave(for_a_while=True)
        subscription = member.settings.subscription if isinstance(member, ClassicConsumer) else None
        self.cluster.world.call_later(
            self.rng.choice((100, 2000)), lambda: self._join(instance_id, classic_subscription=subscription)
        )

    def _roll(self) -> None:
        """A member is started anew with the other protocol."""
        member = self._a_member()
        if member is None:
            return
        is_classic = not isinstance(member, ClassicConsumer)
        instance_id = member.settings.instance_id
        self._tell(f"{member.name} is to come back {'in the classic way' if is_classic else 'as a consumer'}")
        member.leave(for_a_while=instance_id is not None)
        self.cluster.world.call_later(
            self.rng.choice((100, 2000)), lambda: self._join(instance_id, is_classic=is_classic)
        )

    # What an administrator does

    def _dismiss(self, rng: Random) -> None:
        """A member is removed, which lives."""
        member = rng.choice(self.members) if self.members else None
        coordinator = self._admin.leader_of(COORDINATOR)
        if member is None or coordinator is None:
            return
        self._tell(f"{member.name} is removed")
        self.checker.dismissed.add(member)
        id_ = {"member_id": "" if member.instance_id else member.member_id, "group_instance_id": member.instance_id}
        fields = {"group_id": GROUP, "members": [id_ | {"reason": None}]}
        ask(coordinator[0], _LEAVE_GROUP, _LEAVE_GROUP_VERSION, fields, lambda _: None, timeout_ms=_TIMEOUT_MS)

    def _grow(self, rng: Random) -> None:
        name, count = rng.choice([*self.topics.items()])
        if 0 < count < _MOST_PARTITIONS:
            self._tell(f"{name} is to have {count + 1} partitions")
            topic = {"name": name, "count": count + 1, "assignments": None}
            self._ask_all(_CREATE_PARTITIONS, {"topics": [topic], "timeout": _TIMEOUT_MS, "validate_only": False})

    def _set(self, rng: Random) -> None:
        name, values = rng.choice([*_GROUP_SETTINGS.items()])
        value = rng.choice(values)
        self._tell(f"the group's {name} is to be {value}")
        change = {"name": name, "config_operation": 0 if value else 1, "value": value}
        resource = {"resource_type": _GROUP_RESOURCE, "resource_name": GROUP, "configs": [change]}
        self._ask_all(_INCREMENTAL_ALTER_CONFIGS, {"resources": [resource], "validate_only": False}, at_most=1)

    def _ask_all(self, key: int, fields: dict[str, Any], at_most: int = 9) -> None:
        """Only the controller does some things."""
        for broker in [*self.cluster.brokers.values()][:at_most]:
            peer = self._admin.connection_to(broker.endpoint)
            ask(peer, key, _ADMIN_VERSION, fields, lambda _: None, timeout_ms=_TIMEOUT_MS)

    def _tell(self, text: str) -> None:
        self.cluster.tell(f"> {text}")

    # The end

    def stop(self) -> None:
        self._is_over = True
        self.members = [member for member in self.members if not member.is_gone]
        # The others may be taken over.
        if all(member.instance_id in self.checker.contested for member in self.members):
            self._join()
        for member in self.members:
            member.process.resume()
            member.may_commit = False
            # Who always takes longer than it has to give up is fenced again and again.
            member.settings = member.settings._replace(revoke_ms=20)
            member.subscribe(self._subscription(is_classic=isinstance(member, ClassicConsumer)))

    @property
    def why_not_at_rest(self) -> str | None:
        return self.checker.why_not_at_rest([member for member in self.members if not member.is_gone], self.partitions)

    def check_convergence(self) -> None:
        """It is at rest: another coordinator reads the same group from the log."""
        # The sessions of members that died have to end.
        self.cluster.world.run(SESSION_TIMEOUT_MS + _SOON_MS)
        # A classic group then waits for the others in its rebalance time.
        self.cluster.world.run(_LONGEST_REBALANCE_MS + _SOON_MS, lambda: self.why_not_at_rest is None)
        before = self._described()
        if before["group_state"] != "Stable" or self.why_not_at_rest is not None:
            raise Violation(f"the group is {before['group_state']} in the end: {self.why_not_at_rest}, {before}")
        self._kill_coordinator(with_all_others=self.rng.random() < 0.5)
        after = self._described()
        if after != before:
            raise Violation(f"another coordinator reads another group: {before}, then {after}")

    def _kill_coordinator(self, *, with_all_others: bool) -> None:
        state = self.cluster.states[COORDINATOR]
        if with_all_others:
            self._tell("all brokers are killed and start again")
            for broker in self.cluster.brokers.values():
                broker.kill()
                broker.start()
        else:
            self._tell("the coordinator is killed")
            self.cluster.brokers[state.leader].kill()
        if not self.cluster.world.run(
            30_000, lambda: self.cluster.states[COORDINATOR].leader_epoch > state.leader_epoch
        ):
            raise Violation("no coordinator is elected")
        # What a heartbeat to the new coordinator may change, it changes now.
        self.cluster.world.run(5_000)
        self.cluster.brokers[state.leader].start_if_not_running()

    def _described(self) -> dict[str, Any]:
        told: list[dict[str, Any]] = []
        asker = Client(self.cluster, f"asker{self.cluster.world.now_ms}")

        def answered(answer: Any | PeerFailure) -> None:
            if isinstance(answer, PeerFailure):
                asker.process.call_later(_BACKOFF_MS, step)
            elif answer.groups[0].error_code is ErrorCode.group_id_not_found:
                ask_for(_DESCRIBE_CLASSIC, _DESCRIBE_CLASSIC_VERSION, {"groups": [GROUP]}, answered_as_classic)
            elif answer.groups[0].error_code is ErrorCode.none:
                told.append(_plain(answer.groups[0]))
            else:
                asker.process.call_later(_BACKOFF_MS, step)

        def answered_as_classic(answer: Any | PeerFailure) -> None:
            if isinstance(answer, PeerFailure) or answer.groups[0].error_code is not ErrorCode.none:
                asker.process.call_later(_BACKOFF_MS, step)
            else:
                told.append(_plain_of_classic(answer.groups[0]))

        def ask_for(key: int, version: int, fields: dict[str, Any], take: Callable[[Any], None]) -> None:
            found = asker.leader_of(COORDINATOR)
            if found is None:
                asker.process.call_later(_BACKOFF_MS, step)
            else:
                asked = fields | {"include_authorized_operations": False}
                ask(found[0], key, version, asked, take, timeout_ms=_TIMEOUT_MS)

        def step() -> None:
            ask_for(_DESCRIBE, _DESCRIBE_VERSION, {"group_ids": [GROUP]}, answered)

        step()
        if not self.cluster.world.run(60_000, lambda: bool(told)):
            raise Violation("nobody describes the group")
        return told[0]


def _plain(group: Any) -> dict[str, Any]:
    """What is the same wherever the group is loaded."""

    def partitions(assignment: Any) -> list[tuple[str, list[int]]]:
        return sorted((str(each.topic_id), sorted(each.partitions)) for each in assignment.topic_partitions)

    return {
        "group_state": group.group_state,
        "group_epoch": group.group_epoch,
        "assignment_epoch": group.assignment_epoch,
        "assignor_name": group.assignor_name,
        "members": sorted(
            (
                member.member_id,
                member.instance_id,
                member.member_epoch,
                member.client_id,
                sorted(member.subscribed_topic_names),
                member.member_type,
                partitions(member.assignment),
                partitions(member.target_assignment),
            )
            for member in group.members
        ),
    }


def _plain_of_classic(group: Any) -> dict[str, Any]:
    members = sorted(
        (member.member_id, member.group_instance_id, member.client_id, bytes(member.member_assignment))
        for member in group.members
    )
    return {"group_state": group.group_state, "members": members}
