"""What a client without ACLs, and one with some of them, may do by each API."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any
from uuid import UUID

import pytest
from kio.schema.errors import ErrorCode
from kio.static.constants import EntityType

from highwater.broker.cluster.metadata import MetadataCache
from highwater.broker.handlers.shared.reply import CloseConnection, PendingResponse
from highwater.kafka.acl import Acl, Entry, Operation, PatternType, Permission, Resource, ResourceType
from highwater.kafka.protocol import cold
from highwater.kafka.protocol.apis import APIS, Api
from tests.broker.handlers.harness import NodeHarness, Pending, decode_answer, one_batch, versions
from tests.broker.handlers.test_acls import AUTHORIZER
from tests.broker.handlers.test_hostile_requests import frame_of, sample

SERVED = [(api, version) for api in APIS.values() for version in versions(api.name)]
DENIALS = {
    ErrorCode.topic_authorization_failed,
    ErrorCode.group_authorization_failed,
    ErrorCode.cluster_authorization_failed,
    ErrorCode.transactional_id_authorization_failed,
}
BY_ID = {"metadata": 10, "produce": 13}
# Everybody may ask these, and learns nothing of what he may not see.
OPEN = {
    "api_versions",
    "get_telemetry_subscriptions",
    "push_telemetry",
    "sasl_handshake",
    "sasl_authenticate",
    "describe_cluster",
    "list_groups",
    "list_transactions",
}


@pytest.fixture
def guarded(make_node: Callable[..., NodeHarness]) -> NodeHarness:
    node = make_node(**AUTHORIZER, num_partitions="1")
    node.create_topic("t")
    node.user = "nobody"
    return node


def codes(value: Any) -> Iterator[ErrorCode]:
    """Each error code in an answer."""
    if isinstance(value, tuple):
        for item in value:
            yield from codes(item)
    elif dataclasses.is_dataclass(value):
        for field in dataclasses.fields(value):
            found = getattr(value, field.name)
            if field.name.endswith("error_code"):
                yield ErrorCode(found)
            else:
                yield from codes(found)


def ask_sample(node: NodeHarness, api: Api, version: int) -> Any:
    frame = frame_of(api, version, sample(cold._entity(api.name, version, EntityType.request)))
    reply = node.send(frame)
    if isinstance(reply, PendingResponse):
        pending = Pending(api.name, version, reply)
        node.scheduler.run(1)
        assert not pending.waits
        return pending.answer
    return None if reply is None else decode_answer(api.name, version, reply)


@pytest.mark.parametrize(("api", "version"), SERVED, ids=lambda value: value.name if isinstance(value, Api) else None)
def test_who_has_no_acl_gets_no_further(guarded: NodeHarness, api: Api, version: int) -> None:
    try:
        answer = ask_sample(guarded, api, version)
    except CloseConnection as closed:  # a Produce with acks=0 has no answer
        assert api.name in ("produce", "sasl_authenticate", "sasl_handshake")
        reason = "unknown_topic_id" if version >= BY_ID.get(api.name, version + 1) else "authorization_failed"
        assert api.name != "produce" or reason in str(closed)  # noqa: PT017
        return
    found = set(codes(answer))
    if api.name in OPEN:
        assert not found & DENIALS
    elif api.name == "describe_log_dirs" and version < 3:
        assert answer.results == ()
    elif version >= BY_ID.get(api.name, version + 1):
        assert found - {ErrorCode.none} == {ErrorCode.unknown_topic_id}  # the sample asks by an id
    elif api.name in ("describe_configs", "alter_configs", "incremental_alter_configs"):
        assert found == {ErrorCode.invalid_request}  # the sample's resource is neither a topic nor a broker
    else:
        assert found & DENIALS, answer
        assert found <= DENIALS | {ErrorCode.none}, answer
    assert next(iter(guarded.node.partitions.topics())).name == "t"
    assert guarded.node.partitions.find("t", 0).log.log_end_offset == 0  # type: ignore[union-attr]


@pytest.mark.parametrize(("api", "version"), SERVED, ids=lambda value: value.name if isinstance(value, Api) else None)
def test_without_an_authorizer_nobody_is_denied(node: NodeHarness, api: Api, version: int) -> None:
    node.create_topic("t")
    node.user = None
    try:
        answer = ask_sample(node, api, version)
    except CloseConnection as closed:
        assert "authorization_failed" not in str(closed)  # noqa: PT017
        return
    assert not set(codes(answer)) & DENIALS


def allow(node: NodeHarness, kind: ResourceType, name: str, *operations: Operation, deny: bool = False) -> None:
    assert node.node.acls is not None
    permission = Permission.DENY if deny else Permission.ALLOW
    acls = [
        Acl(Resource(kind, name, PatternType.LITERAL), Entry("User:nobody", "*", operation, permission))
        for operation in operations
    ]
    node.node.acls.create(acls, lambda problems: None)


TOPIC, GROUP, CLUSTER = ResourceType.TOPIC, ResourceType.GROUP, ResourceType.CLUSTER
TRANSACTION = ResourceType.TRANSACTIONAL_ID
CLUSTER_NAME = "kafka-cluster"


class TestRecords:
    def test_writing_needs_write_on_each_topic(self, guarded: NodeHarness) -> None:
        guarded.create_topic("u")
        allow(guarded, TOPIC, "t", Operation.WRITE)
        topics = [{"name": name, "partition_data": [{"index": 0, "records": one_batch(b"v")}]} for name in ("t", "u")]
        answer = guarded.ask("produce", 9, acks=1, timeout=1000, topic_data=topics)
        told = {topic.name: topic.partition_responses[0].error_code for topic in answer.responses}
        assert told == {"t": ErrorCode.none, "u": ErrorCode.topic_authorization_failed}
        assert [guarded.node.partitions.find(name, 0).log.log_end_offset for name in ("t", "u")] == [1, 0]  # type: ignore[union-attr]

    def test_a_topic_that_is_not_there_is_not_told_apart(self, guarded: NodeHarness) -> None:
        assert guarded.produce("gone", b"v").error_code == guarded.produce("t", b"v").error_code
        allow(guarded, TOPIC, "*", Operation.WRITE)
        assert guarded.produce("gone", b"v").error_code == ErrorCode.unknown_topic_or_partition

    @pytest.mark.parametrize("version", [v for v in versions("produce") if v >= 3])
    def test_transactional_batches_need_the_transactional_id(self, guarded: NodeHarness, version: int) -> None:
        """CVE-2018-17196: the first batch alone does not decide."""
        guarded.create_topic("u")
        allow(guarded, TOPIC, "*", Operation.WRITE)
        plain = one_batch(b"v")
        transactional = one_batch(b"v", producer_id=7, producer_epoch=0, base_sequence=0, is_transactional=True)
        topics = [
            guarded.topic_key(name, is_by_id=version >= 13) | {"partition_data": [{"index": 0, "records": records}]}
            for name, records in (("t", plain), ("u", transactional))
        ]
        for name in ("x", None):
            answer = guarded.ask("produce", version, transactional_id=name, acks=1, timeout=1000, topic_data=topics)
            assert set(codes(answer)) == {ErrorCode.transactional_id_authorization_failed}

    @pytest.mark.parametrize("is_allowed", [True, False])
    def test_one_transactional_batch_without_an_id(self, guarded: NodeHarness, is_allowed: bool) -> None:
        """As with more batches, the transaction is told before the topic, and no offset of the topic's log."""
        if is_allowed:
            allow(guarded, TOPIC, "t", Operation.WRITE)
        records = one_batch(b"v", producer_id=7, producer_epoch=0, base_sequence=0, is_transactional=True)
        topics = [{"name": "t", "partition_data": [{"index": 0, "records": records}]}]
        answer = guarded.ask("produce", 9, transactional_id=None, acks=1, timeout=1000, topic_data=topics)
        (partition,) = answer.responses[0].partition_responses
        assert partition.error_code == ErrorCode.transactional_id_authorization_failed
        assert partition.log_start_offset == -1

    @pytest.mark.parametrize("version", [4, 11, 12])
    def test_reading_needs_read(self, guarded: NodeHarness, version: int) -> None:
        allow(guarded, TOPIC, "t", Operation.DESCRIBE)
        (topic,) = guarded.fetch("t", 0, version=version).responses
        (partition,) = topic.partitions
        assert partition.error_code == ErrorCode.topic_authorization_failed
        assert (partition.high_watermark, partition.records) == (-1, b"") or not partition.records
        allow(guarded, TOPIC, "t", Operation.READ)
        assert set(codes(guarded.fetch("t", 0, version=version))) == {ErrorCode.none}

    def test_by_topic_id_an_unknown_one_is_told_first(self, guarded: NodeHarness) -> None:
        topic_id: Any = guarded.node.partitions.topic("t").topic_id  # type: ignore[union-attr]
        unknown: Any = UUID(int=5)
        assert ErrorCode.topic_authorization_failed in set(codes(guarded.fetch(topic_id, 0, version=13)))
        assert ErrorCode.unknown_topic_id in set(codes(guarded.fetch(unknown, 0, version=13)))
        assert guarded.produce(topic_id, b"v", version=13).error_code == ErrorCode.topic_authorization_failed
        assert guarded.produce(unknown, b"v", version=13).error_code == ErrorCode.unknown_topic_id
        allow(guarded, TOPIC, "t", Operation.WRITE)
        assert guarded.produce(topic_id, b"v", version=13).error_code == ErrorCode.none

    def test_by_the_id_of_a_topic_that_the_controller_has_not_told_of_yet(self, guarded: NodeHarness) -> None:
        """LeaderAndIsr comes before UpdateMetadata: the broker has the partition, its view of the cluster does not."""
        topic = guarded.node.partitions.topic("t")
        assert topic is not None
        guarded.replace(cluster=MetadataCache("cluster"))
        by_id: Any = topic.topic_id
        assert ErrorCode.topic_authorization_failed in set(codes(guarded.fetch(by_id, 0, version=13)))
        assert guarded.produce(by_id, b"v", version=13).error_code == ErrorCode.topic_authorization_failed
        assert topic.partitions[0].log.log_end_offset == 0

    def test_a_client_may_not_fetch_as_a_follower(self, guarded: NodeHarness) -> None:
        """CVE-2018-1288."""
        allow(guarded, TOPIC, "t", Operation.READ)
        assert ErrorCode.topic_authorization_failed in set(codes(guarded.fetch("t", 0, replica_id=0)))
        allow(guarded, CLUSTER, CLUSTER_NAME, Operation.CLUSTER_ACTION)
        assert ErrorCode.topic_authorization_failed not in set(codes(guarded.fetch("t", 0, replica_id=0)))

    def test_what_is_allowed_counts_for_the_next_request_of_a_connection(self, guarded: NodeHarness) -> None:
        assert guarded.produce("t", b"v").error_code == ErrorCode.topic_authorization_failed
        allow(guarded, TOPIC, "t", Operation.WRITE)
        assert guarded.produce("t", b"v").error_code == ErrorCode.none
        allow(guarded, TOPIC, "t", Operation.WRITE, deny=True)
        assert guarded.produce("t", b"v").error_code == ErrorCode.topic_authorization_failed


