"""Users and ACLs of a history: operators change what a visitor may do, and every broker has to go by it soon.

What is promised (docs/access-control.md), and looked for here:

1. A change counts on the broker that made it before this broker says that it is made.
2. On the others it counts within a second, and the time for seven messages, of which ZooKeeper can be reached. Who
   knows of everything decides by it, also on connections that were there before.
3. What a broker goes by was in ZooKeeper once, and is never older than what it went by before.
4. Brokers, and clients whose ACLs nobody changes, are never denied anything.
5. In the end all brokers go by what is in ZooKeeper.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from random import Random
from typing import Any, Final, NamedTuple

from kio.schema.errors import ErrorCode

from highwater.broker.cluster import znodes
from highwater.broker.cluster.peers import PeerFailure, ask
from highwater.broker.security.audit import LOGGER
from highwater.broker.security.authorizer import Authorizer, Entries
from highwater.broker.settings import acl_tree
from highwater.kafka.acl import (
    CLUSTER_NAME,
    WILDCARD,
    Entry,
    Operation,
    PatternType,
    Permission,
    Resource,
    ResourceType,
)
from highwater.kafka.protocol.apis import FETCH, PRODUCE
from highwater.kafka.records.record import Record, encode_batch
from tests.broker.simulation.broker import SimulatedBroker
from tests.broker.simulation.checker import Violation
from tests.broker.simulation.clients import Client
from tests.broker.simulation.cluster import Cluster
from tests.broker.simulation.wire import (
    FETCH_VERSION,
    PRODUCE_VERSION,
    decode_fetched,
    decode_produced,
    encode_fetch,
    encode_produce,
)
from tests.broker.simulation.world import Process
from tests.broker.simulation.zookeeper import Ensemble, SimulatedZooKeeper

_TOPIC: Final = "t"
_CREATE_ACLS: Final = 30
_DELETE_ACLS: Final = 31
_ACLS_VERSION: Final = 3
_TIMEOUT_MS: Final = 4000
_LOOK_EVERY_MS: Final = 10
_SOON_MS: Final = 1000
_MESSAGES: Final = 7
"""From a change to the broker that knows of it: a watch is told, then announcements are listed, read, and the ACLs."""
_SLOW_MS: Final = 500
"""A network that is so slow is a fault."""

VISITOR: Final = "User:visitor"
_CONSTANT: Final[Mapping[Resource, Entries]] = {
    Resource(ResourceType.TOPIC, _TOPIC, PatternType.LITERAL): frozenset(
        Entry(f"User:{user}", WILDCARD, operation, Permission.ALLOW)
        for user, operation in (
            ("producer", Operation.WRITE),
            ("consumer", Operation.READ),
            ("committer", Operation.READ),
        )
    ),
    Resource(ResourceType.GROUP, "g", PatternType.LITERAL): frozenset(
        {Entry("User:committer", WILDCARD, Operation.READ, Permission.ALLOW)}
    ),
}
"""Of clients whose work goes on; nobody changes these entries."""
_OF_BROKERS: Final = frozenset(
    Entry("User:broker", WILDCARD, operation, Permission.ALLOW)
    # The second is for topics that a broker has the controller make.
    for operation in (Operation.CLUSTER_ACTION, Operation.CREATE)
)
_CLUSTER: Final = Resource(ResourceType.CLUSTER, CLUSTER_NAME, PatternType.LITERAL)
_CHANGED: Final = (
    Resource(ResourceType.TOPIC, _TOPIC, PatternType.LITERAL),
    Resource(ResourceType.TOPIC, _TOPIC, PatternType.PREFIXED),
    Resource(ResourceType.TOPIC, WILDCARD, PatternType.LITERAL),
    _CLUSTER,
)
"""Whose ACLs operators change."""


def user_of(host: str) -> str:
    """Who comes from a simulated host: broker2 is of the user broker."""
    return host.rstrip("0123456789")


class _Denials(logging.Handler):
    """Reads the audit log of all brokers."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self.wrong: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        line = json.loads(record.getMessage())
        if line["event"] == "denied" and line["principal"] != VISITOR:
            self.wrong.append(f"{line['principal']} was denied: {record.getMessage()}")


class _Seen(NamedTuple):
    """What a broker goes by: the generation of its authorizer, and how far it is in the story of each resource."""

    generation: int
    versions: dict[Resource, int]


class Visit(NamedTuple):
    """A request of the visitor."""

    broker: SimulatedBroker
    life: Process
    sent_ms: int
    knows_all: bool
    """Whether the broker knew then of all changes."""


