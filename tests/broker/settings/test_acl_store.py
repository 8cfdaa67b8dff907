"""Tests of what filters of ACLs delete, against a plain reading of them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from highwater.broker.settings.acl_store import Deletion
from highwater.kafka.acl import (
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

NAMES = st.sampled_from(("a", "ab", "*"))
PRINCIPALS = st.sampled_from(("User:a", "User:b"))
HOSTS = st.sampled_from(("*", "10.0.0.1"))
TYPES = (ResourceType.TOPIC, ResourceType.GROUP)
OPERATIONS = (Operation.READ, Operation.ALL)
PERMISSIONS = (Permission.ALLOW, Permission.DENY)
PATTERNS = (PatternType.LITERAL, PatternType.PREFIXED)

RESOURCES = st.builds(Resource, st.sampled_from(TYPES), NAMES, st.sampled_from(PATTERNS))
ENTRIES = st.builds(Entry, PRINCIPALS, HOSTS, st.sampled_from(OPERATIONS), st.sampled_from(PERMISSIONS))
FILTERS = st.builds(
    AclFilter,
    st.builds(
        ResourceFilter,
        st.sampled_from((*TYPES, ResourceType.ANY)),
        st.none() | NAMES,
        st.sampled_from((*PATTERNS, PatternType.ANY, PatternType.MATCH)),
    ),
    st.builds(
        EntryFilter,
        st.none() | PRINCIPALS,
        st.none() | HOSTS,
        st.sampled_from((*OPERATIONS, Operation.ANY)),
        st.sampled_from((*PERMISSIONS, Permission.ANY)),
    ),
)


@given(st.dictionaries(RESOURCES, st.frozensets(ENTRIES, min_size=1)), st.lists(FILTERS))
def test_each_acl_is_told_of_the_first_filter_that_matches_it(
    stored: dict[Resource, frozenset[Entry]], filters: list[AclFilter]
) -> None:
    deletion = Deletion(filters, stored)
    outcome = {resource: change(stored.get(resource, frozenset())) for resource, change in deletion.changes.items()}
    expected: list[list[Acl]] = [[] for _ in filters]
    kept: dict[Resource, set[Entry]] = {resource: set() for resource in stored}
    for resource, entries in stored.items():
        for entry in entries:
            acl = Acl(resource, entry)
            matching = [number for number, wanted in enumerate(filters) if wanted.matches(acl)]
            if matching:
                expected[matching[0]].append(acl)
            else:
                kept[resource].add(entry)
    assert deletion.results(dict(outcome)) == [sorted(acls) for acls in expected]
    assert {resource: outcome.get(resource, entries) for resource, entries in stored.items()} == kept