class TestMetadata:
    def topics(self, node: NodeHarness, *names: str | None, version: int = 9, **fields: Any) -> dict[str, ErrorCode]:
        asked = None if None in names else [{"name": name} for name in names]
        answer = node.ask("metadata", version, topics=asked, **fields)
        return {topic.name: ErrorCode(topic.error_code) for topic in answer.topics}

    def test_what_may_not_be_described_is_left_out_of_all(self, guarded: NodeHarness) -> None:
        guarded.create_topic("u")
        assert self.topics(guarded, None) == {}
        allow(guarded, TOPIC, "u", Operation.READ)
        assert self.topics(guarded, None) == {"u": ErrorCode.none}

    def test_by_name_it_is_refused_whether_it_is_there_or_not(self, guarded: NodeHarness) -> None:
        denied = ErrorCode.topic_authorization_failed
        assert self.topics(guarded, "t", "gone", allow_auto_topic_creation=True) == {"t": denied, "gone": denied}

    def test_a_topic_is_created_for_who_may_create_it(self, guarded: NodeHarness) -> None:
        allow(guarded, TOPIC, "n", Operation.DESCRIBE)
        asking = {"allow_auto_topic_creation": True}
        assert self.topics(guarded, "n", **asking) == {"n": ErrorCode.topic_authorization_failed}
        assert self.topics(guarded, "n", allow_auto_topic_creation=False) == {"n": ErrorCode.unknown_topic_or_partition}
        allow(guarded, TOPIC, "n", Operation.CREATE)
        assert self.topics(guarded, "n", **asking) == {"n": ErrorCode.none}
        allow(guarded, CLUSTER, CLUSTER_NAME, Operation.CREATE)
        allow(guarded, TOPIC, "m", Operation.DESCRIBE)
        assert self.topics(guarded, "m", **asking) == {"m": ErrorCode.none}

    def test_by_id_the_name_is_not_told(self, guarded: NodeHarness) -> None:
        topic_id = guarded.node.partitions.topic("t").topic_id  # type: ignore[union-attr]
        (topic,) = guarded.ask("metadata", 12, topics=[{"topic_id": topic_id, "name": None}]).topics
        assert (topic.name, topic.topic_id) == (None, topic_id)
        assert topic.error_code == ErrorCode.topic_authorization_failed

    def test_authorised_operations(self, guarded: NodeHarness) -> None:
        allow(guarded, TOPIC, "t", Operation.READ)
        answer = guarded.ask(
            "metadata",
            8,
            topics=[{"name": "t"}],
            include_topic_authorized_operations=True,
            include_cluster_authorized_operations=True,
        )
        assert answer.topics[0].topic_authorized_operations == 1 << Operation.READ | 1 << Operation.DESCRIBE
        assert answer.cluster_authorized_operations == 0
        allow(guarded, CLUSTER, CLUSTER_NAME, Operation.ALTER)
        answer = guarded.ask("metadata", 8, topics=[], include_cluster_authorized_operations=True)
        assert answer.cluster_authorized_operations == 1 << Operation.ALTER | 1 << Operation.DESCRIBE
        answer = guarded.ask("describe_cluster", 0, include_cluster_authorized_operations=True)
        assert answer.cluster_authorized_operations == 1 << Operation.ALTER | 1 << Operation.DESCRIBE


