"""The APIs of consumer groups, through the dispatcher, on a node without sockets."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from kio.schema.errors import ErrorCode

from highwater.broker.group.events import JoinAnswer, JoinRequest, Protocol
from highwater.broker.group.offsets import CommittedOffset
from highwater.broker.group.schemas import OffsetKey, decode_offset, encode_offset, encode_offset_key
from highwater.broker.log.files import RealFiles
from highwater.broker.topics.internal_topic import INTERNAL_TOPICS, OFFSETS_TOPIC
from highwater.kafka.records.record import Record, decode_batch, encode_batch
from tests.broker.group.asking import GroupHarness, successive_harnesses
from tests.broker.group.consumer_bytes import subscription
from tests.broker.handlers.harness import NO_SUCH_ID, Pending, versions

T0, T1 = ("t", 0), ("t", 1)


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Callable[..., GroupHarness]]:
    """Each call takes up the same directory, after the one before was killed."""
    yield from successive_harnesses(tmp_path / "log")


@pytest.fixture
def node(make: Callable[..., GroupHarness]) -> GroupHarness:
    harness = make()
    harness.find()
    return harness


class TestFindingTheCoordinator:
    @pytest.mark.parametrize("version", versions("find_coordinator"))
    def test_it_is_this_broker_and_its_topic_is_there(self, make: Callable[..., GroupHarness], version: int) -> None:
        node = make(offsets_topic_segment_bytes="12345")
        place = node.find(version)
        assert (place.error_code, place.node_id, place.host, place.port) == (ErrorCode.none, 0, "broker.example", 9092)
        topic = node.node.partitions.topic(OFFSETS_TOPIC)
        assert topic is not None
        assert (topic.partition_count, topic.config.overrides["cleanup.policy"]) == (3, "compact")
        assert topic.partitions[0].log.config.segment_bytes == 12345
        assert node.find(version).node_id == 0

    @pytest.mark.parametrize("version", versions("find_coordinator")[1:])
    def test_other_kinds_of_keys(self, node: GroupHarness, version: int) -> None:
        assert node.find(version, key_type=7).error_code == ErrorCode.invalid_request

    def test_nobody_coordinates_before_anybody_looked_for_a_coordinator(
        self, make: Callable[..., GroupHarness]
    ) -> None:
        node = make()
        assert node.join().error_code == ErrorCode.not_coordinator
        assert node.commit({T0: 1}) == {T0: ErrorCode.not_coordinator}
        assert node.fetch_offsets(T0) == ErrorCode.not_coordinator

    def test_the_topic_is_internal(self, node: GroupHarness) -> None:
        metadata = node.ask("metadata", 9, topics=None)
        assert {topic.name: topic.is_internal for topic in metadata.topics} == {"t": False, OFFSETS_TOPIC: True}
        assert node.produce(OFFSETS_TOPIC, b"x").error_code == ErrorCode.invalid_topic_exception
        assert OFFSETS_TOPIC in INTERNAL_TOPICS

    def test_it_can_be_made_by_asking_for_its_metadata(self, make: Callable[..., GroupHarness]) -> None:
        node = make()
        node.ask("metadata", 9, topics=[{"name": OFFSETS_TOPIC}], allow_auto_topic_creation=True)
        assert len(node.become_stable()) > 10


class TestMembers:
    @pytest.mark.parametrize("version", versions("join_group"))
    def test_joining(self, node: GroupHarness, version: int) -> None:
        member_id = ""
        if version >= 4:
            given = node.join(version=version)
            assert given.error_code == ErrorCode.member_id_required
            member_id = given.member_id
            assert member_id.startswith("test-")
        joining = node.join(member_id, version=version)
        assert isinstance(joining, Pending)
        assert joining.waits
        node.scheduler.run()
        joined = joining.answer
        assert (joined.error_code, joined.generation_id, joined.protocol_name) == (ErrorCode.none, 1, "range")
        assert joined.leader == joined.member_id
        (member,) = joined.members
        assert (member.member_id, member.metadata[:6]) == (joined.member_id, b"\0\0\0\0\0\1")
        assert node.join("stranger", version=version).error_code == ErrorCode.unknown_member_id

    @pytest.mark.parametrize("version", versions("sync_group"))
    def test_syncing(self, node: GroupHarness, version: int) -> None:
        member_id = node.become_stable()
        synced = node.sync(member_id, version=version)
        assert (synced.error_code, synced.assignment) == (ErrorCode.none, b"")
        assert node.sync(member_id, 2, version=version).error_code == ErrorCode.illegal_generation
        if version >= 5:
            assert synced.protocol_name == "range"
            nameless = node.ask(
                "sync_group", version, group_id="g", generation_id=1, member_id=member_id, assignments=[]
            )
            assert nameless.error_code == ErrorCode.inconsistent_group_protocol

    @pytest.mark.parametrize("version", versions("consumer_group_heartbeat"))
    def test_the_consumer_protocol_is_refused_with_the_way_out(self, node: GroupHarness, version: int) -> None:
        update = {"feature": "group.version", "max_version_level": 0, "upgrade_type": 2}
        assert not node.ask("update_features", 2, timeout=1000, feature_updates=[update]).error_code
        answer = node.ask("consumer_group_heartbeat", version, group_id="g", member_id="m", member_epoch=0)
        assert (answer.error_code, answer.member_id, answer.member_epoch) == (ErrorCode.unsupported_version, "m", 0)
        assert "group.protocol=classic" in answer.error_message
        assert not node.ask("list_groups", 4, states_filter=[]).groups

    @pytest.mark.parametrize("version", versions("heartbeat"))
    def test_heartbeats(self, node: GroupHarness, version: int) -> None:
        member_id = node.become_stable()

        def heartbeat(member_id: str, generation: int) -> ErrorCode:
            answer = node.ask("heartbeat", version, group_id="g", generation_id=generation, member_id=member_id)
            return ErrorCode(answer.error_code)

        for _ in range(3):
            node.advance(9_000)
            assert heartbeat(member_id, 1) == ErrorCode.none
        assert heartbeat(member_id, 7) == ErrorCode.illegal_generation
        node.advance(10_000)
        assert node.state() == "Empty"
        assert heartbeat(member_id, 1) == ErrorCode.unknown_member_id

    @pytest.mark.parametrize("version", versions("leave_group"))
    def test_leaving(self, node: GroupHarness, version: int) -> None:
        member_id = node.become_stable()
        if version < 3:
            assert node.ask("leave_group", version, group_id="g", member_id="x").error_code == (
                ErrorCode.unknown_member_id
            )
            assert node.ask("leave_group", version, group_id="g", member_id=member_id).error_code == ErrorCode.none
        else:
            members = [{"member_id": "x"}, {"member_id": member_id}]
            answer = node.ask("leave_group", version, group_id="g", members=members)
            assert answer.error_code == ErrorCode.none
            assert [(m.member_id, m.error_code) for m in answer.members] == [
                ("x", ErrorCode.unknown_member_id),
                (member_id, ErrorCode.none),
            ]
        assert node.state() == "Empty"

    def test_session_timeouts_have_bounds(self, make: Callable[..., GroupHarness]) -> None:
        node = make(group_min_session_timeout_ms="1000", group_max_session_timeout_ms="2000")
        node.find()
        outcomes = [node.join(session_timeout=timeout_ms).error_code for timeout_ms in (999, 1000, 2000, 2001)]
        refused, taken = ErrorCode.invalid_session_timeout, ErrorCode.member_id_required
        assert outcomes == [refused, taken, taken, refused]

    def test_the_initial_delay(self, make: Callable[..., GroupHarness]) -> None:
        node = make(group_initial_rebalance_delay_ms="3000")
        node.find()
        joining = node.join(node.join().member_id)
        node.advance(2999)
        assert joining.waits
        node.advance(1)
        assert joining.answer.error_code == ErrorCode.none

    def test_a_client_that_goes_away_is_not_answered(self, node: GroupHarness) -> None:
        joining = node.join(node.join().member_id)
        joining.cancel()
        node.scheduler.run()
        assert joining.waits

    def test_names_have_bounds(self, node: GroupHarness) -> None:
        long = "x" * 40_000
        assert node.join(group=long, version=9).error_code == ErrorCode.invalid_group_id
        assert node.join(group="").error_code == ErrorCode.invalid_group_id
        assert node.join(version=9, group_instance_id=long).error_code == ErrorCode.invalid_request

    @pytest.mark.parametrize("version", [3, 4])
    def test_an_id_made_of_a_long_client_id_has_a_bound_too(self, node: GroupHarness, version: int) -> None:
        """No record could hold such a member, so that its group could never store anything again."""
        node.beat("a")
        request = JoinRequest(
            "", "consumer", (Protocol("range", subscription("t")),), 10_000, 60_000, client_id=32_767 * "c",
            must_know_member_id=version >= 4,
        )  # fmt: skip
        for group in ("g", "classic"):
            answers: list[JoinAnswer] = []
            node.node.groups.join(group, request, answers.append)
            assert [answer.error_code for answer in answers] == [ErrorCode.invalid_request]
        assert node.beat("b").error_code == ErrorCode.none

    def test_who_waits_when_the_broker_stops_is_answered(self, node: GroupHarness) -> None:
        joining = node.join(node.join().member_id)
        node.node.groups.close()
        assert joining.answer.error_code == ErrorCode.not_coordinator
        assert node.join().error_code == ErrorCode.coordinator_not_available
        assert node.scheduler.pending_timers == 0


class TestOffsets:
    @pytest.mark.parametrize("version", versions("offset_commit"))
    def test_committing(self, node: GroupHarness, version: int) -> None:
        outcomes = node.commit({T0: 5, ("t", 9): 1, ("u", 0): 1}, version=version, metadata="hello")
        unknown = ErrorCode.unknown_topic_or_partition
        unknown_topic = ErrorCode.unknown_topic_id if version >= 10 else unknown
        assert outcomes == {T0: ErrorCode.none, ("t", 9): unknown, ("u", 0): unknown_topic}
        assert node.fetch_offsets(T0) == {T0: (5, "hello")}

    @pytest.mark.parametrize("version", versions("offset_fetch"))
    def test_fetching(self, node: GroupHarness, version: int) -> None:
        node.commit({T0: 5, T1: 6})
        assert node.fetch_offsets(T0, ("t", 2), version=version) == {T0: (5, "")}
        assert node.fetch_offsets(T0, group="nobody", version=version) == {}
        if version >= 2:
            assert node.fetch_offsets(version=version) == {T0: (5, ""), T1: (6, "")}

    def test_offsets_of_a_deleted_topic_are_none_of_one_of_its_name(self, node: GroupHarness) -> None:
        old = node.topic_key("t", is_by_id=True)
        assert node.commit({T0: 5}, version=10) == {T0: ErrorCode.none}
        node.topics.delete("t")
        node.scheduler.run()
        node.create_topic("t", 4)
        assert node.fetch_offsets(T0, version=10) == {}
        wanted = [{**old, "partitions": [{"partition_index": 0, "committed_offset": 9, "committed_metadata": ""}]}]
        (told,) = node.ask("offset_commit", 10, group_id="g", member_id="", topics=wanted).topics
        assert (told.topic_id, told.partitions[0].error_code) == (old["topic_id"], ErrorCode.unknown_topic_id)
        assert node.fetch_offsets(version=10) == {}

    def test_an_offset_that_outlived_its_topic_is_none_of_the_next_one(self, make: Callable[..., GroupHarness]) -> None:
        """A coordinator that was down when the topic was deleted reads it back. By name it is told, as by Kafka 4.4."""
        node = make()
        node.find()
        node.commit({T0: 5, T1: 6})
        old = CommittedOffset(7, -1, "", node.clock.now_ms(), topic_id=NO_SUCH_ID)
        record = encode_offset_key(OffsetKey("g", *T0)), encode_offset(old, with_topic_id=True)
        node.node.groups.topic.append("g", [record], node.clock.now_ms(), lambda _: None, timeout_ms=None)
        node = make()
        assert node.fetch_offsets(T0, T1, version=10) == node.fetch_offsets(version=10) == {T1: (6, "")}
        assert node.fetch_offsets(T0, version=9) == {T0: (7, "")}
        node.commit({T0: 8})
        assert node.fetch_offsets(version=10) == {T0: (8, ""), T1: (6, "")}

    @pytest.mark.parametrize("level", [0, 1])
    def test_offsets_are_stored_with_the_ids_of_topics_at_group_version_1(
        self, make: Callable[..., GroupHarness], level: int
    ) -> None:
        node = make()
        node.find()
        update = {"feature": "group.version", "max_version_level": level, "upgrade_type": 1 if level else 2}
        node.ask("update_features", 2, timeout=1000, feature_updates=[update])
        node.commit({T0: 5})
        partition = node.node.groups.partition("g")
        assert partition is not None
        ((header, batch),) = node.node.groups.topic.batches(partition)
        (record,) = decode_batch(batch, header)
        assert record.value is not None
        assert decode_offset(record.value).topic_id == (node.topic_id("t") if level else None)
        assert make().fetch_offsets(T0, version=10) == {T0: (5, "")}

    def test_each_unknown_id_is_told_by_itself(self, node: GroupHarness) -> None:
        ids = [NO_SUCH_ID, UUID(int=10), None]
        node.commit({T0: 5})
        known = node.topic_key("t", is_by_id=True)
        wanted = [known, *({"topic_id": topic_id} for topic_id in ids)]
        topics = [topic | {"partition_indexes": [0]} for topic in wanted]
        (group,) = node.ask("offset_fetch", 10, groups=[{"group_id": "g", "topics": topics}]).groups
        assert [(topic.topic_id, topic.partitions[0].error_code) for topic in group.topics] == [
            (known["topic_id"], ErrorCode.none),
            *((topic_id, ErrorCode.unknown_topic_id) for topic_id in ids),
        ]
        assert {topic.partitions[0].committed_offset for topic in group.topics[1:]} == {-1}

    def test_the_leader_epoch_is_kept(self, node: GroupHarness) -> None:
        wanted = {"partition_index": 0, "committed_offset": 1, "committed_leader_epoch": 3, "committed_metadata": None}
        node.ask("offset_commit", 8, group_id="g", member_id="", topics=[{"name": "t", "partitions": [wanted]}])
        answer = node.ask("offset_fetch", 7, group_id="g", topics=None)
        assert answer.topics[0].partitions[0].committed_leader_epoch == 3

    def test_members_commit_in_their_generation(self, node: GroupHarness) -> None:
        member_id = node.become_stable()
        assert node.commit({T0: 1}, member_id=member_id, generation=1) == {T0: ErrorCode.none}
        assert node.commit({T0: 2}, member_id=member_id, generation=2) == {T0: ErrorCode.illegal_generation}
        assert node.commit({T0: 2}, member_id="x", generation=1) == {T0: ErrorCode.unknown_member_id}
        assert node.commit({T0: 2}) == {T0: ErrorCode.unknown_member_id}
        for version in versions("offset_commit"):
            unknown = ErrorCode.group_id_not_found if version >= 9 else ErrorCode.illegal_generation
            assert node.commit({T0: 2}, group="nobody", generation=1, version=version) == {T0: unknown}
        assert node.fetch_offsets() == {T0: (1, "")}

    def test_metadata_has_a_bound(self, make: Callable[..., GroupHarness]) -> None:
        node = make(offset_metadata_max_bytes="5")
        node.find()
        assert node.commit({T0: 1}, metadata="12345") == {T0: ErrorCode.none}
        assert node.commit({T0: 2}, metadata="123456") == {T0: ErrorCode.offset_metadata_too_large}
        assert node.fetch_offsets() == {T0: (1, "12345")}

    def test_a_commit_waits_for_the_disk_where_the_log_must(self, make: Callable[..., GroupHarness]) -> None:
        node = make(log_flush_interval_messages="1")
        node.find()
        committing = node.commit({T0: 1})
        assert isinstance(committing, Pending)
        assert committing.waits
        assert node.fetch_offsets(T0) == {}
        assert node.fetch_offsets(T0, require_stable=True) == ErrorCode.unstable_offset_commit
        node.flush()
        assert committing.answer.topics[0].partitions[0].error_code == ErrorCode.none
        assert node.fetch_offsets(T0, require_stable=True) == {T0: (1, "")}

    def test_what_is_deleted_while_it_is_being_committed_stays_deleted(self, make: Callable[..., GroupHarness]) -> None:
        node = make(log_flush_interval_messages="1")
        node.find()
        node.commit({T1: 1})
        node.flush()
        committing = node.commit({T0: 1})
        topics = [{"name": "t", "partitions": [{"partition_index": 0}]}]
        deleting = node.ask("offset_delete", 0, group_id="g", topics=topics)
        node.flush()
        node.flush()
        assert not committing.waits
        assert not isinstance(deleting, Pending) or not deleting.waits
        assert node.fetch_offsets() == {T1: (1, "")}
        assert make().fetch_offsets() == {T1: (1, "")}

    def test_a_group_with_more_offsets_than_a_batch_holds_is_deleted(self, make: Callable[..., GroupHarness]) -> None:
        node, group = make(), "g" * 10_000
        node.create_topic("many", 120)
        node.find()
        for index in range(120):
            assert node.commit({("many", index): 1}, group=group) == {("many", index): ErrorCode.none}
        (result,) = node.ask("delete_groups", 2, groups_names=[group]).results
        assert result.error_code == ErrorCode.none
        assert make().fetch_offsets(group=group) == {}

    def test_a_full_disk_is_told(self, node: GroupHarness, monkeypatch: pytest.MonkeyPatch) -> None:
        def fail(*_: object, **__: object) -> None:
            raise OSError(28, "No space left on device")

        node.commit({T0: 1})
        with monkeypatch.context() as patch:
            patch.setattr(RealFiles, "pwrite", fail)
            assert node.commit({T0: 2}) == {T0: ErrorCode.not_coordinator}
        assert node.fetch_offsets() == {T0: (1, "")}
        assert node.commit({T0: 3}) == {T0: ErrorCode.none}

    def test_deleting_offsets(self, node: GroupHarness) -> None:
        def delete(group: str = "g") -> Any:
            topics = [
                {"name": "t", "partitions": [{"partition_index": 0}, {"partition_index": 9}]},
                {"name": "other", "partitions": [{"partition_index": 0}]},
            ]
            answer = node.ask("offset_delete", 0, group_id=group, topics=topics)
            assert not answer.error_code or not answer.topics
            return answer.error_code or {
                (topic.name, p.partition_index): p.error_code for topic in answer.topics for p in topic.partitions
            }

        node.create_topic("other")
        unknown = ErrorCode.unknown_topic_or_partition
        assert delete("nobody") == ErrorCode.group_id_not_found
        node.commit({T0: 1, T1: 1, ("other", 0): 1})
        assert delete() == {T0: ErrorCode.none, ("t", 9): unknown, ("other", 0): ErrorCode.none}
        assert node.fetch_offsets() == {T1: (1, "")}
        member_id = node.become_stable()
        node.commit({T0: 2, ("other", 0): 2}, member_id=member_id, generation=1)
        assert delete() == {T0: ErrorCode.group_subscribed_to_topic, ("t", 9): unknown, ("other", 0): ErrorCode.none}
        assert node.fetch_offsets() == {T0: (2, ""), T1: (1, "")}

    def test_deleting_offsets_of_a_partition_that_only_other_brokers_have(
        self, node: GroupHarness, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        cluster = node.node.cluster
        here = cluster.partition("t", 0)
        monkeypatch.setattr(
            type(cluster), "partition", lambda _, topic, index: here if (topic, index) == ("far", 0) else None
        )
        assert node.commit({("far", 0): 1}) == {("far", 0): ErrorCode.none}
        topics = [{"name": "far", "partitions": [{"partition_index": 0}]}]
        (topic,) = node.ask("offset_delete", 0, group_id="g", topics=topics).topics
        assert topic.partitions[0].error_code == ErrorCode.none
        assert node.fetch_offsets() == {}

    def test_a_topic_takes_its_offsets_with_it(self, node: GroupHarness) -> None:
        node.create_topic("other")
        node.commit({T0: 1, ("other", 0): 1})
        node.commit({("other", 0): 1}, group="only-other")
        node.ask("delete_topics", 5, topic_names=["other"], timeout=1000)
        node.create_topic("other")
        assert node.fetch_offsets() == {T0: (1, "")}
        assert node.state("only-other") == "Dead"


class TestExpiry:
    @pytest.fixture
    def node(self, make: Callable[..., GroupHarness]) -> GroupHarness:
        harness = make(offsets_retention_minutes="60", offsets_retention_check_interval_ms="60000")
        harness.find()
        return harness

    def test_a_simple_consumers_offsets_age_by_their_commits(self, node: GroupHarness) -> None:
        node.commit({T0: 1})
        node.advance(30 * 60_000)
        node.commit({T1: 1})
        node.advance(30 * 60_000)
        assert node.fetch_offsets() == {T1: (1, "")}
        node.advance(30 * 60_000)
        assert node.state() == "Dead"

    def test_a_groups_offsets_age_from_when_it_is_empty(
        self, node: GroupHarness, make: Callable[..., GroupHarness]
    ) -> None:
        node.create_topic("other")
        member_id = node.become_stable()
        node.commit({T0: 1, ("other", 0): 1}, member_id=member_id, generation=1)
        for _ in range(8 * 60):
            node.advance(8_000)
            node.ask("heartbeat", 0, group_id="g", generation_id=1, member_id=member_id)
        # Nobody in the group reads the other topic; the one that is read stays while the group is not empty.
        assert node.fetch_offsets() == {T0: (1, "")}
        node.ask("leave_group", 0, group_id="g", member_id=member_id)
        node.advance(59 * 60_000)
        assert node.fetch_offsets() == {T0: (1, "")}
        node.advance(60_000)
        assert node.state() == "Dead"
        assert make().state() == "Dead"

    def test_a_commit_may_bring_its_own_retention(self, node: GroupHarness) -> None:
        node.commit({T0: 1}, version=3, retention_time=120_000)
        node.commit({T1: 1}, version=3, retention_time=-1)
        node.advance(60_000)
        assert node.fetch_offsets() == {T0: (1, ""), T1: (1, "")}
        node.advance(60_000)
        assert node.fetch_offsets() == {T1: (1, "")}


class TestAdministration:
    @pytest.mark.parametrize("version", versions("describe_groups"))
    def test_describing(self, node: GroupHarness, version: int) -> None:
        member_id = node.become_stable()
        node.commit({T0: 1}, group="simple")
        found, simple, nobody = node.ask("describe_groups", version, groups=["g", "simple", "nobody"]).groups
        assert (found.group_state, found.protocol_type, found.protocol_data) == ("Stable", "consumer", "range")
        (member,) = found.members
        assert (member.member_id, member.client_id, member.client_host) == (member_id, "test", "/")
        assert member.member_metadata
        assert (simple.group_state, simple.protocol_type, simple.members) == ("Empty", "", ())
        unknown = ErrorCode.group_id_not_found if version >= 6 else ErrorCode.none
        assert (nobody.error_code, nobody.group_state) == (unknown, "Dead")
        if version >= 6:
            assert (nobody.error_message, found.error_message) == ("Group nobody not found.", None)
        if version >= 3:
            (asked,) = node.ask("describe_groups", version, groups=["g"], include_authorized_operations=True).groups
            assert asked.authorized_operations == (1 << 3) + (1 << 6) + (1 << 8)

    @pytest.mark.parametrize("version", versions("list_groups"))
    def test_listing(self, node: GroupHarness, version: int) -> None:
        node.become_stable()
        node.commit({T0: 1}, group="simple")

        def listed(**filters: Any) -> dict[str, str]:
            return {group.group_id: group.protocol_type for group in node.ask("list_groups", version, **filters).groups}

        assert listed() == {"g": "consumer", "simple": ""}
        if version >= 4:
            assert listed(states_filter=["stable"]) == {"g": "consumer"}
            assert listed(states_filter=["Empty", "Dead"]) == {"simple": ""}
        if version >= 5:
            assert listed(types_filter=["consumer"]) == {}
            assert len(listed(types_filter=["Classic"])) == 2

    @pytest.mark.parametrize("version", versions("delete_groups"))
    def test_deleting(self, node: GroupHarness, make: Callable[..., GroupHarness], version: int) -> None:
        member_id = node.become_stable()
        node.commit({T0: 1}, member_id=member_id, generation=1)
        node.commit({T0: 1}, group="simple")

        def delete(*groups: str) -> list[ErrorCode]:
            results = node.ask("delete_groups", version, groups_names=list(groups)).results
            assert [result.group_id for result in results] == list(groups)
            return [result.error_code for result in results]

        not_found = ErrorCode.group_id_not_found
        assert delete("g", "simple", "nobody") == [ErrorCode.non_empty_group, ErrorCode.none, not_found]
        node.ask("leave_group", 0, group_id="g", member_id=member_id)
        assert delete("g", "simple") == [ErrorCode.none, not_found]
        for harness in (node, make()):
            assert (harness.state(), harness.fetch_offsets()) == ("Dead", {})


class TestComingBack:
    def test_groups_and_offsets(self, node: GroupHarness, make: Callable[..., GroupHarness]) -> None:
        member_id = node.become_stable()
        node.commit({T0: 1, T1: 2}, member_id=member_id, generation=1, metadata="m")
        node.commit({T0: 3}, member_id=member_id, generation=1)
        node.commit({T0: 9}, group="simple")
        again = make()
        assert again.state() == "Stable"
        assert again.fetch_offsets() == {T0: (3, ""), T1: (2, "m")}
        assert again.fetch_offsets(group="simple") == {T0: (9, "")}
        assert again.commit({T0: 4}, member_id=member_id, generation=1) == {T0: ErrorCode.none}
        again.advance(10_000)
        assert again.state() == "Empty"

    def test_a_topic_whose_deletion_was_cut_off_takes_its_offsets_with_it(
        self, node: GroupHarness, make: Callable[..., GroupHarness]
    ) -> None:
        node.create_topic("other")
        node.commit({T0: 1, ("other", 0): 1})
        node.store.mark_for_deletion("t")
        for _ in range(2):
            assert make().fetch_offsets() == {("other", 0): (1, "")}

    def test_until_they_are_read_groups_are_loading(
        self, node: GroupHarness, make: Callable[..., GroupHarness], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        member_id = node.become_stable()
        node.commit({T0: 1}, member_id=member_id, generation=1)
        with monkeypatch.context() as patch:
            patch.setattr("tests.broker.handlers.harness.ManualScheduler.run", lambda *_: None)
            again = make()
        loading = ErrorCode.coordinator_load_in_progress
        assert again.state() == loading.name
        assert again.fetch_offsets(T0, version=1) == loading
        assert again.fetch_offsets(version=2) == loading
        assert again.commit({T0: 2}, member_id=member_id, generation=1) == {T0: loading}
        assert again.join(member_id).error_code == loading
        assert again.ask("list_groups", 4).error_code == loading
        # So that members neither leave nor look for another coordinator.
        assert again.ask("heartbeat", 0, group_id="g", generation_id=1, member_id=member_id).error_code == 0
        assert again.sync(member_id).error_code == ErrorCode.rebalance_in_progress
        again.scheduler.run()
        assert again.state() == "Stable"

    def test_what_cannot_be_read_is_not_served(self, node: GroupHarness, make: Callable[..., GroupHarness]) -> None:
        node.commit({T0: 1})
        node.commit({T0: 1}, group="h")
        partition = node.node.partitions.find(OFFSETS_TOPIC, 103 % 3)
        assert partition is not None
        batch = encode_batch([Record(b"\x00\x63", b"\x00\x01\x00\x01g\x00\x01t\x00\x00\x00\x00", 0)])
        partition.append(memoryview(batch), -1, 0)
        again = make()
        assert again.state() == ErrorCode.coordinator_not_available.name
        assert again.fetch_offsets(group="h") == {T0: (1, "")}

    def test_records_of_newer_kinds_are_left_alone(self, node: GroupHarness, make: Callable[..., GroupHarness]) -> None:
        node.commit({T0: 1})
        partition = node.node.partitions.find(OFFSETS_TOPIC, 103 % 3)
        assert partition is not None
        partition.append(memoryview(encode_batch([Record(b"\x00\x00", b"\x00\x0a\x00\x01g", 0)])), -1, 0)
        assert make().fetch_offsets() == {T0: (1, "")}

    def test_without_its_topic_every_group_is_gone(self, node: GroupHarness) -> None:
        node.commit({T0: 1})
        joining = node.join(node.join(group="other").member_id, group="other")
        node.ask("delete_topics", 5, topic_names=[OFFSETS_TOPIC], timeout=1000)
        assert joining.answer.error_code == ErrorCode.not_coordinator
        assert node.fetch_offsets() == ErrorCode.not_coordinator
        node.find()
        assert node.fetch_offsets() == {}
        assert node.commit({T0: 2}) == {T0: ErrorCode.none}
