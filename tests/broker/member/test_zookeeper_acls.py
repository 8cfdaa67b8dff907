"""ACLs in ZooKeeper: what one broker or Kafka's tool writes counts on all, and no change is lost."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, TypeVar

import pytest

from highwater.broker.cluster.zookeeper import Create, Delete, Multi, Request, Set
from highwater.broker.member.zookeeper_acls import ANNOUNCEMENT_LIFETIME_MS, ZooKeeperAcls
from highwater.broker.security.authorizer import Authorizer
from highwater.broker.settings.acl_store import Created, Deleted
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
from highwater.kafka.protocol.problem import Problem
from tests.broker.handlers.harness import ManualScheduler
from tests.broker.manual_clock import ManualClock
from tests.broker.simulation.zookeeper import Ensemble, SimulatedZooKeeper

TOPIC = Resource(ResourceType.TOPIC, "orders")
PREFIX = Resource(ResourceType.GROUP, "app-", PatternType.PREFIXED)
ALICE = Entry("User:alice", "*", Operation.READ, Permission.ALLOW)
BOB = ALICE._replace(principal="User:bob")
TOPIC_PATH, PREFIX_PATH = "/kafka-acl/Topic/orders", "/kafka-acl-extended/prefixed/Group/app-"

T = TypeVar("T")


class Broker:
    """The ACLs of a broker, and the session they live in."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.zookeeper: SimulatedZooKeeper = world.ensemble.client(self)
        world.scheduler.run(1)
        self.acls = ZooKeeperAcls(self.zookeeper, world.clock, Authorizer())
        self.acls.session_began(1)
        world.scheduler.run(1)

    def session_began(self, session_id: int) -> None:
        if hasattr(self, "acls"):
            self.acls.session_began(1)

    def session_ended(self) -> None:
        self.acls.session_ended()

    def connection_changed(self, is_connected: bool) -> None:
        pass

    def watch_fired(self, path: str, event: Any) -> None:
        self.acls.watch_fired(path, event)

    def create(self, *acls: Acl) -> Created:
        return self._answer(lambda then: self.acls.create(acls, then))

    def delete(self, *filters: AclFilter) -> Deleted:
        return self._answer(lambda then: self.acls.delete(filters, then))

    def _answer(self, ask: Callable[[Callable[[T], None]], None]) -> T:
        answers: list[T] = []
        ask(answers.append)
        self._world.scheduler.run(1)
        (answer,) = answers
        return answer

    def known(self, resource: Resource = TOPIC) -> set[Entry]:
        return set(self.acls.authorizer.entries(resource))


class World:
    def __init__(self) -> None:
        self.scheduler = ManualScheduler()
        self.clock = ManualClock()
        self.ensemble = Ensemble(self.scheduler)

    def broker(self) -> Broker:
        return Broker(self)

    def announced(self, parent: str) -> list[bytes | None]:
        return [self.ensemble.data(f"{parent}/{name}") for name in self.ensemble.children(parent)]


@pytest.fixture
def world() -> World:
    return World()


def test_what_one_broker_creates_another_knows(world: World) -> None:
    one, other = world.broker(), world.broker()
    assert one.create(Acl(TOPIC, ALICE), Acl(PREFIX, BOB), Acl(TOPIC, BOB)) == [None, None, None]
    for broker in (one, other, world.broker()):
        assert broker.known() == {ALICE, BOB}
        assert broker.known(PREFIX) == {BOB}
    assert world.ensemble.data(PREFIX_PATH) == (
        b'{"version":1,"acls":[{"principal":"User:bob","permissionType":"Allow","operation":"Read","host":"*"}]}'
    )
    assert world.announced("/kafka-acl-changes") == [b"TOPIC:orders"]
    assert world.announced("/kafka-acl-extended-changes") == [
        b'{"version":1,"resourceType":"GROUP","name":"app-","patternType":"PREFIXED"}'
    ]


def test_the_same_again_writes_nothing(world: World) -> None:
    one = world.broker()
    one.create(Acl(TOPIC, ALICE))
    stat = world.ensemble.stat(TOPIC_PATH)
    assert one.create(Acl(TOPIC, ALICE)) == [None]
    assert one.create() == []
    assert one.delete(AclFilter(ResourceFilter(name="nothing"))) == [[]]
    assert world.ensemble.stat(TOPIC_PATH) == stat
    assert len(world.announced("/kafka-acl-changes")) == 1


