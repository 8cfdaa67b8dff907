"""DescribeTopicPartitions and ListConfigResources through the dispatcher."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest
from kio.schema.errors import ErrorCode

from highwater.kafka.acl import Acl, Entry, Operation, PatternType, Permission, Resource, ResourceType
from tests.broker.handlers.harness import NodeHarness
from tests.broker.handlers.test_acls import AUTHORIZER

Make = Callable[..., NodeHarness]


def ask(
    node: NodeHarness, *names: str, limit: int = 2000, cursor: tuple[str, int] | None = None
) -> tuple[list[tuple[str, ErrorCode, list[int]]], tuple[str, int] | None]:
    """Each topic with its error and the numbers of its partitions, and the next cursor."""
    answer = node.ask(
        "describe_topic_partitions",
        0,
        topics=[{"name": name} for name in names],
        response_partition_limit=limit,
        cursor=None if cursor is None else {"topic_name": cursor[0], "partition_index": cursor[1]},
    )
    told = [(each.name, each.error_code, [p.partition_index for p in each.partitions]) for each in answer.topics]
    following = answer.next_cursor
    return told, None if following is None else (following.topic_name, following.partition_index)


NONE = ErrorCode.none


def test_a_topic_is_told_as_in_metadata(node: NodeHarness) -> None:
    topic = node.create_topic("t", 2)
    node.ask("find_coordinator", 0, key="g")
    answer = node.ask("describe_topic_partitions", 0, topics=[{"name": "t"}, {"name": "__consumer_offsets"}])
    offsets, told = answer.topics
    assert (offsets.name, offsets.is_internal) == ("__consumer_offsets", True)
    assert (told.name, told.topic_id, told.is_internal) == ("t", topic.topic_id, False)
    (known,) = node.ask("metadata", 12, topics=[{"name": "t"}], include_topic_authorized_operations=True).topics
    assert told.topic_authorized_operations == known.topic_authorized_operations
    assert [
        (p.error_code, p.leader_id, p.leader_epoch, p.replica_nodes, p.isr_nodes, p.offline_replicas)
        for p in told.partitions
    ] == [
        (p.error_code, p.leader_id, p.leader_epoch, p.replica_nodes, p.isr_nodes, p.offline_replicas)
        for p in known.partitions
    ]
    lists = {(p.eligible_leader_replicas, p.last_known_elr) for p in told.partitions}
    assert lists == {((), ())}, "the Java client of Kafka 4.4 fails on null"
    assert answer.next_cursor is None


def test_all_topics_come_in_pages(node: NodeHarness) -> None:
    for name, partitions in (("c", 1), ("a", 3), ("b", 2)):
        node.create_topic(name, partitions)
    assert ask(node) == ([("a", NONE, [0, 1, 2]), ("b", NONE, [0, 1]), ("c", NONE, [0])], None)
    pages, cursor = [], None
    while True:
        told, cursor = ask(node, limit=2, cursor=cursor)
        pages.append([(name, numbers) for name, _, numbers in told])
        if cursor is None:
            break
    assert pages == [[("a", [0, 1])], [("a", [2]), ("b", [0])], [("b", [1]), ("c", [0])]]
    assert ask(node, limit=3)[1] == ("b", 0), "the next topic begins at its first partition"


@pytest.mark.parametrize("limit", [-5, 0, 1])
def test_a_page_has_one_partition_at_least(node: NodeHarness, limit: int) -> None:
    node.create_topic("t", 2)
    assert ask(node, limit=limit) == ([("t", NONE, [0])], ("t", 1))


def test_a_page_has_no_more_than_the_broker_allows(make_node: Make) -> None:
    node = make_node(max_request_partition_size_limit="3")
    node.create_topic("t", 5)
    assert ask(node, limit=2000) == ([("t", NONE, [0, 1, 2])], ("t", 3))


def test_topics_before_the_cursor_are_left_out(node: NodeHarness) -> None:
    for name in ("a", "b", "c"):
        node.create_topic(name, 2)
    assert ask(node, cursor=("b", 1)) == ([("b", NONE, [1]), ("c", NONE, [0, 1])], None)
    assert ask(node, "c", "a", "b", cursor=("b", 1)) == ([("b", NONE, [1]), ("c", NONE, [0, 1])], None)
    assert ask(node, cursor=("b", 9)) == ([("b", NONE, []), ("c", NONE, [0, 1])], None)
    assert ask(node, cursor=("bb", 1)) == ([("c", NONE, [0, 1])], None), "it was deleted meanwhile"


def test_a_wrong_cursor_is_refused(node: NodeHarness) -> None:
    node.create_topic("a")
    invalid = ErrorCode.invalid_request
    assert ask(node, "a", "b", cursor=("c", 0)) == ([("a", invalid, []), ("b", invalid, [])], None)
    assert ask(node, "a", cursor=("a", -1)) == ([("a", invalid, [])], None)
    assert ask(node, cursor=("a", -1)) == ([], None)


def test_only_named_topics_can_be_unknown(node: NodeHarness) -> None:
    node.create_topic("t")
    assert ask(node, "t", "none", "a b", "t") == (
        [
            ("a b", ErrorCode.invalid_topic_exception, []),
            ("none", ErrorCode.unknown_topic_or_partition, []),
            ("t", NONE, [0]),
        ],
        None,
    )


def test_what_a_client_may_not_describe_is_last_or_left_out(make_node: Make) -> None:
    node = make_node(**AUTHORIZER)
    for name in ("a", "b", "c"):
        node.create_topic(name)
    node.user = "nobody"
    denied = ErrorCode.topic_authorization_failed
    assert ask(node) == ([], None)
    assert node.node.counters.authorizations_denied == 0, "what is only left out is no denial"
    assert node.node.acls is not None
    entry = Entry("User:nobody", "*", Operation.DESCRIBE, Permission.ALLOW)
    node.node.acls.create([Acl(Resource(ResourceType.TOPIC, "b", PatternType.LITERAL), entry)], lambda problems: None)
    assert ask(node) == ([("b", NONE, [0])], None)
    assert ask(node, "a", "b", "c", "none") == (
        [("b", NONE, [0]), ("a", denied, []), ("c", denied, []), ("none", denied, [])],
        None,
    )
    answer = node.ask("describe_topic_partitions", 0, topics=[{"name": "a"}])
    assert answer.topics[0].topic_id in (None, UUID(int=0))


def listed(node: NodeHarness, version: int, *types: int) -> Any:
    answer = node.ask("list_config_resources", version, **({"resource_types": types} if version else {}))
    if answer.error_code:
        return answer.error_code
    return [(getattr(each, "resource_type", 16), each.resource_name) for each in answer.config_resources]


def test_what_has_settings_is_listed_by_its_type(node: NodeHarness) -> None:
    node.create_topic("b")
    node.create_topic("a")
    assert listed(node, 0) == [], "subscriptions to metrics of clients are not here"
    assert listed(node, 1) == [(2, "a"), (2, "b"), (4, "0"), (8, "0")]
    assert listed(node, 1, 4) == [(4, "0")]
    assert listed(node, 1, 16, 32) == []
    assert listed(node, 1, 2, 2, 64) == listed(node, 1, 1) == ErrorCode.unsupported_version
