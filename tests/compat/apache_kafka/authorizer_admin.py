"""Cases of AuthorizerIntegrationTest that single requests show: topics, groups, settings, what is authorised."""

from __future__ import annotations

from functools import partial
from typing import Any, Final
from uuid import UUID

from highwater.broker.security.acl import Operation
from tests.compat.apache_kafka.answers.script import CLOSED
from tests.compat.apache_kafka.authorizer_world import (
    CLUSTER,
    GROUP,
    PREFIXED,
    TOPIC,
    TRANSACTION,
    Check,
    World,
    errors_in,
    mirrors,
)

ADMIN_CASES: Final[dict[str, Check]] = {}
_case = partial(mirrors, ADMIN_CASES)
READ, WRITE, CREATE, DELETE = Operation.READ, Operation.WRITE, Operation.CREATE, Operation.DELETE
ALTER, DESCRIBE, ALL = Operation.ALTER, Operation.DESCRIBE, Operation.ALL
CLUSTER_ACTION = Operation.CLUSTER_ACTION
DESCRIBE_CONFIGS, ALTER_CONFIGS = Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS
NOBODYS_ID: Final = UUID(int=77)

# Fetch and Metadata


def _fetch(world: World, version: int = 11, replica_id: int = -1, topic: Any = None) -> list[str]:
    wanted = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1 << 20}
    named = topic or {"topic": world.topic}
    return world.errors(
        *("fetch", version),
        replica_id=replica_id,
        max_wait=0,
        min_bytes=0,
        max_bytes=1 << 20,
        session_epoch=-1,
        topics=[{**named, "partitions": [wanted]}],
    )


def _metadata(world: World, **fields: Any) -> Any:
    named = {"topics": [{"name": world.topic}], "allow_auto_topic_creation": False}
    return world.ask("metadata", 12, **(named | fields))


@_case("TopicIdAuthorization")
def _(world: World) -> Any:
    """A name is told only to who may describe the topic."""
    world.create()
    ids = [{"topic_id": each, "name": None} for each in (world.topic_id(world.topic), NOBODYS_ID)]
    told = []
    for _ in range(2):
        answer = _metadata(world, topics=ids)
        told.append(sorted((topic.error_code.name, topic.name == world.topic) for topic in answer.topics))
        world.allow(TOPIC, DESCRIBE)
    return told


@_case("AuthorizationFetchV12WithTopicNotExisting")
def _(world: World) -> Any:
    refused = _fetch(world, 12)
    world.allow(TOPIC, READ)
    return refused, _fetch(world, 12)


@_case("FetchFollowerRequest")
def _(world: World) -> Any:
    world.create()
    world.allow(TOPIC, READ)
    refused = _fetch(world, replica_id=5)
    world.allow(CLUSTER, CLUSTER_ACTION)
    return refused, "topic_authorization_failed" in _fetch(world, replica_id=5)


@_case("OffsetsForLeaderEpochClusterPermission")
def _(world: World) -> Any:
    world.create()
    asked = {"replica_id": 5, "topics": [{"topic": world.topic, "partitions": [{"partition": 0, "leader_epoch": 0}]}]}
    refused = world.errors("offset_for_leader_epoch", 4, **asked)
    world.allow(CLUSTER, CLUSTER_ACTION)
    return refused, world.errors("offset_for_leader_epoch", 4, **asked)


@_case("MetadataWithNoTopicAccess", "MetadataWithTopicDescribe")
def _(world: World) -> Any:
    world.create()
    refused = errors_in(_metadata(world))
    world.allow(TOPIC, DESCRIBE)
    return refused, errors_in(_metadata(world))


@_case("CreatePermissionMetadataRequestAutoCreate")
def _(world: World) -> Any:
    """READ on what is not there tells so; CREATE makes it."""
    told = [errors_in(_metadata(world, allow_auto_topic_creation=True))]
    world.allow(TOPIC, READ)
    told.append(errors_in(_metadata(world, allow_auto_topic_creation=True)))
    world.allow(TOPIC, CREATE)
    _metadata(world, allow_auto_topic_creation=True)
    return told, world.made()


@_case("ListOffsetsWithNoTopicAccess", "ListOffsetsWithTopicDescribe")
def _(world: World) -> Any:
    world.create()
    partitions = [{"partition_index": 0, "timestamp": -1}]
    asked = {"replica_id": -1, "topics": [{"name": world.topic, "partitions": partitions}]}
    refused = world.errors("list_offsets", 7, **asked)
    world.allow(TOPIC, DESCRIBE)
    return refused, world.errors("list_offsets", 7, **asked)