class TestAdministration:
    def test_a_new_topic_shows_its_settings_to_who_may_see_them(self, guarded: NodeHarness) -> None:
        allow(guarded, TOPIC, "new", Operation.CREATE)
        wanted = [{"name": name, "num_partitions": 1, "replication_factor": 1} for name in ("new", "other")]
        answer = guarded.ask("create_topics", 7, topics=wanted, timeout=0)
        made, refused = sorted(answer.topics, key=lambda topic: topic.name)
        assert (made.error_code, made.num_partitions, made.configs) == (ErrorCode.none, -1, ())
        assert made.topic_config_error_code == ErrorCode.topic_authorization_failed
        assert (refused.error_code, refused.error_message) == (
            ErrorCode.topic_authorization_failed,
            "Authorization failed.",
        )
        assert guarded.node.partitions.topic("other") is None

    def test_a_topic_by_id_tells_its_name_to_who_may_describe_it(self, guarded: NodeHarness) -> None:
        topic_id = guarded.node.partitions.topic("t").topic_id  # type: ignore[union-attr]

        def delete() -> tuple[str | None, ErrorCode]:
            (told,) = guarded.ask(
                "delete_topics", 6, topics=[{"name": None, "topic_id": topic_id}], timeout=0
            ).responses
            return told.name, ErrorCode(told.error_code)

        assert delete() == (None, ErrorCode.topic_authorization_failed)
        allow(guarded, TOPIC, "t", Operation.DESCRIBE)
        assert delete() == ("t", ErrorCode.topic_authorization_failed)
        allow(guarded, TOPIC, "t", Operation.DELETE)
        assert delete() == ("t", ErrorCode.none)

    def test_settings_of_topics_and_brokers_are_two_things(self, guarded: NodeHarness) -> None:
        allow(guarded, TOPIC, "t", Operation.ALTER_CONFIGS)
        names = {2: "t", 4: "0", 8: "0", 16: "subscription", 32: "g"}
        resources = [{"resource_type": kind, "resource_name": name} for kind, name in names.items()]
        answer = guarded.ask("describe_configs", 4, resources=resources)
        told = {result.resource_type: ErrorCode(result.error_code) for result in answer.results}
        denied = ErrorCode.cluster_authorization_failed
        of_group = ErrorCode.group_authorization_failed
        assert told == {2: ErrorCode.none, 4: denied, 8: denied, 16: denied, 32: of_group}
        allow(guarded, GROUP, "g", Operation.DESCRIBE_CONFIGS)
        (group,) = guarded.ask("describe_configs", 4, resources=resources[-1:]).results
        assert group.error_code == ErrorCode.none

    def test_the_acls_themselves_need_the_cluster(self, guarded: NodeHarness) -> None:
        creation = {
            "resource_type": 2,
            "resource_name": "t",
            "resource_pattern_type": 3,
            "principal": "User:nobody",
            "host": "*",
            "operation": 2,
            "permission_type": 3,
        }
        assert set(codes(guarded.ask("create_acls", 3, creations=[creation]))) == {
            ErrorCode.cluster_authorization_failed
        }
        allow(guarded, CLUSTER, CLUSTER_NAME, Operation.ALTER)
        assert set(codes(guarded.ask("create_acls", 3, creations=[creation]))) == {ErrorCode.none}
        assert guarded.produce("t", b"v").error_code == ErrorCode.none


