"""A thread beside the event loop that works when the test says so."""

from __future__ import annotations

from collections.abc import Callable

from highwater.broker.slices import Work

Then = Callable[[OSError | None], None]


class ToldThread:
    """`run_aside` is what a broker is given."""

    def __init__(self) -> None:
        self._given: list[tuple[Work, Then]] = []
        self._done: list[tuple[Then, OSError | None]] = []

    def run_aside(self, work: Work, then: Then) -> None:
        self._given.append((work, then))

    @property
    def is_idle(self) -> bool:
        return not (self._given or self._done)

    def work(self) -> None:
        """Do what was given, and tell nobody yet."""
        given, self._given = self._given, []
        for work, then in given:
            try:
                work()
            except OSError as error:
                self._done.append((then, error))
            else:
                self._done.append((then, None))

    def tell(self, *, last_first: bool = False) -> None:
        """Call back for all that is done."""
        done, self._done = self._done, []
        for then, error in reversed(done) if last_first else done:
            then(error)

    def go_on(self) -> None:
        self.work()
        self.tell()
