"""Cases of AuthorizerIntegrationTest that single requests show: topics, groups, settings, what is authorised."""

from __future__ import annotations

from functools import partial
from typing import Any, Final
from uuid import UUID

from highwater.kafka.acl import Operation
from tests.compat.apache_kafka.authorizer_world import (
    CLUSTER,
    GROUP,
    PREFIXED,
    TOPIC,
    TRANSACTION,
    Check,
    World,
    asks_once,
    asks_twice,
    errors_in,
    mirrors,
    nothing,
)
from tests.waiting import wait_until

ADMIN_CASES: Final[dict[str, Check]] = {}
_case = partial(mirrors, ADMIN_CASES)
_once, _twice = partial(asks_once, ADMIN_CASES), partial(asks_twice, ADMIN_CASES)
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


_twice(nothing, lambda world: _fetch(world, 12), (TOPIC, READ), "AuthorizationFetchV12WithTopicNotExisting")


@_case("FetchFollowerRequest")
def _(world: World) -> Any:
    world.create()
    world.allow(TOPIC, READ)
    refused = _fetch(world, replica_id=5)
    world.allow(CLUSTER, CLUSTER_ACTION)
    return refused, _fetch(world, replica_id=5)


def _leader_epoch(world: World) -> list[str]:
    asked = {"replica_id": 5, "topics": [{"topic": world.topic, "partitions": [{"partition": 0, "leader_epoch": 0}]}]}
    return world.errors("offset_for_leader_epoch", 4, **asked)


_twice(World.create, _leader_epoch, (CLUSTER, CLUSTER_ACTION), "OffsetsForLeaderEpochClusterPermission")


_twice(
    World.create,
    lambda world: errors_in(_metadata(world)),
    (TOPIC, DESCRIBE),
    *("MetadataWithNoTopicAccess", "MetadataWithTopicDescribe"),
)


@_case("CreatePermissionMetadataRequestAutoCreate")
def _(world: World) -> Any:
    """READ on what is not there tells so; CREATE makes it."""
    told = [errors_in(_metadata(world, allow_auto_topic_creation=True))]
    world.allow(TOPIC, READ)
    told.append(errors_in(_metadata(world, allow_auto_topic_creation=True)))
    world.allow(TOPIC, CREATE)
    _metadata(world, allow_auto_topic_creation=True)
    return told, world.made()


def _offsets(world: World) -> list[str]:
    partitions = [{"partition_index": 0, "timestamp": -1}]
    asked = {"replica_id": -1, "topics": [{"name": world.topic, "partitions": partitions}]}
    return world.errors("list_offsets", 7, **asked)


_twice(World.create, _offsets, (TOPIC, DESCRIBE), "ListOffsetsWithNoTopicAccess", "ListOffsetsWithTopicDescribe")


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
    told = _delete(world)
    wait_until(lambda: not world.names(), "the topic is gone")
    return told


def _delete_records(world: World) -> list[str]:
    partitions = [{"partition_index": 0, "offset": 1}]
    return world.errors("delete_records", 2, topics=[{"name": world.topic, "partitions": partitions}], timeout=30_000)


_twice(
    World.fill,
    _delete_records,
    (TOPIC, DESCRIBE),
    *("UnauthorizedDeleteRecordsWithoutDescribe", "UnauthorizedDeleteRecordsWithDescribe"),
)


@_case("DeleteRecordsWithWildCardAuth")
def _(world: World) -> Any:
    world.fill()
    world.allow(TOPIC, DELETE, name="*")
    return _delete_records(world)


def _grow(world: World) -> list[str]:
    more = [{"name": world.topic, "count": 3, "assignments": None}]
    return world.errors("create_partitions", 3, topics=more, timeout=30_000, validate_only=False)


_once(World.create, _grow, {"UnauthorizedCreatePartitions": ()})


@_case("CreatePartitionsWithWildCardAuth")
def _(world: World) -> Any:
    world.create()
    world.allow(TOPIC, ALTER, name="*")
    return _grow(world)


