"""What the audit log has of requests: each denial, each change, no secret."""

from __future__ import annotations

import json
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from highwater.broker.handlers.authorization.changes import CHANGES, may_be_made
from highwater.broker.security.audit import MOST_KINDS, Audit, Origin
from highwater.broker.topics.administration import PartitionOutcomes
from highwater.kafka.acl import Operation, ResourceType
from highwater.kafka.protocol.apis import APIS, CLUSTER_APIS
from highwater.kafka.protocol.problem import Problem
from tests.broker.handlers.harness import NodeHarness, Pending
from tests.broker.handlers.test_acls import ACL, AUTHORIZER, FILTER

SECRET = "s3cret"  # noqa: S105
Make = Callable[..., NodeHarness]
OF_PARTITIONS_AND_GROUPS = {
    "alter_partition_reassignments",
    "alter_replica_log_dirs",
    "delete_groups",
    "delete_records",
    "elect_leaders",
    "offset_delete",
}


class Audited:
    def __init__(self, node: NodeHarness) -> None:
        self.node = node
        self.texts: list[str] = []
        node.replace(audit=Audit(0, node.clock, node.scheduler, self.texts.append))

    def ask(self, name: str, version: int, /, user: str | None = None, **fields: Any) -> list[dict[str, Any]]:
        """The lines of one request, without what is alike in all."""
        self.texts.clear()
        self.node.user = user
        answer = self.node.ask(name, version, **fields)
        if isinstance(answer, Pending):
            self.node.scheduler.run(1)
            assert not answer.waits
        assert SECRET not in "".join(self.texts)
        lines = [json.loads(text) for text in self.texts]
        for line in lines:
            assert line.pop("time").endswith("Z")
            assert (line.pop("broker"), line.pop("listener"), line.pop("client_id")) == (0, "PLAINTEXT", "test")
            assert line.pop("host") == ""
        return lines


@pytest.fixture
def audited(make_node: Make) -> Audited:
    return Audited(make_node(**AUTHORIZER))


def change(request: str, outcome: str = "NONE", **fields: Any) -> dict[str, Any]:
    told = {"event": "change", "principal": "User:admin", "request": request, **fields, "outcome": outcome}
    return told if may_be_made(ErrorCode[outcome.lower()]) else {**told, "count": 1}


def new_topic(name: str, **config: str) -> dict[str, Any]:
    return {
        "name": name, "num_partitions": 2, "replication_factor": 1, "assignments": [],
        "configs": [{"name": key, "value": value} for key, value in config.items()],
    }  # fmt: skip