def commit_to_t_and_u(guarded: NodeHarness) -> None:
    """Commit for a group "g", as somebody who may do everything."""
    guarded.create_topic("u")
    guarded.user = "admin"
    guarded.ask("find_coordinator", 3, key="g", key_type=0)
    guarded.scheduler.run(1)
    offset = {"partition_index": 0, "committed_offset": 1, "committed_metadata": ""}
    topics = [{"name": name, "partitions": [offset]} for name in ("t", "u")]
    answer = guarded.ask("offset_commit", 8, group_id="g", member_id="", topics=topics)
    assert set(codes(answer)) == {ErrorCode.none}
    guarded.user = "nobody"


class TestGroupsAndTransactions:
    def test_offsets_of_all_topics_are_those_that_may_be_seen(self, guarded: NodeHarness) -> None:
        commit_to_t_and_u(guarded)
        allow(guarded, GROUP, "g", Operation.DESCRIBE)
        allow(guarded, TOPIC, "u", Operation.DESCRIBE)
        for version in (7, 9, 10):
            asked = (
                {"groups": [{"group_id": "g", "topics": None}]} if version >= 8 else {"group_id": "g", "topics": None}
            )
            answer = guarded.ask("offset_fetch", version, **asked)
            (told,) = (answer.groups[0] if version >= 8 else answer).topics
            key = guarded.topic_key("u", is_by_id=version >= 10)
            assert {name: getattr(told, name) for name in key} == key

    def test_a_consumer_group_is_told_with_all_its_topics_or_not_at_all(self, guarded: NodeHarness) -> None:
        guarded.ask("find_coordinator", 3, key="g", key_type=0)
        allow(guarded, GROUP, "g", Operation.READ)

        def join() -> ErrorCode:
            answer = guarded.ask(
                "consumer_group_heartbeat", 1, group_id="g", member_id="m", member_epoch=0, rebalance_timeout=1000,
                subscribed_topic_names=["t"], topic_partitions=[],
            )  # fmt: skip
            return ErrorCode(answer.error_code)

        def describe() -> Any:
            (group,) = guarded.ask(
                "consumer_group_describe", 1, group_ids=["g"], include_authorized_operations=True
            ).groups
            return group

        allow(guarded, CLUSTER, CLUSTER_NAME, Operation.CREATE)
        guarded.ask("find_coordinator", 3, key="g", key_type=0)
        guarded.scheduler.run()
        assert join() == ErrorCode.topic_authorization_failed
        allow(guarded, TOPIC, "t", Operation.DESCRIBE)
        assert join() == ErrorCode.none
        assert len(describe().members) == 1
        assert describe().authorized_operations == 1 << Operation.READ | 1 << Operation.DESCRIBE
        allow(guarded, TOPIC, "t", Operation.DESCRIBE, deny=True)
        assert (describe().error_code, describe().members) == (ErrorCode.topic_authorization_failed, ())

    def test_offsets_by_topic_id_are_guarded_by_the_name(self, guarded: NodeHarness) -> None:
        commit_to_t_and_u(guarded)
        allow(guarded, GROUP, "g", Operation.READ)
        allow(guarded, TOPIC, "u", Operation.READ)
        keys = [guarded.topic_key(name, is_by_id=True) for name in ("t", "u", "nowhere")]
        expected = {
            key["topic_id"]: error
            for key, error in zip(
                keys,
                (ErrorCode.topic_authorization_failed, ErrorCode.none, ErrorCode.unknown_topic_id),
                strict=True,
            )
        }
        offset = {"partition_index": 0, "committed_offset": 2, "committed_metadata": ""}
        committed = guarded.ask(
            "offset_commit", 10, group_id="g", member_id="", topics=[key | {"partitions": [offset]} for key in keys]
        )
        assert {topic.topic_id: topic.partitions[0].error_code for topic in committed.topics} == expected
        allow(guarded, TRANSACTION, "x", Operation.WRITE)
        producer = {"transactional_id": "x", "producer_id": 1, "producer_epoch": 0}
        committed = guarded.ask(
            "txn_offset_commit", 6, group_id="g", topics=[key | {"partitions": [offset]} for key in keys], **producer
        )
        unverified = expected | {keys[1]["topic_id"]: ErrorCode.not_coordinator}  # of "x"
        assert {topic.topic_id: topic.partitions[0].error_code for topic in committed.topics} == unverified
        topics = [key | {"partition_indexes": [0]} for key in keys]
        (group,) = guarded.ask("offset_fetch", 10, groups=[{"group_id": "g", "topics": topics}]).groups
        assert {topic.topic_id: topic.partitions[0].error_code for topic in group.topics} == expected
        told = {topic.topic_id: topic.partitions[0].committed_offset for topic in group.topics}
        assert list(told.values()).count(-1) == 2
        assert told[keys[1]["topic_id"]] == 2

    def test_a_producer_without_a_name_needs_to_write_somewhere(self, guarded: NodeHarness) -> None:
        def ask() -> ErrorCode:
            answer = guarded.ask("init_producer_id", 4, transactional_id=None, transaction_timeout=0)
            return ErrorCode(answer.error_code)

        assert ask() == ErrorCode.cluster_authorization_failed
        allow(guarded, TOPIC, "somewhere", Operation.WRITE)
        assert ask() == ErrorCode.none
        allow(guarded, TOPIC, "somewhere", Operation.WRITE, deny=True)
        assert ask() == ErrorCode.cluster_authorization_failed
        allow(guarded, CLUSTER, CLUSTER_NAME, Operation.IDEMPOTENT_WRITE)
        assert ask() == ErrorCode.none

    def test_nothing_is_added_if_one_topic_may_not_be_written(self, guarded: NodeHarness) -> None:
        guarded.create_topic("u")
        allow(guarded, TRANSACTION, "x", Operation.WRITE)
        allow(guarded, TOPIC, "t", Operation.WRITE)
        answer = guarded.ask(
            "add_partitions_to_txn",
            3,
            v3_and_below_transactional_id="x",
            v3_and_below_producer_id=1,
            v3_and_below_producer_epoch=0,
            v3_and_below_topics=[{"name": "t", "partitions": [0]}, {"name": "u", "partitions": [0]}],
        )
        told = {
            topic.name: ErrorCode(topic.results_by_partition[0].partition_error_code)
            for topic in answer.results_by_topic_v3_and_below
        }
        assert told == {"t": ErrorCode.operation_not_attempted, "u": ErrorCode.topic_authorization_failed}
