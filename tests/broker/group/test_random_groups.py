"""Classic groups under requests in any order: nothing breaks, and everybody who waits is answered exactly once."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from kio.schema.errors import ErrorCode

from highwater.broker.group.classic import ClassicGroup
from highwater.broker.group.counters import GroupCounters
from highwater.broker.group.events import (
    Answer,
    Committer,
    Effect,
    JoinAnswer,
    JoinRequest,
    Leaver,
    Now,
    Protocol,
    Store,
    SyncAnswer,
    SyncRequest,
)
from highwater.broker.group.rebalance import GroupSettings, GroupState
from highwater.broker.group.schemas import decode_group, encode_group

INSTANCES = st.none() | st.sampled_from(["i1", "i2"])
PROTOCOLS = st.lists(st.sampled_from(["range", "sticky", "roundrobin"]), max_size=3).map(tuple)
SESSION_MS, REBALANCE_MS = 10_000, 30_000


class AnyOrder(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        numbers = count(1)
        self.now_ms = 0
        self.limits = GroupSettings(3000, 4, lambda: f"m{next(numbers)}", GroupCounters())
        self.group = ClassicGroup("g", self.limits)
        self.waiting: set[int] = set()
        self.known_ids = [""]
        self.stores: list[Store] = []
        self.requests = count()
        self.generation_id = 0

    @property
    def now(self) -> Now:
        return Now(self.now_ms, self.now_ms)

    def ask(self, check: Callable[[Any], None]) -> Callable[[Any], None]:
        request = next(self.requests)
        self.waiting.add(request)

        def answer(value: Any) -> None:
            self.waiting.remove(request)
            check(value)

        return answer

    def joined(self, answer: JoinAnswer) -> None:
        if answer.error_code in (ErrorCode.none, ErrorCode.member_id_required):
            self.known_ids.append(answer.member_id)
        if answer.error_code:
            return
        assert answer.generation_id == self.group.generation_id
        if answer.members:
            assert answer.leader_id == answer.member_id
            told = {member.member_id for member in answer.members}
            assert answer.member_id in told

    def synced(self, answer: SyncAnswer) -> None:
        if not answer.error_code:
            assert self.group.state is GroupState.STABLE

    def apply(self, effects: list[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, Answer):
                effect.deliver()
            else:
                assert isinstance(effect, Store)
                ((_, value),) = effect.records
                assert value is not None
                assert encode_group(decode_group(value)) == value
                self.stores.append(effect)

    @rule(
        which=st.integers(0, 100), instance=INSTANCES, protocols=PROTOCOLS, metadata=st.sampled_from([b"", b"x"]),
        must_know=st.booleans(), may_skip=st.booleans(),
    )  # fmt: skip
    def join(
        self, which: int, instance: str | None, protocols: tuple[str, ...], metadata: bytes, must_know: bool,
        may_skip: bool,
    ) -> None:  # fmt: skip
        member_id = self.known_ids[-1 - which % min(len(self.known_ids), 8)] if which % 3 else ""
        offered = tuple(Protocol(name, metadata) for name in protocols)
        request = JoinRequest(
            member_id, "consumer", offered, SESSION_MS, REBALANCE_MS, instance, "c", "/h", must_know, may_skip
        )
        self.apply(self.group.join(request, self.ask(self.joined), self.now))

    @rule(which=st.integers(0, 100), instance=INSTANCES, is_current=st.booleans())
    def sync(self, which: int, instance: str | None, is_current: bool) -> None:
        member_id = self.known_ids[-1 - which % min(len(self.known_ids), 8)]
        generation_id = self.group.generation_id - (not is_current)
        request = SyncRequest(member_id, generation_id, instance, None, None, {member_id: b"mine"})
        self.apply(self.group.sync(request, self.ask(self.synced), self.now))

    @rule(which=st.integers(0, 100), instance=INSTANCES)
    def beat(self, which: int, instance: str | None) -> None:
        member_id = self.known_ids[-1 - which % min(len(self.known_ids), 8)]
        self.group.heartbeat(member_id, instance, self.group.generation_id, self.now)
        self.group.check_commit(Committer(member_id, instance, self.group.generation_id), (), self.now)

    @rule(which=st.integers(0, 100), instance=INSTANCES)
    def leave(self, which: int, instance: str | None) -> None:
        member_id = self.known_ids[-1 - which % min(len(self.known_ids), 8)]
        self.apply(self.group.leave([Leaver(member_id, instance)], lambda outcomes: None, self.now))

    @rule(which=st.integers(0, 100))
    def everybody_joins_again(self, which: int) -> None:
        for member in self.group.members:
            request = JoinRequest(
                member.member_id, "consumer", member.protocols, SESSION_MS, REBALANCE_MS, member.group_instance_id
            )
            self.apply(self.group.join(request, self.ask(self.joined), self.now))

    @rule(outcome=st.sampled_from([ErrorCode.none, ErrorCode.none, ErrorCode.not_coordinator]))
    def store(self, outcome: ErrorCode) -> None:
        if self.stores:
            self.apply(self.group.stored(self.stores.pop(0), outcome, self.now))

    @rule(duration_ms=st.sampled_from([1, 3000, 9_999, 10_000, 30_000, 300_000]))
    def wait(self, duration_ms: int) -> None:
        until_ms = self.now_ms + duration_ms
        for _ in range(1000):
            wake_ms = self.group.wake_ms
            if wake_ms is None or wake_ms > until_ms:
                break
            self.now_ms = max(self.now_ms, wake_ms)
            self.apply(self.group.tick(self.now))
        else:
            raise AssertionError("the group does not come to rest")
        self.now_ms = until_ms

    @invariant()
    def it_holds_together(self) -> None:
        group = self.group
        members = list(group.members)
        assert group.generation_id >= self.generation_id
        self.generation_id = group.generation_id
        assert group._joining_count == sum(member.join is not None for member in members)
        parked = sum((member.join is not None) + (member.sync is not None) for member in members)
        assert parked == len(self.waiting)
        assert (group.members.leader_id or "nobody") in [member.member_id for member in members] or not members
        for member in members:
            if member.group_instance_id is not None:
                assert group.members.static_id(member.group_instance_id) == member.member_id
        if group.state is GroupState.EMPTY:
            assert not members
        if group.state in (GroupState.COMPLETING_REBALANCE, GroupState.STABLE):
            assert members
            assert all(group.protocol_name in [name for name, _ in member.protocols] for member in members)
        if members or group.pending_members:
            assert group.wake_ms is not None or self.stores

    def teardown(self) -> None:
        self.apply(self.group.die(ErrorCode.not_coordinator))
        assert not self.waiting


TestAnyOrder = AnyOrder.TestCase
TestAnyOrder.settings = settings(max_examples=100, stateful_step_count=40, deadline=None)
