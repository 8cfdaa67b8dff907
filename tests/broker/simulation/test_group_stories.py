"""What befalls consumer groups of KIP-848, told step by step; and each rule behind them, broken once."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from random import Random
from typing import Any, Final
from unittest.mock import ANY, patch

import pytest
from kio.schema.errors import ErrorCode

from highwater.broker.cluster import znodes
from highwater.broker.cluster.peers import PeerFailure, ask
from highwater.broker.group.consumer import group as groups
from highwater.broker.group.consumer import heartbeat as heartbeats
from highwater.broker.group.consumer import leaving
from highwater.broker.group.consumer import reconcile as reconciling
from highwater.broker.group.consumer.events import HeartbeatRequest
from highwater.broker.replica.partition import Partition
from tests.broker.simulation.clients import Client
from tests.broker.simulation.cluster import Cluster
from tests.broker.simulation.group_checker import GroupChecker
from tests.broker.simulation.group_life import PROPERTIES, SESSION_TIMEOUT_MS, finalise_group_version
from tests.broker.simulation.group_member import HEARTBEAT, HEARTBEAT_VERSION, GroupMember, by_topic
from tests.broker.simulation.group_reader import (
    COORDINATOR,
    FIND_COORDINATOR,
    GROUP,
    TRY_AGAIN,
    MemberSettings,
    Subscription,
)
from tests.broker.simulation.history import History

_REBALANCE_MS: Final = 3000
_TIMEOUT_MS: Final = 3000
_LEAVE: Final = -1
_LEAVE_FOR_A_WHILE: Final = -2


class Scripted:
    """A member that does what a story tells it to do, and no more."""

    def __init__(self, story: GroupStory, name: str, instance_id: str | None = None) -> None:
        self._story = story
        self._client = Client(story.cluster, name)
        self.name = name
        self.instance_id = instance_id
        self.epoch = 0
        self.told: set[int] = set()
        self.owned: set[int] = set()

    def send(self, epoch: int, take: Callable[[Any | PeerFailure], None]) -> None:
        found = self._client.leader_of(COORDINATOR)
        if found is None:
            take(PeerFailure.REFUSED)
            return
        topic_id = self._story.topic_id
        fields = {
            "group_id": GROUP,
            "member_id": self.name,
            "member_epoch": epoch,
            "instance_id": self.instance_id,
            "rebalance_timeout": _REBALANCE_MS,
            "subscribed_topic_names": ["g1"],
            "topic_partitions": by_topic({(topic_id, index) for index in self.owned}),
        }
        ask(found[0], HEARTBEAT, HEARTBEAT_VERSION, fields, take, timeout_ms=_TIMEOUT_MS)

    def answered(self, epoch: int | None = None) -> Any:
        """The answer to a full heartbeat, of whichever coordinator there is; nothing of it is taken."""
        answers: list[Any] = []
        for _ in range(1000):
            self.send(self.epoch if epoch is None else epoch, answers.append)
            self._story.wait(lambda: bool(answers))
            answer = answers.pop()
            if not isinstance(answer, PeerFailure) and answer.error_code not in TRY_AGAIN:
                return answer
            self._story.let_pass(10)
        raise AssertionError(f"{self.name} finds no coordinator")

    def beat(self) -> set[int]:
        """Heartbeat, and take the answer: what the member is told that it may use. It gives up nothing by itself."""
        answer = self.answered()
        assert answer.error_code is ErrorCode.none, (answer.error_code, answer.error_message)
        assert answer.member_epoch >= self.epoch
        self.epoch = answer.member_epoch
        self.told = _indexes(answer)
        if self.owned <= self.told:
            self.owned = set(self.told)
        return self.told

    def give_up(self) -> None:
        self.owned &= self.told

    def leave(self, epoch: int = _LEAVE) -> None:
        assert self.answered(epoch).error_code is ErrorCode.none
        self.owned.clear()


class GroupStory:
    """Three brokers, and a topic g1 that a group reads."""

    def __init__(self, partition_count: int = 4) -> None:
        self.cluster = Cluster(0, properties=PROPERTIES)
        finalise_group_version(self.cluster)
        self.cluster.start()
        self.wait(lambda: self.cluster.is_complete)
        self.partition_count = partition_count
        self._have_offsets_topic_made()
        self.create_topic()

    def _have_offsets_topic_made(self) -> None:
        peer = Client(self.cluster, "asker").connection_to(self.cluster.brokers[1].endpoint)
        ask(peer, FIND_COORDINATOR, 2, {"key": GROUP, "key_type": 0}, lambda _: None, timeout_ms=_TIMEOUT_MS)
        self.wait(lambda: COORDINATOR in self.cluster.states and self.cluster.is_whole)

    def create_topic(self) -> None:
        replicas = [[1 + (index + at) % 3 for at in range(3)] for index in range(self.partition_count)]
        self.cluster.create_topic("g1", replicas, is_used=False)
        self.wait(lambda: len(self.cluster.states) >= self.partition_count and self.cluster.is_whole)

    @property
    def topic_id(self) -> Any:
        return self.cluster.topic_ids["g1"]

    def wait(self, until: Callable[[], bool], *, at_most_ms: int = 30_000) -> None:
        assert self.cluster.world.run(at_most_ms, until), "\n".join(self.cluster.world.history)

    def let_pass(self, duration_ms: int) -> None:
        self.cluster.world.run(duration_ms)

    def kill_coordinator(self) -> None:
        state = self.cluster.states[COORDINATOR]
        self.cluster.brokers[state.leader].kill()
        self.wait(lambda: self.cluster.states[COORDINATOR].leader_epoch > state.leader_epoch)
        self.cluster.brokers[state.leader].start()

    def next_target(self) -> None:
        """So long that a new target may be computed."""
        self.let_pass(1001)


def _indexes(answer: Any) -> set[int]:
    assert answer.assignment is not None
    return {index for each in answer.assignment.topic_partitions for index in each.partitions}


def _a_has_all_and_b_joins(story: GroupStory) -> tuple[Scripted, Scripted]:
    a, b = Scripted(story, "a"), Scripted(story, "b")
    assert a.beat() == {0, 1, 2, 3}
    story.next_target()
    assert b.beat() == set()
    return a, b


def _a_and_b_have_two_each(story: GroupStory) -> tuple[Scripted, Scripted]:
    a, b = _a_has_all_and_b_joins(story)
    a.beat()
    a.give_up()
    assert len(a.beat()) == len(b.beat()) == 2
    a.beat()
    return a, b


def a_partition_has_one_owner_at_a_time(story: GroupStory) -> None:
    """b gets what a has when a has given it up, and not before."""
    a, b = _a_has_all_and_b_joins(story)
    kept = a.beat()
    assert len(kept) == 2
    assert b.beat() == set()
    story.kill_coordinator()
    assert b.beat() == set()
    a.give_up()
    assert a.beat() == kept
    assert b.beat() == {0, 1, 2, 3} - kept


def the_answer_to_a_join_is_lost(story: GroupStory) -> None:
    a = Scripted(story, "a")
    lost = a.answered()
    assert a.beat() == {0, 1, 2, 3}
    assert a.epoch == lost.member_epoch


def the_answer_that_takes_partitions_is_lost(story: GroupStory) -> None:
    a, b = _a_has_all_and_b_joins(story)
    lost = a.answered()
    assert a.beat() == _indexes(lost)
    assert a.epoch == lost.member_epoch
    assert b.beat() == set()


def the_answer_that_gives_partitions_is_lost(story: GroupStory) -> None:
    """b tells its previous epoch then, and is none the worse for it."""
    a, b = _a_has_all_and_b_joins(story)
    a.beat()
    a.give_up()
    a.beat()
    before = b.epoch
    lost = b.answered()
    assert lost.member_epoch >= before
    assert b.beat() == _indexes(lost)
    assert len(b.owned) == 2


def the_answer_to_what_was_given_up_is_lost(story: GroupStory) -> None:
    """a is in the next epoch, and tells the one before."""
    a, b = _a_has_all_and_b_joins(story)
    a.beat()
    a.give_up()
    lost = a.answered()
    assert lost.member_epoch > a.epoch
    story.kill_coordinator()
    assert a.beat() == _indexes(lost)
    assert b.beat() == {0, 1, 2, 3} - a.owned


def a_heartbeat_comes_twice(story: GroupStory) -> None:
    """Whether nothing is to do, partitions are awaited, or are to be given up."""
    a, b = _a_has_all_and_b_joins(story)
    for member in (b, a, b):
        assert member.answered() == member.answered()
        member.beat()
    assert b.owned == set()


def a_partition_is_given_back_before_it_was_given_up(story: GroupStory) -> None:
    """b goes before a gave anything up; c, who comes then, waits for a as b did (KAFKA-16147)."""
    a, b = _a_has_all_and_b_joins(story)
    a.beat()
    b.leave()
    story.next_target()
    a.beat()
    a.give_up()
    assert a.beat() == {0, 1, 2, 3}
    story.next_target()
    c = Scripted(story, "c")
    assert c.beat() == set()
    a.beat()
    assert c.beat() == set()


def a_member_comes_that_waits_for_what_is_pending(story: GroupStory) -> None:
    """What a must give up counts as its own, also for who comes later and for the next coordinator (KAFKA-16147)."""
    a, b = _a_has_all_and_b_joins(story)
    a.beat()
    story.next_target()
    c = Scripted(story, "c")
    for member in (b, c):
        assert member.beat() == set()
    story.kill_coordinator()
    for member in (b, c):
        assert member.beat() == set()


def a_static_member_comes_back_while_it_gives_up(story: GroupStory) -> None:
    """It keeps what it was to keep; what it was to give up is free, as it left."""
    a, b = Scripted(story, "a", "instance"), Scripted(story, "b")
    assert a.beat() == {0, 1, 2, 3}
    story.next_target()
    assert b.beat() == set()
    kept = a.beat()
    a.leave(_LEAVE_FOR_A_WHILE)
    assert b.beat() == {0, 1, 2, 3} - kept
    again = Scripted(story, "a2", "instance")
    assert again.beat() == kept
    assert b.beat() == {0, 1, 2, 3} - kept


def an_instance_that_lives_is_not_replaced(story: GroupStory) -> None:
    a, other = Scripted(story, "a", "instance"), Scripted(story, "b", "instance")
    a.beat()
    assert other.answered().error_code is ErrorCode.unreleased_instance_id
    assert a.beat() == {0, 1, 2, 3}


def a_member_never_gives_up(story: GroupStory) -> None:
    """The group goes on without it when its time is up."""
    a, b = _a_has_all_and_b_joins(story)
    a.beat()
    for _ in range(3):
        story.let_pass(_REBALANCE_MS // 3)
        b.beat()
    story.let_pass(500)
    assert a.answered().error_code is ErrorCode.unknown_member_id
    story.next_target()
    assert b.beat() == {0, 1, 2, 3}


def the_topic_is_deleted_and_made_again(story: GroupStory) -> None:
    """Its partitions are others then."""
    a = Scripted(story, "a")
    a.beat()
    before = story.topic_id
    story.cluster.ensemble.make(znodes.delete_topic_path("g1"))
    story.wait(lambda: not any(topic == "g1" for topic, _ in story.cluster.assignments))
    story.create_topic()
    story.next_target()
    for _ in range(3):
        answer = a.answered()
        a.epoch = answer.member_epoch
        a.owned = (
            _indexes(answer) if {each.topic_id for each in answer.assignment.topic_partitions} != {before} else set()
        )
    assert {each.topic_id for each in answer.assignment.topic_partitions} == {story.topic_id}
    assert _indexes(answer) == {0, 1, 2, 3}


def what_a_coordinator_alone_has_is_told_to_nobody(story: GroupStory) -> None:
    """It read a record that another replica lacks, and dies before that one has it."""
    a, _ = _a_has_all_and_b_joins(story)
    a.beat()
    a.give_up()
    first, second, third = (story.cluster.brokers[id_] for id_ in story.cluster.assignments[COORDINATOR].replicas)
    assert story.cluster.states[COORDINATOR].leader == first.broker_id
    for other in (first, second):
        story.cluster.network.cut(other.host, third.host)
    a.send(a.epoch, lambda answer: None)
    story.let_pass(30)
    answers: list[Any] = []
    for coordinator, last in ((first, second), (second, third)):
        coordinator.kill()
        story.wait(lambda last=last: story.cluster.states[COORDINATOR].leader == last.broker_id)  # type: ignore[misc]
        for _ in range(30 if last is second else 0):
            a.send(a.epoch, answers.append)
            story.let_pass(20)
    story.cluster.network.heal_all()
    for broker in (first, second):
        broker.start()
    a.epoch = max(answer.member_epoch for answer in answers if not isinstance(answer, PeerFailure))
    a.beat()


STORIES: Final[list[Callable[[GroupStory], None]]] = [
    what_a_coordinator_alone_has_is_told_to_nobody,
    a_partition_has_one_owner_at_a_time,
    the_answer_to_a_join_is_lost,
    the_answer_that_takes_partitions_is_lost,
    the_answer_that_gives_partitions_is_lost,
    the_answer_to_what_was_given_up_is_lost,
    a_heartbeat_comes_twice,
    a_partition_is_given_back_before_it_was_given_up,
    a_member_comes_that_waits_for_what_is_pending,
    a_static_member_comes_back_while_it_gives_up,
    an_instance_that_lives_is_not_replaced,
    a_member_never_gives_up,
    the_topic_is_deleted_and_made_again,
]


@pytest.mark.parametrize("tell", STORIES, ids=lambda tell: tell.__name__)
def test_story(tell: Callable[[GroupStory], None]) -> None:
    tell(GroupStory())


# Each of these breaks one rule, and the story that needs it must notice.


def what_others_have_is_not_withheld() -> AbstractContextManager[object]:
    reconcile = reconciling.reconcile

    def lenient(current: Any, target: Any, *told: Any) -> Any:
        return reconcile(current, target._replace(is_free=lambda topic, index: True), *told)

    return patch.object(heartbeats, "reconcile", lenient)


def _what_is_pending_has_no_owner() -> AbstractContextManager[object]:
    """KAFKA-16147"""
    by_topic = groups._by_topic
    return patch.object(groups, "_by_topic", lambda assigned, pending: by_topic(assigned))


def _nobody_waits_for_what_is_pending() -> AbstractContextManager[object]:
    return patch.object(reconciling, "_has", lambda owned, partitions: False)


def _a_full_heartbeat_is_answered_like_any() -> AbstractContextManager[object]:
    return patch.object(HeartbeatRequest, "is_full", False)


def _the_previous_epoch_is_fenced() -> AbstractContextManager[object]:
    return patch.object(heartbeats, "_is_part", lambda owned, assigned: False)


def _who_is_away_has_what_is_pending() -> AbstractContextManager[object]:
    return patch.object(leaving, "_away", lambda current: current._replace(epoch=_LEAVE_FOR_A_WHILE))


def _an_instance_goes_to_whoever_asks() -> AbstractContextManager[object]:
    return patch.object(heartbeats, "cannot_join", lambda group, request, settings: None)


def _there_is_all_the_time_to_give_up() -> AbstractContextManager[object]:
    told = heartbeats._told

    def patient(before: Any, request: HeartbeatRequest) -> Any:
        return told(before, request)._replace(rebalance_timeout_ms=1_000_000)

    return patch.object(heartbeats, "_told", patient)


def _topics_stay_what_they_were() -> AbstractContextManager[object]:
    return patch.object(heartbeats, "metadata_hash", lambda names, topics: ANY)


def _what_is_read_is_told() -> AbstractContextManager[object]:
    return patch.object(Partition, "has_caught_up_with_consumers", True)


@pytest.mark.parametrize(
    ("breaking", "tell"),
    [
        (_what_is_read_is_told, what_a_coordinator_alone_has_is_told_to_nobody),
        (what_others_have_is_not_withheld, a_partition_has_one_owner_at_a_time),
        (_what_is_pending_has_no_owner, a_member_comes_that_waits_for_what_is_pending),
        (_nobody_waits_for_what_is_pending, a_partition_is_given_back_before_it_was_given_up),
        (_a_full_heartbeat_is_answered_like_any, the_answer_that_takes_partitions_is_lost),
        (_a_full_heartbeat_is_answered_like_any, the_answer_that_gives_partitions_is_lost),
        (_the_previous_epoch_is_fenced, the_answer_to_what_was_given_up_is_lost),
        (_who_is_away_has_what_is_pending, a_static_member_comes_back_while_it_gives_up),
        (_an_instance_goes_to_whoever_asks, an_instance_that_lives_is_not_replaced),
        (_there_is_all_the_time_to_give_up, a_member_never_gives_up),
        (_topics_stay_what_they_were, the_topic_is_deleted_and_made_again),
    ],
)
def test_a_story_notices_that_its_rule_is_broken(
    breaking: Callable[[], AbstractContextManager[object]], tell: Callable[[GroupStory], None]
) -> None:
    story = GroupStory()
    with breaking(), pytest.raises(AssertionError):
        tell(story)


@pytest.mark.parametrize(
    "breaking", [what_others_have_is_not_withheld, _what_is_pending_has_no_owner, _nobody_waits_for_what_is_pending]
)
def test_histories_notice_that_a_partition_has_two_owners(
    breaking: Callable[[], AbstractContextManager[object]],
) -> None:
    with breaking():
        # The second fails today where the first does not.
        histories = (
            History(seed, has_acls=False, has_members=True, has_classic_members=False) for seed in (1, 0, *range(2, 50))
        )
        assert any(history.run().failure is not None for history in histories)


@pytest.mark.parametrize("seed", [0, 1, 2, 229])
def test_a_history_with_a_group_runs_clean(seed: int) -> None:
    """In 229 a member lost the answer that gave it partitions, and then waited in vain to be rid of them."""
    history = History(seed, has_acls=False, has_members=True, has_classic_members=False)
    verdict = history.run()
    assert verdict.failure is None, "\n".join(verdict.history[-60:])
    assert history.group is not None
    assert history.group.checker.handovers > 0


# Members that do as real ones do.


def _members(story: GroupStory, count: int, settings: MemberSettings) -> tuple[GroupChecker, list[GroupMember]]:
    checker = GroupChecker(SESSION_TIMEOUT_MS)
    rng = Random(count)
    return checker, [GroupMember(story.cluster, checker, f"m{n}", settings, Random(rng.random())) for n in range(count)]


def test_many_members_that_join_at_once_are_at_rest_soon() -> None:
    """A target for each of them would take as many intervals."""
    story = GroupStory(partition_count=60)
    checker, members = _members(story, 30, MemberSettings(Subscription(("g1",)), rebalance_timeout_ms=_REBALANCE_MS))
    partitions = [(story.topic_id, index) for index in range(60)]
    story.wait(lambda: checker.why_not_at_rest(members, partitions) is None, at_most_ms=_REBALANCE_MS + 2 * 500)


@pytest.mark.parametrize("after_ms", range(1, 16, 2))
def test_a_coordinator_dies_between_an_append_and_its_answer(after_ms: int) -> None:
    """Who asks the next one again is the member that it would have been."""
    story = GroupStory()
    a, b = _a_has_all_and_b_joins(story)
    a.beat()
    a.give_up()
    a.send(a.epoch, lambda answer: None)
    b.send(b.epoch, lambda answer: None)
    story.let_pass(after_ms)
    story.kill_coordinator()
    kept = a.beat()
    assert len(kept) == 2
    assert b.beat() == {0, 1, 2, 3} - kept
    assert a.epoch == b.epoch


def test_a_cluster_that_starts_again_leaves_a_group_as_it_is() -> None:
    """A coordinator is one before it knows of the topics: it must not think that they are gone."""
    story = GroupStory()
    a, b = _a_and_b_have_two_each(story)
    for broker in story.cluster.brokers.values():
        broker.kill()
        broker.start()
    for _ in range(100):
        assert a.beat() | b.beat() == {0, 1, 2, 3}
        assert a.epoch == b.epoch == 2
        story.let_pass(10)


@pytest.mark.parametrize("late_ms", range(-4, 3))
def test_a_member_is_not_welcomed_while_it_is_removed(late_ms: int) -> None:
    """Its session ends, and while the record of that is appended it is heard again: it is a member still or no more."""
    story = GroupStory()
    a, b = _a_and_b_have_two_each(story)
    heard_ms = story.cluster.world.now_ms
    while story.cluster.world.now_ms < heard_ms + SESSION_TIMEOUT_MS - 500:
        story.let_pass(400)
        b.beat()
    story.let_pass(heard_ms + SESSION_TIMEOUT_MS + late_ms - story.cluster.world.now_ms)
    error_code = a.answered().error_code
    story.let_pass(100)
    assert a.answered().error_code is error_code
