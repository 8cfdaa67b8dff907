"""Stories of members of both protocols in one group, told with the answers of the broker that they are played on.

Members of the classic protocol are told as c1, c2 ... in the order in which they come; the others name themselves. The
first epoch of a group is told as e, as Kafka 4.4 begins with 2 where others begin with 1. A request names the member's
epoch, or one that lies so many above or below.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, Final

from kio.schema.errors import ErrorCode

from highwater.broker.group.embedded import read_assignment
from tests.broker.group.consumer_bytes import assignment, subscription
from tests.broker.storytelling import Ask, Story

PROPERTIES: Final = {
    "offsets.topic.num.partitions": 3,
    "transaction.state.log.num.partitions": 3,
    "group.initial.rebalance.delay.ms": 0,
    "group.consumer.assignment.interval.ms": 0,
}
_GROUPS: Final = ("alone", "mixed", "static", "txn", "simple")
_TOO_MUCH: Final = "x" * 5000
_REBALANCE_MS: Final = 300_000


class MixedStory(Story):
    def __init__(self, ask: Ask) -> None:
        super().__init__(ask, width=62)
        self._names: dict[str, str] = {}
        self._ids: dict[str, str] = {}
        self._epochs: dict[str, int] = {}
        """The last epoch of each member and, by its name, the first one of each group."""
        self.group = ""

    def part(self, group: str, text: str) -> None:
        self.group = group
        self.note(text)

    def _epoch(self, member: str, distance: int) -> int:
        return self._epochs.get(member, self._epochs.get(self.group, 1)) + distance

    def _told_epoch(self, member: str, epoch: int) -> str:
        """How an epoch is called that an answer gives to this member."""
        self._epochs[member] = epoch
        return self._called(epoch)

    def _called(self, epoch: int) -> str:
        distance = epoch - self._epochs.setdefault(self.group, epoch)
        return f"e{distance:+}" if distance else "e"

    def prepare(self) -> None:
        """The coordinators are there, and a topic `t` of two partitions."""
        self._until(self._has_topic)
        for group in _GROUPS:
            self._until(partial(self._has_coordinator, group, 0))
            self._until(partial(self._is_loaded, group))
        self._until(partial(self._has_coordinator, "x", 1))
        self._until(lambda: self._begin().error_code is ErrorCode.none)

    def _has_topic(self) -> bool:
        self._create_topic()
        (found,) = self._ask("metadata", 12, topics=[{"name": "t"}], allow_auto_topic_creation=False).topics
        self._topic_id = found.topic_id
        return not found.error_code and len(found.partitions) == 2

    def _is_loaded(self, group: str) -> bool:
        (found,) = self._ask("offset_fetch", 8, groups=[{"group_id": group, "topics": None}]).groups
        return found.error_code is ErrorCode.none

    # Members of the classic protocol

    def join(
        self,
        member: str = "",
        owned: Sequence[int] = (),
        *,
        instance: str | None = None,
        protocol: str = "range",
        kind: str = "consumer",
    ) -> None:
        answer = self._ask(
            "join_group",
            5 if instance else 3,
            group_id=self.group,
            member_id=self._ids.get(member, member),
            group_instance_id=instance,
            session_timeout=300_000,
            rebalance_timeout=_REBALANCE_MS,
            protocol_type=kind,
            protocols=[{"name": protocol, "metadata": subscription(["t"], {"t": owned} if owned else {})}],
        )
        if not answer.error_code and answer.member_id not in self._names and answer.member_id != member:
            name = f"c{sum(each.startswith('c') for each in self._ids) + 1}"
            self._names[answer.member_id] = name
            self._ids[name] = answer.member_id
        request = f"{member or 'somebody'} JoinGroup {protocol} of {kind}{_has(owned)}{_as(instance)}"
        if answer.error_code:
            self._tell(request, answer.error_code.name)
            return
        if answer.generation_id == 1:
            self._epochs.pop(self.group, None)  # a group of another kind may have been there before
        who = self._names.get(answer.member_id, answer.member_id)
        leader = " as leader" if answer.leader == answer.member_id else ""
        self._tell(request, f"{who} generation {self._told_epoch(who, answer.generation_id)}{leader}")

    def sync(
        self, member: str, at: int = 0, gives: dict[str, Sequence[int]] | None = None, *, instance: str | None = None
    ) -> None:
        given = [
            {"member_id": self._ids[who], "assignment": assignment({"t": indexes})}
            for who, indexes in (gives or {}).items()
        ]
        answer = self._ask(
            "sync_group",
            3,
            group_id=self.group,
            generation_id=self._epoch(member, at),
            member_id=self._ids.get(member, member),
            group_instance_id=instance,
            assignments=given,
        )
        read = None if answer.error_code else read_assignment(bytes(answer.assignment))
        outcome = answer.error_code.name if read is None else _told(read.partitions.get("t", ()))
        self._tell(f"{member} SyncGroup{_at(at)}{_as(instance)}", outcome)

    def heartbeat(self, member: str, at: int = 0, *, instance: str | None = None) -> None:
        answer = self._ask(
            "heartbeat",
            3,
            group_id=self.group,
            generation_id=self._epoch(member, at),
            member_id=self._ids.get(member, member),
            group_instance_id=instance,
        )
        self._tell(f"{member} Heartbeat{_at(at)}{_as(instance)}", answer.error_code.name)

    def leave(self, *leavers: tuple[str, str | None]) -> None:
        members = [{"member_id": self._ids.get(who, who), "group_instance_id": instance} for who, instance in leavers]
        answer = self._ask("leave_group", 4, group_id=self.group, members=members)
        asked = ", ".join(f"{who or 'somebody'}{_as(instance)}" for who, instance in leavers)
        outcome = " ".join(each.error_code.name for each in answer.members)
        self._tell(f"{asked} LeaveGroup", outcome if not answer.error_code else answer.error_code.name)

    # Members of the consumer protocol

    def enter(self, member: str, *, instance: str | None = None) -> None:
        told = {"rebalance_timeout": _REBALANCE_MS, "subscribed_topic_names": ["t"], "topic_partitions": []}
        self._beat(f"{member} joins as a consumer", member, 0, instance, told)

    def beat(
        self, member: str, at: int = 0, owned: Sequence[int] | None = None, *, instance: str | None = None
    ) -> None:
        held = None if owned is None else [{"topic_id": self._topic_id, "partitions": owned}]
        request = f"{member} ConsumerGroupHeartbeat{_at(at)}{_has(owned)}"
        self._beat(request, member, self._epoch(member, at), instance, {"topic_partitions": held})

    def exit(self, member: str, *, instance: str | None = None, is_for_good: bool = True) -> None:
        request = f"{member} leaves as a consumer{'' if is_for_good else ' for a while'}"
        self._beat(request, member, -1 if is_for_good else -2, instance, {"topic_partitions": None})

    def _beat(self, request: str, member: str, epoch: int, instance: str | None, told: dict[str, Any]) -> None:
        answer = self._ask(
            "consumer_group_heartbeat",
            1,
            group_id=self.group,
            member_id=self._ids.get(member, member),
            member_epoch=epoch,
            instance_id=instance,
            **told,
        )
        request += _as(instance)
        if answer.error_code:
            self._tell(request, answer.error_code.name)
            return
        of_topics = None if answer.assignment is None else answer.assignment.topic_partitions
        has = "" if of_topics is None else f", {_told([index for topic in of_topics for index in topic.partitions])}"
        now = answer.member_epoch
        self._tell(request, f"epoch {self._told_epoch(member, now) if now > 0 else now}{has}")

    def describe(self) -> None:
        (found,) = self._ask(
            "consumer_group_describe", 1, group_ids=[self.group], include_authorized_operations=False
        ).groups
        members = sorted(
            f"{self._names.get(each.member_id, each.member_id)} {('classic', 'consumer')[each.member_type]}"
            f" epoch {self._called(each.member_epoch)}"
            for each in found.members
        )
        if found.error_code:
            self._tell("ConsumerGroupDescribe", found.error_code.name)
        else:
            epochs = f"{self._called(found.group_epoch)}/{self._called(found.assignment_epoch)}"
            self._tell("ConsumerGroupDescribe", f"{found.group_state} {epochs}: {'; '.join(members) or 'nobody'}")
        (classic,) = self._ask("describe_groups", 5, groups=[self.group], include_authorized_operations=False).groups
        self._tell("DescribeGroups", f"{classic.group_state} of {len(classic.members)}")

    def list(self) -> None:
        found = self._ask("list_groups", 5, states_filter=(), types_filter=()).groups
        groups = [each for each in found if each.group_id == self.group]
        told = [f"{each.group_type} {each.protocol_type!r} {each.group_state}" for each in groups]
        self._tell("ListGroups", " ".join(told) or "not there")

    # Offsets

    def commit(self, member: str = "", at: int = 0, *, version: int, metadata: str = "") -> None:
        partition = {"partition_index": 0, "committed_offset": 3, "committed_metadata": metadata}
        answer = self._ask(
            "offset_commit",
            version,
            group_id=self.group,
            member_id=self._ids.get(member, member),
            generation_id_or_member_epoch=self._epoch(member, at) if member else -1,
            topics=[{"name": "t", "partitions": [partition]}],
        )
        (topic,) = answer.topics
        much = " with too much metadata" if metadata == _TOO_MUCH else ""
        self._tell(
            f"{member or 'somebody'} OffsetCommit{_at(at)} v{version}{much}", topic.partitions[0].error_code.name
        )

    def fetch(self, member: str | None = None, at: int = 0, *, require_stable: bool = False) -> None:
        wanted = {
            "group_id": self.group,
            "member_id": None if member is None else self._ids.get(member, member),
            "member_epoch": -1 if member is None else self._epoch(member, at),
            "topics": [{"name": "t", "partition_indexes": [0, 1]}],
        }
        (found,) = self._ask("offset_fetch", 9, groups=[wanted], require_stable=require_stable).groups
        request = f"{member or 'somebody'} OffsetFetch{_at(at)}{', stable' if require_stable else ''}"
        told = [
            each.error_code.name if each.error_code else str(each.committed_offset)
            for topic in found.topics
            for each in sorted(topic.partitions, key=lambda each: int(each.partition_index))
        ]
        self._tell(request, found.error_code.name if found.error_code else " ".join(told))

    def _begin(self) -> Any:
        self._producer = self._ask("init_producer_id", 4, transactional_id="x", transaction_timeout=60_000)
        return self._producer

    def begin(self) -> None:
        """A transaction of a producer that has the group's partition in it."""
        self._until(lambda: self._begin().error_code is ErrorCode.none)
        added = self._ask("add_offsets_to_txn", 3, **self._of_producer, group_id=self.group)
        self._tell("a producer begins", added.error_code.name)

    @property
    def _of_producer(self) -> dict[str, Any]:
        producer = self._producer
        return {
            "transactional_id": "x",
            "producer_id": producer.producer_id,
            "producer_epoch": producer.producer_epoch,
        }

    def commit_in_transaction(
        self, offsets: dict[int, int], told: str = "", member: str = "", at: int | None = None, **fields: Any
    ) -> None:
        metadata = fields.pop("metadata", {})
        partitions = [
            {"partition_index": index, "committed_offset": offset, "committed_metadata": metadata.get(index)}
            for index, offset in offsets.items()
        ]
        answer = self._ask(
            "txn_offset_commit",
            4,
            **(self._of_producer | fields),
            group_id=self.group,
            member_id=self._ids.get(member, member),
            generation_id=-1 if at is None else self._epoch(member, at),
            topics=[{"name": "t", "partitions": partitions}],
        )
        (topic,) = answer.topics
        found = sorted((each.partition_index, each.error_code.name) for each in topic.partitions)
        who = "" if at is None else f" of {member or 'nobody'}{_at(at)}"
        self._tell(f"TxnOffsetCommit {offsets}{who}{told}", " ".join(name for _, name in found))

    def end(self, *, is_commit: bool) -> None:
        answer = self._ask("end_txn", 3, **self._of_producer, committed=is_commit)
        self._tell(f"EndTxn {'commit' if is_commit else 'abort'}", answer.error_code.name)
        # The group comes to the marker after the answer.
        self._until(self._is_stable)

    def _is_stable(self) -> bool:
        wanted = {"group_id": self.group, "topics": [{"name": "t", "partition_indexes": [0, 1]}]}
        (found,) = self._ask("offset_fetch", 8, groups=[wanted], require_stable=True).groups
        return not any(each.error_code for topic in found.topics for each in topic.partitions)

    def zombie(self) -> dict[str, Any]:
        return {"producer_epoch": self._producer.producer_epoch - 1}


