"""Consumer groups under requests, losses and changes in any order: no partition ever has two owners.

Clients are modelled by what they know. A client uses a partition from the answer that gives it until it gives it up by
itself, which it tells in a later heartbeat; an answer may be lost, an append may fail, the broker may die in between.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from operator import ge
from random import Random
from typing import Any
from uuid import UUID

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from highwater.broker.group.assignors.assignor import Assignor
from highwater.broker.group.consumer.events import (
    ConsumerSettings,
    Decision,
    HeartbeatAnswer,
    HeartbeatRequest,
    KnownTopic,
)
from highwater.broker.group.consumer.group import ConsumerGroup, ConsumerGroupState
from highwater.broker.group.consumer.heartbeat import heartbeat, refusal
from highwater.broker.group.consumer.leaving import expire, leave
from highwater.broker.group.consumer.regexes import is_due, resolve, resolved
from highwater.broker.group.consumer.schemas import (
    GroupRecord,
    decode_key,
    decode_value,
    encode_key,
    encode_value,
)
from highwater.broker.group.events import Now
from highwater.broker.slices import run
from tests.broker.group.consumer.assigning import anyhow, evenly

SESSION_MS, REBALANCE_MS, INTERVAL_MS = 45_000, 20_000, 1_000
NAMES = ("one", "two", "three")
REGEXES = ("", "", "t.*", "one|two", "nothing")
WHICH = st.integers(0, 7)


class Client:
    """A consumer: what it subscribes to, and what it knows of its place in the group."""

    def __init__(self, member_id: str, instance_id: str | None, topics: frozenset[str]) -> None:
        self.member_id = member_id
        self.instance_id = instance_id
        self.topics = topics
        self.regex = ""
        self.sent: list[HeartbeatRequest] = []
        self.forget()

    def forget(self) -> None:
        self.epoch = 0
        self.used: set[tuple[UUID, int]] = set()
        self.assigned: set[tuple[UUID, int]] | None = None

    def request(self, *, is_full: bool, tells_owned: bool = False) -> HeartbeatRequest:
        request = HeartbeatRequest(self.member_id, self.epoch, self.instance_id, client_id="c", client_host="/h")
        if is_full or not self.epoch:
            request = request._replace(rebalance_timeout_ms=REBALANCE_MS, topics=self.topics, regex=self.regex)
        if is_full or tells_owned or not self.epoch:
            topics = {topic for topic, _ in self.used}
            owned = {topic: frozenset(index for of, index in self.used if of == topic) for topic in topics}
            request = request._replace(owned=owned)
        return request

    def hear(self, answer: HeartbeatAnswer) -> None:
        if answer.error_code:
            self.forget()
            return
        self.epoch = answer.member_epoch
        if answer.assignment is not None:
            self.assigned = {(topic, index) for topic, indexes in answer.assignment.items() for index in indexes}
            self.used |= self.assigned

    def give_up(self) -> None:
        if self.assigned is not None:
            self.used &= self.assigned


TIMERS = ("_session_ends", "_revocation_ends", "_answer_ends")
NOT_STORED = (*TIMERS, "_subscriptions", "is_metadata_stale", "has_new_topics")


def content(group: ConsumerGroup) -> Mapping[str, Any]:
    """What the records made of a group."""
    return {name: value for name, value in vars(group).items() if name not in NOT_STORED}


class AnyHistory(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.now_ms = 1_000_000
        self.max_size = 4
        self.numbers = iter(range(1, 1_000_000))
        self.assign: Assignor = anyhow(Random(1))
        self.topics: dict[str, KnownTopic] = {name: KnownTopic(self.new_id(), 3) for name in NAMES[:2]}
        self.group = ConsumerGroup("g")
        self.clients: list[Client] = []
        self.log: list[tuple[bytes, bytes | None]] = []
        self.in_flight: tuple[Client | None, Decision] | None = None
        self.epochs = (0, 0)

    def new_id(self) -> UUID:
        return UUID(int=next(self.numbers))

    @property
    def now(self) -> Now:
        return Now(self.now_ms, 1_700_000_000_000 + self.now_ms)

    @property
    def limits(self) -> ConsumerSettings:
        return ConsumerSettings(
            SESSION_MS, 5_000, INTERVAL_MS, self.max_size, {"uniform": self.assign, "range": self.assign}
        )

    # The broker

    def decide(self, request: HeartbeatRequest, *, may_assign: bool = True) -> Decision:
        assert refusal("g", request, 1, self.limits.assignors) is None
        for client in self.clients:
            if client.member_id == request.member_id:
                client.sent.append(request)
        if request.member_epoch < 0:
            return leave(self.group, request, self.topics.get)
        return run(heartbeat(self.group, request, self.topics.get, self.limits, self.now, may_assign=may_assign))

    def write(self, records: tuple[GroupRecord, ...]) -> None:
        for key, value in records:
            self.log.append((encode_key(key), None if value is None else encode_value(value)))
        self.group.apply(records, SESSION_MS, self.now_ms)
        epochs = (self.group.epoch, self.group.target_epoch)
        assert all(map(ge, epochs, self.epochs)), "an epoch fell"
        self.epochs = epochs

    def ask(self, client: Client, request: HeartbeatRequest, *, is_lost: bool = False) -> HeartbeatAnswer:
        decision = self.decide(request)
        self.write(decision.records)
        if not is_lost:
            client.hear(decision.answer)
        return decision.answer

    # The clients

    @rule(instance=st.sampled_from([None, None, "i1", "i2"]), topics=st.sets(st.sampled_from(NAMES)))
    def start(self, instance: str | None, topics: set[str]) -> None:
        if len(self.clients) < 6 and (instance is None or all(c.instance_id != instance for c in self.clients)):
            self.clients.append(Client(f"m{next(self.numbers)}", instance, frozenset(topics)))

    @precondition(lambda self: self.clients and self.in_flight is None)
    @rule(which=WHICH, is_full=st.booleans(), tells_owned=st.booleans(), is_lost=st.booleans())
    def beat(self, which: int, is_full: bool, tells_owned: bool, is_lost: bool) -> None:
        client = self.clients[which % len(self.clients)]
        self.ask(client, client.request(is_full=is_full, tells_owned=tells_owned), is_lost=is_lost)

    @precondition(lambda self: self.clients and self.in_flight is None)
    @rule(seed=st.integers(0, 10_000))
    def live(self, seed: int) -> None:
        """Some time of everyday life."""
        random = Random(seed)
        for _ in range(12):
            client = random.choice(self.clients)
            if random.random() < 0.3:
                client.give_up()
            if random.random() < 0.3:
                self.now_ms += INTERVAL_MS
            request = client.request(is_full=random.random() < 0.3, tells_owned=random.random() < 0.5)
            self.ask(client, request, is_lost=random.random() < 0.2)
            self.nobody_shares_a_partition()

    @precondition(lambda self: self.clients and self.in_flight is None)
    @rule(which=WHICH)
    def beat_twice(self, which: int) -> None:
        """An answer is lost, and the client sends the same full request again."""
        client = self.clients[which % len(self.clients)]
        request = client.request(is_full=True)
        first = self.ask(client, request, is_lost=True)
        again = self.decide(request)
        assert again == Decision(first), "the same full heartbeat changes something"
        client.hear(again.answer)

    @precondition(lambda self: self.clients and self.in_flight is None)
    @rule(which=WHICH, age=st.integers(1, 5))
    def hear_late(self, which: int, age: int) -> None:
        """A request with an epoch of the past arrives from a connection that is gone."""
        client = self.clients[which % len(self.clients)]
        late = [request for request in client.sent if 0 < request.member_epoch < client.epoch]
        if late:
            self.write(self.decide(late[-age % len(late)]).records)

    @precondition(lambda self: self.clients)
    @rule(which=WHICH)
    def give_up(self, which: int) -> None:
        self.clients[which % len(self.clients)].give_up()

    @precondition(lambda self: self.clients)
    @rule(which=WHICH, topics=st.sets(st.sampled_from(NAMES)), regex=st.sampled_from(REGEXES))
    def subscribe(self, which: int, topics: set[str], regex: str) -> None:
        client = self.clients[which % len(self.clients)]
        client.topics, client.regex = frozenset(topics), regex

    @precondition(lambda self: self.clients)
    @rule(which=WHICH)
    def die(self, which: int) -> None:
        """The process ends; what it had is its member's until the session is over."""
        client = self.clients.pop(which % len(self.clients))
        if self.in_flight is not None and self.in_flight[0] is client:
            self.in_flight = (None, self.in_flight[1])

    @precondition(lambda self: self.clients and self.in_flight is None)
    @rule(which=WHICH, for_a_while=st.booleans(), comes_back=st.booleans())
    def leave(self, which: int, for_a_while: bool, comes_back: bool) -> None:
        client = self.clients.pop(which % len(self.clients))
        epoch = -2 if for_a_while and client.instance_id is not None else -1
        client.give_up()
        self.write(self.decide(HeartbeatRequest(client.member_id, epoch, client.instance_id)).records)
        if comes_back:
            member_id = client.member_id if for_a_while and which % 2 else f"m{next(self.numbers)}"
            self.clients.append(Client(member_id, client.instance_id, client.topics))

    # One append in flight, while others ask

    @precondition(lambda self: self.clients and self.in_flight is None)
    @rule(which=WHICH, is_full=st.booleans())
    def begin(self, which: int, is_full: bool) -> None:
        client = self.clients[which % len(self.clients)]
        self.in_flight = (client, self.decide(client.request(is_full=is_full, tells_owned=True)))

    @precondition(lambda self: self.in_flight is not None)
    @rule(which=WHICH, is_full=st.booleans())
    def glance(self, which: int, is_full: bool) -> None:
        others = [client for client in self.clients if self.in_flight is None or client is not self.in_flight[0]]
        if others:
            client = others[which % len(others)]
            decision = self.decide(client.request(is_full=is_full), may_assign=False)
            if not decision.records:
                client.hear(decision.answer)

    @precondition(lambda self: self.in_flight is not None)
    @rule(fate=st.sampled_from(["answered", "answered", "lost", "failed"]))
    def end(self, fate: str) -> None:
        assert self.in_flight is not None
        client, decision = self.in_flight
        self.in_flight = None
        if fate != "failed":
            self.write(decision.records)
        if fate == "answered" and client is not None:
            client.hear(decision.answer)

    # The world

    @precondition(lambda self: self.in_flight is None)
    @rule(duration_ms=st.sampled_from([1, INTERVAL_MS, REBALANCE_MS, SESSION_MS - 1]))
    def wait(self, duration_ms: int) -> None:
        self.now_ms += duration_ms
        wake_ms = self.group.wake_ms
        records = expire(self.group, self.topics.get, self.now_ms)
        assert bool(records) == (wake_ms is not None and wake_ms <= self.now_ms)
        self.write(tuple(records))
        assert self.group.wake_ms is None or self.group.wake_ms > self.now_ms

    @rule(name=st.sampled_from(NAMES), count=st.integers(0, 5))
    def change_topic(self, name: str, count: int) -> None:
        """Make a topic, enlarge it, or delete it."""
        topic = self.topics.get(name)
        if topic is None:
            self.topics[name] = KnownTopic(self.new_id(), count)
        elif count <= topic.partition_count:
            del self.topics[name]
        else:
            self.topics[name] = topic._replace(partition_count=count)
        self.group.is_metadata_stale = True

    @precondition(lambda self: self.in_flight is None)
    @rule()
    def resolve_regexes(self) -> None:
        if is_due(self.group, 600_000, self.now):
            result = run(resolve(self.group.regex_counts, self.topics))
            self.write(tuple(resolved(self.group, result, self.topics.get, self.now)))

    @rule(seed=st.integers(0, 100))
    def fail_over(self, seed: int) -> None:
        """The broker dies, with what is in flight; another one reads what compaction left."""
        self.in_flight = None
        assert content(self.replayed(self.log)) == content(self.group)
        kept = list(dict(self.log).items())
        Random(seed).shuffle(kept)
        records = [record for record in self.decoded(kept) if record.value is not None]
        group, complaints = ConsumerGroup.loaded("g", records, SESSION_MS, self.now_ms)
        assert not complaints
        assert content(group) == content(self.group)
        self.group = group

    def decoded(self, log: list[tuple[bytes, bytes | None]]) -> list[GroupRecord]:
        records = []
        for raw_key, raw_value in log:
            key = decode_key(raw_key)
            assert key is not None
            records.append(GroupRecord(key, None if raw_value is None else decode_value(key.kind, raw_value)))
        return records

    def replayed(self, log: list[tuple[bytes, bytes | None]]) -> ConsumerGroup:
        group = ConsumerGroup("g")
        for record in self.decoded(log):
            group.replay(record)
        return group

    # What always holds

    @invariant()
    def nobody_shares_a_partition(self) -> None:
        users = Counter(
            partition for client in self.clients if client.member_id in self.group.members for partition in client.used
        )
        assert all(count == 1 for count in users.values()), users

    @invariant()
    def the_group_agrees_with_its_members(self) -> None:
        group = self.group
        assert set(group.current) == set(group.members) >= set(group.targets)
        held = [
            (topic, index, member_id)
            for member_id, current in group.current.items()
            for of in (current.assigned, current.pending)
            for topic, indexes in of.items()
            for index in indexes
        ]
        owners = [(topic, index, id_) for topic, of in group.owners.items() for index, id_ in of.items()]
        assert sorted(held) == sorted(owners)
        targets = Counter(
            (topic, index) for target in group.targets.values() for topic, of in target.items() for index in of
        )
        assert all(count == 1 for count in targets.values())
        assert group.target_epoch <= group.epoch
        assert all(current.epoch <= group.target_epoch for current in group.current.values())

    def teardown(self) -> None:
        """With everybody alive and nothing lost, the group comes to rest, and shares evenly."""
        self.in_flight = None
        self.assign = evenly
        self.max_size = 20
        for name in NAMES:
            topic = self.topics.setdefault(name, KnownTopic(self.new_id(), 4))
            self.topics[name] = topic._replace(partition_count=topic.partition_count + 1)
        self.group.is_metadata_stale = True
        for client in self.clients:
            client.topics, client.regex = frozenset(NAMES), ""
        for _ in range(12):
            self.now_ms += INTERVAL_MS * 5
            self.write(tuple(expire(self.group, self.topics.get, self.now_ms)))
            for client in self.clients:
                self.ask(client, client.request(is_full=True))
                client.give_up()
                self.nobody_shares_a_partition()
        if self.clients:
            members = {client.member_id for client in self.clients}
            assert set(self.group.members) == members
            assert self.group.state is ConsumerGroupState.STABLE
            sizes = [len(client.used) for client in self.clients]
            assert max(sizes) - min(sizes) <= 1
            assert sum(sizes) == sum(topic.partition_count for topic in self.topics.values())
        self.fail_over(0)


TestAnyHistory = AnyHistory.TestCase
TestAnyHistory.settings = settings(max_examples=100, stateful_step_count=50, deadline=None)
