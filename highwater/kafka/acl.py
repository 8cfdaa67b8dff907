"""Access control lists as values: resources, entries, filters, with Kafka's names and codes. Sans-IO.

An ACL says that a principal may, or may not, do an operation on a resource from a host. Codes and names are those of
Kafka 3.9: org.apache.kafka.common.acl and .resource.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final, NamedTuple, Self

from highwater.common.znode_path import path_problem

WILDCARD: Final = "*"
"""Stands for each resource of its type as the name of a literal resource, and for each host as a host."""
EVERYBODY: Final = "User:*"
CLUSTER_NAME: Final = "kafka-cluster"
"""The only resource of the type CLUSTER."""


class _Code(IntEnum):
    """A number of the wire that has a name; a number that nobody knows is UNKNOWN."""

    @classmethod
    def _missing_(cls, value: object) -> Self:
        return cls(0)

    @property
    def text(self) -> str:
        """The name in Kafka's znodes and log lines: DescribeConfigs."""
        return self.name.title().replace("_", "")

    @classmethod
    def of_text(cls, text: str) -> Self:
        """Read in any case, with or without underscores; UNKNOWN for a text that is no name."""
        wanted = text.replace("_", "").upper()
        return next((each for each in cls if each.name.replace("_", "") == wanted), cls(0))


class Operation(_Code):
    UNKNOWN = 0
    ANY = 1
    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14


class ResourceType(_Code):
    UNKNOWN = 0
    ANY = 1
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class PatternType(_Code):
    UNKNOWN = 0
    ANY = 1
    MATCH = 2
    LITERAL = 3
    PREFIXED = 4


class Permission(_Code):
    UNKNOWN = 0
    ANY = 1
    DENY = 2
    ALLOW = 3


OPERATIONS_OF: Final = {
    ResourceType.TOPIC: (
        Operation.READ,
        Operation.WRITE,
        Operation.CREATE,
        Operation.DELETE,
        Operation.ALTER,
        Operation.DESCRIBE,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
    ),
    ResourceType.GROUP: (Operation.READ, Operation.DELETE, Operation.DESCRIBE),
    ResourceType.CLUSTER: (
        Operation.CREATE,
        Operation.ALTER,
        Operation.DESCRIBE,
        Operation.CLUSTER_ACTION,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
        Operation.IDEMPOTENT_WRITE,
    ),
    ResourceType.TRANSACTIONAL_ID: (Operation.WRITE, Operation.DESCRIBE),
    ResourceType.DELEGATION_TOKEN: (Operation.DESCRIBE,),
    ResourceType.USER: (Operation.CREATE_TOKENS, Operation.DESCRIBE_TOKENS),
}
"""What can be done to a resource of a type (AclEntry.supportedOperations)."""


def all_operations(kind: ResourceType) -> int:
    """The bits of all that can be done to a resource of a type, by the operations' codes."""
    return sum(1 << operation for operation in OPERATIONS_OF[kind])


class Resource(NamedTuple):
    """What an ACL is about: one resource, or all whose names begin with `name`."""

    type: ResourceType
    name: str
    pattern: PatternType = PatternType.LITERAL


class Entry(NamedTuple):
    """One line of a resource's ACL. `principal`: `User:alice`, or `User:*`; `host`: an address or `*`."""

    principal: str
    host: str
    operation: Operation
    permission: Permission


class Acl(NamedTuple):
    resource: Resource
    entry: Entry


class ResourceFilter(NamedTuple):
    """Which resources: None as a name stands for each; ANY and MATCH are patterns of a filter alone."""

    type: ResourceType = ResourceType.ANY
    name: str | None = None
    pattern: PatternType = PatternType.ANY

    def matches(self, resource: Resource) -> bool:
        """ANY takes the name as it is, whatever the pattern; MATCH takes each resource that covers the name."""
        if self.type not in (ResourceType.ANY, resource.type):
            return False
        if self.pattern not in (PatternType.ANY, PatternType.MATCH, resource.pattern):
            return False
        if self.name is None or resource.name == self.name:
            return True
        if self.pattern is not PatternType.MATCH:
            return False
        if resource.pattern is PatternType.PREFIXED:
            return self.name.startswith(resource.name)
        return resource.name == WILDCARD

    @property
    def resource(self) -> Resource | None:
        """The one resource that this filter names; None if it could match several."""
        if self.type is ResourceType.ANY or self.name is None:
            return None
        if self.pattern not in (PatternType.LITERAL, PatternType.PREFIXED):
            return None
        return Resource(self.type, self.name, self.pattern)


class EntryFilter(NamedTuple):
    """Which entries: None and ANY stand for each. ALL matches entries of ALL alone."""

    principal: str | None = None
    host: str | None = None
    operation: Operation = Operation.ANY
    permission: Permission = Permission.ANY

    def matches(self, entry: Entry) -> bool:
        return (
            self.principal in (None, entry.principal)
            and self.host in (None, entry.host)
            and self.operation in (Operation.ANY, entry.operation)
            and self.permission in (Permission.ANY, entry.permission)
        )


class AclFilter(NamedTuple):
    resource: ResourceFilter = ResourceFilter()
    entry: EntryFilter = EntryFilter()

    def matches(self, acl: Acl) -> bool:
        return self.resource.matches(acl.resource) and self.entry.matches(acl.entry)


def problem_of(acl: Acl) -> str | None:
    """Why an ACL cannot be created, as a sentence; None if it can.

    Kafka 3.9 closes the connection, or reports UNKNOWN_SERVER_ERROR, for some of these.
    """
    resource, entry = acl
    if resource.type in (ResourceType.UNKNOWN, ResourceType.ANY):
        return "The type of the resource is none that can have ACLs."
    if resource.pattern not in (PatternType.LITERAL, PatternType.PREFIXED):
        return "The type of the pattern is neither LITERAL nor PREFIXED."
    if not resource.name:
        return "The name of the resource is empty."
    if "/" in resource.name or path_problem(f"/{resource.name}"):
        return f"The name {resource.name!r} of the resource cannot be that of a znode, which the ACL would stand in."
    if resource.type is ResourceType.CLUSTER and resource.name != CLUSTER_NAME:
        return f"The only valid name for the CLUSTER resource is {CLUSTER_NAME}."
    if entry.operation in (Operation.UNKNOWN, Operation.ANY):
        return "The operation is none that can be allowed or denied."
    if entry.permission not in (Permission.DENY, Permission.ALLOW):
        return "The permission is neither ALLOW nor DENY."
    if principal_problem(entry.principal):
        return f"The principal {entry.principal!r} {principal_problem(entry.principal)}."
    if not entry.host:
        return "The host is empty; * stands for each host."
    return None


def principal_problem(principal: str) -> str | None:
    """What is wrong with the text of a principal, as a predicate; None if it is well formed."""
    kind, colon, name = principal.partition(":")
    if not colon or not kind or not name:
        return "is not TYPE:NAME, such as User:alice"
    return None