def test_the_last_entry_takes_the_znode_along(world: World) -> None:
    one, other = world.broker(), world.broker()
    one.create(Acl(TOPIC, ALICE), Acl(TOPIC, BOB))
    assert other.delete(AclFilter(entry=EntryFilter(principal="User:bob"))) == [[Acl(TOPIC, BOB)]]
    assert one.known() == {ALICE}
    assert other.delete(AclFilter(ResourceFilter(name="orders"))) == [[Acl(TOPIC, ALICE)]]
    assert world.ensemble.data(TOPIC_PATH) is None
    assert one.known() == other.known() == set()
    assert one.create(Acl(TOPIC, BOB)) == [None]
    assert other.known() == {BOB}


def test_what_two_filters_match_is_told_of_the_first(world: World) -> None:
    one = world.broker()
    one.create(Acl(TOPIC, ALICE), Acl(TOPIC, BOB))
    of_bob = AclFilter(entry=EntryFilter(principal="User:bob"))
    assert one.delete(of_bob, AclFilter(), of_bob) == [[Acl(TOPIC, BOB)], [Acl(TOPIC, ALICE)], []]


def test_a_named_resource_is_deleted_even_where_it_is_not_known_yet(world: World) -> None:
    one = world.broker()
    world.ensemble.do(Create(TOPIC_PATH, ACL_OF_BOB))  # its announcement is still to come
    assert one.known() == set()
    assert one.delete(AclFilter(ResourceFilter(ResourceType.TOPIC, "orders", PatternType.ANY))) == [[Acl(TOPIC, BOB)]]
    assert world.ensemble.data(TOPIC_PATH) is None


ACL_OF_BOB = b'{"version":1,"acls":[{"principal":"User:bob","permissionType":"ALLOW","operation":"READ","host":"*"}]}'


def test_what_kafkas_tool_writes_into_zookeeper_counts(world: World) -> None:
    one = world.broker()
    world.ensemble.do(Create(TOPIC_PATH, ACL_OF_BOB))
    world.ensemble.do(Create("/kafka-acl-changes/acl_changes_", b"Topic:orders", is_sequential=True))
    world.scheduler.run(1)
    assert one.known() == {BOB}
    world.ensemble.do(Delete(TOPIC_PATH))
    world.ensemble.do(Create("/kafka-acl-changes/acl_changes_", b"no resource", is_sequential=True))
    world.ensemble.do(Create("/kafka-acl-changes/acl_changes_", b"TOPIC:orders", is_sequential=True))
    world.scheduler.run(1)
    assert one.known() == set()


def test_an_acl_that_cannot_be_understood_lets_nobody_in_and_is_not_overwritten(world: World) -> None:
    one = world.broker()
    world.ensemble.do(Create(TOPIC_PATH, b'{"version":2}'))
    world.ensemble.do(Create("/kafka-acl-changes/acl_changes_", b"TOPIC:orders", is_sequential=True))
    world.scheduler.run(1)
    for broker in (one, world.broker()):
        assert not broker.acls.authorizer.allows("User:alice", "h", Operation.READ, ResourceType.TOPIC, "orders")
    (problem,) = one.create(Acl(TOPIC, ALICE))
    assert problem is not None
    assert TOPIC_PATH in problem.message
    assert world.ensemble.data(TOPIC_PATH) == b'{"version":2}'


def test_brokers_that_change_one_acl_at_once_lose_no_entry(world: World) -> None:
    brokers = [world.broker() for _ in range(3)]
    answers: list[Any] = []
    entries = [ALICE._replace(principal=f"User:u{number}") for number in range(30)]
    for number, entry in enumerate(entries):
        brokers[number % 3].acls.create([Acl(TOPIC, entry)], answers.append)
    world.scheduler.run(10)
    assert answers == [[None]] * 30
    for broker in brokers:
        assert broker.known() == set(entries)


