"""What the options of `highwater broker acls` mean, by the rules of Kafka's kafka-acls. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Final

from highwater.admin.terminal import UsageError, printable
from highwater.common.nearest import did_you_mean
from highwater.kafka.acl import (
    CLUSTER_NAME,
    OPERATIONS_OF,
    WILDCARD,
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
    principal_problem,
    problem_of,
)

OPTION_OF: Final[Mapping[ResourceType, str]] = {
    ResourceType.TOPIC: "--topic",
    ResourceType.GROUP: "--group",
    ResourceType.CLUSTER: "--cluster",
    ResourceType.TRANSACTIONAL_ID: "--transactional-id",
    ResourceType.DELEGATION_TOKEN: "--delegation-token",
    ResourceType.USER: "--user-principal",
}
_CLUSTER: Final = ResourceFilter(ResourceType.CLUSTER, CLUSTER_NAME, PatternType.LITERAL)
_PATTERNS: Final = {each.name.lower(): each for each in PatternType if each is not PatternType.UNKNOWN}
_OPERATIONS: Final = {each.text: each for each in Operation if each > Operation.ANY}

Wanted = Mapping[ResourceFilter, Sequence[Entry]]
"""Entries by resource; a resource without entries means all that it has."""


@dataclass(frozen=True)
class Given:
    """The options as they were typed."""

    names: Mapping[ResourceType, Sequence[str]]
    pattern: str = "literal"
    allowed: Sequence[str] = ()
    denied: Sequence[str] = ()
    allowed_hosts: Sequence[str] = ()
    denied_hosts: Sequence[str] = ()
    operations: Sequence[str] = ()
    is_producer: bool = False
    is_consumer: bool = False
    is_idempotent: bool = False

    def has(self, kind: ResourceType) -> bool:
        return bool(self.names.get(kind))

    def check(self, action: str) -> None:
        """Raises UsageError for options that do not go together."""
        if action == "--list":
            self._refuse("--list", ("--producer", self.is_producer), ("--consumer", self.is_consumer))
            self._refuse("--list", ("--allow-principal", self.allowed), ("--deny-principal", self.denied))
            self._refuse("--list", ("--allow-host", self.allowed_hosts), ("--deny-host", self.denied_hosts))
            self._refuse("--list", ("--operation", self.operations), ("--idempotent", self.is_idempotent))
            return
        for option, is_given in (("--producer", self.is_producer), ("--consumer", self.is_consumer)):
            if is_given:
                self._refuse(option, ("--operation", self.operations), ("--deny-principal", self.denied))
                self._refuse(option, ("--deny-host", self.denied_hosts))
        if self.is_producer and not self.has(ResourceType.TOPIC):
            raise UsageError("--producer needs --topic")
        if self.is_idempotent and not self.is_producer:
            raise UsageError("--idempotent goes with --producer")
        if self.is_consumer:
            if not (self.has(ResourceType.TOPIC) and self.has(ResourceType.GROUP)):
                raise UsageError("--consumer needs --topic and --group")
            if not self.is_producer:
                self._refuse(
                    "--consumer",
                    ("--cluster", self.has(ResourceType.CLUSTER)),
                    ("--transactional-id", self.has(ResourceType.TRANSACTIONAL_ID)),
                )
        for hosts, principals, kind in (
            (self.allowed_hosts, self.allowed, "allow"),
            (self.denied_hosts, self.denied, "deny"),
        ):
            if hosts and not principals:
                raise UsageError(f"--{kind}-host needs --{kind}-principal")

    @staticmethod
    def _refuse(option: str, *others: tuple[str, object]) -> None:
        for name, is_given in others:
            if is_given:
                raise UsageError(f"{name} does not go with {option}")

    @property
    def pattern_type(self) -> PatternType:
        found = _PATTERNS.get(self.pattern.lower())
        if found is None:
            raise UsageError(
                f"--resource-pattern-type {printable(self.pattern)}: one of {', '.join(_PATTERNS)}"
                f"{did_you_mean(self.pattern, _PATTERNS)}"
            )
        return found

    @property
    def resources(self) -> list[ResourceFilter]:
        """The resources that are named."""
        pattern = self.pattern_type
        found = []
        for kind, names in self.names.items():
            for name in names:
                if not name.strip():
                    raise UsageError(f"{OPTION_OF[kind]} names nothing")
                wanted = ResourceFilter(kind, name.strip(), pattern)
                found.append(_CLUSTER if kind is ResourceType.CLUSTER else wanted)
        return list(dict.fromkeys(found))

    def wanted(self) -> Wanted:
        """The entries of each resource. Raises UsageError."""
        resources = self.resources
        if not resources:
            raise UsageError(f"name the resource: {', '.join(OPTION_OF.values())}")
        if not (self.is_producer or self.is_consumer):
            operations = [_operation(text) for text in self.operations] or [Operation.ALL]
            found = dict.fromkeys(resources, self._entries(*operations))
        else:
            found = {}
            if self.is_producer:
                written = (Operation.WRITE, Operation.DESCRIBE, Operation.CREATE)
                _join(found, _of(resources, ResourceType.TOPIC), self._entries(*written))
                _join(found, _of(resources, ResourceType.TRANSACTIONAL_ID), self._entries(*written[:2]))
                if self.is_idempotent:
                    _join(found, [_CLUSTER], self._entries(Operation.IDEMPOTENT_WRITE))
            if self.is_consumer:
                _join(found, _of(resources, ResourceType.TOPIC), self._entries(Operation.READ, Operation.DESCRIBE))
                _join(found, _of(resources, ResourceType.GROUP), self._entries(Operation.READ))
        for resource, entries in found.items():
            _check_operations(resource.type, entries)
        return found

    def _entries(self, *operations: Operation) -> tuple[Entry, ...]:
        return tuple(
            Entry(checked_principal(option, principal), host.strip(), operation, permission)
            for permission, option, principals, hosts in (
                (Permission.ALLOW, "--allow-principal", self.allowed, self.allowed_hosts),
                (Permission.DENY, "--deny-principal", self.denied, self.denied_hosts),
            )
            for principal in principals
            for host in hosts or (WILDCARD,)
            for operation in operations
        )

    def acls(self) -> list[Acl]:
        """The ACLs to add. Raises UsageError for what would be none."""
        pattern = self.pattern_type
        if pattern not in (PatternType.LITERAL, PatternType.PREFIXED):
            raise UsageError(f"--resource-pattern-type {pattern.name.lower()} goes with --list and --remove")
        if not (self.allowed or self.denied):
            raise UsageError("name who: --allow-principal or --deny-principal")
        for host in (*self.allowed_hosts, *self.denied_hosts):
            _check_host(host.strip())
        found = []
        for resource, entries in self.wanted().items():
            assert resource.name is not None
            for entry in entries:
                acl = Acl(Resource(resource.type, resource.name, resource.pattern), entry)
                if (problem := problem_of(acl)) is not None:
                    raise UsageError(problem)
                found.append(acl)
        return list(dict.fromkeys(found))

    def filters(self) -> list[AclFilter]:
        """What to remove: the named entries, or all of a resource."""
        return [
            AclFilter(resource, wanted)
            for resource, entries in self.wanted().items()
            for wanted in [EntryFilter(*entry) for entry in entries] or [EntryFilter()]
        ]


def _of(resources: Iterable[ResourceFilter], kind: ResourceType) -> list[ResourceFilter]:
    return [resource for resource in resources if resource.type is kind]


def _join(
    found: dict[ResourceFilter, tuple[Entry, ...]], resources: Iterable[ResourceFilter], entries: tuple[Entry, ...]
) -> None:
    for resource in resources:
        found[resource] = tuple(dict.fromkeys((*found.get(resource, ()), *entries)))


def _operation(text: str) -> Operation:
    found = Operation.of_text(text.strip())
    if found <= Operation.ANY:
        raise UsageError(
            f"--operation {printable(text)}: one of {', '.join(_OPERATIONS)}{did_you_mean(text, _OPERATIONS)}"
        )
    return found


def _check_operations(kind: ResourceType, entries: Iterable[Entry]) -> None:
    for entry in entries:
        if entry.operation is not Operation.ALL and entry.operation not in OPERATIONS_OF[kind]:
            known = ", ".join(operation.text for operation in (*OPERATIONS_OF[kind], Operation.ALL))
            raise UsageError(f"--operation {entry.operation.text} does not go with {OPTION_OF[kind]}: one of {known}")


def checked_principal(option: str, text: str) -> str:
    """A principal in Kafka's form. Raises UsageError that names it and how to write it."""
    text = text.strip()
    kind, _, name = text.partition(":")
    if principal_problem(text) is not None:
        raise UsageError(f"{option} {printable(text)}: write a principal as User:{printable(name or kind) or 'alice'}")
    if kind != "User" and kind.lower() == "user":
        raise UsageError(f"{option} {printable(text)}: write User:{printable(name)}; capitals count")
    return text


def _check_host(host: str) -> None:
    if host == WILDCARD:
        return
    try:
        ip_address(host.partition("%")[0])
    except ValueError:
        raise UsageError(
            f"the host {printable(host)} is not an address: ACLs are compared with clients' addresses, and * is each"
        ) from None
