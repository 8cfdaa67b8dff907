"""One direction of a connection: what is sent arrives late and in order, and waits while nothing gets through."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from highwater.broker.clock import Scheduler

Delay = Callable[[], int]
"""How many ms the next message is under way."""


class Link:
    def __init__(self, receiver: Scheduler, delay_ms: Delay) -> None:
        """`receiver` is the process at the other end: what arrives while it stands still waits for it."""
        self._receiver = receiver
        self._delay_ms = delay_ms
        self._under_way: deque[Callable[[], None]] = deque()
        self._arrived = 0
        self._generation = 0
        self.is_held = False

    def __len__(self) -> int:
        """How many messages are under way."""
        return len(self._under_way)

    def send(self, deliver: Callable[[], None]) -> None:
        self._under_way.append(deliver)
        generation = self._generation

        def arrive() -> None:
            if generation == self._generation:
                self._arrived += 1
                self._deliver()

        delay_ms = self._delay_ms()
        if delay_ms:
            self._receiver.call_later(delay_ms, arrive)
        else:
            self._receiver.call_soon(arrive)

    def hold(self) -> None:
        self.is_held = True

    def release(self) -> None:
        self.is_held = False
        if self._arrived:
            generation = self._generation
            self._receiver.call_soon(lambda: self._deliver() if generation == self._generation else None)

    def clear(self) -> list[Callable[[], None]]:
        """Nothing of what is under way arrives any more; what that was."""
        lost = list(self._under_way)
        self._under_way.clear()
        self._arrived = 0
        self._generation += 1
        return lost

    def _deliver(self) -> None:
        generation = self._generation
        while self._arrived and not self.is_held and generation == self._generation:
            self._arrived -= 1
            self._under_way.popleft()()
