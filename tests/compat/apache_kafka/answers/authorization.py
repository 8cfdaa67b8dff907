"""What a client may do with no ACL, with each ACL alone, and with some together: every API, asked as that client."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any, Final
from uuid import UUID

from kio.schema.errors import ErrorCode

from highwater.kafka.acl import CLUSTER_NAME, OPERATIONS_OF, Operation, Permission, ResourceType
from tests.broker.handlers.harness import one_batch
from tests.compat.apache_kafka.answers.script import Ask, Fields, Script, wait_for

USERS: Final = {"admin": "admin-secret", "alice": "alice-secret"}
_JAAS: Final = (
    'org.apache.kafka.common.security.plain.PlainLoginModule required username="admin" password="admin-secret" '
    + " ".join(f'user_{name}="{password}"' for name, password in USERS.items())
    + ";"
)
PROPERTIES: Final = {
    "listener.security.protocol.map": "PLAINTEXT:SASL_PLAINTEXT",
    "inter.broker.listener.name": "PLAINTEXT",
    "sasl.enabled.mechanisms": "PLAIN",
    "sasl.mechanism.inter.broker.protocol": "PLAIN",
    "listener.name.plaintext.plain.sasl.jaas.config": _JAAS,
    "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
    "super.users": "User:admin",
    "group.initial.rebalance.delay.ms": 0,
    "offsets.topic.num.partitions": 3,
    "offsets.topic.replication.factor": 1,
    "transaction.state.log.num.partitions": 3,
    "transaction.state.log.replication.factor": 1,
    "transaction.state.log.min.isr": 1,
    "log.cleaner.dedupe.buffer.size": 1 << 21,
    "log.retention.ms": -1,  # records of the test are old
}

TOPIC, GROUP, CLUSTER = ResourceType.TOPIC, ResourceType.GROUP, ResourceType.CLUSTER
TRANSACTION = ResourceType.TRANSACTIONAL_ID
NAMES: Final = {TOPIC: "t", GROUP: "g", CLUSTER: CLUSTER_NAME, TRANSACTION: "x"}
Rule = tuple[ResourceType, str, Operation, Permission]


def allow(kind: ResourceType, operation: Operation, name: str | None = None) -> Rule:
    return kind, name or NAMES[kind], operation, Permission.ALLOW


def deny(kind: ResourceType, operation: Operation) -> Rule:
    return kind, NAMES[kind], operation, Permission.DENY


_SINGLE: Final = [[allow(kind, operation)] for kind in NAMES for operation in (*OPERATIONS_OF[kind], Operation.ALL)]
_TOGETHER: Final[Sequence[Sequence[Rule]]] = (
    [allow(GROUP, Operation.READ), allow(TOPIC, Operation.READ)],
    [allow(GROUP, Operation.DESCRIBE), allow(TOPIC, Operation.DESCRIBE)],
    [allow(GROUP, Operation.DELETE), allow(TOPIC, Operation.READ)],
    [allow(TRANSACTION, Operation.WRITE), allow(TOPIC, Operation.WRITE)],
    [allow(TRANSACTION, Operation.WRITE), allow(GROUP, Operation.READ)],
    [allow(TRANSACTION, Operation.WRITE), allow(GROUP, Operation.READ), allow(TOPIC, Operation.READ)],
    [allow(TRANSACTION, Operation.DESCRIBE), allow(TOPIC, Operation.DESCRIBE)],
    [allow(TOPIC, Operation.DESCRIBE, "n"), allow(TOPIC, Operation.CREATE, "n")],
    [allow(TOPIC, Operation.DESCRIBE, "n")],
    [allow(TOPIC, Operation.CREATE, "n"), allow(TOPIC, Operation.DESCRIBE_CONFIGS, "n")],
    [allow(TOPIC, Operation.DESCRIBE, "n"), allow(CLUSTER, Operation.CREATE)],
    [allow(TOPIC, Operation.ALL), deny(TOPIC, Operation.DESCRIBE)],
    [allow(TOPIC, Operation.ALL), deny(TOPIC, Operation.READ)],
    [allow(TOPIC, Operation.WRITE), deny(TOPIC, Operation.WRITE)],
    [allow(CLUSTER, Operation.ALL), deny(CLUSTER, Operation.DESCRIBE)],
    [allow(CLUSTER, Operation.ALL), allow(TOPIC, Operation.ALL), allow(GROUP, Operation.ALL)],
)


def authorizing(script: Script, as_admin: Ask) -> None:
    """The script asks as alice."""
    settled = Script(as_admin)
    _make_topics(settled)
    script.names.update(settled.names)
    for rules in ([], *_SINGLE, *_TOGETHER):
        script.note(", ".join(_told(rule) for rule in rules) or "no ACL")
        if rules:
            answer = as_admin("create_acls", 3, creations=[_creation(*rule) for rule in rules])
            assert all(result.error_code is ErrorCode.none for result in answer.results), answer
        for api, version, fields in _requests(script):
            script.ask(api, version, "all" if fields == {"users": None} else "", **fields)
        as_admin("delete_acls", 3, filters=[_EVERY])
        _make_topics(settled)
        script.names.update(settled.names)


def _told(rule: Rule) -> str:
    kind, name, operation, permission = rule
    return f"{permission.text} {operation.text} {kind.text} {name}"


def _creation(kind: ResourceType, name: str, operation: Operation, permission: Permission) -> Fields:
    return {
        "resource_type": int(kind),
        "resource_name": name,
        "resource_pattern_type": 3,
        "principal": "User:alice",
        "host": "*",
        "operation": int(operation),
        "permission_type": int(permission),
    }


_EVERY: Final = {
    "resource_type_filter": 1,
    "resource_name_filter": None,
    "pattern_type_filter": 1,
    "operation": 1,
    "permission_type": 1,
}


def _make_topics(admin: Script) -> None:
    """The topics t and u are there, n is not."""
    wanted = [{"name": name, "num_partitions": 1, "replication_factor": 1} for name in ("t", "u")]

    def are_made() -> bool:
        answer = admin.quietly("create_topics", 7, topics=wanted, timeout=30_000, validate_only=False)
        asked = admin.quietly("metadata", 12, topics=[{"name": "t"}, {"name": "u"}], allow_auto_topic_creation=False)
        # A topic that is being deleted is there for a while.
        return {topic.error_code for topic in answer.topics} == {ErrorCode.topic_already_exists} and all(
            topic.error_code is ErrorCode.none for topic in asked.topics
        )

    admin.until(are_made)
    admin.quietly("delete_topics", 5, topic_names=["n"], timeout=30_000)
    wait_for(admin, "t", "u")

    def n_is_gone() -> bool:
        answer = admin.quietly("metadata", 12, topics=[{"name": "n"}], allow_auto_topic_creation=False)
        return bool(answer.topics[0].error_code is ErrorCode.unknown_topic_or_partition)

    admin.until(n_is_gone)
    for key_type, key in ((0, "g"), (1, "x")):
        admin.until(partial(_has_coordinator, admin, key_type, key))
    admin.until(partial(_has_groups, admin))
    admin.until(partial(_has_producer_ids, admin))
    time.sleep(0.05)


def _has_coordinator(admin: Script, key_type: int, key: str) -> bool:
    answer = admin.quietly("find_coordinator", 3, key_type=key_type, key=key)
    return bool(answer.error_code is ErrorCode.none)


def _has_producer_ids(admin: Script) -> bool:
    answer = admin.quietly("init_producer_id", 4, transactional_id=None, transaction_timeout=0)
    return bool(answer.error_code is ErrorCode.none)


def _has_groups(admin: Script) -> bool:
    answer = admin.quietly("offset_fetch", 7, group_id="g", topics=None, require_stable=False)
    return bool(answer.error_code is ErrorCode.none)


def _requests(script: Script) -> Iterable[tuple[str, int, Fields]]:
    both = [{"name": name} for name in ("t", "u")]
    ids = {told: key for key, told in script.names.items() if isinstance(key, UUID)}
    t_id, u_id = ids["<t>"], ids["<u>"]

    def partitions(field: str, **each: Any) -> list[dict[str, Any]]:
        return [{"name": name, field: [each]} for name in ("t", "u")]

    records = [{"name": name, "partition_data": [{"index": 0, "records": one_batch(b"v")}]} for name in ("t", "u")]
    transactional = one_batch(b"v", producer_id=7, producer_epoch=0, base_sequence=0, is_transactional=True)
    in_transaction = [{"name": "t", "partition_data": [{"index": 0, "records": transactional}]}]
    for version in (3, 8, 9):
        yield "produce", version, {"acks": 1, "timeout": 1000, "topic_data": records}
    yield "produce", 9, {"acks": 0, "timeout": 1000, "topic_data": records[:1]}
    yield "produce", 9, {"acks": 1, "timeout": 1000, "topic_data": in_transaction, "transactional_id": "x"}
    yield "produce", 9, {"acks": 1, "timeout": 1000, "topic_data": in_transaction, "transactional_id": None}

    read: dict[str, Any] = {"max_wait": 0, "min_bytes": 0, "max_bytes": 1 << 20, "session_epoch": -1}
    wanted = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1}
    topics: list[Fields]
    for version in (4, 11, 12):
        topics = [{"topic": name, "partitions": [wanted]} for name in ("t", "u")]
        yield "fetch", version, read | {"replica_id": -1, "topics": topics}
        yield "fetch", version, read | {"replica_id": 5, "topics": topics}
    topics = [{"topic_id": key, "partitions": [wanted]} for key in (t_id, u_id, UUID(int=77))]
    yield "fetch", 13, read | {"replica_id": -1, "topics": topics}
    for version in (0, 1, 7):
        fields = {"max_num_offsets": 1} if version == 0 else {}
        topics = partitions("partitions", partition_index=0, timestamp=-2, **fields)
        yield "list_offsets", version, {"replica_id": -1, "topics": topics}
    epochs = [{"topic": name, "partitions": [{"partition": 0, "leader_epoch": 0}]} for name in ("t", "u")]
    for version in (0, 4):
        yield "offset_for_leader_epoch", version, {"topics": epochs}

    named = [{"name": name} for name in ("t", "u", "n")]
    for version in (1, 9):
        yield (
            "metadata",
            version,
            {"topics": named, "allow_auto_topic_creation": False} if version > 3 else {"topics": both},
        )
        yield "metadata", version, {"topics": None}
    yield "metadata", 12, {"topics": [{"topic_id": key, "name": None} for key in (t_id, u_id, UUID(int=77))]}
    asked = {"include_topic_authorized_operations": True, "include_cluster_authorized_operations": True}
    yield "metadata", 8, {"topics": [{"name": "t"}], "allow_auto_topic_creation": False} | asked
    yield "describe_cluster", 0, {"include_cluster_authorized_operations": True}
    yield "describe_cluster", 0, {"include_cluster_authorized_operations": False}

    simple = {"group_id": "g", "generation_id_or_member_epoch": -1, "member_id": ""}
    commits = partitions("partitions", partition_index=0, committed_offset=0, committed_metadata="")
    for version in (2, 8):
        yield "offset_commit", version, simple | {"topics": commits}
    asked_for = [{"name": name, "partition_indexes": [0]} for name in ("t", "u")]
    yield "offset_fetch", 1, {"group_id": "g", "topics": asked_for}
    for version in (2, 7):
        yield "offset_fetch", version, {"group_id": "g", "topics": asked_for}
        yield "offset_fetch", version, {"group_id": "g", "topics": None}
    groups = [{"group_id": name, "topics": topics} for name, topics in (("g", asked_for), ("g", None), ("h", None))]
    for group in groups:
        yield "offset_fetch", 8, {"groups": [group]}
    yield "offset_fetch", 8, {"groups": [groups[0], groups[2]]}
    for kind, key in ((0, "g"), (1, "x"), (0, "h")):
        yield "find_coordinator", 3, {"key_type": kind, "key": key}
    yield "find_coordinator", 0, {"key": "g"}
    yield "find_coordinator", 4, {"key_type": 0, "coordinator_keys": ["g", "h"]}
    yield "find_coordinator", 4, {"key_type": 1, "coordinator_keys": ["x", "y"]}
    protocols = [{"name": "range", "metadata": b""}]
    for version in (0, 7, 9):
        joining = {"group_id": "g", "session_timeout": 1, "member_id": "", "protocol_type": "consumer"}
        yield "join_group", version, joining | {"protocols": protocols, "rebalance_timeout": 1}
    synced = {"group_id": "g", "generation_id": 1, "member_id": "m", "assignments": []}
    yield "sync_group", 3, synced
    yield "sync_group", 5, synced | {"protocol_type": "consumer", "protocol_name": "range"}
    yield "heartbeat", 3, {"group_id": "g", "generation_id": 1, "member_id": "m"}
    yield "leave_group", 1, {"group_id": "g", "member_id": "m"}
    yield "leave_group", 4, {"group_id": "g", "members": [{"member_id": "m"}]}
    yield "describe_groups", 1, {"groups": ["g", "h"]}
    yield "describe_groups", 5, {"groups": ["g", "h"], "include_authorized_operations": True}
    yield "list_groups", 4, {}
    yield (
        "offset_delete",
        0,
        {"group_id": "g", "topics": [{"name": n, "partitions": [{"partition_index": 5}]} for n in "tu"]},
    )

    yield "init_producer_id", 4, {"transactional_id": "x", "transaction_timeout": 1 << 30}
    yield "init_producer_id", 4, {"transactional_id": None, "transaction_timeout": 0}
    producer = {"producer_id": 7, "producer_epoch": 0}
    old = {f"v3_and_below_{name}": value for name, value in ({"transactional_id": "x"} | producer).items()}
    topics = [{"name": name, "partitions": [0]} for name in ("t", "u")]
    yield "add_partitions_to_txn", 3, old | {"v3_and_below_topics": topics}
    yield "add_partitions_to_txn", 3, old | {"v3_and_below_topics": topics[:1]}
    yield "add_partitions_to_txn", 3, old | {"v3_and_below_topics": [{"name": "__consumer_offsets", "partitions": [0]}]}
    verified = {"transactional_id": "x", **producer, "verify_only": True, "topics": topics[:1]}
    yield "add_partitions_to_txn", 4, {"transactions": [verified]}
    yield "add_offsets_to_txn", 3, {"transactional_id": "x", "group_id": "g"} | producer
    yield "end_txn", 3, {"transactional_id": "x", "committed": True} | producer
    committed = {"transactional_id": "x", "group_id": "g", "topics": commits, "generation_id": -1, "member_id": ""}
    for version in (2, 3):
        yield "txn_offset_commit", version, committed | producer
    marker = {"transaction_result": False, "coordinator_epoch": 0} | producer
    yield "write_txn_markers", 1, {"markers": [marker | {"topics": [{"name": "gone", "partition_indexes": [0]}]}]}
    yield "describe_transactions", 0, {"transactional_ids": ["x", "y"]}
    yield "list_transactions", 0, {"state_filters": [], "producer_id_filters": []}
    yield "describe_producers", 0, {"topics": [{"name": name, "partition_indexes": [0]} for name in ("u", "a b")]}

    new = [{"name": name, "num_partitions": 1, "replication_factor": 1} for name in ("t", "n", "a b")]
    for version in (1, 7):
        yield "create_topics", version, {"topics": new, "timeout": 30_000, "validate_only": True}
    yield "create_topics", 7, {"topics": [new[1], new[1]], "timeout": 30_000, "validate_only": True}
    more = [{"name": name, "count": 3, "assignments": None} for name in ("t", "u", "n")]
    yield "create_partitions", 3, {"topics": more, "timeout": 30_000, "validate_only": True}
    keys = {2: ["retention.ms"], 4: ["message.max.bytes"]}
    resources = [(2, "t"), (2, "u"), (2, "n"), (4, "0")]
    described = [{"resource_type": k, "resource_name": n, "configuration_keys": keys[k]} for k, n in resources]
    yield "describe_configs", 4, {"resources": described}
    for kind, name in resources:
        setting = {"name": keys[kind][0], "value": "70000"}
        resource = {"resource_type": kind, "resource_name": name, "configs": [setting | {"config_operation": 0}]}
        yield "incremental_alter_configs", 1, {"resources": [resource], "validate_only": True}
        if kind == 2:
            yield "alter_configs", 2, {"resources": [resource | {"configs": [setting]}], "validate_only": True}
    for version in (0, 3):
        yield "describe_acls", version, _EVERY
    yield "create_acls", 3, {"creations": [_creation(TOPIC, "z", Operation.READ, Permission.ALLOW)] * 2}
    yield "delete_acls", 3, {"filters": [_EVERY | {"principal_filter": "User:nobody"}] * 2}
    yield "alter_replica_log_dirs", 2, {"dirs": [{"path": "/nowhere", "topics": topics}]}
    for version in (1, 4):
        yield "describe_log_dirs", version, {"topics": [{"topic": "u", "partitions": [0]}]}
    elected = [{"topic": name, "partitions": [0]} for name in ("t", "u")]
    for version in (0, 2):
        yield "elect_leaders", version, {"topic_partitions": elected, "timeout": 30_000}
    moved = [{"name": "t", "partitions": [{"partition_index": 0, "replicas": [77]}]}]
    yield "alter_partition_reassignments", 0, {"topics": moved, "timeout": 30_000}
    yield "list_partition_reassignments", 0, {"topics": None, "timeout": 30_000}
    yield "describe_client_quotas", 1, {"components": [], "strict": False}
    limited = {"entity": [{"entity_type": "user", "entity_name": "eve"}], "ops": []}
    yield "alter_client_quotas", 1, {"entries": [limited], "validate_only": True}
    yield "describe_user_scram_credentials", 0, {"users": None}
    yield "describe_user_scram_credentials", 0, {"users": [{"name": "eve"}]}
    deletions = [{"name": name, "mechanism": 1} for name in ("eve", "bob", "eve")]
    yield "alter_user_scram_credentials", 0, {"deletions": deletions, "upsertions": []}
    records_of = partitions("partitions", partition_index=0, offset=0)
    yield "delete_records", 2, {"topics": records_of, "timeout": 30_000}
    yield "delete_groups", 2, {"groups_names": ["h", "i"]}
    unknown = [{"name": None, "topic_id": UUID(int=77)}]
    yield "delete_topics", 6, {"topics": [{"name": None, "topic_id": u_id}, *unknown], "timeout": 30_000}
    yield (
        "delete_topics",
        6,
        {"topics": [{"name": name, "topic_id": UUID(int=0)} for name in ("n", "u")], "timeout": 30_000},
    )
    yield "delete_topics", 5, {"topic_names": ["n", "t"], "timeout": 30_000}
