"""The ACLs of a cluster: in ZooKeeper as Kafka 3.9's AclAuthorizer keeps them, and a copy in memory.

A change writes the ACL of a resource and its announcement in one transaction, on the condition that nobody else has
changed it meanwhile. Every broker watches announcements and reads announced ACLs again. A new session reads all of
them: announcements before it may have been missed. While ZooKeeper is away, the ACLs that are known stay in force.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Generator, Mapping, Sequence
from functools import partial
from typing import Any, Final

from kio.schema.errors import ErrorCode

from highwater.broker.clock import Clock
from highwater.broker.cluster import znodes
from highwater.broker.cluster.zookeeper import (
    Children,
    Create,
    Delete,
    Get,
    Multi,
    NodeData,
    Request,
    Set,
    WatchEvent,
    ZooKeeper,
    ZooKeeperError,
    run,
)
from highwater.broker.security.authorizer import Authorizer, Entries
from highwater.broker.settings import acl_tree
from highwater.broker.settings.acl_store import AclChange, Created, Deleted, Deletion, creations
from highwater.kafka.acl import (
    EVERYBODY,
    WILDCARD,
    Acl,
    AclFilter,
    Entry,
    Operation,
    PatternType,
    Permission,
    Resource,
)
from highwater.kafka.protocol.problem import Problem

_logger = logging.getLogger(__name__)

ANNOUNCEMENT_LIFETIME_MS: Final = 15 * 60 * 1000
_ATTEMPTS: Final = 100
"""The most attempts to change an ACL that others change at the same time: one that fails is another's success."""
_NOBODY: Final = frozenset((Entry(EVERYBODY, WILDCARD, Operation.ALL, Permission.DENY),))
"""The ACL of a resource whose own cannot be understood: only super users may use it."""
_HOPELESS: Final = (ZooKeeperError.SESSION_EXPIRED, ZooKeeperError.REFUSED, ZooKeeperError.MALFORMED)

_Outcome = Mapping[Resource, "Entries | Problem"]
_AclSteps = Generator[Sequence[Request], list[Any], _Outcome]


