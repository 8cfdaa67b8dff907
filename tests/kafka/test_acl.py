"""Resources, entries and filters of ACLs, with Kafka's codes and names."""

from __future__ import annotations

import pytest

from highwater.kafka.acl import (
    Acl,
    Entry,
    EntryFilter,
    Operation,
    PatternType,
    Permission,
    Resource,
    ResourceFilter,
    ResourceType,
    problem_of,
)

TOPIC = ResourceType.TOPIC
LITERAL, PREFIXED = PatternType.LITERAL, PatternType.PREFIXED


@pytest.mark.parametrize(
    ("text", "operation"),
    [
        ("Read", Operation.READ),
        ("DescribeConfigs", Operation.DESCRIBE_CONFIGS),
        ("DESCRIBE_CONFIGS", Operation.DESCRIBE_CONFIGS),
        ("idempotentwrite", Operation.IDEMPOTENT_WRITE),
        ("TwoPhaseCommit", Operation.UNKNOWN),
        ("", Operation.UNKNOWN),
    ],
)
def test_names_are_read_in_any_case(text: str, operation: Operation) -> None:
    assert Operation.of_text(text) is operation


def test_names_are_written_as_kafka_writes_them() -> None:
    assert [each.text for each in ResourceType][2:] == [
        "Topic",
        "Group",
        "Cluster",
        "TransactionalId",
        "DelegationToken",
        "User",
    ]
    assert Operation.IDEMPOTENT_WRITE.text == "IdempotentWrite"
    assert all(each.of_text(each.text) is each for kind in (Operation, ResourceType, PatternType) for each in kind)


def test_a_number_that_nobody_knows_is_unknown() -> None:
    assert Operation(99) is Operation.UNKNOWN
    assert PatternType(-1) is PatternType.UNKNOWN


@pytest.mark.parametrize(
    ("pattern", "matched"),
    [
        (PatternType.ANY, {("foo", LITERAL), ("foo", PREFIXED)}),
        (PatternType.MATCH, {("foo", LITERAL), ("foo", PREFIXED), ("f", PREFIXED), ("*", LITERAL)}),
        (LITERAL, {("foo", LITERAL)}),
        (PREFIXED, {("foo", PREFIXED)}),
    ],
)
def test_a_filter_by_name_and_pattern(pattern: PatternType, matched: set[tuple[str, PatternType]]) -> None:
    """ResourcePatternFilterTest."""
    names = [(name, each) for name in ("foo", "f", "fool", "*", "bar") for each in (LITERAL, PREFIXED)]
    wanted = ResourceFilter(TOPIC, "foo", pattern)
    assert {(name, each) for name, each in names if wanted.matches(Resource(TOPIC, name, each))} == matched
    assert not wanted.matches(Resource(ResourceType.GROUP, "foo"))


def test_the_wildcard_is_a_name_for_a_literal_filter() -> None:
    wanted = ResourceFilter(TOPIC, "*", LITERAL)
    assert wanted.matches(Resource(TOPIC, "*"))
    assert not wanted.matches(Resource(TOPIC, "foo"))
    assert not wanted.matches(Resource(TOPIC, "*", PREFIXED))


def test_a_filter_without_a_name_matches_each() -> None:
    assert ResourceFilter().matches(Resource(ResourceType.GROUP, "g"))
    assert ResourceFilter(pattern=PREFIXED).matches(Resource(TOPIC, "a", PREFIXED))
    assert not ResourceFilter(pattern=PREFIXED).matches(Resource(TOPIC, "a"))


def test_which_filters_name_one_resource() -> None:
    assert ResourceFilter(TOPIC, "a", PREFIXED).resource == Resource(TOPIC, "a", PREFIXED)
    for several in (
        ResourceFilter(TOPIC, None, LITERAL),
        ResourceFilter(ResourceType.ANY, "a", LITERAL),
        ResourceFilter(TOPIC, "a", PatternType.ANY),
        ResourceFilter(TOPIC, "a", PatternType.MATCH),
    ):
        assert several.resource is None


def test_a_filter_of_entries() -> None:
    entry = Entry("User:alice", "*", Operation.ALL, Permission.ALLOW)
    assert EntryFilter().matches(entry)
    assert EntryFilter("User:alice", "*", Operation.ALL, Permission.ALLOW).matches(entry)
    # Neither the wildcard nor ALL of an entry is wider for a filter.
    assert not EntryFilter(host="10.0.0.1").matches(entry)
    assert not EntryFilter(operation=Operation.READ).matches(entry)
    assert not EntryFilter(principal="User:bob").matches(entry)
    assert not EntryFilter(permission=Permission.DENY).matches(entry)


GOOD = Acl(Resource(TOPIC, "orders"), Entry("User:alice", "*", Operation.READ, Permission.ALLOW))


@pytest.mark.parametrize(
    ("resource", "entry", "word"),
    [
        ({"type": ResourceType.ANY}, {}, "type of the resource"),
        ({"type": ResourceType.UNKNOWN}, {}, "type of the resource"),
        ({"type": ResourceType.CLUSTER}, {}, "kafka-cluster"),
        ({"pattern": PatternType.MATCH}, {}, "pattern"),
        ({"pattern": PatternType.UNKNOWN}, {}, "pattern"),
        ({"name": ""}, {}, "empty"),
        ({"name": "a/b"}, {}, "znode"),
        ({"name": ".."}, {}, "znode"),
        ({"name": "a\0"}, {}, "znode"),
        ({}, {"operation": Operation.ANY}, "operation"),
        ({}, {"operation": Operation.UNKNOWN}, "operation"),
        ({}, {"permission": Permission.ANY}, "permission"),
        ({}, {"principal": "alice"}, "TYPE:NAME"),
        ({}, {"principal": "User:"}, "TYPE:NAME"),
        ({}, {"principal": ":alice"}, "TYPE:NAME"),
        ({}, {"host": ""}, "host"),
    ],
)
def test_an_acl_that_cannot_be_is_named(resource: dict[str, object], entry: dict[str, object], word: str) -> None:
    problem = problem_of(Acl(GOOD.resource._replace(**resource), GOOD.entry._replace(**entry)))  # type: ignore[arg-type]
    assert problem is not None
    assert word in problem


def test_an_acl_that_can_be() -> None:
    assert problem_of(GOOD) is None
    assert problem_of(Acl(Resource(ResourceType.CLUSTER, "kafka-cluster"), GOOD.entry)) is None
    assert problem_of(Acl(Resource(TOPIC, "*", PREFIXED), GOOD.entry._replace(principal="User:CN=a,OU=b:c"))) is None
