"""Who may do what: the rules of AclAuthorizer, by cases of its AuthorizerTest, and against a plain reading of them."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from highwater.broker.security.authorizer import Authorizer, Permissions, java_address
from highwater.kafka.acl import (
    OPERATIONS_OF,
    Acl,
    AclFilter,
    Entry,
    EntryFilter,
    Operation,
    PatternType,
    Permission,
    Resource,
    ResourceFilter,
    ResourceType,
)

ALICE, BOB, EVERYBODY = "User:alice", "User:bob", "User:*"
HOST = "192.168.0.1"
TOPIC, GROUP = ResourceType.TOPIC, ResourceType.GROUP
READ, WRITE, DESCRIBE, ALL = Operation.READ, Operation.WRITE, Operation.DESCRIBE, Operation.ALL
ALLOW, DENY = Permission.ALLOW, Permission.DENY


def literal(name: str) -> Resource:
    return Resource(TOPIC, name)


def prefixed(name: str) -> Resource:
    return Resource(TOPIC, name, PatternType.PREFIXED)


def entry(permission: Permission, operation: Operation = READ, principal: str = ALICE, host: str = "*") -> Entry:
    return Entry(principal, host, operation, permission)


def authorizer(acls: Mapping[Resource, list[Entry]], **options: bool) -> Authorizer:
    made = Authorizer(["User:super"], allow_everyone_if_no_acl_found=options.get("allow_everyone", False))
    for resource, entries in acls.items():
        made.set_entries(resource, entries)
    return made


def allows(
    acls: Mapping[Resource, list[Entry]],
    operation: Operation = READ,
    name: str = "orders",
    principal: str = ALICE,
    host: str = HOST,
    **options: bool,
) -> bool:
    return authorizer(acls, **options).allows(principal, host, operation, TOPIC, name)


def test_without_an_acl_the_setting_decides() -> None:
    assert not allows({})
    assert allows({}, allow_everyone=True)
    # An ACL of whomever shuts all others out.
    assert not allows({literal("orders"): [entry(ALLOW, principal=BOB)]}, allow_everyone=True)
    assert not allows({literal("*"): [entry(ALLOW, principal=BOB)]}, allow_everyone=True)
    assert allows({literal("other"): [entry(ALLOW, principal=BOB)]}, allow_everyone=True)


def test_a_super_user_may_do_everything() -> None:
    denied = {literal("orders"): [entry(DENY, ALL, EVERYBODY)]}
    assert allows(denied, principal="User:super")
    assert not allows(denied, principal="Group:super")


def test_what_is_denied_goes_before_what_is_allowed() -> None:
    for place in (literal("orders"), literal("*"), prefixed("ord")):
        assert not allows({literal("orders"): [entry(ALLOW, ALL)], place: [entry(ALLOW, ALL), entry(DENY)]})


@pytest.mark.parametrize("place", [literal("orders"), literal("*"), prefixed("o"), prefixed("orders")])
def test_an_acl_is_found_by_name_by_each_name_and_by_prefix(place: Resource) -> None:
    assert allows({place: [entry(ALLOW)]})
    assert not allows({place: [entry(ALLOW)]}, WRITE)
    assert not allows({place: [entry(ALLOW)]}, principal=BOB)


@pytest.mark.parametrize("place", [literal("order"), prefixed("orders-"), prefixed("*"), prefixed("rders")])
def test_an_acl_of_another_name_does_not_count(place: Resource) -> None:
    assert not allows({place: [entry(ALLOW)]})


def test_a_name_that_is_a_star_has_the_acl_once() -> None:
    assert allows({literal("*"): [entry(ALLOW)]}, name="*")
    assert allows({prefixed("*"): [entry(ALLOW)]}, name="*x")


@pytest.mark.parametrize(
    ("given_operation", "also"),
    [
        (READ, {DESCRIBE}),
        (WRITE, {DESCRIBE}),
        (Operation.DELETE, {DESCRIBE}),
        (Operation.ALTER, {DESCRIBE}),
        (Operation.ALTER_CONFIGS, {Operation.DESCRIBE_CONFIGS}),
        (Operation.CREATE, set()),
        (DESCRIBE, set()),
        (ALL, set(Operation) - {Operation.UNKNOWN, Operation.ANY}),
    ],
)
def test_what_is_implied(given_operation: Operation, also: set[Operation]) -> None:
    asked = set(Operation) - {Operation.UNKNOWN, Operation.ANY}
    allowed = {each for each in asked if allows({literal("orders"): [entry(ALLOW, given_operation)]}, each)}
    assert allowed == {given_operation} | also
    # What is denied implies nothing: only ALL is wider than itself.
    both = [entry(ALLOW, ALL), entry(DENY, given_operation)]
    denied = {each for each in asked if not allows({literal("orders"): both}, each)}
    assert denied == (asked if given_operation is ALL else {given_operation})


def test_hosts() -> None:
    acl = {literal("orders"): [entry(ALLOW, host="10.0.0.1"), entry(ALLOW, host="::1")]}
    assert allows(acl, host="10.0.0.1")
    assert not allows(acl, host="10.0.0.2")
    assert allows(acl, host="0:0:0:0:0:0:0:1")
    assert allows({literal("orders"): [entry(ALLOW, host="0:0:0:0:0:0:0:1")]}, host="0:0:0:0:0:0:0:1")
    assert not allows({literal("orders"): [entry(ALLOW), entry(DENY, host=HOST)]})


@pytest.mark.parametrize(
    ("address", "java"),
    [
        ("127.0.0.1", "127.0.0.1"),
        ("::1", "0:0:0:0:0:0:0:1"),
        ("::ffff:10.1.2.3", "10.1.2.3"),
        ("2001:DB8::a:0:1", "2001:db8:0:0:0:a:0:1"),
        ("fe80::1%eth0", "fe80:0:0:0:0:0:0:1%eth0"),
        ("broker1", "broker1"),
        ("", ""),
    ],
)
def test_an_address_as_java_writes_it(address: str, java: str) -> None:
    assert java_address(address) == java


def test_allows_any() -> None:
    """BaseAuthorizerTest: authorizeByResourceType."""

    def may(acls: Mapping[Resource, list[Entry]], **options: bool) -> bool:
        return authorizer(acls, **options).allows_any(ALICE, HOST, WRITE, TOPIC)

    allow, deny = entry(ALLOW, WRITE), entry(DENY, WRITE)
    assert not may({})
    assert may({}, allow_everyone=True)
    assert may({literal("a"): [allow]})
    assert may({literal("*"): [allow]})
    assert may({prefixed("a"): [allow]})
    assert may({literal("a"): [entry(ALLOW, ALL, EVERYBODY)]})
    assert not may({literal("a"): [entry(ALLOW, READ)]})
    assert not may({Resource(GROUP, "a"): [allow]})
    assert not may({literal("a"): [entry(ALLOW, WRITE, host="10.0.0.9")]})
    # An unrelated denial does not reach what is allowed; one that covers it does.
    assert may({literal("a"): [allow], literal("b"): [deny], prefixed("b"): [deny]})
    assert not may({literal("a"): [allow, deny]})
    assert not may({literal("abc"): [allow], prefixed("ab"): [deny]})
    assert not may({prefixed("abc"): [allow], prefixed("abc"[:2]): [deny]})
    assert may({prefixed("a"): [allow], prefixed("ab"): [deny]})
    assert may({prefixed("a"): [allow], literal("a"): [deny]})
    assert not may({prefixed("a"): [allow], literal("*"): [deny]}, allow_everyone=True)
    # Kafka's order: the setting is asked before prefixes that deny.
    assert may({prefixed("a"): [deny]}, allow_everyone=True)
    assert authorizer({literal("*"): [deny]}).allows_any("User:super", HOST, WRITE, TOPIC)


def test_a_change_counts_at_once_for_a_client_that_is_there() -> None:
    made = authorizer({literal("orders"): [entry(ALLOW)]})
    client = Permissions(made, ALICE, HOST)
    assert client.allows(READ, TOPIC, "orders")
    assert client.allows_any(READ, TOPIC)
    made.set_entries(literal("orders"), [entry(DENY)])
    assert not client.allows(READ, TOPIC, "orders")
    made.set_entries(literal("orders"), [])
    assert not client.allows_any(READ, TOPIC)
    assert made.resources == {}


def test_the_same_acl_again_is_no_change() -> None:
    made = authorizer({literal("orders"): [entry(ALLOW)]})
    before = made.generation
    made.set_entries(literal("orders"), [entry(ALLOW), entry(ALLOW)])
    made.set_entries(literal("other"), [])
    assert made.generation == before


def test_answers_for_many_names_do_not_fill_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("highwater.broker.security.authorizer._MOST_REMEMBERED", 3)
    client = Permissions(authorizer({prefixed("a"): [entry(ALLOW)]}), ALICE, HOST)
    assert [client.allows(READ, TOPIC, name) for name in ("a1", "b", "a2", "a3", "b", "a1")] == [
        True,
        False,
        True,
        True,
        False,
        True,
    ]
    assert len(client._answers) <= 3


def test_the_answer_for_a_name_that_nothing_can_have_is_not_kept() -> None:
    client = Permissions(authorizer({prefixed("a"): [entry(ALLOW)]}), ALICE, HOST)
    assert client.allows(READ, TOPIC, "a" * 32_767)
    assert client.allows(READ, TOPIC, "ab")
    assert list(client.answers((READ, TOPIC))) == ["ab"]
    client.forget()
    assert not client.answers((READ, TOPIC))


def test_bits_of_authorised_operations() -> None:
    client = Permissions(authorizer({literal("orders"): [entry(ALLOW), entry(ALLOW, WRITE)]}), ALICE, HOST)
    assert client.operations(TOPIC, "orders") == 1 << READ | 1 << WRITE | 1 << DESCRIBE
    everything = Permissions(Authorizer(["User:super"]), "User:super", HOST)
    assert everything.operations(TOPIC, "orders") == sum(1 << each for each in OPERATIONS_OF[TOPIC])


NAMES = ("*", "a", "ab", "abc", "b")
ENTRIES = st.builds(
    Entry,
    st.sampled_from((ALICE, BOB, EVERYBODY)),
    st.sampled_from(("*", HOST, "10.0.0.9")),
    st.sampled_from((ALL, READ, WRITE, DESCRIBE, Operation.ALTER_CONFIGS, Operation.DESCRIBE_CONFIGS)),
    st.sampled_from((ALLOW, DENY)),
)
RESOURCES = st.builds(
    Resource,
    st.sampled_from((TOPIC, GROUP)),
    st.sampled_from(NAMES),
    st.sampled_from((PatternType.LITERAL, PatternType.PREFIXED)),
)


def plainly(acls: Mapping[Resource, list[Entry]], operation: Operation, name: str, allow_everyone: bool) -> bool:
    """The rules as the documentation says them, over all ACLs."""
    implying = {
        DESCRIBE: {READ, WRITE, Operation.DELETE, Operation.ALTER},
        Operation.DESCRIBE_CONFIGS: {Operation.ALTER_CONFIGS},
    }.get(operation, set())
    filters = ResourceFilter(TOPIC, name, PatternType.MATCH)
    about = [each for resource, entries in acls.items() if filters.matches(resource) for each in entries]
    if not about:
        return allow_everyone
    mine = [each for each in about if each.principal in (ALICE, EVERYBODY) and each.host in ("*", HOST)]
    if any(each.permission is DENY and each.operation in (operation, ALL) for each in mine):
        return False
    return any(each.permission is ALLOW and each.operation in {operation, ALL} | implying for each in mine)


@settings(max_examples=300, deadline=None)
@given(
    st.lists(st.tuples(RESOURCES, st.lists(ENTRIES, max_size=3)), max_size=8),
    st.sampled_from((READ, WRITE, DESCRIBE, Operation.DESCRIBE_CONFIGS)),
    st.sampled_from(NAMES),
    st.booleans(),
)
def test_every_sequence_of_changes_decides_as_the_rules_say(
    changes: list[tuple[Resource, list[Entry]]], operation: Operation, name: str, allow_everyone: bool
) -> None:
    made = authorizer({}, allow_everyone=allow_everyone)
    acls: dict[Resource, list[Entry]] = {}
    for resource, entries in changes:
        made.set_entries(resource, entries)
        acls[resource] = entries
        assert made.allows(ALICE, HOST, operation, TOPIC, name) == plainly(acls, operation, name, allow_everyone)
    whole = {Acl(resource, each) for resource, entries in acls.items() for each in entries}
    assert set(made.acls(AclFilter())) == whole
    wanted = AclFilter(ResourceFilter(name=name), EntryFilter(principal=ALICE))
    assert set(made.acls(wanted)) == {
        acl for acl in whole if acl.resource.name == name and acl.entry.principal == ALICE
    }
