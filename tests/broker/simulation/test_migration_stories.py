"""What befalls groups with members of both protocols, told step by step; and each rule behind them, broken once."""

from __future__ import annotations

from collections.abc import Callable, Collection
from contextlib import AbstractContextManager
from typing import Any, Final
from unittest.mock import patch

import pytest
from kio.schema.errors import ErrorCode

from highwater.broker.cluster.peers import PeerFailure, ask
from highwater.broker.group.consumer import classic_members, migration
from highwater.broker.group.consumer import group as groups
from highwater.broker.group.embedded import read_assignment
from highwater.broker.group.rebalance import Rebalance
from highwater.broker.group.schemas import GroupKey, encode_group, encode_group_key
from tests.broker.group.consumer_bytes import assignment, subscription
from tests.broker.simulation.clients import Client
from tests.broker.simulation.group_reader import COORDINATOR, GROUP, TRY_AGAIN
from tests.broker.simulation.history import History
from tests.broker.simulation.test_group_stories import GroupStory, Scripted, what_others_have_is_not_withheld

_ALL: Final = {0, 1, 2, 3}
_REBALANCE_MS: Final = 3000
_SESSION_MS: Final = 12_000
_JOIN, _HEARTBEAT, _LEAVE, _SYNC = 11, 12, 13, 14
_VERSIONS: Final = {_JOIN: 9, _HEARTBEAT: 4, _LEAVE: 5, _SYNC: 5}


class ScriptedClassic:
    """A member of the classic protocol that does what a story tells it to do. It gives up nothing by itself."""

    def __init__(self, story: GroupStory, name: str) -> None:
        self._story = story
        self._client = Client(story.cluster, name)
        self.member_id = ""
        self.generation = -1
        self.owned: set[int] = set()
        self.joining: list[Any] = []
        """The answer to the JoinGroup, when it comes."""

    def _send(self, key: int, fields: dict[str, Any], take: Callable[[Any | PeerFailure], None]) -> None:
        found = self._client.leader_of(COORDINATOR)
        if found is None:
            take(PeerFailure.REFUSED)
        else:
            ask(found[0], key, _VERSIONS[key], {"group_id": GROUP} | fields, take, timeout_ms=20_000)

    def _ask(self, key: int, **fields: Any) -> Any:
        answers: list[Any] = []
        for _ in range(1000):
            self._send(key, fields, answers.append)
            self._story.wait(lambda: bool(answers))
            answer = answers.pop()
            if not isinstance(answer, PeerFailure) and answer.error_code not in TRY_AGAIN:
                return answer
            self._story.let_pass(10)
        raise AssertionError("there is no coordinator")

    def send_join(self) -> None:
        """The answer is in `joining` when it comes: in a classic group when the others have joined too."""
        self.joining.clear()

        def take(answer: Any | PeerFailure) -> None:
            if isinstance(answer, PeerFailure) or answer.error_code in TRY_AGAIN:
                self._client.process.call_later(10, self.send_join)
            else:
                self.joining.append(answer)

        self._send(_JOIN, self._join_fields(), take)

    def _join_fields(self) -> dict[str, Any]:
        metadata = subscription(["g1"], {"g1": sorted(self.owned)} if self.owned else {})
        return {
            "session_timeout": _SESSION_MS,
            "rebalance_timeout": _REBALANCE_MS,
            "member_id": self.member_id,
            "group_instance_id": None,
            "protocol_type": "consumer",
            "protocols": [{"name": "even", "metadata": metadata}],
            "reason": None,
        }

    def take_join(self) -> Any:
        self._story.wait(lambda: bool(self.joining))
        (answer,) = self.joining
        assert answer.error_code is ErrorCode.none, answer.error_code
        self.generation = answer.generation_id
        return answer

    def join(self) -> ErrorCode:
        """Join, where nobody else is waited for."""
        answer = self._ask(_JOIN, **self._join_fields())
        if answer.error_code is ErrorCode.member_id_required:
            self.member_id = answer.member_id
            answer = self._ask(_JOIN, **self._join_fields())
        if answer.error_code is ErrorCode.none:
            self.generation = answer.generation_id
        return ErrorCode(answer.error_code)

    def get_id(self) -> None:
        answer = self._ask(_JOIN, **self._join_fields())
        assert answer.error_code is ErrorCode.member_id_required
        self.member_id = answer.member_id

    def _whose(self) -> dict[str, Any]:
        return {"generation_id": self.generation, "member_id": self.member_id, "group_instance_id": None}

    def sync(self, **shares: Collection[int]) -> set[int] | ErrorCode:
        """What it is given, or why not. A leader tells the shares of the members, by their ids."""
        answer = self._ask(
            _SYNC,
            **self._whose(),
            protocol_type="consumer",
            protocol_name="even",
            assignments=[
                {"member_id": id_, "assignment": assignment({"g1": sorted(each)})} for id_, each in shares.items()
            ],
        )
        if answer.error_code is not ErrorCode.none:
            return ErrorCode(answer.error_code)
        given = read_assignment(bytes(answer.assignment))
        assert given is not None
        return set(given.partitions.get("g1", ()))

    def beat(self) -> ErrorCode:
        return ErrorCode(self._ask(_HEARTBEAT, **self._whose()).error_code)


