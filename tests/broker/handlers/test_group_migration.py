"""Groups that change their protocol while they have members, through the dispatcher, over kills of the broker.

The cases are those of Apache Kafka 4.4's ConsumerProtocolMigrationTest, and more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from highwater.broker.group.embedded import read_assignment
from tests.broker.group.asking import GroupHarness, successive_harnesses
from tests.broker.group.consumer_bytes import assignment, subscription
from tests.broker.handlers.harness import Pending

POLICIES = ("bidirectional", "upgrade", "downgrade", "disabled")
SYNC_VERSION = 5
Make = Callable[..., GroupHarness]


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Make]:
    """Each call takes up the same directory, after the one before was killed."""
    yield from successive_harnesses(tmp_path / "log")


@pytest.fixture
def node(make: Make) -> GroupHarness:
    return found(make)


def found(make: Make, policy: str = "bidirectional", **properties: str) -> GroupHarness:
    node = make(group_consumer_migration_policy=policy, **properties)
    node.find()
    return node


def shares(**of_members: Sequence[int]) -> dict[str, Any]:
    return {member_id: assignment({"t": indexes}) for member_id, indexes in of_members.items()}


def now(answer: Any) -> Any:
    """An answer that must be there."""
    if isinstance(answer, Pending):
        assert not answer.waits
        return answer.answer
    return answer


def join(node: GroupHarness, member_id: str = "", owned: Sequence[int] = (), name: str = "range", **fields: Any) -> Any:
    metadata = subscription(["t"], {"t": list(owned)} if owned else {})
    return node.join(member_id, protocols=[{"name": name, "metadata": metadata}], **fields)


def stable(node: GroupHarness, instance_id: str | None = None, given: Sequence[int] = (0, 1, 2, 3)) -> str:
    """A classic group of one member; its id."""
    if instance_id is None:
        member_id = join(node).member_id
        joined = join(node, member_id)
    else:
        joined = join(node, group_instance_id=instance_id)
    node.scheduler.run()
    member_id = now(joined).member_id
    synced = node.sync(member_id, now(joined).generation_id, **shares(**{member_id: given}))
    assert now(synced).error_code == ErrorCode.none
    return str(member_id)


def mixed(node: GroupHarness, **fields: Any) -> str:
    """A group with a member of the consumer protocol, `a`, that has all, and a classic one that waits; its id."""
    assert node.beat("a", **fields).member_epoch == 1
    node.advance(1000)
    member_id = join(node).member_id
    assert now(join(node, member_id)).generation_id == 2
    assert synced(node, member_id, 2) == []
    return str(member_id)


def synced(node: GroupHarness, member_id: str, generation: int, **fields: Any) -> list[int] | ErrorCode:
    answer = now(node.sync(member_id, generation, version=SYNC_VERSION, **fields))
    if answer.error_code:
        return ErrorCode(answer.error_code)
    assert (answer.protocol_type, answer.protocol_name) == ("consumer", "range")
    read = read_assignment(bytes(answer.assignment))
    assert read is not None
    return sorted(read.partitions.get("t", ()))


def beat(node: GroupHarness, member_id: str, generation: int, group: str = "g", **fields: Any) -> ErrorCode:
    answer = node.ask("heartbeat", 4, group_id=group, generation_id=generation, member_id=member_id, **fields)
    return ErrorCode(answer.error_code)


def listed(node: GroupHarness) -> tuple[str, str, str]:
    (group,) = node.ask("list_groups", 5, states_filter=[], types_filter=[]).groups
    return group.group_type, group.group_state, group.protocol_type


def described(node: GroupHarness) -> Any:
    (group,) = node.ask("consumer_group_describe", 1, group_ids=["g"], include_authorized_operations=False).groups
    return group


def given(answer: Any) -> list[int]:
    assert answer.error_code == ErrorCode.none, answer.error_message
    return [index for topic in answer.assignment.topic_partitions for index in topic.partitions]


class TestWithoutMembers:
    """testUpgradeFromEmptyClassicToConsumerGroup, …FromSimpleGroup…, testDowngradeFromEmptyConsumerToClassicGroup"""

    @pytest.mark.parametrize("policy", POLICIES)
    def test_an_empty_classic_group_becomes_a_consumer_group(self, make: Make, policy: str) -> None:
        node = found(make, policy)
        member_id = stable(node)
        node.ask("leave_group", 3, group_id="g", members=[{"member_id": member_id}])
        assert given(node.beat("a")) == [0, 1, 2, 3]
        assert listed(node) == ("consumer", "Stable", "consumer")

    @pytest.mark.parametrize("policy", POLICIES)
    def test_offsets_alone_become_a_consumer_group(self, make: Make, policy: str) -> None:
        node = found(make, policy)
        node.commit({("t", 0): 7})
        assert given(node.beat("a")) == [0, 1, 2, 3]
        assert node.fetch_offsets() == {("t", 0): (7, "")}

    @pytest.mark.parametrize("policy", POLICIES)
    def test_an_empty_consumer_group_becomes_a_classic_group(self, make: Make, policy: str) -> None:
        node = found(make, policy)
        node.beat("a")
        node.beat("a", -1)
        stable(node)
        assert listed(node) == ("classic", "Stable", "consumer")


class TestPolicies:
    @pytest.mark.parametrize("policy", POLICIES)
    def test_a_classic_group_with_members(self, make: Make, policy: str) -> None:
        """testUpgradeMigrationPolicy, testUpgradeWithDisabledMigrationPolicy"""
        node = found(make, policy)
        stable(node)
        answer = node.beat("a")
        if policy in ("bidirectional", "upgrade"):
            assert answer.member_epoch == 2
            assert listed(node) == ("consumer", "Reconciling", "consumer")
        else:
            assert answer.error_code == ErrorCode.group_id_not_found
            assert "migration.policy" in answer.error_message
            assert listed(node) == ("classic", "Stable", "consumer")

    @pytest.mark.parametrize("policy", POLICIES)
    def test_a_mixed_group_that_loses_its_last_consumer(self, make: Make, policy: str) -> None:
        """testDowngradeMigrationPolicy, testDowngradeWithDisabledMigrationPolicy"""
        node = found(make, policy)
        classic = mixed(node)
        kept = given(node.beat("a", 1, topic_partitions={0, 1, 2, 3}))
        assert len(kept) == 2
        node.beat("a", 1, topic_partitions=set(kept))
        assert beat(node, classic, 2) is ErrorCode.rebalance_in_progress, "the rest of its partitions is free"
        assert node.beat("a", -1).member_epoch == -1
        if policy in ("bidirectional", "downgrade"):
            assert listed(node) == ("classic", "PreparingRebalance", "consumer")
        else:
            assert listed(node) == ("consumer", "Assigning", "consumer")
            node.advance(1000)
            assert beat(node, classic, 2) is ErrorCode.rebalance_in_progress
            assert now(join(node, classic)).generation_id == 3
            assert synced(node, classic, 3) == [0, 1, 2, 3]


class TestOnlineMigration:
    @pytest.mark.parametrize("is_static", [False, True], ids=["dynamic", "static"])
    def test_eager(self, make: Make, is_static: bool) -> None:
        """testOnlineMigrationWithEagerAssignmentStrategyAnd…Members"""
        node = found(make)
        instance: dict[str, Any] = {"group_instance_id": "i1"} if is_static else {}
        classic = stable(node, instance.get("group_instance_id"))
        assert given(node.beat("a", instance_id="i2" if is_static else None)) == []
        assert listed(node) == ("consumer", "Reconciling", "consumer")
        assert [(m.member_id, m.member_type) for m in described(node).members] == [(classic, 0), ("a", 1)]

        assert beat(node, classic, 2) is ErrorCode.illegal_generation
        assert beat(node, "nobody", 1) is ErrorCode.unknown_member_id
        assert beat(node, classic, 1, "other") is ErrorCode.unknown_member_id
        assert beat(node, "a", 1) is ErrorCode.unknown_member_id
        assert beat(node, classic, 1, **instance) is ErrorCode.rebalance_in_progress
        for version in range(2, 11):
            offsets = {("t", index): 10 * version + index for index in range(3)}
            assert set(node.commit(offsets, member_id=classic, generation=1, version=version).values()) == {
                ErrorCode.none
            }
        assert node.commit({("t", 0): 1}, member_id=classic, generation=7) == {("t", 0): ErrorCode.illegal_generation}
        assert now(join(node, classic, protocol_type="connect", **instance)).error_code == (
            ErrorCode.inconsistent_group_protocol
        )
        joined = now(join(node, classic, version=9, **instance))
        assert (joined.error_code, joined.generation_id, joined.member_id) == (ErrorCode.none, 2, classic)
        assert (joined.protocol_type, joined.protocol_name, joined.leader) == ("consumer", "range", "")
        assert now(join(node, "new", name="roundrobin")).error_code == ErrorCode.inconsistent_group_protocol
        got = given(node.beat("a", 2, rebalance_timeout=60_000, subscribed_topic_names=["t"], topic_partitions=[]))
        assert len(got) == 2
        assert listed(node) == ("consumer", "Stable", "consumer")

        assert synced(node, classic, 1) is ErrorCode.illegal_generation
        assert synced(node, classic, 2, group="other") is ErrorCode.unknown_member_id
        assert synced(node, "nobody", 2) is ErrorCode.unknown_member_id
        assert synced(node, "a", 2) is ErrorCode.unknown_member_id
        for protocol in ({"protocol_type": "connect"}, {"protocol_name": "roundrobin"}):
            names = {"protocol_type": "consumer", "protocol_name": "range"} | protocol
            answer = node.ask(
                "sync_group", 5, group_id="g", generation_id=2, member_id=classic, assignments=[], **names
            )
            assert answer.error_code == ErrorCode.inconsistent_group_protocol
        assert synced(node, classic, 2) == sorted({0, 1, 2, 3} - set(got))
        assert beat(node, classic, 2, **instance) is ErrorCode.none

        if is_static:
            replaced = join(node, group_instance_id="i2")
            assert isinstance(replaced, Pending), "the others join again"
            assert replaced.waits
        else:
            assert node.beat("a", -1).member_epoch == -1
        assert listed(node) == ("classic", "PreparingRebalance", "consumer")
        assert beat(node, classic, 2, **instance) is ErrorCode.rebalance_in_progress
        again = join(node, classic, **instance)
        node.scheduler.run()
        assert now(again).generation_id == 3
        assert now(again).leader == classic
        assert len(now(again).members) == 1 + is_static

    @pytest.mark.parametrize("is_static", [False, True], ids=["dynamic", "static"])
    def test_cooperative(self, make: Make, is_static: bool) -> None:
        """testOnlineMigrationWithCooperativeAssignmentStrategyAnd…Members"""
        node = found(make)
        instance: dict[str, Any] = {"group_instance_id": "i1"} if is_static else {}
        classic = stable(node, instance.get("group_instance_id"))
        node.beat("a")
        assert beat(node, classic, 1) is ErrorCode.rebalance_in_progress
        joined = now(join(node, classic, [0, 1, 2, 3], **instance))
        assert joined.generation_id == 1, "it has to give up first"
        kept = synced(node, classic, 1)
        assert isinstance(kept, list)
        assert len(kept) == 2
        assert given(node.beat("a")) == []
        assert beat(node, classic, 1) is ErrorCode.rebalance_in_progress
        assert now(join(node, classic, kept, **instance)).generation_id == 2
        assert synced(node, classic, 2) == kept
        assert beat(node, classic, 2) is ErrorCode.none
        assert sorted(given(node.beat("a")) + kept) == [0, 1, 2, 3]
        assert listed(node) == ("consumer", "Stable", "consumer")
        node.beat("a", -1)
        assert listed(node) == ("classic", "PreparingRebalance", "consumer")


class TestUpgrade:
    def test_who_waits_is_told_to_join_again(self, node: GroupHarness) -> None:
        stable(node)
        other = join(node, join(node).member_id)
        assert isinstance(other, Pending)
        node.beat("a")
        assert other.answer.error_code == ErrorCode.rebalance_in_progress

    def test_a_group_that_is_new(self, make: Make) -> None:
        """Nobody has a generation yet."""
        node = found(make, group_initial_rebalance_delay_ms="3000")
        member_id = join(node).member_id
        joining = join(node, member_id)
        assert given(node.beat("a")) == [0, 1]
        assert joining.answer.error_code == ErrorCode.rebalance_in_progress
        assert now(join(node, member_id)).generation_id == 2

    def test_a_coordinator_that_comes_next_reads_a_mixed_group(self, make: Make) -> None:
        node = found(make)
        classic = stable(node)
        node.beat("a")
        before = described(node)
        node = found(make)
        assert described(node) == before
        assert beat(node, classic, 1) is ErrorCode.rebalance_in_progress
        assert now(join(node, classic)).generation_id == 2
        node = found(make)
        assert synced(node, classic, 2) == [0, 1]
        assert given(node.beat("a", 2, rebalance_timeout=1000, subscribed_topic_names=["t"], topic_partitions=[]))

    def test_what_a_member_was_to_give_up_stays_its_own(self, node: GroupHarness) -> None:
        """It may not know yet that the leader took it."""
        first = stable(node)
        second = join(node, join(node).member_id)
        again = join(node, first, [0, 1, 2, 3])
        generation, other = now(again).generation_id, now(second).member_id
        parts = shares(**{first: [0, 1], other: []})
        assert now(node.sync(first, generation, **parts)).error_code == ErrorCode.none
        assert given(node.beat("a")) == []
        held = {m.member_id: m.assignment.topic_partitions for m in described(node).members}
        assert held[first][0].partitions == (0, 1, 2, 3)

    @pytest.mark.parametrize(
        "data", [b"\0", assignment({"t": [0]}, user_data=b"\0\0\0\1x"), assignment({"t": [0]}, version=-1)]
    )
    def test_a_group_of_another_assignor_stays_classic(self, node: GroupHarness, data: bytes) -> None:
        member_id = join(node).member_id
        joined = join(node, member_id)
        node.scheduler.run()
        node.sync(member_id, now(joined).generation_id, **dict[str, Any]({member_id: data}))
        assert node.beat("a").error_code == ErrorCode.group_id_not_found
        assert listed(node) == ("classic", "Stable", "consumer")

    @pytest.mark.parametrize("name", ["sticky", "cooperative-sticky"])
    def test_what_librdkafka_tells_members_of_themselves_is_not_lost(self, node: GroupHarness, name: str) -> None:
        member_id = join(node, name=name).member_id
        joined = join(node, member_id, name=name)
        node.scheduler.run()
        data = assignment({"t": [0, 1]}, user_data=b"\0\0\0\x08" + bytes(7) + b"\1")
        node.sync(member_id, now(joined).generation_id, **dict[str, Any]({member_id: data}))
        assert node.beat("a").error_code == ErrorCode.none
        assert listed(node) == ("consumer", "Reconciling", "consumer")

    def test_a_group_of_other_clients_stays_classic(self, node: GroupHarness) -> None:
        join(node, join(node, protocol_type="connect").member_id, protocol_type="connect")
        node.scheduler.run()
        assert node.beat("a").error_code == ErrorCode.group_id_not_found

    def test_a_group_that_is_full(self, make: Make) -> None:
        node = found(make, group_consumer_max_size="1")
        classic = stable(node)
        assert node.beat("a").error_code == ErrorCode.group_max_size_reached
        assert listed(node) == ("classic", "Stable", "consumer")
        assert beat(node, classic, 1) is ErrorCode.none

    def test_a_static_member_changes_its_protocol(self, node: GroupHarness) -> None:
        """What it has stays its own."""
        classic = stable(node, "i1")
        assert given(node.beat("a", instance_id="i1")) == [0, 1, 2, 3]
        assert [m.member_id for m in described(node).members] == ["a"]
        assert beat(node, classic, 1, group_instance_id="i1") is ErrorCode.fenced_instance_id


class TestMixed:
    def test_a_new_member_gets_its_id_first(self, node: GroupHarness) -> None:
        node.beat("a")
        given_id = join(node)
        assert given_id.error_code == ErrorCode.member_id_required
        assert now(join(node, given_id.member_id)).error_code == ErrorCode.none

    def test_a_member_that_is_none_any_more_has_nothing(self, node: GroupHarness) -> None:
        node.beat("a")
        assert now(join(node, "was-there", [0])).error_code == ErrorCode.unknown_member_id
        assert now(join(node, "was-there", group_instance_id="i")).error_code == ErrorCode.unknown_member_id

    def test_an_instance_has_one_member(self, node: GroupHarness) -> None:
        node.beat("a")
        first = now(join(node, group_instance_id="i")).member_id
        second = now(join(node, group_instance_id="i")).member_id
        assert first != second
        assert now(join(node, first, group_instance_id="i")).error_code == ErrorCode.fenced_instance_id
        assert [m.member_id for m in described(node).members] == ["a", second]

    def test_a_member_has_its_own_session(self, node: GroupHarness) -> None:
        classic = mixed(node)
        node.advance(9_000)
        assert beat(node, classic, 2) is ErrorCode.none
        node.advance(9_000)
        assert beat(node, classic, 2) is ErrorCode.none
        node.beat("a", 1)
        node.advance(11_000)
        assert beat(node, classic, 2) is ErrorCode.unknown_member_id
        assert [m.member_id for m in described(node).members] == ["a"]

    @pytest.mark.parametrize("is_joined", [False, True])
    def test_a_member_joins_and_syncs_in_its_rebalance_time(self, node: GroupHarness, is_joined: bool) -> None:
        node.beat("a")
        node.advance(1000)
        classic = join(node).member_id
        join(node, classic, rebalance_timeout=5_000)
        epoch = 2
        if not is_joined:
            synced(node, classic, epoch)
            node.beat("b", topic_partitions=[])
            node.advance(1000)
            node.beat("b", 2)
            assert beat(node, classic, epoch) is ErrorCode.rebalance_in_progress
        for _ in range(2):
            node.advance(2_400)
            assert beat(node, classic, epoch) is not ErrorCode.unknown_member_id
        node.advance(400)
        assert beat(node, classic, epoch) is ErrorCode.unknown_member_id

    def test_a_member_leaves(self, node: GroupHarness) -> None:
        classic = mixed(node)
        answer = node.ask("leave_group", 5, group_id="g", members=[{"member_id": classic}])
        assert [each.error_code for each in now(answer).members] == [ErrorCode.none]
        assert [m.member_id for m in described(node).members] == ["a"]
        assert listed(node)[0] == "consumer"

    def test_commits_of_a_producer(self, node: GroupHarness) -> None:
        classic = mixed(node)
        producer = node.begin()
        for generation, wanted in ((3, ErrorCode.illegal_generation), (2, ErrorCode.none)):
            outcomes = node.commit_in_transaction(
                {("t", 0): 7}, version=5, member_id=classic, generation_id=generation, **producer
            )
            assert outcomes == {("t", 0): wanted}


class TestDowngrade:
    def test_the_last_consumer_expires(self, node: GroupHarness) -> None:
        classic = mixed(node)
        for _ in range(6):
            node.advance(8_000)
            beat(node, classic, 2)
        assert listed(node) == ("classic", "PreparingRebalance", "consumer")

    def test_the_last_consumer_is_removed(self, node: GroupHarness) -> None:
        mixed(node)
        answer = node.ask("leave_group", 5, group_id="g", members=[{"member_id": "a"}])
        assert [each.error_code for each in now(answer).members] == [ErrorCode.none]
        assert listed(node)[0] == "classic"

    def test_a_group_that_is_too_large_stays_a_consumer_group(self, make: Make) -> None:
        node = found(make, group_max_size="1")
        mixed(node)
        join(node, join(node).member_id)
        node.beat("a", -1)
        assert listed(node)[0] == "consumer"

    def test_the_only_member_changes_its_protocol(self, node: GroupHarness) -> None:
        node.beat("a", instance_id="i")
        joined = join(node, group_instance_id="i")
        node.scheduler.run()
        assert now(joined).leader == now(joined).member_id
        assert listed(node) == ("classic", "CompletingRebalance", "consumer")
        assert node.beat("a", 1, instance_id="i").error_code == ErrorCode.group_id_not_found

    def test_a_coordinator_that_comes_next_has_the_members_join_again(self, make: Make) -> None:
        """Else one could fetch what another has not given up yet."""
        node = found(make)
        classic = mixed(node)
        node.beat("a", -1)
        node = found(make)
        assert listed(node) == ("classic", "PreparingRebalance", "consumer")
        assert synced(node, classic, 2) is ErrorCode.rebalance_in_progress
        joined = join(node, classic)
        node.scheduler.run()
        assert now(joined).generation_id == 3
        node.sync(classic, 3, **shares(**{classic: range(4)}))
        node = found(make)
        assert listed(node) == ("classic", "Stable", "consumer")
        assert beat(node, classic, 3) is ErrorCode.none

    def test_there_and_back_again(self, make: Make) -> None:
        node = found(make)
        classic = stable(node)
        epoch = 1
        for _ in range(3):
            assert node.beat("a").member_epoch > epoch
            epoch = now(join(node, classic)).generation_id
            assert len(synced(node, classic, epoch) or ()) == 2  # type: ignore[arg-type]
            node.beat("a", -1)
            joined = join(node, classic)
            node.scheduler.run()
            assert now(joined).generation_id > epoch
            epoch = now(joined).generation_id
            node.sync(classic, epoch, **shares(**{classic: range(4)}))
            assert beat(node, classic, epoch) is ErrorCode.none
            node = found(make)
