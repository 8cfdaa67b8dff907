"""Long work on the event loop, in slices: other clients have their turn in between."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from typing import Final, TypeVar, cast

from highwater.broker.clock import Clock, Scheduler

Result = TypeVar("Result")

SLICE_NS: Final = 2_000_000
"""How long one turn on the event loop may take, to within one step."""


def run(steps: Generator[None, None, Result]) -> Result:
    """Run `steps` to their end at once, and return what the last one returns."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return cast(Result, end.value)


def in_slices(
    steps: Iterator[None], clock: Clock, scheduler: Scheduler, *, goes_on: Callable[[], bool] = lambda: True
) -> None:
    """Run `steps` to their end: the first slice at once, so that short work is done when this returns.

    goes_on: asked before each later slice; where it is False, the rest is left, as the broker has stopped.
    """
    ends_ns = clock.monotonic_ns() + SLICE_NS
    for _ in steps:
        if clock.monotonic_ns() >= ends_ns:
            scheduler.call_soon(lambda: _next_slice(steps, clock, scheduler, goes_on))
            return


def _next_slice(steps: Iterator[None], clock: Clock, scheduler: Scheduler, goes_on: Callable[[], bool]) -> None:
    if goes_on():
        in_slices(steps, clock, scheduler, goes_on=goes_on)
