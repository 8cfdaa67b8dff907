"""Simulated time, and the processes that live in it: one queue of events, one after another, decided by one seed."""

from __future__ import annotations

import heapq
import random
import sys
from collections import deque
from collections.abc import Callable
from typing import Final

from tests.broker.log.simulated_files import Killed

_EPOCH_MS: Final = 1_700_000_000_000
_LOOK_EVERY_MS: Final = 5

Callback = Callable[[], None]


class Event:
    """Something due at a time; also the timer that whoever waits for it holds."""

    __slots__ = ("callback", "process")

    def __init__(self, process: Process | None, callback: Callback) -> None:
        self.process = process
        self.callback: Callback | None = callback

    def cancel(self) -> None:
        self.callback = None


class World:
    """Implements `Scheduler` for what is in no process: the network, disks, ZooKeeper."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.rng = random.Random(seed)
        self.now_ms = 0
        self.events_run = 0
        self.running: Process | None = None
        self.after_event: Callable[[Process], None] = lambda process: None
        """Called after each event of a process."""
        self.history: list[str] = []
        self.is_told_at_once = False
        self._queue: list[tuple[int, int, Event]] = []
        self._sequence = 0

    def tell(self, text: str) -> None:
        line = f"{self.now_ms / 1000:9.3f}  {text}"
        self.history.append(line)
        if self.is_told_at_once:
            sys.stdout.write(line + "\n")

    def call_soon(self, callback: Callback) -> Event:
        return self.add(0, None, callback)

    def call_later(self, delay_ms: int, callback: Callback) -> Event:
        return self.add(delay_ms, None, callback)

    def add(self, delay_ms: int, process: Process | None, callback: Callback) -> Event:
        self._sequence += 1
        event = Event(process, callback)
        heapq.heappush(self._queue, (self.now_ms + int(delay_ms), self._sequence, event))
        return event

    def run(self, duration_ms: int, until: Callable[[], bool] = lambda: False) -> bool:
        """Let time pass, at most so much of it; whether `until` came true, at which is looked every few ms."""
        end_ms = self.now_ms + duration_ms
        look_ms = self.now_ms
        queue = self._queue
        while queue and queue[0][0] <= end_ms:
            if queue[0][0] > look_ms:
                if until():
                    return True
                look_ms = queue[0][0] + _LOOK_EVERY_MS
            time_ms, _, event = heapq.heappop(queue)
            callback = event.callback
            if callback is None:
                continue
            self.now_ms = time_ms
            process = event.process
            if process is None:
                callback()
            else:
                process.run(callback)
        self.now_ms = end_ms
        return until()


class Process:
    """One life of a program: its event loop and its clock. Implements `Scheduler` and `Clock`."""

    def __init__(self, world: World, name: str) -> None:
        self.world = world
        self.name = name
        self.is_dead = False
        self.is_paused = False
        self.skew_ms = 0
        """How far its wall clock is ahead."""
        self.on_killed: Callback = lambda: None
        """Called when it dies at an operation of its disk."""
        self._held: deque[Callback] = deque()

    def call_soon(self, callback: Callback) -> Event:
        return self.world.add(0, self, callback)

    def call_later(self, delay_ms: int, callback: Callback) -> Event:
        return self.world.add(delay_ms, self, callback)

    def now_ms(self) -> int:
        return _EPOCH_MS + self.world.now_ms + self.skew_ms

    def monotonic_ns(self) -> int:
        return self.world.now_ms * 1_000_000

    def run(self, callback: Callback) -> None:
        if self.is_dead:
            return
        if self.is_paused:
            self._held.append(callback)
            return
        world = self.world
        world.events_run += 1
        world.running = self
        try:
            callback()
        except Killed:
            self.on_killed()
            return
        finally:
            world.running = None
        world.after_event(self)

    def pause(self) -> None:
        self.is_paused = True

    def resume(self) -> None:
        """It finds all at once what came and fell due meanwhile."""
        self.is_paused = False
        held, self._held = self._held, deque()
        for callback in held:
            self.world.add(0, self, callback)

    def kill(self) -> None:
        self.is_dead = True
        self._held.clear()