def _classic_pair(story: GroupStory) -> tuple[ScriptedClassic, ScriptedClassic]:
    """A stable classic group of a, which has all, and b, which has just joined and not been given anything yet."""
    a, b = ScriptedClassic(story, "a"), ScriptedClassic(story, "b")
    a.get_id()
    a.send_join()
    a.take_join()
    assert a.sync(**{a.member_id: _ALL}) == _ALL
    a.owned = set(_ALL)
    b.get_id()
    b.send_join()
    assert a.beat() is ErrorCode.rebalance_in_progress
    a.send_join()
    a.take_join()
    b.take_join()
    return a, b


def _mixed_pair(story: GroupStory) -> tuple[ScriptedClassic, Scripted]:
    """A group of the classic member a, which has all, and the consumer c, which waits."""
    a, c = ScriptedClassic(story, "a"), Scripted(story, "c")
    a.get_id()
    a.send_join()
    a.take_join()
    assert a.sync(**{a.member_id: _ALL}) == _ALL
    a.owned = set(_ALL)
    assert c.beat() == set()
    return a, c


def a_consumer_waits_for_a_classic_member(story: GroupStory) -> None:
    a, c = _mixed_pair(story)
    assert a.beat() is ErrorCode.rebalance_in_progress
    assert a.join() is ErrorCode.none
    kept = a.sync()
    assert isinstance(kept, set)
    assert len(kept) == 2
    assert c.beat() == set()
    story.kill_coordinator()
    assert c.beat() == set()
    assert a.beat() is ErrorCode.rebalance_in_progress
    a.owned = kept
    assert a.join() is ErrorCode.none
    assert a.sync() == kept
    assert c.beat() == _ALL - kept


def a_classic_member_waits_for_a_consumer(story: GroupStory) -> None:
    """And it is told when it need not wait any more."""
    c, a = Scripted(story, "c"), ScriptedClassic(story, "a")
    assert c.beat() == _ALL
    story.next_target()
    assert a.join() is ErrorCode.none
    assert a.sync() == set()
    kept = c.beat()
    assert len(kept) == 2
    assert a.beat() is ErrorCode.none
    assert a.sync() == set()
    c.give_up()
    c.beat()
    assert a.beat() is ErrorCode.rebalance_in_progress
    assert a.join() is ErrorCode.none
    assert a.sync() == _ALL - kept


def an_eager_member_that_joins_has_nothing(story: GroupStory) -> None:
    a, c = _mixed_pair(story)
    assert a.beat() is ErrorCode.rebalance_in_progress
    a.owned = set()
    assert a.join() is ErrorCode.none
    kept = a.sync()
    assert isinstance(kept, set)
    assert c.beat() == _ALL - kept