# Topics


def _new(world: World) -> dict[str, Any]:
    return {"name": world.topic, "num_partitions": 1, "replication_factor": 1}


@_case("CreateTopicAuthorizationWithClusterCreate")
def _(world: World) -> Any:
    asked = {"topics": [_new(world)], "timeout": 30_000, "validate_only": False}
    refused = world.errors("create_topics", 7, **asked)
    world.allow(CLUSTER, CREATE)
    return refused, world.errors("create_topics", 7, **asked), world.names()


def _delete(world: World) -> list[str]:
    return world.errors("delete_topics", 5, topic_names=[world.topic], timeout=30_000)


@_case("UnauthorizedDeleteTopicsWithoutDescribe", "UnauthorizedDeleteTopicsWithDescribe")
def _(world: World) -> Any:
    world.create()
    refused = _delete(world)
    world.allow(TOPIC, DESCRIBE)
    return refused, _delete(world), world.names()


@_case("DeleteTopicsWithWildCardAuth")
def _(world: World) -> Any:
    world.create()
    world.allow(TOPIC, DELETE, name="*")
    return _delete(world)


def _delete_records(world: World) -> list[str]:
    partitions = [{"partition_index": 0, "offset": 0}]
    return world.errors("delete_records", 2, topics=[{"name": world.topic, "partitions": partitions}], timeout=30_000)


@_case("UnauthorizedDeleteRecordsWithoutDescribe", "UnauthorizedDeleteRecordsWithDescribe")
def _(world: World) -> Any:
    world.create()
    refused = _delete_records(world)
    world.allow(TOPIC, DESCRIBE)
    return refused, _delete_records(world)


@_case("DeleteRecordsWithWildCardAuth")
def _(world: World) -> Any:
    world.create()
    world.allow(TOPIC, DELETE, name="*")
    return _delete_records(world)


def _grow(world: World) -> list[str]:
    more = [{"name": world.topic, "count": 3, "assignments": None}]
    return world.errors("create_partitions", 3, topics=more, timeout=30_000, validate_only=False)


@_case("UnauthorizedCreatePartitions")
def _(world: World) -> Any:
    world.create()
    return _grow(world)


@_case("CreatePartitionsWithWildCardAuth")
def _(world: World) -> Any:
    world.create()
    world.allow(TOPIC, ALTER, name="*")
    return _grow(world)


# Groups


def _commit_as_admin(world: World) -> None:
    partitions = [{"partition_index": 0, "committed_offset": 5, "committed_metadata": ""}]
    answer = world.admin(
        *("offset_commit", 8),
        group_id=world.group,
        generation_id_or_member_epoch=-1,
        member_id="",
        topics=[{"name": world.topic, "partitions": partitions}],
    )
    assert set(errors_in(answer)) == {"none"}, answer


@_case("DescribeGroupApiWithNoGroupAcl", "DescribeGroupApiWithGroupDescribe")
def _(world: World) -> Any:
    refused = world.errors("describe_groups", 5, groups=[world.group])
    world.allow(GROUP, DESCRIBE)
    return refused, world.errors("describe_groups", 5, groups=[world.group])


@_case("ListGroupApiWithAndWithoutListGroupAcls")
def _(world: World) -> Any:
    """A group by itself, and all by the cluster."""
    world.create()
    _commit_as_admin(world)

    def sees() -> bool:
        return world.group in {each.group_id for each in world.ask("list_groups", 4).groups}

    told = [sees()]
    world.allow(GROUP, DESCRIBE)
    told.append(sees())
    world.revoke(GROUP, DESCRIBE)
    world.allow(CLUSTER, DESCRIBE)
    return [*told, sees()]


def _delete_group(world: World) -> list[str]:
    return world.errors("delete_groups", 2, groups_names=[world.group])


@_case("DeleteGroupApiWithNoDeleteGroupAcl2")
def _(world: World) -> Any:
    return _delete_group(world)


@_case("DeleteGroupApiWithNoDeleteGroupAcl", "DeleteGroupApiWithDeleteGroupAcl")
def _(world: World) -> Any:
    world.create()
    _commit_as_admin(world)
    world.allow(GROUP, READ)
    refused = _delete_group(world)
    world.allow(GROUP, DELETE)
    return refused, _delete_group(world)