class Access:
    def __init__(self, cluster: Cluster, rng: Random) -> None:
        """Before the brokers of the cluster start, which need `properties`."""
        self.cluster = cluster
        self.rng = rng
        self.decisions = 0
        """Answers to the visitor of which it was clear what they had to be."""
        self.changed_ms = 0
        """When an ACL was changed last in ZooKeeper."""
        self._made: dict[Process, dict[Resource, int]] = {}
        """By the life of a broker: which entry of the story of a resource it wrote last."""
        self._story: dict[Resource, list[Entries]] = {resource: [frozenset()] for resource in (*_CONSTANT, *_CHANGED)}
        """Of each resource the ACLs that it had, the oldest first."""
        self._tree = Authorizer()
        """Decides by what is in ZooKeeper now."""
        self._seen: dict[Process, _Seen] = {}
        self._unwell_ms = dict.fromkeys(cluster.brokers, 0)
        """When a broker was last looked at that could not know of changes, or not soon."""
        self._denials = _Denials()
        self.operators: list[Operator] = []
        self._visitor: Visitor | None = None
        cluster.network.user_of = user_of
        _also(cluster.ensemble, "changed", self._znode_changed)
        _also(cluster.world, "after_event", self._after_event)
        constant = dict(_CONSTANT)
        if not self._brokers_are_super:
            constant[_CLUSTER] = _OF_BROKERS
        for resource, entries in constant.items():
            cluster.ensemble.make(acl_tree.acl_path(resource), znodes.encode(acl_tree.acl_value(entries)))
        self._look()

    @staticmethod
    def properties(rng: Random) -> dict[str, str]:
        """Brokers come as a super user, or as one with ACLs."""
        super_users = ["User:operator", *(["User:broker"] if rng.random() < 0.5 else [])]
        return {
            "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
            "super.users": ";".join(super_users),
        }

    @property
    def _brokers_are_super(self) -> bool:
        return "User:broker" in self.cluster.properties["super.users"]

    @contextmanager
    def audited(self) -> Iterator[None]:
        """While a history runs."""
        logger = logging.getLogger(LOGGER)
        before = logger.level, logger.propagate
        logger.setLevel(logging.INFO)
        logger.propagate = False
        logger.addHandler(self._denials)
        try:
            yield
        finally:
            logger.removeHandler(self._denials)
            logger.level, logger.propagate = before

    def start(self) -> None:
        self.operators = [Operator(self, number) for number in range(2)]
        self._visitor = Visitor(self)

    def stop(self) -> None:
        for operator in self.operators:
            operator.is_stopped = True
        if self._visitor is not None:
            self._visitor.only_reads = True

    @property
    def is_settled(self) -> bool:
        """The operators are done, and the visitor has read since the last change had to be known everywhere."""
        if self._visitor is None:
            return True
        is_due = self.cluster.world.now_ms > self.changed_ms + 2 * self.known_within_ms
        are_done = not self._visitor.is_writing and all(not operator.is_busy for operator in self.operators)
        return is_due and are_done and self._visitor.is_judged

    def check(self) -> None:
        """While it goes on."""
        if self._denials.wrong:
            raise Violation(self._denials.wrong[0])

    def check_convergence(self) -> None:
        """All brokers run, and time enough has passed."""
        self.check()
        wanted = dict(self._tree.resources)
        for broker in self.cluster.brokers.values():
            assert broker.node is not None
            assert broker.node.acls is not None
            found = dict(broker.node.acls.authorizer.resources)
            if found != wanted:
                raise Violation(f"{broker.host} goes by other ACLs than ZooKeeper has: {found} and {wanted}")

    # What was promised

    @property
    def known_within_ms(self) -> int:
        network = self.cluster.network
        slowest_ms = max(network.max_delay_ms, network.slow_ms if network.slow_rate else 0)
        return _SOON_MS + _MESSAGES * slowest_ms

    def knows_all(self, broker: SimulatedBroker) -> bool:
        """Whether this broker goes by what ZooKeeper has now."""
        if broker.node is None or broker.node.acls is None:
            return False
        return dict(broker.node.acls.authorizer.resources) == dict(self._tree.resources)

    def made(self, broker: SimulatedBroker, life: Process) -> None:
        """An operator was told by this broker that its changes are made, and it makes no others now."""
        if broker.process is not life or broker.node is None or broker.node.acls is None:
            return
        for resource, version in self._made.get(life, {}).items():
            if broker.node.acls.authorizer.entries(resource) not in self._story[resource][version:]:
                raise Violation(f"{broker.host} says that it has made a change of {resource}, and does not go by it")

    def judge(self, visit: Visit, operation: Operation, is_allowed: bool) -> bool:
        """An answer came to what the visitor sent; whether it is clear what it had to be. Raises Violation."""
        broker = visit.broker
        if broker.process is not visit.life or self.changed_ms >= visit.sent_ms:
            return False
        well_since_ms = max(self._unwell_ms[broker.broker_id], self.changed_ms)
        if not visit.knows_all and visit.sent_ms - well_since_ms <= self.known_within_ms:
            return False
        self.decisions += 1
        wanted = self._tree.allows(VISITOR, "visitor", operation, ResourceType.TOPIC, _TOPIC)
        if is_allowed != wanted:
            done, due = ("served", "denied") if is_allowed else ("denied", "served")
            raise Violation(
                f"{broker.host} {done} {operation.text} of the visitor, sent at {visit.sent_ms} ms, which had to be "
                f"{due}: the ACLs changed last at {self.changed_ms} ms, and it "
                + ("knew all of them" if visit.knows_all else f"could reach ZooKeeper since {well_since_ms} ms")
            )
        return True

    def _look(self) -> None:
        ensemble, network, now_ms = self.cluster.ensemble, self.cluster.network, self.cluster.world.now_ms
        is_slow = network.slow_rate > 0 and network.slow_ms > _SLOW_MS
        for broker in self.cluster.brokers.values():
            zookeeper = broker.zookeeper
            is_well = broker.is_registered and not broker.process.is_paused and ensemble.is_up and not is_slow
            if not is_well or not isinstance(zookeeper, SimulatedZooKeeper) or not zookeeper.is_in_touch:
                self._unwell_ms[broker.broker_id] = now_ms
        self.cluster.world.call_later(_LOOK_EVERY_MS, self._look)

    def _znode_changed(self, path: str, data: bytes | None) -> None:
        resource = acl_tree.parse_acl_path(path)
        if resource is None:
            return
        entries = znodes.read(data, acl_tree.parse_acl) if data else frozenset()
        self._story[resource].append(entries)
        self._tree.set_entries(resource, entries)
        self.changed_ms = self.cluster.world.now_ms
        assert isinstance(self.cluster.ensemble, Ensemble)
        session_id = self.cluster.ensemble.executing
        for broker in self.cluster.brokers.values():
            if session_id and broker.session_id == session_id:
                self._made.setdefault(broker.process, {})[resource] = len(self._story[resource]) - 1
        changed = [each for each in sorted(entries) if each.principal == VISITOR]
        told = ", ".join(f"{each.permission.text} {each.operation.text}" for each in changed)
        self.cluster.tell(f"ACL of {resource.pattern.text} {resource.name} for the visitor: {told or 'none'}")

    def _after_event(self, process: Process) -> None:
        broker = next((each for each in self.cluster.brokers.values() if each.process is process), None)
        if broker is None or broker.node is None or broker.node.acls is None:
            return
        authorizer = broker.node.acls.authorizer
        before = self._seen.get(process)
        if before is not None and before.generation == authorizer.generation:
            return
        versions = dict.fromkeys(self._story, 0) if before is None else before.versions
        for resource, story in self._story.items():
            entries = authorizer.entries(resource)
            version = next((at for at in range(versions[resource], len(story)) if story[at] == entries), None)
            if version is None:
                what = "went back to" if entries in story else "goes by what never was in ZooKeeper,"
                raise Violation(f"{broker.host} {what} {sorted(entries)} for {resource}")
            versions[resource] = version
        self._seen[process] = _Seen(authorizer.generation, versions)