def _has(owned: Sequence[int] | None) -> str:
    return f" has {','.join(map(str, owned))}" if owned else ""


def _at(distance: int | None) -> str:
    return f" at {distance:+}" if distance else ""


def _as(instance: str | None) -> str:
    return "" if instance is None else f" as {instance}"


def _told(indexes: Sequence[int] | Any) -> str:
    return f"assigned {','.join(map(str, sorted(indexes))) or 'nothing'}"


def tell(ask: Ask) -> str:
    """All stories, as text."""
    story = MixedStory(ask)
    story.prepare()
    _alone(story)
    _mixed(story)
    _static(story)
    _simple(story)
    _transactional(story)
    return story.text


def _alone(story: MixedStory) -> None:
    story.part("alone", "The one member of a classic group speaks as a consumer: it must join to be one.")
    story.join()
    story.sync("c1", gives={"c1": [0, 1]})
    story.heartbeat("c1")
    story.beat("c1")
    story.beat("c1", 1)
    story.exit("c1")
    story.exit("c1", instance="i", is_for_good=False)
    story.beat("nobody")
    story.describe()
    story.heartbeat("c1")
    story.enter("c1")
    story.describe()
    story.heartbeat("c1")
    story.sync("c1")
    story.commit("c1", version=8)
    story.commit("c1", version=9)

    story.part("alone", "And back.")
    story.join("c1", [0, 1], kind="connect")
    story.join("c1", [0, 1])
    story.describe()
    story.heartbeat("c1")
    story.sync("c1")
    story.beat("c1")
    story.heartbeat("c1")
    story.beat("c1", 1)
    story.join("c1", [0, 1])
    story.leave(("c1", None))
    story.describe()