# Groups


_twice(
    nothing,
    lambda world: world.errors("describe_groups", 5, groups=[world.group]),
    (GROUP, DESCRIBE),
    *("DescribeGroupApiWithNoGroupAcl", "DescribeGroupApiWithGroupDescribe"),
)


@_case("ListGroupApiWithAndWithoutListGroupAcls")
def _(world: World) -> Any:
    """A group by itself, and all by the cluster."""
    world.create_with_commit()

    def sees() -> Any:
        answer = world.ask("list_groups", 4)
        return answer.error_code.name, world.group in {each.group_id for each in answer.groups}

    told = [sees()]
    world.allow(GROUP, DESCRIBE)
    told.append(sees())
    world.revoke(GROUP, DESCRIBE)
    world.allow(CLUSTER, DESCRIBE)
    return [*told, sees()]


def _delete_group(world: World) -> list[str]:
    return world.errors("delete_groups", 2, groups_names=[world.group])


_once(nothing, _delete_group, {"DeleteGroupApiWithNoDeleteGroupAcl2": ()})


@_case("DeleteGroupApiWithNoDeleteGroupAcl", "DeleteGroupApiWithDeleteGroupAcl")
def _(world: World) -> Any:
    world.create_with_commit()
    world.allow(GROUP, READ)
    refused = _delete_group(world), world.committed_offset()
    world.allow(GROUP, DELETE)
    return refused, _delete_group(world)


def _delete_offsets(world: World) -> list[str]:
    topics = [{"name": world.topic, "partitions": [{"partition_index": 0}]}]
    return world.errors("offset_delete", 0, group_id=world.group, topics=topics)


_once(nothing, _delete_offsets, {"DeleteGroupOffsetsWithNoAcl": ()})
_once(
    World.create_with_commit,
    _delete_offsets,
    {"DeleteGroupOffsetsWithoutDeleteAcl": [(GROUP, READ), (TOPIC, READ)]},
)


@_case("DeleteGroupOffsetsWithDeleteAclWithoutTopicAcl", "DeleteGroupOffsetsWithAcl")
def _(world: World) -> Any:
    world.create_with_commit()
    world.allow(GROUP, DELETE)
    refused = _delete_offsets(world), world.committed_offset()
    world.allow(TOPIC, READ)
    return refused, _delete_offsets(world)


@_case("OffsetFetchAllTopicPartitionsAuthorization")
def _(world: World) -> Any:
    """Of all offsets of a group those are told whose topics the client may see."""
    world.create_with_commit()

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
    world.create_with_commit()
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

    def sees() -> Any:
        answer = world.ask("list_transactions", 0, state_filters=[], producer_id_filters=[])
        seen = {each.transactional_id for each in answer.transaction_states}
        return answer.error_code.name, world.transaction in seen

    before = sees()
    world.allow(TRANSACTION, DESCRIBE)
    return before, sees()


@_case("shouldNotIncludeUnauthorizedTopicsInDescribeTransactionsResponse")
def _(world: World) -> Any:
    world.create()
    producer = _init_as_admin(world)
    answer = world.admin(
        *("add_partitions_to_txn", 3),
        v3_and_below_transactional_id=world.transaction,
        v3_and_below_producer_id=producer.producer_id,
        v3_and_below_producer_epoch=producer.producer_epoch,
        v3_and_below_topics=[{"name": world.topic, "partitions": [0]}],
    )
    assert set(errors_in(answer)) == {"none"}, answer

    def describe() -> Any:
        (found,) = world.ask("describe_transactions", 0, transactional_ids=[world.transaction]).transaction_states
        return found.error_code.name, [topic.topic for topic in found.topics]

    told = [describe()]
    world.allow(TRANSACTION, DESCRIBE)
    told.append(describe())
    world.allow(TOPIC, DESCRIBE)
    return [*told, describe()]


