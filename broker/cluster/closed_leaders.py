"""Remembers leaders that have just closed their connections, until it is known if they are gone.

A client whose leader died asks another broker at once who leads now, and the controller needs some tens of ms to elect
a leader. A client whose answer names the dead one asks again after a second or two (librdkafka). So Metadata waits a
moment for the election. That a leader closed a connection is no proof of its death: nothing is concluded from it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

from highwater.broker.clock import Scheduler, Timer

SETTLED_WITHIN_MS: Final = 500
"""An election takes 30 to 50 ms on an idle host. Other answers on the client's connection wait as long."""


class ClosedLeaders:
    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._closed: dict[int, Timer] = {}
        """When each broker counts as a leader again, by its id."""
        self._when_settled: list[Callable[[], None]] = []

    def __bool__(self) -> bool:
        return bool(self._closed)

    def __contains__(self, broker_id: int) -> bool:
        return broker_id in self._closed

    def closed(self, broker_id: int) -> None:
        """Note that a connection broke on which the leader had answered."""
        if broker_id not in self._closed:
            settle = partial(self.settled, broker_id)
            self._closed[broker_id] = self._scheduler.call_later(SETTLED_WITHIN_MS, settle)

    def settled(self, broker_id: int) -> None:
        """Note that the leader answers again, or that too much time has passed to wait for an election."""
        timer = self._closed.pop(broker_id, None)
        if timer is None:
            return
        timer.cancel()
        for tell in tuple(self._when_settled):
            tell()

    def when_settled(self, tell: Callable[[], None]) -> Callable[[], None]:
        """Call `tell` when a leader is settled. Returns a function that ends these calls."""
        self._when_settled.append(tell)
        return partial(self._when_settled.remove, tell)

    def close(self) -> None:
        for timer in self._closed.values():
            timer.cancel()
        self._closed.clear()