def _mixed(story: MixedStory) -> None:
    story.part("mixed", "A consumer and a member of the classic protocol.")
    story.enter("m1")
    story.join()
    story.sync("c2")
    story.beat("m1", owned=[0, 1])
    story.describe()
    story.heartbeat("c2")
    story.beat("m1", owned=[0])
    story.heartbeat("c2")
    story.join("c2")
    story.sync("c2")
    story.heartbeat("c2")
    story.describe()

    story.part("mixed", "What is asked in the other protocol.")
    story.heartbeat("m1")
    story.sync("m1")
    for member in ("m1", "c2"):
        for at in (0, -1, 1):
            for version in (8, 9):
                story.commit(member, at, version=version)
            story.fetch(member, at)
    story.commit("nobody", version=9)
    story.fetch("nobody")
    story.fetch()
    story.beat("c2", -1)
    story.beat("c2", 1)
    story.beat("c2")
    story.heartbeat("c2")
    story.describe()
    story.join("c2", protocol="odd")
    story.join("m1", [0], protocol="odd")
    story.join("m1", [0])
    story.describe()
    story.leave(("nobody", None), ("m1", "nowhere"), ("", "nowhere"), ("", None))
    story.leave(("c2", None), ("m1", None))
    story.describe()


def _static(story: MixedStory) -> None:
    story.part("static", "An instance that changes its protocol.")
    story.enter("m2")
    story.join(instance="s")
    story.heartbeat("c3", instance="s")
    story.beat("m3", 1, instance="s")
    story.exit("m3", instance="s")
    story.enter("m3", instance="s")
    story.heartbeat("c3", instance="s")
    story.sync("c3", instance="s")
    story.heartbeat("c3")
    story.enter("m4", instance="s")
    story.join("c3", instance="s")
    story.join(instance="s")
    story.beat("m3", instance="s")
    story.beat("m3")
    story.describe()

    story.part("static", "Who may be removed by what name.")
    story.leave(("m3", "s"))
    story.leave(("nobody", "s"))
    story.leave(("m2", "s"))
    story.leave(("m2", "nowhere"))
    story.leave(("c4", "nowhere"))
    story.describe()
    story.leave(("", "s"))
    story.describe()
    story.exit("m2")


