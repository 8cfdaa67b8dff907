"""ACLs in Kafka's metadata tree: paths and values of Kafka 3.9 (kafka.zk.ZkAclStore, AclEntry).

/kafka-acl/<Type>/<name>                          the ACL of a resource, or under the name * of each of its type
/kafka-acl-extended/prefixed/<Type>/<name>        the ACL of all whose names begin so
/kafka-acl-changes/acl_changes_N                  an ACL of the first kind changed: `TOPIC:orders`, plain text
/kafka-acl-extended-changes/acl_changes_N         one of the second kind changed, as JSON
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from highwater.broker.settings.metadata_tree import fields_of, text_of
from highwater.kafka.acl import Entry, Operation, PatternType, Permission, Resource, ResourceType

LITERAL_ACLS: Final = "/kafka-acl"
EXTENDED_ACLS: Final = "/kafka-acl-extended"
PREFIXED_ACLS: Final = f"{EXTENDED_ACLS}/prefixed"
LITERAL_CHANGES: Final = "/kafka-acl-changes"
EXTENDED_CHANGES: Final = "/kafka-acl-extended-changes"
CHANGE_NAME: Final = "acl_changes_"
"""ZooKeeper appends a number."""

TYPES: Final[Sequence[ResourceType]] = tuple(ResourceType)[2:]
"""All without UNKNOWN and ANY."""
PARENTS: Final[Mapping[tuple[PatternType, ResourceType], str]] = {
    (pattern, kind): f"{place}/{kind.text}"
    for pattern, place in ((PatternType.LITERAL, LITERAL_ACLS), (PatternType.PREFIXED, PREFIXED_ACLS))
    for kind in TYPES
}
"""The znode below which the resources of a type are, for literal and prefixed names."""

_PLACES: Final = {parent: (pattern, kind) for (pattern, kind), parent in PARENTS.items()}


def acl_path(resource: Resource) -> str:
    return f"{PARENTS[resource.pattern, resource.type]}/{resource.name}"


def parse_acl_path(path: str) -> Resource | None:
    """The resource whose ACL stands there; None for any other path."""
    parent, _, name = path.rpartition("/")
    if parent not in _PLACES or not name:
        return None
    pattern, kind = _PLACES[parent]
    return Resource(kind, name, pattern)


def acl_value(entries: Iterable[Entry]) -> dict[str, Any]:
    """The value of an ACL, in a fixed order, so that equal ACLs have equal values."""
    return {
        "version": 1,
        "acls": [
            {
                "principal": entry.principal,
                "permissionType": entry.permission.text,
                "operation": entry.operation.text,
                "host": entry.host,
            }
            for entry in sorted(entries)
        ],
    }


def parse_acl(value: object) -> frozenset[Entry]:
    """Entries of a value. What a newer Kafka names is UNKNOWN, and allows or denies nothing."""
    return frozenset(
        Entry(
            text_of(each["principal"]),
            text_of(each["host"]),
            Operation.of_text(text_of(each["operation"])),
            Permission.of_text(text_of(each["permissionType"])),
        )
        for each in fields_of(value, 1)["acls"]
    )


def change_parent(resource: Resource) -> str:
    """Where a change of this resource's ACL is announced."""
    return EXTENDED_CHANGES if resource.pattern is PatternType.PREFIXED else LITERAL_CHANGES


def literal_change(resource: Resource) -> bytes:
    return f"{resource.type.name}:{resource.name}".encode()


def parse_literal_change(data: bytes) -> Resource:
    """Raises ValueError for another text."""
    kind, colon, name = data.decode().partition(":")
    return _changed(kind, name if colon else "", PatternType.LITERAL)


def extended_change_value(resource: Resource) -> dict[str, Any]:
    return {
        "version": 1,
        "resourceType": resource.type.name,
        "name": resource.name,
        "patternType": resource.pattern.name,
    }


def parse_extended_change(value: object) -> Resource:
    fields = fields_of(value, 1)
    pattern = PatternType.of_text(text_of(fields["patternType"]))
    return _changed(text_of(fields["resourceType"]), text_of(fields["name"]), pattern)


def _changed(kind: str, name: str, pattern: PatternType) -> Resource:
    resource = Resource(ResourceType.of_text(kind), name, pattern)
    if (resource.pattern, resource.type) not in PARENTS or not name:
        raise ValueError(f"{kind}:{name} with the pattern {pattern.name} is not a resource that can have ACLs")
    return resource