def _delete_offsets(world: World) -> list[str]:
    topics = [{"name": world.topic, "partitions": [{"partition_index": 0}]}]
    return world.errors("offset_delete", 0, group_id=world.group, topics=topics)


@_case("DeleteGroupOffsetsWithNoAcl")
def _(world: World) -> Any:
    return _delete_offsets(world)


@_case("DeleteGroupOffsetsWithoutDeleteAcl")
def _(world: World) -> Any:
    world.create()
    _commit_as_admin(world)
    world.allow(GROUP, READ)
    world.allow(TOPIC, READ)
    return _delete_offsets(world)


@_case("DeleteGroupOffsetsWithDeleteAclWithoutTopicAcl", "DeleteGroupOffsetsWithAcl")
def _(world: World) -> Any:
    world.create()
    _commit_as_admin(world)
    world.allow(GROUP, DELETE)
    refused = _delete_offsets(world)
    world.allow(TOPIC, READ)
    return refused, _delete_offsets(world)


@_case("OffsetFetchAllTopicPartitionsAuthorization")
def _(world: World) -> Any:
    """Of all offsets of a group those are told whose topics the client may see."""
    world.create()
    _commit_as_admin(world)

    def fetch() -> Any:
        answer = world.ask("offset_fetch", 7, group_id=world.group, topics=None, require_stable=False)
        return answer.error_code.name, [topic.name for topic in answer.topics]

    told = [fetch()]
    world.allow(GROUP, READ)
    told.append(fetch())
    world.allow(TOPIC, DESCRIBE)
    return [*told, fetch()]


@_case("OffsetFetchMultipleGroupsAuthorization")
def _(world: World) -> Any:
    world.create()
    _commit_as_admin(world)
    wanted = [{"name": world.topic, "partition_indexes": [0]}]
    groups = [{"group_id": name, "topics": wanted} for name in (world.group, f"{world.group}-2")]
    told = [world.errors("offset_fetch", 8, groups=groups)]
    world.allow(GROUP, READ)
    told.append(world.errors("offset_fetch", 8, groups=groups))
    world.allow(TOPIC, DESCRIBE)
    return [*told, world.errors("offset_fetch", 8, groups=groups)]


# Transactions


@_case("ListTransactionsAuthorization")
def _(world: World) -> Any:
    _init_as_admin(world)

    def sees() -> bool:
        answer = world.ask("list_transactions", 0, state_filters=[], producer_id_filters=[])
        return world.transaction in {each.transactional_id for each in answer.transaction_states}

    before = sees()
    world.allow(TRANSACTION, DESCRIBE)
    return before, sees()


@_case("shouldNotIncludeUnauthorizedTopicsInDescribeTransactionsResponse")
def _(world: World) -> Any:
    world.create()
    producer = _init_as_admin(world)
    world.admin(
        *("add_partitions_to_txn", 3),
        v3_and_below_transactional_id=world.transaction,
        v3_and_below_producer_id=producer.producer_id,
        v3_and_below_producer_epoch=producer.producer_epoch,
        v3_and_below_topics=[{"name": world.topic, "partitions": [0]}],
    )

    def describe() -> Any:
        (found,) = world.ask("describe_transactions", 0, transactional_ids=[world.transaction]).transaction_states
        return found.error_code.name, [topic.topic for topic in found.topics]

    told = [describe()]
    world.allow(TRANSACTION, DESCRIBE)
    told.append(describe())
    world.allow(TOPIC, DESCRIBE)
    return [*told, describe()]


def _init_as_admin(world: World) -> Any:
    answer: Any = None
    for _ in range(100):
        answer = world.admin("init_producer_id", 4, transactional_id=world.transaction, transaction_timeout=60_000)
        if errors_in(answer) == ["none"]:
            return answer
    raise AssertionError(answer)


# Settings


def _of_logger(world: World) -> list[str]:
    setting = {"name": "kafka.server.KafkaServer", "value": "INFO", "config_operation": 0}
    resource = {"resource_type": 8, "resource_name": "0", "configs": [setting]}
    return world.errors("incremental_alter_configs", 1, resources=[resource], validate_only=True)