def _init_as_admin(world: World) -> Any:
    found: list[Any] = []

    def is_begun() -> bool:
        """Not by a coordinator that still loads."""
        found[:] = [world.admin("init_producer_id", 4, transactional_id=world.transaction, transaction_timeout=60_000)]
        return errors_in(found[0]) == ["none"]

    _know_coordinator(world)
    wait_until(is_begun, "a producer has its id")
    return found[0]


def _know_coordinator(world: World) -> None:
    """With the first question of this kind a broker makes the topic of transactions."""

    def is_known() -> bool:
        return errors_in(world.admin("find_coordinator", 3, key_type=1, key=world.transaction)) == ["none"]

    wait_until(is_known, "transactions have a coordinator")


# Settings


def _of_logger(world: World) -> list[str]:
    setting = {"name": "kafka.server.KafkaServer", "value": "INFO", "config_operation": 0}
    resource = {"resource_type": 8, "resource_name": "0", "configs": [setting]}
    return world.errors("incremental_alter_configs", 1, resources=[resource], validate_only=True)


@_case("IncrementalAlterConfigsRequestRequiresClusterPermissionForBrokerLogger")
def _(world: World) -> Any:
    """Ours has no such loggers, and says so only to who may alter settings: how is not compared."""
    world.allow(TOPIC, ALTER_CONFIGS)
    refused = _of_logger(world)
    world.allow(CLUSTER, ALTER_CONFIGS)
    (allowed,) = _of_logger(world)
    return refused, allowed == "cluster_authorization_failed"


@_case("DescribeTopicConfigsAclWithOperationAll")
def _(world: World) -> Any:
    world.create()
    world.allow(TOPIC, ALL)
    resource = {"resource_type": 2, "resource_name": world.topic, "configuration_keys": ["retention.ms"]}
    (result,) = world.ask("describe_configs", 4, resources=[resource]).results
    return result.error_code.name, [config.name for config in result.configs]


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
    found = world.admin("describe_cluster", 0).cluster_id
    assert found
    return [answer.cluster_id == found for answer in (_metadata(world, topics=[]), world.ask("describe_cluster", 0))]


def _producer_id(world: World) -> str:
    """Needs WRITE on any topic: the answer of authorizeByResourceType."""
    (error,) = world.errors("init_producer_id", 4, transactional_id=None, transaction_timeout=0)
    return error


@_case("AuthorizeByResourceTypeMultipleAddAndRemove")
def _(world: World) -> Any:
    told = [_producer_id(world)]
    for _ in range(3):
        world.allow(TOPIC, WRITE)
        told.append(_producer_id(world))
        world.revoke(TOPIC, WRITE)
        told.append(_producer_id(world))
    return told


@_case("AuthorizeByResourceTypeIsolationUnrelatedDenyWontDominateAllow")
def _(world: World) -> Any:
    world.deny(TOPIC, WRITE, name=world.other)
    world.deny(GROUP, ALL, name="*")
    world.deny(TOPIC, READ, name="*")
    world.allow(TOPIC, WRITE)
    return _producer_id(world)


@_case("AuthorizeByResourceTypeDenyTakesPrecedence")
def _(world: World) -> Any:
    world.allow(TOPIC, WRITE)
    before = _producer_id(world)
    world.deny(TOPIC, WRITE)
    return before, _producer_id(world)


@_case("AuthorizeByResourceTypeWildcardResourceDenyDominate")
def _(world: World) -> Any:
    world.allow(TOPIC, WRITE)
    world.allow(TOPIC, WRITE, name=world.other, pattern=PREFIXED)
    before = _producer_id(world)
    world.deny(TOPIC, WRITE, name="*")
    return before, _producer_id(world)


@_case("AuthorizeByResourceTypePrefixedResourceDenyDominate")
def _(world: World) -> Any:
    world.allow(TOPIC, WRITE)
    world.allow(TOPIC, WRITE, pattern=PREFIXED)
    before = _producer_id(world)
    world.deny(TOPIC, WRITE, name=world.topic[:3], pattern=PREFIXED)
    return before, _producer_id(world)