def test_each_change_is_one_line(audited: Audited) -> None:
    seen = set()

    def ask(name: str, version: int, /, **fields: Any) -> list[dict[str, Any]]:
        seen.add(name)
        return audited.ask(name, version, user="admin", **fields)

    topics = [new_topic("t", **{"flush.messages": "5"}), new_topic("..")]
    assert ask("create_topics", 5, topics=topics, timeout=1000, validate_only=False) == [
        change("CreateTopics", topic="t", action="create", partitions=2, configs={"flush.messages": "5"}),
        change("CreateTopics", "INVALID_TOPIC_EXCEPTION", topic="..", action="create", partitions=2, configs={}),
    ]
    assert ask("create_topics", 5, topics=[new_topic("n")], timeout=1000, validate_only=True) == []
    grown = [{"name": "t", "count": 3, "assignments": None}]
    assert ask("create_partitions", 1, topics=grown, timeout=1000, validate_only=False) == [
        change("CreatePartitions", topic="t", action="add partitions", partitions=3)
    ]
    entries = [{"name": "flush.messages", "config_operation": 0, "value": "7"}]
    resource = {"resource_type": 2, "resource_name": "t", "configs": entries}
    told = {"resource_name": "t", "resource_type": "topic", "action": "alter configs"}
    assert ask("incremental_alter_configs", 1, resources=[resource], validate_only=False) == [
        change(
            "IncrementalAlterConfigs", **told, configs=[{"name": "flush.messages", "operation": "set", "value": "7"}]
        )
    ]
    wrong = {"resource_type": 2, "resource_name": "t", "configs": [{"name": "ssl.key.password", "value": SECRET}]}
    assert ask("alter_configs", 1, resources=[wrong], validate_only=False) == [
        change("AlterConfigs", "INVALID_CONFIG", **told, configs=[])
    ]
    quota = {
        "entity": [{"entity_type": "user", "entity_name": "bob"}, {"entity_type": "client-id", "entity_name": None}],
        "ops": [{"key": "producer_byte_rate", "value": 1000.0, "remove": False}],
    }
    assert ask("alter_client_quotas", 1, entries=[quota], validate_only=False) == [
        change(
            "AlterClientQuotas", entity="user bob, client-id (default)", action="alter quotas",
            quotas={"producer_byte_rate": 1000.0},
        )
    ]  # fmt: skip
    credential = {
        "name": "bob", "mechanism": 2, "iterations": 4096, "salt": SECRET.encode(), "salted_password": SECRET.encode(),
    }  # fmt: skip
    made = {"mechanism": "SCRAM-SHA-512", "operation": "set", "iterations": 4096}
    assert ask("alter_user_scram_credentials", 0, deletions=[], upsertions=[credential]) == [
        change("AlterUserScramCredentials", user="bob", action="alter credentials", credentials=[made])
    ]
    acl = {"resource_name": "t", "resource_type": "Topic", "pattern_type": "Literal"}
    entry = {"principal": "User:a", "host": "*", "operation": "Read", "permission": "Allow"}
    assert ask("create_acls", 3, creations=[ACL]) == [change("CreateAcls", **acl, action="create ACL", acl=entry)]
    assert ask("delete_acls", 3, filters=[FILTER]) == [change("DeleteAcls", **acl, action="delete ACL", acl=entry)]
    assert ask("delete_acls", 3, filters=[FILTER]) == []
    assert ask("delete_topics", 5, topic_names=["t", "u"], timeout=1000) == [
        change("DeleteTopics", topic="t", action="delete"),
        change("DeleteTopics", "UNKNOWN_TOPIC_OR_PARTITION", topic="u", action="delete"),
    ]
    updates = [{"feature": "metadata.version", "max_version_level": 20, "upgrade_type": 1}]
    level = {"feature": "metadata.version", "action": "update feature", "level": 20}
    assert ask("update_features", 2, timeout=1000, feature_updates=updates, validate_only=False) == [
        change("UpdateFeatures", "INVALID_UPDATE_VERSION", **level)
    ]
    assert ask("update_features", 2, timeout=1000, feature_updates=updates, validate_only=True) == []
    assert seen == CHANGES.keys() - OF_PARTITIONS_AND_GROUPS


