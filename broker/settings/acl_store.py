"""The store of ACLs: one interface over a lone broker's file and a cluster's ZooKeeper."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol

from highwater.broker.security.authorizer import Authorizer, Entries
from highwater.broker.settings.acl_tree import TYPES
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
from highwater.kafka.pacing import paced
from highwater.kafka.protocol.problem import Problem

AclChange = Callable[[Entries], Entries]
"""Returns the entries that a resource shall have, from those that it has. It may be called several times."""

Created = list["Problem | None"]
"""Why an ACL was not created, for each that was asked for."""
Deleted = list["list[Acl] | Problem"]
"""What was deleted, for each filter."""


class AclStore(Protocol):
    """ACLs are not checked here: that is the caller's work."""

    @property
    def authorizer(self) -> Authorizer:
        """It has the stored ACLs; a change counts as soon as it is known here."""

    def create(self, acls: Sequence[Acl], then: Callable[[Created], None]) -> None:
        """Create them durably, and call back, maybe before this returns. One that is there already is no problem."""

    def delete(self, filters: Sequence[AclFilter], then: Callable[[Deleted], None]) -> None:
        """Delete what the filters match, and call back. What two filters match is reported for the first."""


def creations(acls: Sequence[Acl]) -> dict[Resource, AclChange]:
    """The change of each resource that brings these ACLs."""
    wanted: dict[Resource, set[Entry]] = {}
    for resource, entry in acls:
        wanted.setdefault(resource, set()).add(entry)

    def adding(entries: set[Entry]) -> AclChange:
        return lambda present: present | entries

    return {resource: adding(entries) for resource, entries in wanted.items()}


class _EntryFilters:
    """Filters of entries, in groups that ask for the same fields: an entry is looked up once in each group."""

    def __init__(self) -> None:
        self._numbers: dict[tuple[bool, ...], dict[tuple[object, ...], int]] = {}

    def add(self, wanted: EntryFilter, number: int) -> None:
        values = (
            wanted.principal,
            wanted.host,
            None if wanted.operation is Operation.ANY else wanted.operation,
            None if wanted.permission is Permission.ANY else wanted.permission,
        )
        asked = tuple(value is not None for value in values)
        numbers = self._numbers.setdefault(asked, {})
        numbers[values] = min(number, numbers.get(values, number))

    def first(self, entry: Entry) -> int | None:
        """Return the lowest number of a filter that matches the entry."""
        found = (
            numbers.get(tuple(value if is_asked else None for value, is_asked in zip(entry, asked, strict=True)))
            for asked, numbers in self._numbers.items()
        )
        return min((number for number in found if number is not None), default=None)


class Deletion:
    """The changes that delete what filters match; it learns what that is from the entries that are there."""

    def __init__(self, filters: Sequence[AclFilter], known: Iterable[Resource]) -> None:
        self._filters = filters
        self._deleted: dict[Resource, list[tuple[int, Acl]]] = {}
        self._numbers: dict[ResourceFilter, list[int]] = {}
        for number, wanted in enumerate(paced(filters)):
            self._numbers.setdefault(wanted.resource, []).append(number)
        self._of_several = [each for each in paced(self._numbers) if each.resource is None]
        """Filters that could match more than one resource."""
        known = tuple(known)
        resources = {resource for each in paced(self._numbers) for resource in _resources_of(each, known)}
        self.changes: dict[Resource, AclChange] = {resource: self._change_of(resource) for resource in paced(resources)}

    def _change_of(self, resource: Resource) -> AclChange:
        def change(present: Entries) -> Entries:
            # Somebody else may have changed the entries since the last try: what counts is the try that is written.
            self._deleted[resource] = found = []
            filters = _EntryFilters()
            for each in (_filter_of(resource), *self._of_several):
                if each.matches(resource):
                    for number in self._numbers.get(each, ()):
                        filters.add(self._filters[number].entry, number)
            found += [
                (first, Acl(resource, entry))
                for entry in sorted(present)
                if (first := filters.first(entry)) is not None
            ]
            return present - {acl.entry for _, acl in found}

        return change

    def results(self, outcome: Mapping[Resource, Entries | Problem]) -> Deleted:
        """A filter has a problem if one of the resources that it matches could not be written."""
        problems = {resource: each for resource, each in outcome.items() if isinstance(each, Problem)}
        gone: list[list[Acl]] = [[] for _ in self._filters]
        for resource, found in self._deleted.items():
            if resource not in problems:
                for first, acl in found:
                    gone[first].append(acl)
        return [
            next((each for resource, each in problems.items() if wanted.resource.matches(resource)), sorted(acls))
            for wanted, acls in zip(self._filters, gone, strict=True)
        ]


def _filter_of(resource: Resource) -> ResourceFilter:
    """Return the filter that names this resource alone."""
    return ResourceFilter(resource.type, resource.name, resource.pattern)


def _resources_of(filters: ResourceFilter, known: Iterable[Resource]) -> Iterable[Resource]:
    """Which resources a filter may match: those that it names, known or not; without a name those that are known."""
    if filters.name is None or filters.pattern is PatternType.MATCH:
        return [resource for resource in known if filters.matches(resource)]
    types = TYPES if filters.type is ResourceType.ANY else (filters.type,)
    both = (PatternType.LITERAL, PatternType.PREFIXED)
    patterns = both if filters.pattern is PatternType.ANY else (filters.pattern,)
    return [Resource(kind, filters.name, pattern) for kind in types for pattern in patterns]