class ZooKeeperAcls:
    """Implements `AclStore`, and `SessionPart`: it follows the changes of other brokers during a session.

    ZooKeeper answers the requests of a session in their order, so what was read last is never older than what was
    written before.
    """

    def __init__(self, zookeeper: ZooKeeper, clock: Clock, authorizer: Authorizer) -> None:
        """There are no ACLs until `load` has run: nobody may be let in before."""
        self.authorizer = authorizer
        self._zookeeper = zookeeper
        self._clock = clock
        self._latest = dict.fromkeys((acl_tree.LITERAL_CHANGES, acl_tree.EXTENDED_CHANGES), -1)
        self._waiting: deque[tuple[Mapping[Resource, AclChange], Callable[[_Outcome], None]]] = deque()

    # Changing

    def create(self, acls: Sequence[Acl], then: Callable[[Created], None]) -> None:
        def written(outcome: _Outcome) -> None:
            problems = {resource: each for resource, each in outcome.items() if isinstance(each, Problem)}
            then([problems.get(acl.resource) for acl in acls])

        self._change(creations(acls), written)

    def delete(self, filters: Sequence[AclFilter], then: Callable[[Deleted], None]) -> None:
        deletion = Deletion(filters, self.authorizer.resources)
        self._change(deletion.changes, lambda outcome: then(deletion.results(outcome)))

    def _change(self, changes: Mapping[Resource, AclChange], then: Callable[[_Outcome], None]) -> None:
        """Changes wait for each other, so that those of this broker do not overtake each other without end."""
        if not changes:
            then({})
            return
        self._waiting.append((changes, then))
        if len(self._waiting) == 1:
            self._begin_next()

    def _begin_next(self) -> None:
        changes, then = self._waiting[0]

        def done(outcome: _Outcome) -> None:
            self._waiting.popleft()
            if self._waiting:
                self._begin_next()
            then(outcome)

        run(self._zookeeper, _written(changes, self.authorizer.set_entries), done)

    # Following

    def session_began(self, broker_epoch: int) -> None:
        def loaded(error: ZooKeeperError | None) -> None:
            if error is not None and error is not ZooKeeperError.SESSION_EXPIRED:
                _logger.error("the ACLs in ZooKeeper cannot be read, those known before stay: %s", error.value)

        run(self._zookeeper, self.load(), loaded)

    def session_ended(self) -> None:
        """Keep the known ACLs in force."""

    def watch_fired(self, path: str, event: WatchEvent) -> None:
        if path in self._latest:
            run(self._zookeeper, self._follow(path))

    def load(self) -> Generator[Sequence[Request], list[Any], ZooKeeperError | None]:
        """Set watches for later changes, then read all ACLs."""
        places = (*acl_tree.PARENTS.values(), *self._latest)
        parents = dict.fromkeys(path for place in places for path in _ancestors(place))
        yield [Create(path) for path in parents]
        announced = yield [Children(parent, watch=True) for parent in self._latest]
        known = list(self.authorizer.resources)
        listed = yield [Children(parent) for parent in acl_tree.PARENTS.values()]
        for names in (*announced, *listed):
            if isinstance(names, ZooKeeperError):
                return names
        resources = [
            Resource(kind, name, pattern)
            for (pattern, kind), names in zip(acl_tree.PARENTS, listed, strict=True)
            for name in names
        ]
        nodes = (yield [Get(acl_tree.acl_path(resource)) for resource in resources]) if resources else []
        for resource, node in zip(resources, nodes, strict=True):
            if isinstance(node, ZooKeeperError) and node is not ZooKeeperError.NO_NODE:
                return node
            self._take_up(resource, node)
        # Their deletion may have been missed. One that this broker created since is not among those known before.
        for resource in set(known).difference(resources):
            self.authorizer.set_entries(resource, ())
        for parent, names in zip(list(self._latest), announced, strict=True):
            self._latest[parent] = max(map(znodes.sequence_number, names), default=-1)
        return None

    def _follow(self, parent: str) -> Generator[Sequence[Request], list[Any], None]:
        (names,) = yield [Children(parent, watch=True)]
        if isinstance(names, ZooKeeperError) or not names:
            return
        latest = self._latest[parent]
        self._latest[parent] = max(latest, *map(znodes.sequence_number, names))
        nodes = yield [Get(f"{parent}/{name}") for name in names]
        told = {name: node for name, node in zip(names, nodes, strict=True) if isinstance(node, NodeData)}
        resources: dict[Resource, None] = {}
        for name, node in told.items():
            if znodes.sequence_number(name) > latest:
                try:
                    resources[_announced(parent, node.data)] = None
                except ValueError as error:
                    _logger.error("the announcement %s/%s tells nothing: %s", parent, name, error)
        if resources:
            acls = yield [Get(acl_tree.acl_path(resource)) for resource in resources]
            for resource, node in zip(resources, acls, strict=True):
                if isinstance(node, NodeData) or node is ZooKeeperError.NO_NODE:
                    self._take_up(resource, node)
        due_ms = self._clock.now_ms() - ANNOUNCEMENT_LIFETIME_MS
        old = [name for name, node in told.items() if 0 < node.stat.created_ms < due_ms]
        if old:
            yield [Delete(f"{parent}/{name}") for name in old]

    def _take_up(self, resource: Resource, node: NodeData | ZooKeeperError) -> None:
        try:
            entries = _entries_of(node)
        except ValueError as error:
            _logger.error(
                "%s in ZooKeeper is not an ACL, and only super users may use this resource: %s",
                acl_tree.acl_path(resource),
                error,
            )
            entries = _NOBODY
        self.authorizer.set_entries(resource, entries)


def _ancestors(path: str) -> list[str]:
    """The path and what is above it, from the top."""
    names = path.split("/")[1:]
    return ["/" + "/".join(names[: depth + 1]) for depth in range(len(names))]