def _also(owner: Any, name: str, callback: Callable[..., None]) -> None:
    """Have `owner` call this too."""
    before = getattr(owner, name)

    def both(*values: Any) -> None:
        before(*values)
        callback(*values)

    setattr(owner, name, both)


class Operator(Client):
    """Allows and denies, each time at another broker; a request may have ACLs of several resources."""

    def __init__(self, access: Access, number: int) -> None:
        super().__init__(access.cluster, f"operator{number}")
        self._access = access
        self.is_busy = False
        self.is_stopped = False
        self.undone: set[Process] = set()
        """Lives of brokers that were asked, and gave no answer or none yet: they may still do it."""
        self._step()

    def _step(self) -> None:
        if self.is_stopped:
            return
        rng = self._access.rng
        running = [broker for broker in self.cluster.brokers.values() if broker.is_running]
        if running and not self.is_busy:
            self._change(rng.choice(running))
        self.process.call_later(rng.choice((50, 300, 1500, 4000)), self._step)

    def _change(self, broker: SimulatedBroker) -> None:
        rng = self._access.rng
        self.is_busy = True
        life = broker.process
        had_answers = life not in self.undone
        self.undone.add(life)
        changes = [_change(rng) for _ in range(rng.choice((1, 1, 2, 3)))]
        is_creation = rng.random() < 0.55
        api = _CREATE_ACLS if is_creation else _DELETE_ACLS
        fields = {"creations": [_creation(*each) for each in changes]} if is_creation else {}
        if not is_creation:
            fields = {"filters": [_filter(*each, any_entry=rng.random() < 0.3) for each in changes]}

        def answered(answer: Any | PeerFailure) -> None:
            self.is_busy = False
            if isinstance(answer, PeerFailure):
                return
            if had_answers:
                self.undone.discard(life)
            results = answer.results if is_creation else answer.filter_results
            codes = {result.error_code for result in results}
            if codes - {ErrorCode.none, ErrorCode.unknown_server_error}:
                raise Violation(f"{self.name} was told {codes}")
            if codes == {ErrorCode.none} and not any(life in operator.undone for operator in self._access.operators):
                self._access.made(broker, life)

        ask(self.connection_to(broker.endpoint), api, _ACLS_VERSION, fields, answered, timeout_ms=_TIMEOUT_MS)


