"""The purgatory: fetches that wait for more bytes, until a partition or a timer wakes them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kio.schema.errors import ErrorCode

from highwater.broker.clock import Scheduler

Acknowledge = Callable[[ErrorCode], None]
"""Called when what somebody waits for has happened (`ErrorCode.none`), or will not happen (the error)."""
Waiters = dict["FetchWaiter", None]
"""The fetches that wait in one partition, in the order in which they came: a set would wake them in any order."""


class FetchWaiter:
    """Waits until `missing_bytes` more bytes can be read from its partitions, or until its time is up.

    Calls `finish` exactly once, unless it is cancelled. A waiter that has all its bytes finishes after the work at
    hand, so that a burst of appends wakes it once and it reads all of them.
    """

    __slots__ = (
        "_done",
        "_finish",
        "_missing_bytes",
        "_scheduler",
        "_timer",
        "_waits_in",
        "_woken",
        "read_committed",
    )

    def __init__(
        self,
        waits_in: Sequence[Waiters],
        missing_bytes: int,
        max_wait_ms: int,
        scheduler: Scheduler,
        finish: Callable[[], None],
        *,
        read_committed: bool = False,
    ) -> None:
        """`waits_in` has the waiters of its partitions."""
        self.read_committed = read_committed
        """Whether it waits for bytes below the last stable offset, not below the high watermark."""
        self._waits_in = waits_in
        self._missing_bytes = missing_bytes
        self._scheduler = scheduler
        self._finish = finish
        self._woken = False
        self._done = False
        for waiters in waits_in:
            waiters[self] = None
        self._timer = scheduler.call_later(max_wait_ms, self._end)

    def bytes_added(self, byte_count: int) -> None:
        self._missing_bytes -= byte_count
        if self._missing_bytes <= 0:
            self.wake()

    def wake(self) -> None:
        """Finish soon, even if bytes are missing: for a change of a partition that is no append."""
        if not self._woken:
            self._woken = True
            self._scheduler.call_soon(self._end)

    def cancel(self) -> None:
        """Nobody wants the answer any more."""
        if not self._done:
            self._done = True
            self._timer.cancel()
            for waiters in self._waits_in:
                waiters.pop(self, None)

    def _end(self) -> None:
        if not self._done:
            self.cancel()
            self._finish()