def _announced(parent: str, data: bytes) -> Resource:
    if parent == acl_tree.LITERAL_CHANGES:
        return acl_tree.parse_literal_change(data)
    return znodes.read(data, acl_tree.parse_extended_change)


def _entries_of(node: NodeData | ZooKeeperError) -> Entries:
    """The entries in a node, or in none. Raises ValueError for data that is no ACL."""
    return znodes.read(node.data, acl_tree.parse_acl) if isinstance(node, NodeData) and node.data else frozenset()


def _written(changes: Mapping[Resource, AclChange], take_up: Callable[[Resource, Entries], None]) -> _AclSteps:
    """Change the ACLs of resources, each by itself, without overwriting concurrent changes.

    `take_up` is called with each as soon as ZooKeeper has answered, and not when all are written: meanwhile others may
    change one again, and what is read of that must not be taken back.
    """
    outcome: dict[Resource, Entries | Problem] = {}
    waiting = list(changes)
    tried: set[Resource] = set()
    for _ in range(_ATTEMPTS):
        nodes = yield [Get(acl_tree.acl_path(resource)) for resource in waiting]
        writes: dict[Resource, tuple[Multi, Entries]] = {}
        for resource, node in zip(waiting, nodes, strict=True):
            if isinstance(node, ZooKeeperError) and node is not ZooKeeperError.NO_NODE:
                outcome[resource] = _not_written(resource, node.value)
                continue
            try:
                before = _entries_of(node)
            except ValueError as error:
                outcome[resource] = _not_written(resource, f"what is there is no ACL: {error}")
                continue
            after = changes[resource](before)
            if after == before and resource not in tried:
                outcome[resource] = after
                take_up(resource, after)
            else:
                # After a try whose answer was lost nothing may be left to write, but maybe nobody was notified.
                writes[resource] = _write(resource, node, before, after), after
        results = (yield [transaction for transaction, _ in writes.values()]) if writes else []
        waiting = []
        for (resource, (_, after)), result in zip(writes.items(), results, strict=True):
            errors = [each for each in _results_of(result) if isinstance(each, ZooKeeperError)]
            hopeless = [each for each in errors if each in _HOPELESS]
            if not errors:
                outcome[resource] = after
                take_up(resource, after)
            elif hopeless:
                outcome[resource] = _not_written(resource, hopeless[0].value)
            else:
                tried.add(resource)
                waiting.append(resource)
        if not waiting:
            break
    again = partial(_not_written, reason="others changed it all the time; try again")
    return outcome | {resource: again(resource) for resource in waiting}


def _results_of(result: ZooKeeperError | list[Any]) -> list[Any]:
    """The results of the requests of a transaction, which may fail as a whole."""
    return [result] if isinstance(result, ZooKeeperError) else result


def _write(resource: Resource, node: NodeData | ZooKeeperError, before: Entries, after: Entries) -> Multi:
    path = acl_tree.acl_path(resource)
    requests: list[Create | Set | Delete] = []
    if after != before:
        data = znodes.encode(acl_tree.acl_value(after))
        if not isinstance(node, NodeData):
            requests.append(Create(path, data))
        elif after:
            requests.append(Set(path, data, node.stat.version))
        else:
            requests.append(Delete(path, node.stat.version))
    announcement = (
        znodes.encode(acl_tree.extended_change_value(resource))
        if resource.pattern is PatternType.PREFIXED
        else acl_tree.literal_change(resource)
    )
    prefix = f"{acl_tree.change_parent(resource)}/{acl_tree.CHANGE_NAME}"
    return Multi((*requests, Create(prefix, announcement, is_sequential=True)))


def _not_written(resource: Resource, reason: str) -> Problem:
    path = acl_tree.acl_path(resource)
    _logger.error("cannot write %s in ZooKeeper: %s", path, reason)
    return Problem(ErrorCode.unknown_server_error, f"The broker could not write {path} in ZooKeeper: {reason}")
