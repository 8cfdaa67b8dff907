"""Paths and values of ACLs are those that Kafka 3.9 writes and reads."""

from __future__ import annotations

import json

import pytest

from highwater.broker.settings import acl_tree
from highwater.broker.settings.metadata_tree import NewerZnode
from highwater.kafka.acl import Entry, Operation, PatternType, Permission, Resource, ResourceType

LITERAL = Resource(ResourceType.TRANSACTIONAL_ID, "orders-1")
PREFIXED = Resource(ResourceType.TOPIC, "orders-", PatternType.PREFIXED)
ENTRY = Entry("User:alice", "*", Operation.DESCRIBE_CONFIGS, Permission.ALLOW)


def test_paths() -> None:
    assert acl_tree.acl_path(LITERAL) == "/kafka-acl/TransactionalId/orders-1"
    assert acl_tree.acl_path(PREFIXED) == "/kafka-acl-extended/prefixed/Topic/orders-"
    assert acl_tree.acl_path(Resource(ResourceType.CLUSTER, "kafka-cluster")) == "/kafka-acl/Cluster/kafka-cluster"
    for resource in (LITERAL, PREFIXED, Resource(ResourceType.TOPIC, "*")):
        assert acl_tree.parse_acl_path(acl_tree.acl_path(resource)) == resource
    for other in ("/kafka-acl", "/kafka-acl/Topic", "/kafka-acl/Topic/", "/kafka-acl/topic/a", "/config/topics/a"):
        assert acl_tree.parse_acl_path(other) is None


def test_a_value_as_kafka_writes_it() -> None:
    """AclEntryTest.testAclJsonConversion."""
    text = (
        '{"version":1,"acls":[{"principal":"User:alice","permissionType":"Allow",'
        '"operation":"DescribeConfigs","host":"*"}]}'
    )
    assert json.dumps(acl_tree.acl_value([ENTRY]), separators=(",", ":")) == text
    assert acl_tree.parse_acl(json.loads(text)) == {ENTRY}


def test_an_unknown_operation_is_kept_apart() -> None:
    value = acl_tree.acl_value([ENTRY])
    value["acls"][0]["operation"] = "TwoPhaseCommit"
    assert acl_tree.parse_acl(value) == {ENTRY._replace(operation=Operation.UNKNOWN)}


@pytest.mark.parametrize(
    "value", [{"acls": []}, {"version": 2, "acls": []}, {"version": 1}, {"version": 1, "acls": [1]}]
)
def test_other_values_are_refused(value: object) -> None:
    with pytest.raises((ValueError, KeyError, TypeError)):
        acl_tree.parse_acl(value)
    if value == {"version": 2, "acls": []}:
        with pytest.raises(NewerZnode):
            acl_tree.parse_acl(value)


def test_changes() -> None:
    assert acl_tree.literal_change(LITERAL) == b"TRANSACTIONAL_ID:orders-1"
    assert acl_tree.parse_literal_change(b"TRANSACTIONAL_ID:orders-1") == LITERAL
    assert acl_tree.parse_literal_change(b"Topic:a:b") == Resource(ResourceType.TOPIC, "a:b")
    assert acl_tree.extended_change_value(PREFIXED) == {
        "version": 1,
        "resourceType": "TOPIC",
        "name": "orders-",
        "patternType": "PREFIXED",
    }
    assert acl_tree.parse_extended_change(acl_tree.extended_change_value(PREFIXED)) == PREFIXED
    assert acl_tree.change_parent(LITERAL) == "/kafka-acl-changes"
    assert acl_tree.change_parent(PREFIXED) == "/kafka-acl-extended-changes"
    for data in (b"orders", b"TOPIC:", b"NONE:orders", b"\xff:a"):
        with pytest.raises(ValueError, match=r"not a resource|can't decode"):
            acl_tree.parse_literal_change(data)
    with pytest.raises(ValueError, match="not a resource"):
        acl_tree.parse_extended_change(acl_tree.extended_change_value(PREFIXED) | {"patternType": "MATCH"})
