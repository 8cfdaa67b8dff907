"""Lets a long request give way to other work, from within the plain loops that go over its items.

Where a request has a turn (highwater.broker.turns gives it one), these functions ask that turn. Elsewhere, as in a
client or in a task of Spark, nothing gives way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, TypeVar

from highwater.kafka.turn import running

Item = TypeVar("Item")
FEW_ITEMS: Final = 64
"""How many items of a request are processed without giving way."""


class LongRequestError(Exception):
    """A request turns out to be long before anything was done: it has to begin again, in a turn of its own."""


def give_way() -> None:
    """Let others have their turn, if this is a long request whose slice is over."""
    turn = running.turn
    if turn is not None:
        turn.give_way()


def used_ns() -> int:
    """Return for how long this request has run, without the time of others."""
    assert running.turn is not None
    return running.turn.used_ns


def current_owner() -> object:
    """Return whose turn this is, so that other turns can go on with the same arrays."""
    return None if running.turn is None else running.turn.owner


def takes_turns() -> bool:
    """Return whether this is a request that gives way."""
    return running.turn is not None


def needs_turns() -> None:
    """Raise LongRequestError unless this request takes turns."""
    if not takes_turns():
        raise LongRequestError


def aside(work: Callable[[], Item]) -> Item:
    """Do work of native code, in a thread if this is a long request. Returns and raises what the work does."""
    turn = running.turn
    if turn is None:
        return work()
    done: list[Item] = []
    raised: list[BaseException] = []

    def guarded() -> None:
        try:
            done.append(work())
        except BaseException as error:
            raised.append(error)

    turn.do_aside(guarded)
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