def a_leader_took_what_a_member_still_has(story: GroupStory) -> None:
    """The consumer comes before the member was told."""
    a, b = _classic_pair(story)
    leader = a if a.joining[0].leader == a.member_id else b
    assert not isinstance(leader.sync(**{a.member_id: {0, 1}, b.member_id: ()}), ErrorCode)
    c = Scripted(story, "c")
    assert c.beat().isdisjoint(a.owned)
    assert a.join() is ErrorCode.none
    kept = a.sync()
    assert c.beat().isdisjoint(a.owned)
    assert isinstance(kept, set)
    a.owned &= kept
    a.join()
    assert c.beat() or b.join() is ErrorCode.none


def a_group_becomes_classic_while_a_member_has_what_another_is_to_have(story: GroupStory) -> None:
    """And then a consumer group again, before anybody has joined."""
    a, c = _mixed_pair(story)
    b = ScriptedClassic(story, "b")
    story.next_target()
    assert b.join() is ErrorCode.none
    assert b.sync() == set()
    c.leave()
    story.let_pass(20)
    d = Scripted(story, "d")
    story.next_target()
    assert d.beat().isdisjoint(a.owned)
    assert b.join() is ErrorCode.none
    given = b.sync()
    assert isinstance(given, set)
    assert given.isdisjoint(a.owned)


def another_coordinator_reads_a_group_that_has_just_become_classic(story: GroupStory) -> None:
    """Nobody has joined yet, and all must."""
    a, c = _mixed_pair(story)
    a.owned = set()
    assert a.join() is ErrorCode.none
    given = a.sync()
    assert isinstance(given, set)
    assert len(given) == 2
    c.leave()
    assert a.beat() is ErrorCode.rebalance_in_progress
    story.kill_coordinator()
    assert a.beat() is ErrorCode.rebalance_in_progress
    a.send_join()
    a.take_join()
    assert a.sync(**{a.member_id: _ALL}) == _ALL