@_case("IncrementalAlterConfigsRequestRequiresClusterPermissionForBrokerLogger")
def _(world: World) -> Any:
    """Ours has no such loggers, but says so only to who may alter settings."""
    world.allow(TOPIC, ALTER_CONFIGS)
    refused = _of_logger(world)
    world.allow(CLUSTER, ALTER_CONFIGS)
    return refused, "cluster_authorization_failed" in _of_logger(world)


@_case("DescribeTopicConfigsAclWithOperationAll")
def _(world: World) -> Any:
    world.create()
    world.allow(TOPIC, ALL)
    resource = {"resource_type": 2, "resource_name": world.topic, "configuration_keys": ["retention.ms"]}
    return world.errors("describe_configs", 4, resources=[resource])


# What is authorised


@_case("DescribeTopicAclWithOperationAll")
def _(world: World) -> Any:
    """All bits of a topic; Metadata tells them."""
    world.create()
    world.allow(TOPIC, ALL)
    answer = _metadata(world, include_topic_authorized_operations=True)
    return [topic.topic_authorized_operations for topic in answer.topics]


@_case(
    "MetadataClusterAuthorizedOperationsWithoutDescribeCluster",
    "MetadataClusterAuthorizedOperationsWithDescribeAndAlterCluster",
)
def _(world: World) -> Any:
    def bits() -> int:
        asked = {"topics": [], "allow_auto_topic_creation": False, "include_cluster_authorized_operations": True}
        return int(world.ask("metadata", 8, **asked).cluster_authorized_operations)

    world.allow(CLUSTER, ALTER_CONFIGS)
    told = [bits()]
    world.allow(CLUSTER, DESCRIBE, ALTER)
    return [*told, bits()]


@_case(
    "DescribeClusterClusterAuthorizedOperationsWithoutDescribeCluster",
    "DescribeClusterClusterAuthorizedOperationsWithDescribeAndAlterCluster",
)
def _(world: World) -> Any:
    def bits() -> int:
        answer = world.ask("describe_cluster", 0, include_cluster_authorized_operations=True)
        return int(answer.cluster_authorized_operations)

    told = [bits()]
    world.allow(CLUSTER, DESCRIBE, ALTER)
    return [*told, bits()]


@_case("ClusterId")
def _(world: World) -> Any:
    """Who may nothing still learns the id of the cluster."""
    return bool(_metadata(world, topics=[]).cluster_id), bool(world.ask("describe_cluster", 0).cluster_id)


def _has_producer_id(world: World) -> bool:
    """Needs WRITE on any topic: the answer of authorizeByResourceType."""
    answer = world.ask("init_producer_id", 4, transactional_id=None, transaction_timeout=0)
    return answer != CLOSED and errors_in(answer) == ["none"]


@_case("AuthorizeByResourceTypeMultipleAddAndRemove")
def _(world: World) -> Any:
    told = [_has_producer_id(world)]
    for _ in range(3):
        world.allow(TOPIC, WRITE)
        told.append(_has_producer_id(world))
        world.revoke(TOPIC, WRITE)
        told.append(_has_producer_id(world))
    return told


@_case("AuthorizeByResourceTypeIsolationUnrelatedDenyWontDominateAllow")
def _(world: World) -> Any:
    world.deny(TOPIC, WRITE, name=world.other)
    world.deny(GROUP, ALL, name="*")
    world.deny(TOPIC, READ, name="*")
    world.allow(TOPIC, WRITE)
    return _has_producer_id(world)


@_case("AuthorizeByResourceTypeDenyTakesPrecedence")
def _(world: World) -> Any:
    world.allow(TOPIC, WRITE)
    before = _has_producer_id(world)
    world.deny(TOPIC, WRITE)
    return before, _has_producer_id(world)


@_case("AuthorizeByResourceTypeWildcardResourceDenyDominate")
def _(world: World) -> Any:
    world.allow(TOPIC, WRITE)
    world.allow(TOPIC, WRITE, name=world.other, pattern=PREFIXED)
    before = _has_producer_id(world)
    world.deny(TOPIC, WRITE, name="*")
    return before, _has_producer_id(world)


@_case("AuthorizeByResourceTypePrefixedResourceDenyDominate")
def _(world: World) -> Any:
    world.allow(TOPIC, WRITE)
    world.allow(TOPIC, WRITE, pattern=PREFIXED)
    before = _has_producer_id(world)
    world.deny(TOPIC, WRITE, name=world.topic[:3], pattern=PREFIXED)
    return before, _has_producer_id(world)