def _simple(story: MixedStory) -> None:
    story.part("simple", "A group that nobody is in.")
    story.list()
    story.commit(version=8, metadata=_TOO_MUCH)
    story.begin()
    story.commit_in_transaction({0: 1}, " with too much metadata", metadata={0: _TOO_MUCH})
    story.end(is_commit=True)
    story.commit("nobody", version=8)
    story.commit("nobody", version=9)
    story.commit(version=9)
    story.list()
    story.fetch()
    story.fetch("nobody")
    story.leave(("nobody", None))
    story.heartbeat("nobody")
    story.sync("nobody")
    story.beat("nobody")
    story.exit("nobody")
    story.describe()
    story.enter("m5")
    story.list()
    story.fetch()
    story.exit("m5")
    story.list()
    story.join("nobody")
    story.join()
    story.list()
    story.fetch()


def _transactional(story: MixedStory) -> None:
    story.part("txn", "Of the TxnOffsetCommits of a transaction some are refused.")
    for is_commit in (True, False):
        story.begin()
        story.commit_in_transaction({0: 5})
        story.commit_in_transaction({0: 7}, member="nobody", at=3)
        story.commit_in_transaction({0: 8}, " of an epoch before", **story.zombie())
        story.commit_in_transaction({0: 9, 1: 6}, " with too much metadata of the first", metadata={0: _TOO_MUCH})
        story.fetch(require_stable=True)
        story.end(is_commit=is_commit)
        story.fetch(require_stable=True)
    story.begin()
    story.commit_in_transaction({0: 7}, member="nobody", at=3)
    story.commit_in_transaction({0: 8})
    story.end(is_commit=True)
    story.fetch(require_stable=True)

    story.part("txn", "With members.")
    story.enter("m6")
    story.join()
    story.begin()
    for offset, (member, at) in enumerate((("m6", 0), ("m6", -1), ("m6", 1), ("c6", 0), ("c6", -1), ("", 0)), 10):
        story.commit_in_transaction({0: offset}, member=member, at=at)
    story.commit_in_transaction({0: 20})
    story.end(is_commit=True)
    story.fetch(require_stable=True)
