"""What a rebalance of a large consumer group (KIP-848) costs its coordinator: CPU of each heartbeat that writes.

    python -m tools.group_rebalance [MEMBERS]

Members join one after the other, each has two partitions of one topic in the end. A tenth more of them join then, and
all send heartbeats until the group is stable: one after the other, and all at once, so that they wait for their turn.
The log takes everything at once, and costs nothing here.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final
from uuid import UUID

import typer
from kio.schema.errors import ErrorCode

from highwater.broker.group.assignors.assignor import Assignment
from highwater.broker.group.assignors.known import ASSIGNORS
from highwater.broker.group.consumer.event_queue import World
from highwater.broker.group.consumer.events import ConsumerSettings, HeartbeatAnswer, HeartbeatRequest, KnownTopic
from highwater.broker.group.consumer.group import ConsumerGroup, ConsumerGroupState
from highwater.broker.group.consumer.membership import ConsumerMembership
from highwater.broker.group.consumer.migration import MigrationPolicy
from highwater.broker.group.counters import GroupCounters
from highwater.broker.group.events import Answer, Effect, Now, Store
from highwater.broker.group.rebalance import GroupSettings
from highwater.broker.slices import run

_MEMBERS: Final = 5000
_INTERVAL_MS: Final = 1000
_TOPIC: Final = UUID("0b2e6e3c-6f3f-4a52-9d5c-3c1f3f6d8a11")


class Rebalanced:
    def __init__(self, members: int) -> None:
        settings = ConsumerSettings(45_000, 5_000, _INTERVAL_MS, 2 * members, ASSIGNORS)
        topic = KnownTopic(_TOPIC, 2 * members)
        world = World(
            lambda _: settings,
            600_000,
            lambda name: topic if name == "t" else None,
            lambda: ("t",),
            lambda: 1,
            lambda _: "t",
            GroupSettings(0, 2 * members, lambda: "new", GroupCounters()),
            MigrationPolicy.BIDIRECTIONAL,
        )
        self.group = ConsumerMembership(ConsumerGroup("g"), world)
        self._stores: list[Store] = []
        self._now_ms = 0
        self._epochs: dict[str, int] = {}
        self._owned: dict[str, Assignment] = {}

    def join(self, names: Sequence[str]) -> None:
        for name in names:
            self._epochs[name] = 0
            fields: Mapping[str, Any] = {"rebalance_timeout_ms": 60_000, "topics": frozenset("t"), "owned": {}}
            self._beat(name, **fields)
            self._append()
        self._now_ms += _INTERVAL_MS + 1

    def settle(self, *, at_once: bool) -> int:
        """Returns how many heartbeats that took."""
        count = 0
        while not count or self.group.group.state is not ConsumerGroupState.STABLE:
            for name in self._epochs:
                self._beat(name, owned=self._owned[name])
                if not at_once:
                    self._append()
                count += 1
            self._append()
        return count

    def _beat(self, name: str, **fields: Any) -> None:
        def answered(answer: HeartbeatAnswer) -> None:
            assert not answer.error_code, answer
            self._epochs[name] = answer.member_epoch
            if answer.assignment is not None:
                self._owned[name] = answer.assignment

        request = HeartbeatRequest(name, self._epochs[name])._replace(**fields)
        self._do(self.group.consumer_heartbeat(request, lambda _: True, answered, self._now))

    @property
    def _now(self) -> Now:
        return Now(self._now_ms, 1_700_000_000_000 + self._now_ms)

    def _append(self) -> None:
        while self._stores:
            self._do(self.group.stored(self._stores.pop(), ErrorCode.none, self._now))

    def _do(self, effects: Sequence[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, Answer):
                effect.deliver()
            elif isinstance(effect, Store):
                self._stores.append(effect)
            else:
                self._do(run(effect.steps))


def main(members: Annotated[int, typer.Argument(min=10)] = _MEMBERS) -> None:
    """Measure what a rebalance of MEMBERS costs the coordinator."""
    rebalanced = Rebalanced(members)
    began = time.process_time()
    rebalanced.join([f"member-{index:032}" for index in range(members)])
    _tell(f"{members} members join", members, began)
    for at_once in (False, True):
        began = time.process_time()
        count = rebalanced.settle(at_once=at_once)
        _tell("all at once" if at_once else "one after the other", count, began)
        rebalanced.join([f"member-{at_once}-{index:032}" for index in range(members // 10)])


def _tell(what: str, count: int, began: float) -> None:
    seconds = time.process_time() - began
    sys.stdout.write(f"{what:22} {count:6} heartbeats {seconds * 1e6 / count:6.0f} µs each\n")


if __name__ == "__main__":
    typer.run(main)
