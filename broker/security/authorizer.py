"""Decides who may do what, by ACLs: AclAuthorizer of Kafka 3.9. Sans-IO.

1. A super user may do everything.
2. The ACLs of a resource are those of its name, of the name `*`, and of each prefix of its name. If there is none,
   `allow.everyone.if.no.acl.found` decides.
3. An entry that denies goes before all that allow.
4. Who may READ, WRITE, DELETE or ALTER a resource may DESCRIBE it; who may ALTER_CONFIGS may DESCRIBE_CONFIGS. What is
   denied implies nothing.
5. What no entry allows is denied.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache, partial
from ipaddress import IPv6Address, ip_address
from typing import Final

from highwater.kafka.acl import (
    EVERYBODY,
    OPERATIONS_OF,
    WILDCARD,
    Acl,
    AclFilter,
    Entry,
    Operation,
    PatternType,
    Permission,
    Resource,
    ResourceType,
)

Entries = frozenset[Entry]

_IMPLIED_BY: Final = {
    Operation.DESCRIBE: (Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER),
    Operation.DESCRIBE_CONFIGS: (Operation.ALTER_CONFIGS,),
}
_MOST_REMEMBERED: Final = 10_000
"""Answers for one client: a client that asks for ever new names must not fill the memory."""
_LONGEST_REMEMBERED: Final = 255
"""Characters of a name; a topic has 249 at most."""

_ByPrincipal = Mapping[str, tuple[Entry, ...]]


class Authorizer:
    """The ACLs as this broker knows them. `generation` grows with each change."""

    def __init__(self, super_users: Iterable[str] = (), *, allow_everyone_if_no_acl_found: bool = False) -> None:
        """super_users: principals, such as User:admin."""
        self._super_users = frozenset(super_users)
        self._allow_everyone = allow_everyone_if_no_acl_found
        self._entries: dict[Resource, Entries] = {}
        # By type and name; by type, length and text of the prefix: a name has as many prefixes as there are lengths.
        self._literal: dict[ResourceType, dict[str, _ByPrincipal]] = {}
        self._prefixed: dict[ResourceType, dict[int, dict[str, _ByPrincipal]]] = {}
        self.generation = 0

    def set_entries(self, resource: Resource, entries: Iterable[Entry]) -> None:
        """Replace the ACL of a resource; without entries it has none."""
        after = frozenset(entries)
        if after == self._entries.get(resource, frozenset()):
            return
        names = self._names_like(resource)
        if after:
            self._entries[resource] = after
            names[resource.name] = _by_principal(after)
        else:
            del self._entries[resource]
            del names[resource.name]
            if not names and resource.pattern is PatternType.PREFIXED:
                del self._prefixed[resource.type][len(resource.name)]
        self.generation += 1

    def _names_like(self, resource: Resource) -> dict[str, _ByPrincipal]:
        if resource.pattern is PatternType.PREFIXED:
            return self._prefixed.setdefault(resource.type, {}).setdefault(len(resource.name), {})
        return self._literal.setdefault(resource.type, {})

    def entries(self, resource: Resource) -> Entries:
        return self._entries.get(resource, frozenset())

    @property
    def resources(self) -> Mapping[Resource, Entries]:
        """Each resource that has an ACL."""
        return self._entries

    def acls(self, wanted: AclFilter) -> Iterator[Acl]:
        for resource, entries in self._entries.items():
            if wanted.resource.matches(resource):
                yield from (Acl(resource, entry) for entry in entries if wanted.entry.matches(entry))

    def allows(self, principal: str, host: str, operation: Operation, kind: ResourceType, name: str) -> bool:
        """Whether a principal (`User:alice`) may do it from a host, an address in Java's form."""
        if principal in self._super_users:
            return True
        is_allowed = False
        found = False
        enough = (operation, Operation.ALL, *_IMPLIED_BY.get(operation, ()))
        for by_principal in self._of(kind, name):
            found = True
            for entry in (*by_principal.get(principal, ()), *by_principal.get(EVERYBODY, ())):
                if not _is_for(entry.host, host):
                    continue
                if entry.permission is Permission.DENY:
                    if entry.operation in (operation, Operation.ALL):
                        return False
                elif entry.permission is Permission.ALLOW and entry.operation in enough:
                    is_allowed = True
        return is_allowed if found else self._allow_everyone

    def _of(self, kind: ResourceType, name: str) -> Iterator[_ByPrincipal]:
        """The ACLs of a resource: of its name, of each name, of its prefixes."""
        literal = self._literal.get(kind)
        if literal:
            for key in (name, WILDCARD) if name != WILDCARD else (name,):
                if (entries := literal.get(key)) is not None:
                    yield entries
        for length, prefixes in self._prefixed.get(kind, {}).items():
            if length <= len(name) and (entries := prefixes.get(name[:length])) is not None:
                yield entries

    def allows_any(self, principal: str, host: str, operation: Operation, kind: ResourceType) -> bool:
        """Whether there may be a resource of this type on which the operation is allowed (authorizeByResourceType).

        Nothing is implied here. A name is denied by an entry for it, for each name, or for a prefix of it.
        """
        if principal in self._super_users:
            return True
        denied_names, denied_prefixes = self._where(Permission.DENY, principal, host, operation, kind)
        if WILDCARD in denied_names:
            return False
        if self._allow_everyone:
            return True
        names, prefixes = self._where(Permission.ALLOW, principal, host, operation, kind)

        def is_below_denied(name: str) -> bool:
            return any(name[:length] in denied_prefixes for length in range(1, len(name) + 1))

        return any(not is_below_denied(prefix) for prefix in prefixes) or any(
            name == WILDCARD or (name not in denied_names and not is_below_denied(name)) for name in names
        )

    def _where(
        self, permission: Permission, principal: str, host: str, operation: Operation, kind: ResourceType
    ) -> tuple[set[str], set[str]]:
        """Literal names and prefixes that have a matching entry."""
        names: set[str] = set()
        prefixes: set[str] = set()
        for resource, entries in self._entries.items():
            if resource.type is kind and any(
                entry.permission is permission
                and entry.operation in (operation, Operation.ALL)
                and entry.principal in (principal, EVERYBODY)
                and _is_for(entry.host, host)
                for entry in entries
            ):
                (prefixes if resource.pattern is PatternType.PREFIXED else names).add(resource.name)
        return names, prefixes


