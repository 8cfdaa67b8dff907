"""Long work on the event loop, in slices: other clients have their turn in between."""

from __future__ import annotations

from collections.abc import Callable, Generator
from functools import partial
from typing import Final, TypeVar, cast

from highwater.broker.clock import Clock, Scheduler

Result = TypeVar("Result")
Work = Callable[[], None]
"""What waits for the disk. A step that yields it goes on when it is done; an OSError of it is raised in the step."""
Steps = Generator[Work | None, None, Result]
RunAside = Callable[[Work, Callable[[OSError | None], None]], None]
"""Do some work in a thread; the callback comes on the event loop, later."""

SLICE_NS: Final = 2_000_000
"""How long one turn on the event loop may take, to within one step."""


def run(steps: Steps[Result]) -> Result:
    """Run `steps` to their end at once, with their work, and return what the last one returns."""
    try:
        work = next(steps)
        while True:
            work = next(steps) if work is None else _do(steps, work)
    except StopIteration as end:
        return cast(Result, end.value)


def _do(steps: Steps[Result], work: Work) -> Work | None:
    """Do the work here, and go on to the next step."""
    try:
        work()
    except OSError as error:
        return steps.throw(error)
    return next(steps)


def in_slices(
    steps: Steps[None],
    clock: Clock,
    scheduler: Scheduler,
    *,
    goes_on: Callable[[], bool] = lambda: True,
    run_aside: RunAside | None = None,
) -> None:
    """Run `steps` to their end: the first slice at once, so that short work is done when this returns.

    goes_on: asked before each later slice; where it is False, the rest is left, as the broker has stopped.
    run_aside: does the work that waits for the disk; without it that is done here.
    """
    _Slices(steps, clock, scheduler, goes_on, run_aside).go_on(partial(next, steps))


class _Slices:
    def __init__(
        self,
        steps: Steps[None],
        clock: Clock,
        scheduler: Scheduler,
        goes_on: Callable[[], bool],
        run_aside: RunAside | None,
    ) -> None:
        self._steps = steps
        self._clock = clock
        self._scheduler = scheduler
        self._goes_on = goes_on
        self._run_aside = run_aside

    def go_on(self, step: Callable[[], Work | None]) -> None:
        """Run one slice, which begins with `step`."""
        steps, clock = self._steps, self._clock
        ends_ns = clock.monotonic_ns() + SLICE_NS
        try:
            work = step()
            while True:
                if work is not None:
                    if self._run_aside is not None:
                        self._run_aside(work, self._done)
                        return
                    work = _do(steps, work)
                elif clock.monotonic_ns() >= ends_ns:
                    self._scheduler.call_soon(self._next)
                    return
                else:
                    work = next(steps)
        except StopIteration:
            return

    def _next(self) -> None:
        if self._goes_on():
            self.go_on(partial(next, self._steps))

    def _done(self, error: OSError | None) -> None:
        if self._goes_on():
            self.go_on(partial(next, self._steps) if error is None else partial(self._steps.throw, error))