def _change(rng: Random) -> tuple[Resource, Operation, Permission]:
    operation = rng.choice((Operation.WRITE, Operation.WRITE, Operation.READ, Operation.ALL))
    # An ACL of the cluster says nothing of topics, and stands in one node with that of the brokers.
    return rng.choice(_CHANGED), operation, rng.choice((Permission.ALLOW, Permission.ALLOW, Permission.DENY))


def _creation(resource: Resource, operation: Operation, permission: Permission) -> dict[str, Any]:
    is_cluster = resource.type is ResourceType.CLUSTER
    return {
        "resource_type": resource.type,
        "resource_name": resource.name,
        "resource_pattern_type": resource.pattern,
        "principal": VISITOR,
        "host": WILDCARD,
        "operation": Operation.ALTER if is_cluster else operation,
        "permission_type": permission,
    }


def _filter(resource: Resource, operation: Operation, permission: Permission, *, any_entry: bool) -> dict[str, Any]:
    is_any = any_entry or resource.type is ResourceType.CLUSTER
    return {
        "resource_type_filter": resource.type,
        "resource_name_filter": resource.name,
        "pattern_type_filter": resource.pattern,
        "principal_filter": VISITOR,
        "host_filter": None,
        "operation": Operation.ANY if is_any else operation,
        "permission_type": Permission.ANY if is_any else permission,
    }


class Visitor(Client):
    """Writes and reads, by connections that stay: whether it may changes all the time."""

    def __init__(self, access: Access) -> None:
        super().__init__(access.cluster, "visitor")
        self._access = access
        self._number = 0
        self.only_reads = False
        self.is_writing = False
        self.is_judged = False
        """Whether it was clear what the latest answer had to be."""
        self._step()

    def _step(self) -> None:
        key = self._access.rng.choice(self.cluster.keys)
        found = self.cluster.look_up(self.name, key)
        if found is None:
            self._again()
            return
        endpoint, leader_epoch = found
        broker = next(each for each in self.cluster.brokers.values() if each.endpoint == endpoint)
        visit = Visit(broker, broker.process, self.cluster.world.now_ms, self._access.knows_all(broker))
        peer = self.connection_to(endpoint)

        def judge(operation: Operation, error_code: ErrorCode) -> None:
            is_allowed = error_code is not ErrorCode.topic_authorization_failed
            self.is_judged = self._access.judge(visit, operation, is_allowed)
            self._again()

        if self._access.rng.random() < 0.5 and not self.only_reads:
            self.is_writing = True
            value = b"visitor:%d" % self._number
            self._number += 1
            batch = bytes(encode_batch([Record(value, timestamp_ms=self.process.now_ms())]))
            body = encode_produce(key[0], [(key[1], batch)], acks=-1, timeout_ms=_TIMEOUT_MS // 2)

            def produced(answer: memoryview | PeerFailure) -> None:
                self.is_writing = False
                if isinstance(answer, PeerFailure):
                    self._again()
                    return
                ((error_code, offset),) = decode_produced(answer)
                if error_code is ErrorCode.none:
                    self.cluster.checker.acknowledged(key, value, offset)
                judge(Operation.WRITE, error_code)

            peer.send(PRODUCE, PRODUCE_VERSION, [body], produced, timeout_ms=_TIMEOUT_MS)
        else:
            body = encode_fetch(*key, 0, leader_epoch=leader_epoch, max_wait_ms=0, max_bytes=1024, is_committed=False)

            def fetched(answer: memoryview | PeerFailure) -> None:
                if isinstance(answer, PeerFailure):
                    self._again()
                    return
                judge(Operation.READ, decode_fetched(answer).error_code)

            peer.send(FETCH, FETCH_VERSION, [body], fetched, timeout_ms=_TIMEOUT_MS)

    def _again(self) -> None:
        self.process.call_later(self._access.rng.randint(1, 200), self._step)
