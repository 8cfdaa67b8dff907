"""Runs each long request on a stack of its own, which gives way to other work after 2 ms.

A request may hold hundreds of thousands of items. Its decoding, its handler and the encoding of its answer are plain
loops, each of which gives way (highwater.kafka.pacing). When a request has had SLICE_NS, its stack (a greenlet) rests
until the event loop has served the others. One slice of one request runs in each turn of the event loop, so that the
others wait for one slice, however many long requests there are.

What runs between two calls of `give_way` is one step: nothing else happens meanwhile. So a loop over the state of the
broker does not give way, and what a loop over a request found in that state before it gave way may be gone after it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from greenlet import getcurrent, greenlet

from highwater.broker.clock import Clock, Scheduler
from highwater.broker.slices import SLICE_NS, RunAside, Work
from highwater.kafka.turn import running


class _Stack(greenlet):
    """A stack of one long request: the turn that its loops give way from."""

    def __init__(self, work: Callable[[], None], owner: object, monotonic_ns: Callable[[], int]) -> None:
        super().__init__(work)
        self.owner = owner
        self._monotonic_ns = monotonic_ns
        self._ends_ns = 0
        self._used_ns = 0
        self.aside: Work | None = None
        """What a thread has to do before it goes on."""

    def resume(self) -> None:
        """Run the next slice."""
        self.parent = getcurrent()
        before, running.turn = running.turn, self
        began_ns = self._monotonic_ns()
        self._ends_ns = began_ns + SLICE_NS
        try:
            self.switch()
        finally:
            running.turn = before
        self._used_ns += self._monotonic_ns() - began_ns

    def give_way(self) -> None:
        if self._monotonic_ns() >= self._ends_ns:
            self._rest()

    def do_aside(self, work: Work) -> None:
        self.aside = work
        self._rest()

    def _rest(self) -> None:
        """Go on with what ran before this slice."""
        assert self.parent is not None
        self.parent.switch()

    @property
    def used_ns(self) -> int:
        return self._used_ns + self._monotonic_ns() - (self._ends_ns - SLICE_NS)


class Turns:
    """The long requests of one event loop."""

    def __init__(self, clock: Clock, scheduler: Scheduler, run_aside: RunAside | None = None) -> None:
        """`run_aside` does in a thread what `aside` is given; without it that is done here."""
        self._monotonic_ns = clock.monotonic_ns
        self._scheduler = scheduler
        self._run_aside = run_aside
        self._waiting: deque[_Stack] = deque()
        self._is_scheduled = False
        self._begun = 0

    @property
    def are_taken(self) -> bool:
        """Whether there is a request that has not come to its end."""
        return self._begun > 0

    def run(self, work: Callable[[], None], owner: object) -> None:
        """Run `work`, which raises nothing, to its end: the first slice at once. `owner`: for whose request."""
        self._begun += 1
        self._go_on(_Stack(work, owner, self._monotonic_ns))

    def _go_on(self, stack: _Stack) -> None:
        while True:
            stack.resume()
            if stack.dead:
                self._begun -= 1
                return
            if stack.aside is None:
                self._rest(stack)
                return
            work, stack.aside = stack.aside, None
            if self._run_aside is not None:
                self._run_aside(work, lambda _: self._rest(stack))
                return
            work()

    def _rest(self, stack: _Stack) -> None:
        self._waiting.append(stack)
        if not self._is_scheduled:
            self._is_scheduled = True
            self._scheduler.call_soon(self._next)

    def _next(self) -> None:
        self._is_scheduled = False
        if not self._waiting:
            return
        stack = self._waiting.popleft()
        if self._waiting:
            self._is_scheduled = True
            self._scheduler.call_soon(self._next)
        self._go_on(stack)
