"""Consumer groups of KIP-848 through the dispatcher, on a node without sockets, over kills of the broker."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from highwater.broker.handlers import consumer_group_describe
from tests.broker.group.asking import GroupHarness, successive_harnesses
from tests.broker.handlers.harness import Pending, versions
from tests.broker.manual_clock import ManualClock

T0, T1, T3 = ("t", 0), ("t", 1), ("t", 3)


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Callable[..., GroupHarness]]:
    """Each call takes up the same directory, after the one before was killed."""
    yield from successive_harnesses(tmp_path / "log")


@pytest.fixture
def node(make: Callable[..., GroupHarness]) -> GroupHarness:
    harness = make()
    harness.find()
    return harness


def assigned(answer: Any) -> list[int] | None:
    """The partitions of `t` in an answer; None if it has no assignment."""
    assert (answer.error_code, answer.error_message) == (ErrorCode.none, None)
    if answer.assignment is None:
        return None
    return [index for topic in answer.assignment.topic_partitions for index in topic.partitions]


def described(node: GroupHarness, group: str = "g") -> Any:
    (found,) = node.ask("consumer_group_describe", 1, group_ids=[group], include_authorized_operations=False).groups
    return found


def set_level(node: GroupHarness, level: int) -> Any:
    update = {"feature": "group.version", "max_version_level": level, "upgrade_type": 1 if level else 2}
    return node.ask("update_features", 2, timeout=1000, feature_updates=[update])


def two_members(node: GroupHarness) -> None:
    """Members a and b, each with two partitions, at epoch 2."""
    assert assigned(node.beat("a")) == [0, 1, 2, 3]
    assert assigned(node.beat("b")) == []
    node.advance(1000)
    kept = assigned(node.beat("a", 1))
    assert kept is not None
    assert len(kept) == 2
    assert (waiting := node.beat("b", 1)).member_epoch == 2
    assert assigned(waiting) is None, "a still has them"
    assert node.beat("a", 1, topic_partitions=set(kept)).member_epoch == 2
    told = assigned(node.beat("b", 2))
    assert told is not None
    assert sorted(kept + told) == [0, 1, 2, 3]


class TestHeartbeats:
    @pytest.mark.parametrize("version", versions("consumer_group_heartbeat"))
    def test_a_member_joins_and_leaves(self, node: GroupHarness, version: int) -> None:
        joined = node.beat("" if version == 0 else "a", version=version)
        assert joined.member_id
        assert (joined.member_epoch, assigned(joined)) == (1, [0, 1, 2, 3])
        assert joined.heartbeat_interval.total_seconds() == 5
        still = node.beat(joined.member_id, 1, version=version)
        assert (still.member_epoch, assigned(still)) == (1, None)
        assert node.beat(joined.member_id, -1, version=version).member_epoch == -1
        assert described(node).group_state == "Empty"
        assert node.beat(joined.member_id, 1, version=version).error_code == ErrorCode.unknown_member_id

    def test_a_partition_goes_to_another_member_when_the_first_has_given_it_up(self, node: GroupHarness) -> None:
        two_members(node)
        assert described(node).group_state == "Stable"

    def test_a_kill_loses_no_epoch(self, make: Callable[..., GroupHarness]) -> None:
        node = make()
        node.find()
        two_members(node)
        before = described(node)
        for _ in range(2):
            node = make()
            assert described(node) == before
        assert (node.beat("a", 2).member_epoch, node.beat("b", 2).member_epoch) == (2, 2)
        assert node.beat("c").member_epoch == 3

    def test_a_silent_member_goes(self, node: GroupHarness) -> None:
        two_members(node)
        epoch = 2
        for _ in range(5):
            node.advance(10_000)
            epoch = node.beat("a", epoch).member_epoch
        (left,) = described(node).members
        assert (left.member_id, left.member_epoch, epoch) == ("a", 3, 3)
        assert left.assignment.topic_partitions[0].partitions == (0, 1, 2, 3)
        assert node.beat("b", 2).error_code == ErrorCode.unknown_member_id

    def test_after_a_start_members_have_one_session_time(self, make: Callable[..., GroupHarness]) -> None:
        make().find()
        node = make()
        two_members(node)
        node = make()
        node.advance(44_000)
        assert node.beat("a", 2).error_code == ErrorCode.none
        node.advance(2_000)
        assert [member.member_id for member in described(node).members] == ["a"]

    def test_new_partitions_are_handed_out(self, node: GroupHarness) -> None:
        assert assigned(node.beat("a")) == [0, 1, 2, 3]
        (outcome,) = node.ask(
            "create_partitions",
            1,
            topics=[{"name": "t", "count": 6, "assignments": None}],
            timeout=1,
            validate_only=False,
        ).results
        assert not outcome.error_code
        node.advance(5000)
        assert assigned(node.beat("a", 1)) == [0, 1, 2, 3, 4, 5]

    def test_a_topic_that_comes_later_is_handed_out(self, node: GroupHarness) -> None:
        assert assigned(node.beat("a", subscribed_topic_names=["later"])) == []
        node.create_topic("later", 2)
        node.advance(5000)
        assert assigned(node.beat("a", 1)) == [0, 1]

    def test_topics_that_a_pattern_matches_are_handed_out(self, node: GroupHarness) -> None:
        node.create_topic("events-1", 2)
        assert assigned(node.beat("a", subscribed_topic_names=[], subscribed_topic_regex="events-[0-9]")) == []
        node.advance(5000)
        assert assigned(node.beat("a", 1)) == [0, 1]
        node.create_topic("events-2", 3)
        node.create_topic("other-events-2", 1)
        node.advance(10_000)
        assert assigned(node.beat("a", 2)) is None, "it is resolved now"
        node.advance(5000)
        assert len(assigned(node.beat("a", 2)) or ()) == 5
        assert node.beat("b", subscribed_topic_regex="(").error_code == ErrorCode.invalid_regular_expression

    def test_names_and_first_requests_are_checked(self, node: GroupHarness) -> None:
        assert node.beat("a", group="").error_code == ErrorCode.invalid_request
        assert node.beat("a", server_assignor="none").error_code == ErrorCode.unsupported_assignor
        assert node.beat("a", 3).error_code == ErrorCode.group_id_not_found
        assert not node.ask("list_groups", 5, states_filter=[], types_filter=[]).groups

    @pytest.mark.parametrize("is_one_topic", [True, False])
    def test_a_member_may_have_very_many_partitions(self, node: GroupHarness, is_one_topic: bool) -> None:
        node.beat("a")
        indexes = [[*range(20_000)]] if is_one_topic else [[index] for index in range(20_000)]
        owned = [{"topic_id": node.topic_id("t"), "partitions": some} for some in indexes]
        told = node.beat("a", 1, topic_partitions=owned)
        node.scheduler.run()
        assert not (told.answer if isinstance(told, Pending) else told).error_code

    def test_events_that_waited_do_not_all_have_one_turn(
        self, node: GroupHarness, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def ticking(clock: ManualClock) -> int:
            clock.advance_ms(1)
            return clock.now_ms() * 1_000_000

        turns: deque[Callable[[], None]] = deque()
        monkeypatch.setattr(ManualClock, "monotonic_ns", ticking)
        monkeypatch.setattr(node.scheduler, "call_soon", turns.append)
        waiting = [node.beat(f"{number}") for number in range(10)]
        most = 0
        while turns:
            before = sum(isinstance(one, Pending) and one.waits for one in waiting)
            turns.popleft()()
            most = max(most, before - sum(isinstance(one, Pending) and one.waits for one in waiting))
        assert 0 < most < 4
        assert len(described(node).members) == 10

    def test_the_size_has_a_bound(self, make: Callable[..., GroupHarness]) -> None:
        node = make(group_consumer_max_size="1")
        node.find()
        assert not node.beat("a").error_code
        assert node.beat("b").error_code == ErrorCode.group_max_size_reached

    def test_times_have_bounds(self, make: Callable[..., GroupHarness]) -> None:
        node = make(group_consumer_heartbeat_interval_ms="1", group_consumer_min_heartbeat_interval_ms="7")
        node.find()
        assert node.beat("a").heartbeat_interval.total_seconds() == 0.007


class TestLevels:
    def test_at_level_0_no_group_begins_and_those_with_members_go_on(self, node: GroupHarness) -> None:
        assert not node.beat("a").error_code
        node.node.features.take_up(node.node.features.finalised.changed_to({}, node.clock.now_ms()))
        assert node.beat("b", group="other").error_code == ErrorCode.unsupported_version
        assert not node.beat("a", 1).error_code

    def test_the_level_does_not_go_down_under_members(self, node: GroupHarness) -> None:
        node.beat("a")
        refused = set_level(node, 0)
        assert refused.error_code == ErrorCode.invalid_update_version
        assert "consumer groups have members" in refused.error_message
        node.beat("a", -1)
        assert not set_level(node, 0).error_code
        assert node.beat("a").error_code == ErrorCode.unsupported_version


class TestDescribe:
    def test_members_may_go_while_a_large_group_is_told(
        self, node: GroupHarness, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        two_members(node)
        left = []

        def going(items: Iterable[Any]) -> Iterator[Any]:
            for item in items:
                yield item
                left.append(node.beat("b", -1).error_code)

        monkeypatch.setattr(consumer_group_describe, "paced", going)
        assert [member.member_epoch for member in described(node).members] == [2, 2]
        assert left.count(ErrorCode.none) == 1
        assert len(left) == 3, "after the group, and after each of its members"


class TestOtherKinds:
    def test_a_classic_group_with_members_stays_classic(self, make: Callable[..., GroupHarness]) -> None:
        """Unless it may change: see test_group_migration.py."""
        node = make(group_consumer_migration_policy="disabled")
        node.find()
        member_id = node.become_stable()
        assert node.beat("a").error_code == ErrorCode.group_id_not_found
        assert node.state() == "Stable"
        node.ask("leave_group", 3, group_id="g", members=[{"member_id": member_id}])
        assert node.state() == "Empty"
        assert assigned(node.beat("a")) == [0, 1, 2, 3]
        assert node.state() == "Dead"

    def test_a_consumer_group_with_members_stays_one(self, node: GroupHarness) -> None:
        node.beat("a")
        refused = node.join(protocol_type="connect", group_instance_id="i")
        assert refused.error_code == ErrorCode.inconsistent_group_protocol
        assert node.sync("a").error_code == ErrorCode.unknown_member_id
        heartbeat = node.ask("heartbeat", 3, group_id="g", generation_id=1, member_id="a")
        assert heartbeat.error_code == ErrorCode.unknown_member_id
        node.beat("a", -1)
        node.become_stable()
        assert described(node).error_code == ErrorCode.group_id_not_found

    def test_the_last_kind_comes_back_after_a_kill(self, make: Callable[..., GroupHarness]) -> None:
        node = make()
        node.find()
        member_id = node.become_stable()
        node.ask("leave_group", 3, group_id="g", members=[{"member_id": member_id}])
        node.beat("a")
        node = make()
        assert described(node).group_state == "Stable"
        node.beat("a", -1)
        node.become_stable()
        node = make()
        assert (described(node).error_code, node.state()) == (ErrorCode.group_id_not_found, "Stable")


class TestAdministration:
    def test_lists_tell_the_kinds(self, node: GroupHarness) -> None:
        node.beat("a")
        node.become_stable(group="old")

        def listed(*kinds: str) -> list[tuple[str, str, str, str]]:
            answer = node.ask("list_groups", 5, states_filter=[], types_filter=kinds)
            return [(g.group_id, g.group_type, g.group_state, g.protocol_type) for g in answer.groups]

        new, old = ("g", "consumer", "Stable", "consumer"), ("old", "classic", "Stable", "consumer")
        assert listed() == [new, old]
        assert listed("Consumer") == [new]
        assert listed("classic") == [old]

    @pytest.mark.parametrize("version", versions("consumer_group_describe"))
    def test_a_group_is_described(self, node: GroupHarness, version: int) -> None:
        node.beat("a")
        node.beat("b")
        answer = node.ask(
            "consumer_group_describe", version, group_ids=["g", "old", "none"], include_authorized_operations=True
        )
        found, classic, unknown = answer.groups
        assert (found.group_state, found.group_epoch, found.assignment_epoch) == ("Assigning", 2, 1)
        assert (found.assignor_name, found.authorized_operations > 0) == ("uniform", True)
        a, b = found.members
        assert (a.member_id, a.member_epoch, a.subscribed_topic_names) == ("a", 1, ("t",))
        (partitions,) = a.assignment.topic_partitions
        assert (partitions.topic_name, partitions.partitions) == ("t", (0, 1, 2, 3))
        assert a.assignment == a.target_assignment
        assert (b.assignment.topic_partitions, b.member_epoch) == ((), 1)
        assert version == 0 or a.member_type == 1
        for missing in (classic, unknown):
            assert missing.error_code == ErrorCode.group_id_not_found
            assert missing.error_message

    def test_the_older_description_says_dead(self, node: GroupHarness) -> None:
        node.beat("a")
        (found,) = node.ask("describe_groups", 5, groups=["g"]).groups
        assert (found.group_state, found.error_code) == ("Dead", ErrorCode.none)
        (found,) = node.ask("describe_groups", 6, groups=["g"]).groups
        assert (found.group_state, found.error_code) == ("Dead", ErrorCode.group_id_not_found)
        assert "not a classic group" in found.error_message

    def test_only_an_empty_group_is_deleted(self, make: Callable[..., GroupHarness]) -> None:
        node = make()
        node.find()

        def delete() -> ErrorCode:
            (result,) = node.ask("delete_groups", 2, groups_names=["g"]).results
            return ErrorCode(result.error_code)

        node.beat("a")
        node.commit({T0: 7}, member_id="a", generation=1, version=9)
        assert delete() == ErrorCode.non_empty_group
        node.beat("a", -1)
        assert delete() == ErrorCode.none
        assert described(node).error_code == ErrorCode.group_id_not_found
        node = make()
        assert described(node).error_code == ErrorCode.group_id_not_found
        assert node.fetch_offsets() == {}

    def test_members_are_removed_by_administrators(self, node: GroupHarness) -> None:
        node.beat("a", instance_id="i")
        node.beat("b")
        answer = node.ask(
            "leave_group", 5, group_id="g",
            members=[{"member_id": "x"}, {"member_id": "", "group_instance_id": "i"}, {"member_id": "b"}],
        )  # fmt: skip
        outcomes = [member.error_code for member in answer.members]
        assert outcomes == [ErrorCode.unknown_member_id, ErrorCode.none, ErrorCode.none]
        assert described(node).group_state == "Empty"


class TestOffsets:
    def test_members_commit_in_their_epoch(self, node: GroupHarness) -> None:
        two_members(node)
        (_, b) = described(node).members
        index = b.assignment.topic_partitions[0].partitions[0]
        key = ("t", index)

        def commit(epoch: int, version: int = 9, member_id: str = "b") -> ErrorCode:
            outcomes = node.commit({key: 7}, member_id=member_id, generation=epoch, version=version)
            return ErrorCode(outcomes[key])

        for version in (9, 10):
            assert commit(2, version) == ErrorCode.none
            assert commit(1, version) == ErrorCode.stale_member_epoch, "b has it since epoch 2"
            assert commit(3, version) == ErrorCode.stale_member_epoch
            assert commit(2, version, "x") == ErrorCode.unknown_member_id
        assert commit(2, 8) == ErrorCode.unsupported_version
        kept = ("t", described(node).members[0].assignment.topic_partitions[0].partitions[0])
        assert node.commit({kept: 7}, member_id="a", generation=1, version=9) == {kept: ErrorCode.none}
        assert node.commit({key: 7}, version=9) == {key: ErrorCode.unknown_member_id}

    def test_members_fetch_in_their_epoch(self, node: GroupHarness) -> None:
        node.beat("a")
        node.commit({T0: 7}, member_id="a", generation=1, version=9)

        def fetch(member_id: str | None, epoch: int) -> Any:
            group = {"group_id": "g", "member_id": member_id, "member_epoch": epoch, "topics": None}
            (answer,) = node.ask("offset_fetch", 9, groups=[group], require_stable=False).groups
            return answer.error_code or [p.committed_offset for topic in answer.topics for p in topic.partitions]

        assert fetch(None, -1) == fetch("a", 1) == [7]
        assert fetch("a", 0) == ErrorCode.stale_member_epoch
        assert fetch("x", 1) == ErrorCode.unknown_member_id

    @pytest.mark.parametrize("version", [5, 6])
    def test_a_producer_commits_for_a_member(self, node: GroupHarness, version: int) -> None:
        node.beat("a")
        producer = node.begin()

        def commit(epoch: int, member_id: str = "a") -> ErrorCode:
            outcomes = node.commit_in_transaction(
                {T0: 7}, version=version, member_id=member_id, generation_id=epoch, **producer
            )
            assert not isinstance(outcomes, Pending)
            return ErrorCode(outcomes[T0])

        assert commit(2) == (ErrorCode.stale_member_epoch if version >= 6 else ErrorCode.illegal_generation)
        assert commit(1, "x") == ErrorCode.unknown_member_id
        assert commit(1) == ErrorCode.none
        assert commit(-1, "") == ErrorCode.none

    def test_offsets_of_topics_that_are_read_stay(self, node: GroupHarness) -> None:
        node.create_topic("u", 1)
        node.commit({T0: 7, ("u", 0): 8})
        node.beat("a")
        answer = node.ask(
            "offset_delete", 0, group_id="g",
            topics=[{"name": name, "partitions": [{"partition_index": 0}]} for name in ("t", "u")],
        )  # fmt: skip
        outcomes = {topic.name: topic.partitions[0].error_code for topic in answer.topics}
        assert outcomes == {"t": ErrorCode.group_subscribed_to_topic, "u": ErrorCode.none}
        assert node.fetch_offsets() == {T0: (7, "")}
