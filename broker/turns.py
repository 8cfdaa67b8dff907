"""Runs each long request on a stack of its own, which gives way to other work after 2 ms.

A request may hold hundreds of thousands of items. Its decoding, its handler and the encoding of its answer are plain
loops, each of which calls `give_way`, or goes over an array that does (`paced`). When a request has had SLICE_NS, its
stack (a greenlet) rests until the event loop has served the others. One slice of one request runs in each turn of the
event loop, so that the others wait for one slice, however many long requests there are.

What runs between two calls of `give_way` is one step: nothing else happens meanwhile. So a loop over the state of the
broker does not give way, and what a loop over a request found in that state before it gave way may be gone after it.
"""

from __future__ import annotations

import dataclasses
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final, TypeVar

from greenlet import getcurrent, greenlet

from highwater.broker.clock import Clock, Scheduler
from highwater.broker.slices import SLICE_NS, RunAside, Work

Item = TypeVar("Item")
Request = TypeVar("Request", bound=Any)
FEW_ITEMS: Final = 64
"""So many items of a request are gone through without giving way."""


class LongRequestError(Exception):
    """A request turns out to be long before anything was done: it has to begin again, on a stack of its own."""


class Turn(greenlet):
    """A stack of one long request."""

    def __init__(self, work: Callable[[], None], owner: object, monotonic_ns: Callable[[], int]) -> None:
        super().__init__(work)
        self.owner = owner
        """Whose stack this is: a request has one for its handler, and one for its answer."""
        self.monotonic_ns = monotonic_ns
        self.ends_ns = 0
        self._used_ns = 0
        self.aside: Work | None = None
        """What a thread has to do before it goes on."""

    def resume(self) -> None:
        """Run the next slice."""
        self.parent = getcurrent()
        began_ns = self.monotonic_ns()
        self.ends_ns = began_ns + SLICE_NS
        self.switch()
        self._used_ns += self.monotonic_ns() - began_ns

    def rest(self) -> None:
        """Go on with what ran before this slice."""
        assert self.parent is not None
        self.parent.switch()

    @property
    def used_ns(self) -> int:
        """The time that its slices took so far, with the one that runs."""
        return self._used_ns + self.monotonic_ns() - (self.ends_ns - SLICE_NS)


def give_way() -> None:
    """Let others have their turn, if this is a long request whose slice is over."""
    turn = getcurrent()
    if isinstance(turn, Turn) and turn.monotonic_ns() >= turn.ends_ns:
        turn.rest()


def used_ns() -> int:
    """Return for how long this request has run, without the time of others."""
    turn = getcurrent()
    assert isinstance(turn, Turn)
    return turn.used_ns


def needs_turns() -> None:
    """Raise LongRequestError unless this request takes turns."""
    if not isinstance(getcurrent(), Turn):
        raise LongRequestError


def aside(work: Callable[[], Item]) -> Item:
    """Do work of native code, in a thread if this is a long request. Returns and raises what the work does."""
    turn = getcurrent()
    if not isinstance(turn, Turn):
        return work()
    done: list[Item] = []
    raised: list[BaseException] = []

    def guarded() -> None:
        try:
            done.append(work())
        except BaseException as error:
            raised.append(error)

    turn.aside = guarded
    turn.rest()
    if raised:
        raise raised[0]
    return done[0]


def paced(items: Iterable[Item]) -> Iterator[Item]:
    """Go over `items`, and give way after each."""
    for item in items:
        yield item
        give_way()


def each(items: Sequence[Item]) -> Iterable[Item]:
    """Go over `items`, and give way after each if they are many: for what is hot."""
    return items if len(items) <= FEW_ITEMS else paced(items)


class Paced(tuple[Item, ...]):
    """An array of a request: each loop over it gives way, on the stacks of that request."""

    owner: object

    def __iter__(self) -> Iterator[Item]:
        turn = getcurrent()
        items = super().__iter__()
        return paced(items) if isinstance(turn, Turn) and turn.owner is self.owner else items


def array(items: Iterable[Item]) -> tuple[Item, ...]:
    """Return the items as an array of this request."""
    found, turn = tuple(items), getcurrent()
    if len(found) <= FEW_ITEMS or not isinstance(turn, Turn):
        return found
    long = Paced(found)
    long.owner = turn.owner
    return long


def again_paced(request: Request) -> Request:
    """Return a request whose own arrays may have lost their pace: a part of it was taken away."""
    changed = {
        field.name: array(value)
        for field in dataclasses.fields(request)
        if type(value := getattr(request, field.name)) is tuple and len(value) > FEW_ITEMS
    }
    return dataclasses.replace(request, **changed) if changed else request


class Turns:
    """The long requests of one event loop."""

    def __init__(self, clock: Clock, scheduler: Scheduler, run_aside: RunAside | None = None) -> None:
        """`run_aside` does in a thread what `aside` is given; without it that is done here."""
        self._monotonic_ns = clock.monotonic_ns
        self._scheduler = scheduler
        self._run_aside = run_aside
        self._waiting: deque[Turn] = deque()
        self._is_scheduled = False

    def run(self, work: Callable[[], None], owner: object) -> None:
        """Run `work`, which raises nothing, to its end: the first slice at once. `owner`: for whose request."""
        self._go_on(Turn(work, owner, self._monotonic_ns))

    def _go_on(self, turn: Turn) -> None:
        while True:
            turn.resume()
            if turn.dead:
                return
            if turn.aside is None:
                self._rest(turn)
                return
            work, turn.aside = turn.aside, None
            if self._run_aside is not None:
                self._run_aside(work, lambda _: self._rest(turn))
                return
            work()

    def _rest(self, turn: Turn) -> None:
        self._waiting.append(turn)
        if not self._is_scheduled:
            self._is_scheduled = True
            self._scheduler.call_soon(self._next)

    def _next(self) -> None:
        self._is_scheduled = False
        if not self._waiting:
            return
        turn = self._waiting.popleft()
        if self._waiting:
            self._is_scheduled = True
            self._scheduler.call_soon(self._next)
        self._go_on(turn)