def a_classic_member_never_joins_again(story: GroupStory) -> None:
    """The group goes on without it when its time is up, though it sends heartbeats."""
    a, c = _mixed_pair(story)
    for _ in range(3):
        assert a.beat() is ErrorCode.rebalance_in_progress
        story.let_pass(_REBALANCE_MS // 3)
        c.beat()
    story.let_pass(500)
    assert a.beat() is ErrorCode.unknown_member_id
    story.next_target()
    assert c.beat() == _ALL


def a_member_that_was_away_too_long_comes_with_what_it_had(story: GroupStory) -> None:
    a, c = _mixed_pair(story)
    story.let_pass(_SESSION_MS // 2)
    c.beat()
    story.let_pass(_SESSION_MS // 2 + 500)
    story.next_target()
    assert c.beat() == _ALL
    assert a.join() is ErrorCode.unknown_member_id
    a.owned, a.member_id = set(), ""
    assert a.join() is ErrorCode.none
    assert a.sync() == set()


def the_coordinator_dies_before_the_log_has_the_change(story: GroupStory) -> None:
    """The group is classic as before, and what it has stays its own."""
    a, b = _classic_pair(story)
    leader = a if a.joining[0].leader == a.member_id else b
    assert not isinstance(leader.sync(**{a.member_id: {0, 1}, b.member_id: {2, 3}}), ErrorCode)
    c = Scripted(story, "c")
    c.send(0, lambda answer: None)
    story.let_pass(3)
    story.kill_coordinator()
    assert a.beat() in (ErrorCode.none, ErrorCode.rebalance_in_progress)
    assert c.beat().isdisjoint({0, 1, 2, 3})


STORIES: Final[list[Callable[[GroupStory], None]]] = [
    a_consumer_waits_for_a_classic_member,
    a_classic_member_waits_for_a_consumer,
    an_eager_member_that_joins_has_nothing,
    a_leader_took_what_a_member_still_has,
    a_group_becomes_classic_while_a_member_has_what_another_is_to_have,
    another_coordinator_reads_a_group_that_has_just_become_classic,
    a_classic_member_never_joins_again,
    a_member_that_was_away_too_long_comes_with_what_it_had,
    the_coordinator_dies_before_the_log_has_the_change,
]


@pytest.mark.parametrize("tell", STORIES, ids=lambda tell: tell.__name__)
def test_story(tell: Callable[[GroupStory], None]) -> None:
    tell(GroupStory())


# Each of these breaks one rule, and the story that needs it must notice.


def _nobody_is_told_that_the_rest_is_free() -> AbstractContextManager[object]:
    return patch.object(classic_members, "_waits_for_others", lambda *_: True)


def _an_eager_member_has_what_it_had() -> AbstractContextManager[object]:
    return patch.object(classic_members, "by_id", lambda partitions, topics: None)


def _only_the_leader_says_who_has_what() -> AbstractContextManager[object]:
    return patch.object(migration, "_with_owned", lambda assigned, owned: assigned)


def _members_of_a_classic_group_have_their_targets() -> AbstractContextManager[object]:
    """As in Apache Kafka."""
    downgraded = migration.downgraded

    def aimed(group: Any, *rest: Any) -> Any:
        aim = group.draft()
        for member_id, target in group.targets.items():
            held = {topic: dict.fromkeys(indexes, 0) for topic, indexes in target.items()}
            aim.current[member_id] = aim.current[member_id]._replace(assigned=held)
        return downgraded(aim, *rest)

    return patch("highwater.broker.group.consumer.event_queue.downgraded", aimed)


def _a_group_that_became_classic_is_like_any() -> AbstractContextManager[object]:
    def record(classic: Rebalance) -> tuple[bytes, bytes]:
        stored = classic.to_store({member.member_id: member.assignment for member in classic.members})
        return encode_group_key(GroupKey(classic.group_id)), encode_group(stored)

    return patch.object(Rebalance, "first_record", property(record))


def _there_is_all_the_time_to_join() -> AbstractContextManager[object]:
    return patch.object(groups.ConsumerGroup, "expect", lambda *_, **__: None)


def _anybody_is_a_member_again() -> AbstractContextManager[object]:
    return patch.object(classic_members, "_is_somebody_else", lambda *_: None)


@pytest.mark.parametrize(
    ("breaking", "tell"),
    [
        (what_others_have_is_not_withheld, a_consumer_waits_for_a_classic_member),
        (what_others_have_is_not_withheld, a_classic_member_waits_for_a_consumer),
        (_nobody_is_told_that_the_rest_is_free, a_classic_member_waits_for_a_consumer),
        (_an_eager_member_has_what_it_had, an_eager_member_that_joins_has_nothing),
        (_only_the_leader_says_who_has_what, a_leader_took_what_a_member_still_has),
        (
            _members_of_a_classic_group_have_their_targets,
            a_group_becomes_classic_while_a_member_has_what_another_is_to_have,
        ),
        (
            _a_group_that_became_classic_is_like_any,
            another_coordinator_reads_a_group_that_has_just_become_classic,
        ),
        (_there_is_all_the_time_to_join, a_classic_member_never_joins_again),
        (_anybody_is_a_member_again, a_member_that_was_away_too_long_comes_with_what_it_had),
    ],
)
def test_a_story_notices_that_its_rule_is_broken(
    breaking: Callable[[], AbstractContextManager[object]], tell: Callable[[GroupStory], None]
) -> None:
    story = GroupStory()
    with breaking(), pytest.raises(AssertionError):
        tell(story)


@pytest.mark.parametrize("seed", [0, 1, 2, 3])
def test_a_history_with_both_kinds_of_members_runs_clean(seed: int) -> None:
    history = History(seed, has_acls=False, has_members=True, has_classic_members=True)
    verdict = history.run()
    assert verdict.failure is None, "\n".join(verdict.history[-60:])


def _classic_members_have_given_up_all() -> AbstractContextManager[object]:
    return patch.object(classic_members, "by_id", lambda partitions, topics: {})


@pytest.mark.parametrize("breaking", [what_others_have_is_not_withheld, _classic_members_have_given_up_all])
def test_histories_notice_that_a_rule_of_mixed_groups_is_broken(
    breaking: Callable[[], AbstractContextManager[object]],
) -> None:
    with breaking():
        histories = (History(seed, has_acls=False, has_members=True, has_classic_members=True) for seed in range(50))
        assert any(history.run().failure is not None for history in histories)