class Permissions:
    """What one client may do. Its answers are remembered until an ACL changes."""

    __slots__ = ("_answers", "_any_answers", "_authorizer", "_generation", "_host", "_principal", "_remembered")

    def __init__(self, authorizer: Authorizer, principal: str, host: str) -> None:
        self._authorizer = authorizer
        self._principal = principal
        self._host = host
        self._generation = authorizer.generation
        self._answers: dict[tuple[Operation, ResourceType], _Answers] = {}
        self._any_answers: dict[tuple[Operation, ResourceType], bool] = {}
        self._remembered = 0

    def answers(self, wanted: tuple[Operation, ResourceType]) -> Mapping[str, bool]:
        """Whether an operation is allowed, by the name of the resource; each name has an answer.

        Look it up for each request: it does not notice changes of ACLs by itself. It is for Produce and Fetch, where an
        answer must cost next to nothing.
        """
        if self._generation != self._authorizer.generation:
            self.forget()
        found = self._answers.get(wanted)
        if found is None:
            found = self._answers[wanted] = _Answers(self, *wanted)
        return found

    def allows(self, operation: Operation, kind: ResourceType, name: str) -> bool:
        return self.answers((operation, kind))[name]

    def allows_any(self, operation: Operation, kind: ResourceType) -> bool:
        """Whether there may be a resource of this type on which the operation is allowed."""
        if self._generation != self._authorizer.generation:
            self.forget()
        key = (operation, kind)
        if key not in self._any_answers:
            self._any_answers[key] = self._authorizer.allows_any(self._principal, self._host, operation, kind)
        return self._any_answers[key]

    def operations(self, kind: ResourceType, name: str) -> int:
        """The bits of authorised operations, by the operations' codes."""
        return sum(1 << operation for operation in OPERATIONS_OF[kind] if self.allows(operation, kind, name))

    def _decide(self, operation: Operation, kind: ResourceType, name: str) -> bool:
        if self._remembered >= _MOST_REMEMBERED:
            self.forget()
        self._remembered += 1
        return self._authorizer.allows(self._principal, self._host, operation, kind, name)

    def forget(self) -> None:
        """Remember nothing: at an end of the connection, or after a change of ACLs."""
        for answers in self._answers.values():
            answers.clear()
        self._any_answers.clear()
        self._remembered = 0
        self._generation = self._authorizer.generation


class _Answers(dict[str, bool]):
    """The remembered answers of one operation; the authorizer is asked for a name that is not there."""

    __slots__ = ("_decide",)

    def __init__(self, permissions: Permissions, operation: Operation, kind: ResourceType) -> None:
        super().__init__()
        self._decide = partial(permissions._decide, operation, kind)

    def __missing__(self, name: str) -> bool:
        answer = self._decide(name)
        if len(name) <= _LONGEST_REMEMBERED:
            self[name] = answer
        return answer


def java_address(text: str) -> str:
    """An address as Java's getHostAddress writes it, which ACLs are compared with.

    IPv4 in IPv6 is IPv4, IPv6 is not compressed: 0:0:0:0:0:0:0:1. A text that is no address stays as it is.
    """
    plain, percent, scope = text.partition("%")
    try:
        address = ip_address(plain)
    except ValueError:
        return text
    if not isinstance(address, IPv6Address):
        return str(address)
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    groups = ":".join(f"{int(group, 16):x}" for group in address.exploded.split(":"))
    return f"{groups}{percent}{scope}"


_java_address = lru_cache(maxsize=4096)(java_address)


def _is_for(host: str, client_host: str) -> bool:
    """Whether the host of an entry is a client's. Kafka compares texts; here `::1` is also what Java writes of it."""
    return host in (WILDCARD, client_host) or _java_address(host) == client_host


def _by_principal(entries: Entries) -> _ByPrincipal:
    found: dict[str, list[Entry]] = {}
    for entry in entries:
        found.setdefault(entry.principal, []).append(entry)
    return {principal: tuple(some) for principal, some in found.items()}