def test_each_change_of_partitions_and_of_groups_is_one_line(audited: Audited) -> None:
    seen = set()
    node = audited.node
    node.create_topic("t", 3)
    node.user = "admin"
    for partition in (0, 1):
        node.produce("t", b"v", partition=partition)
    node.ask("find_coordinator", 0, key="g")
    committed = [{"name": "t", "partitions": [{"partition_index": n, "committed_offset": 1} for n in (0, 1)]}]
    node.ask("offset_commit", 2, group_id="g", member_id="", generation_id_or_member_epoch=-1, topics=committed)

    def ask(name: str, version: int, /, **fields: Any) -> list[dict[str, Any]]:
        seen.add(name)
        return audited.ask(name, version, user="admin", **fields)

    ends = [{"partition_index": n, "offset": offset} for n, offset in ((0, 1), (1, -1), (2, 99))]
    records = {"topic": "t", "action": "delete records"}
    assert ask("delete_records", 2, topics=[{"name": "t", "partitions": ends}], timeout=1000) == [
        change("DeleteRecords", **records, before_offsets={"0": 1, "1": 1}),
        change("DeleteRecords", "OFFSET_OUT_OF_RANGE", **records, before_offsets={}),
    ]
    replicas = [{"partition_index": n, "replicas": [0] if n else None} for n in (0, 1, 2)]
    moved = {"topic": "t", "action": "reassign"}
    assert ask("alter_partition_reassignments", 0, topics=[{"name": "t", "partitions": replicas}], timeout=1) == [
        change("AlterPartitionReassignments", "NO_REASSIGNMENT_IN_PROGRESS", **moved, replicas={}),
        change("AlterPartitionReassignments", **moved, replicas={"1": [0], "2": [0]}),
    ]
    wanted = [{"topic": "t", "partitions": [0, 1, 2, 7]}]
    election = {"topic": "t", "action": "elect unclean leaders"}
    refused = change("ElectLeaders", "UNKNOWN_TOPIC_OR_PARTITION", **election, partitions=[])
    assert ask("elect_leaders", 1, topic_partitions=wanted, election_type=1, timeout=1) == [refused]
    not_needed = Problem(ErrorCode.election_not_needed, "")
    with_elections(audited.node, {("t", 0): None, ("t", 2): None, ("t", 1): not_needed})
    assert ask("elect_leaders", 1, topic_partitions=wanted, election_type=1, timeout=1) == [
        change("ElectLeaders", **election, partitions=[0, 2])
    ]
    with_elections(audited.node, Problem(ErrorCode.request_timed_out, ""))
    assert ask("elect_leaders", 0, topic_partitions=None, timeout=1) == [
        change("ElectLeaders", "REQUEST_TIMED_OUT", topic="(all)", action="elect preferred leaders")
    ]
    directory = str(node.log_directory.path)
    dirs = [{"path": directory, "topics": [{"name": "t", "partitions": [0, 9]}]}]
    log = {"topic": "t", "action": "move to a log directory"}
    assert ask("alter_replica_log_dirs", 2, dirs=dirs) == [
        change("AlterReplicaLogDirs", **log, directories={"0": directory}),
        change("AlterReplicaLogDirs", "UNKNOWN_TOPIC_OR_PARTITION", **log, directories={}),
    ]
    offsets = [{"name": "t", "partitions": [{"partition_index": 0}, {"partition_index": 9}]}]
    gone = {"group": "g", "action": "delete offsets", "topic": "t"}
    assert ask("offset_delete", 0, group_id="g", topics=offsets) == [
        change("OffsetDelete", **gone, partitions=[0]),
        change("OffsetDelete", "UNKNOWN_TOPIC_OR_PARTITION", **gone, partitions=[]),
    ]
    assert ask("offset_delete", 0, group_id="none", topics=offsets) == [
        change("OffsetDelete", "GROUP_ID_NOT_FOUND", group="none", action="delete offsets")
    ]
    assert ask("delete_groups", 2, groups_names=["g", "none"]) == [
        change("DeleteGroups", group="g", action="delete group"),
        change("DeleteGroups", "GROUP_ID_NOT_FOUND", group="none", action="delete group"),
    ]
    assert seen == OF_PARTITIONS_AND_GROUPS


def with_elections(node: NodeHarness, results: PartitionOutcomes) -> None:
    def elect_leaders(*asked: Any) -> None:
        asked[3](results)

    node.replace(administration=SimpleNamespace(elect_leaders=elect_leaders))


@pytest.mark.parametrize("is_later", [False, True])
@pytest.mark.parametrize(
    ("outcome", "may_be"),
    [
        (ErrorCode.request_timed_out, True),
        (ErrorCode.unknown_server_error, True),
        (ErrorCode.kafka_storage_error, True),
        (ErrorCode.not_controller, None),
        (ErrorCode.invalid_config, False),
        (ErrorCode.topic_already_exists, False),
    ],
)
def test_what_may_have_been_made_is_written_however_many_lines_there_are(
    audited: Audited, outcome: ErrorCode, may_be: bool | None, is_later: bool
) -> None:
    """None: only if the broker was the right one at first, as it did not answer at once."""
    node = audited.node
    audit = node.node.audit
    assert audit is not None
    for number in range(2 * MOST_KINDS):
        audit.denied(Origin("User:admin", "", "", "", ""), Operation.READ, ResourceType.TOPIC, str(number))

    def create_topics(wanted: Any, terms: Any, then: Callable[[list[Problem]], None]) -> None:
        problems = [Problem(outcome, "")]
        if is_later:
            node.scheduler.call_later(1, lambda: then(problems))
        else:
            then(problems)

    node.replace(administration=SimpleNamespace(create_topics=create_topics, is_controller=True))
    configs = {"flush.messages": "5"}
    topics = [new_topic("t", **configs)]
    lines = audited.ask("create_topics", 5, user="admin", topics=topics, timeout=0, validate_only=False)
    is_written = is_later if may_be is None else may_be
    told = change("CreateTopics", outcome.name.upper(), topic="t", action="create", partitions=2, configs=configs)
    assert lines == ([told] if is_written else [])