def test_a_change_of_several_acls_does_not_take_back_what_others_wrote_meanwhile(world: World) -> None:
    """One of its ACLs is written at once; the other one has to be tried again and again."""
    one, other = world.broker(), world.broker()
    world.ensemble.make(PREFIX_PATH, b'{"version":1,"acls":[]}')
    execute = world.ensemble.execute
    tries: list[Request] = []

    def disturbed(session: Any, request: Request) -> Any:
        is_of_prefix = isinstance(request, Multi) and any(part.path == PREFIX_PATH for part in request.requests)
        if is_of_prefix and len(tries) < 20:
            tries.append(request)
            world.ensemble.do(Set(PREFIX_PATH, b'{"version":1,"acls":[]}'))
            if len(tries) == 2:
                other.acls.create([Acl(TOPIC, BOB)], lambda _: None)
        return execute(session, request)

    world.ensemble.execute = disturbed  # type: ignore[method-assign]
    assert one.create(Acl(TOPIC, ALICE), Acl(PREFIX, ALICE)) == [None, None]
    assert len(tries) == 20
    assert other.known() == {ALICE, BOB}
    assert one.known() == {ALICE, BOB}
    assert one.known(PREFIX) == {ALICE}


def test_what_was_missed_between_two_sessions_is_read(world: World) -> None:
    one, other = world.broker(), world.broker()
    one.create(Acl(TOPIC, ALICE), Acl(PREFIX, ALICE))
    other.zookeeper.cut()
    world.ensemble.expire(other.zookeeper.session_id)
    one.create(Acl(TOPIC, BOB))
    one.delete(AclFilter(ResourceFilter(name="app-")))
    assert other.known() == {ALICE}
    other.zookeeper.heal()
    world.scheduler.run(60_000)
    assert other.known() == {ALICE, BOB}
    assert other.known(PREFIX) == set()
    one.create(Acl(PREFIX, BOB))
    assert other.known(PREFIX) == {BOB}


def test_without_a_session_a_change_has_a_problem_and_the_known_acls_stay(world: World) -> None:
    one = world.broker()
    one.create(Acl(TOPIC, ALICE))
    one.zookeeper.cut()
    world.ensemble.expire(one.zookeeper.session_id)
    answers: list[Any] = []
    one.acls.create([Acl(TOPIC, BOB)], answers.append)
    one.acls.delete([AclFilter()], answers.append)
    one.zookeeper.heal()
    world.scheduler.run(60_000)
    assert [[type(each) for each in answer] for answer in answers] == [[Problem], [Problem]]
    assert one.known() == {ALICE}


def test_old_announcements_are_deleted(world: World) -> None:
    one = world.broker()
    world.ensemble.clock = world.clock
    one.create(Acl(TOPIC, ALICE))
    world.clock.advance_ms(ANNOUNCEMENT_LIFETIME_MS + 1)
    one.create(Acl(TOPIC, BOB))
    assert world.ensemble.children("/kafka-acl-changes") == ["acl_changes_0000000001"]


@pytest.mark.parametrize("seed", range(30))
def test_any_history_ends_with_the_same_acls_everywhere(world: World, seed: int) -> None:
    """Brokers create and delete, lose connections and sessions, somebody else writes; what is acknowledged is there."""
    dice = random.Random(seed)
    brokers = [world.broker() for _ in range(3)]
    acknowledged: set[Entry] = set()
    for step in range(40):
        broker = dice.choice(brokers)
        entry = ALICE._replace(principal=f"User:u{step}")
        match dice.randrange(6):
            case 0 | 1 | 2:

                def created(problems: list[Problem | None], entry: Entry = entry) -> None:
                    if problems == [None]:
                        acknowledged.add(entry)

                broker.acls.create([Acl(TOPIC, entry)], created)
            case 3:
                broker.zookeeper.lose_connection()
            case 4:
                world.ensemble.expire(broker.zookeeper.session_id)
            case _:
                node, data = world.ensemble.stat(TOPIC_PATH), world.ensemble.data(TOPIC_PATH)
                if node is not None and data is not None:
                    world.ensemble.do(Set(TOPIC_PATH, data))
        world.scheduler.run(dice.choice((0, 1, 5)))
    world.scheduler.run(120_000)
    assert acknowledged <= brokers[0].known()
    assert brokers[0].known() == brokers[1].known() == brokers[2].known() == world.broker().known()