def test_a_client_that_leaves_before_the_answer_leaves_a_line(audited: Audited) -> None:
    node = audited.node
    node.create_topic("t")

    def delete_topics(names: list[str], terms: Any, then: Callable[[list[None]], None]) -> None:
        node.scheduler.call_later(1, lambda: then([None]))

    node.replace(administration=SimpleNamespace(delete_topics=delete_topics, is_controller=True))
    node.user = "admin"
    pending = node.ask("delete_topics", 5, topic_names=["t"], timeout=1000)
    assert isinstance(pending, Pending)
    pending.cancel()
    node.scheduler.run(1)
    assert pending.waits, "nobody is answered"
    assert [json.loads(text)["action"] for text in audited.texts] == ["delete"]


def test_whoever_is_denied_such_a_change_is_told_of_as_denied(audited: Audited) -> None:
    audited.node.create_topic("t")
    wanted = [{"name": "t", "partitions": [{"partition_index": 0, "offset": 0}]}]
    for name, version, fields in (
        ("delete_records", 2, {"topics": wanted, "timeout": 1}),
        ("alter_partition_reassignments", 0, {"topics": [{"name": "t", "partitions": []}], "timeout": 1}),
        ("delete_groups", 2, {"groups_names": ["g"]}),
        ("offset_delete", 0, {"group_id": "h", "topics": []}),
    ):
        (line,) = audited.ask(name, version, user="eve", **fields)
        assert line["event"] == "denied"


UNTOLD = {
    "it changes nothing": (
        "api_versions consumer_group_describe "
        "describe_acls describe_client_quotas describe_cluster describe_configs describe_groups "
        "describe_log_dirs describe_producers describe_transactions describe_user_scram_credentials fetch "
        "describe_topic_partitions list_config_resources "
        "list_groups list_offsets list_partition_reassignments list_transactions offset_fetch offset_for_leader_epoch"
    ),
    "it is the work of producers and consumers, and of operators in the same form": (
        "produce init_producer_id add_partitions_to_txn add_offsets_to_txn end_txn txn_offset_commit offset_commit "
        "join_group sync_group heartbeat leave_group consumer_group_heartbeat "
        "get_telemetry_subscriptions push_telemetry"
    ),
    "it creates topics of the brokers alone": "find_coordinator",
    "the broker's log tells of logins": "sasl_handshake sasl_authenticate",
    "brokers do it because of what they were asked": (
        "leader_and_isr stop_replica update_metadata controlled_shutdown alter_partition allocate_producer_ids "
        "write_txn_markers"
    ),
}
"""The APIs that have no line of a change, by the reason."""
IN_ITS_HANDLER = {"metadata"}


def test_each_api_is_audited_or_there_is_a_reason_why_not() -> None:
    decided = [*CHANGES, *IN_ITS_HANDLER, *" ".join(UNTOLD.values()).split()]
    assert sorted(decided) == sorted(api.name for api in (*APIS.values(), *CLUSTER_APIS.values()))


def test_a_topic_that_is_created_on_first_use_is_a_change_of_who_asked(audited: Audited) -> None:
    wanted = {"topics": [{"name": "new"}], "allow_auto_topic_creation": True}
    assert audited.ask("metadata", 8, user="admin", **wanted) == [
        change("Metadata", topic="new", action="create on first use")
    ]


def test_a_topic_that_a_controller_is_asked_for_is_a_change_whatever_was_refused_before(audited: Audited) -> None:
    """A cluster answers with its last refusal, and asks the controller again."""
    asked: set[str] = set()

    class Creation:
        def is_under_way(self, name: str) -> bool:
            return name in asked

        def create(self, names: list[str]) -> dict[str, ErrorCode]:
            outcomes = {name: ErrorCode.leader_not_available if name in asked else ErrorCode.policy_violation
                        for name in names}  # fmt: skip
            asked.update(name for name in names if name != "refused")
            return outcomes

    audited.node.replace(auto_creation=Creation())
    wanted = {"topics": [{"name": "new"}, {"name": "refused"}], "allow_auto_topic_creation": True}
    told = {"action": "create on first use"}
    assert audited.ask("metadata", 8, user="admin", **wanted) == [
        change("Metadata", "LEADER_NOT_AVAILABLE", topic="new", **told),
        change("Metadata", "POLICY_VIOLATION", topic="refused", **told),
    ]
    assert audited.ask("metadata", 8, user="admin", **wanted) == [], "it is under way, or was refused as before"


def test_each_denial_is_told_once_with_the_request_that_it_refused(audited: Audited) -> None:
    audited.node.create_topic("t")
    (line,) = audited.ask("create_topics", 5, user="eve", topics=[new_topic("n")], timeout=1, validate_only=False)
    assert line == {
        "event": "denied", "principal": "User:eve", "request": "CreateTopics", "operation": "Create",
        "resource_type": "Topic", "resource_name": "n", "count": 1,
    }  # fmt: skip
    (line,) = audited.ask("metadata", 8, user="eve", topics=[{"name": "t"}], allow_auto_topic_creation=False)
    assert (line["request"], line["operation"], line["resource_name"]) == ("Metadata", "Describe", "t")
    assert audited.ask("metadata", 8, user="eve", topics=[{"name": "t"}], allow_auto_topic_creation=False) == []
    (line,) = audited.ask("init_producer_id", 1, user="eve", transactional_id=None, transaction_timeout=0)
    assert (line["operation"], line["resource_type"]) == ("IdempotentWrite", "Cluster")
    assert audited.node.node.counters.authorizations_denied == 4


def test_records_are_denied_with_a_line_and_counted(audited: Audited) -> None:
    audited.node.create_topic("t")
    counters = audited.node.node.counters
    audited.node.user = "admin"
    audited.node.produce("t", b"v")
    assert (counters.authorizations_asked, counters.authorizations_denied) == (1, 0)
    audited.node.user = "eve"
    for _ in range(3):
        audited.node.produce("t", b"v")
        audited.node.fetch("t", 0)
    audited.node.fetch("t", 0, replica_id=1)
    lines = [json.loads(text) for text in audited.texts]
    assert [(line["request"], line["operation"], line["resource_name"]) for line in lines] == [
        ("Produce", "Write", "t"), ("Fetch", "Read", "t"), ("Fetch", "ClusterAction", "kafka-cluster"),
    ]  # fmt: skip
    assert (counters.authorizations_asked, counters.authorizations_denied) == (8, 7)


def test_what_is_only_left_out_of_a_list_is_no_denial(audited: Audited) -> None:
    audited.node.create_topic("t")
    assert audited.ask("metadata", 8, user="eve", topics=None, include_cluster_authorized_operations=True) == []
    assert audited.ask("list_groups", 4, user="eve", states_filter=[]) == []
    assert audited.ask("list_transactions", 0, user="eve", state_filters=[], producer_id_filters=[]) == []
    assert audited.ask("describe_cluster", 0, user="eve", include_cluster_authorized_operations=True) == []
    assert audited.node.node.counters.authorizations_denied == 0


def test_without_an_authorizer_and_a_file_there_is_no_audit(make_node: Make) -> None:
    assert make_node().node.audit is None
    assert make_node(audit_log_file="/somewhere").node.audit is not None
