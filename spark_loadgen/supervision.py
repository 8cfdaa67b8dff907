"""The driver's watch over a running load: progress out, stop in, and an end that comes in any case."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Final, Generic, TypeVar

from spark_loadgen.channel import DriverChannel
from spark_loadgen.model import LoadFailed, LoadPlan, Progress
from spark_loadgen.progress import ProgressTracker
from spark_loadgen.task import LEAD_NS, Outcome
from spark_loadgen.windows import SECOND_NS

_START_TIMEOUT_S: Final = 180
_GRACE_S: Final = 30
_POLL_S: Final = 0.1

T = TypeVar("T")


class Background(Generic[T]):
    """A call in a thread of its own that does not keep the process alive."""

    def __init__(self, function: Callable[[], T]) -> None:
        self.finished = threading.Event()
        self._function = function
        self._value: T
        self._error: Exception | None = None
        threading.Thread(target=self._run, name="background", daemon=True).start()

    def _run(self) -> None:
        try:
            self._value = self._function()
        except Exception as error:
            self._error = error
        finally:
            self.finished.set()

    def result(self) -> T:
        """Of a finished call. Raises what it raised."""
        if self._error is not None:
            raise self._error
        return self._value


class Supervision:
    """Watches the tasks of one load through their channel. `cancel` kills them."""

    def __init__(
        self,
        plan: LoadPlan,
        channel: DriverChannel,
        running: Background[list[Outcome]],
        cancel: Callable[[], None],
        on_progress: Callable[[Progress], None] | None = None,
        should_stop: Callable[[], bool] | None = None,
    ) -> None:
        self._tracker = ProgressTracker(plan)
        self._channel = channel
        self._running = running
        self._cancel = cancel
        self._on_progress = on_progress
        self._should_stop = should_stop
        self._stopping = False
        self._told_consumers = False
        self._next_progress_s = 0.0
        load_s = LEAD_NS / SECOND_NS + plan.schedule_s + 2 * plan.drain_max_s
        self._deadline_s = time.monotonic() + _START_TIMEOUT_S + load_s + _GRACE_S

    def wait(self) -> bool:
        """Returns when the tasks have ended; True when they were told to stop early.

        The first KeyboardInterrupt tells them so; at the second they are cancelled and it is passed on.
        """
        while True:
            try:
                while not self._running.finished.wait(_POLL_S):
                    self._step()
                    if time.monotonic() > self._deadline_s:
                        self._cancel()
                        raise LoadFailed("the load tasks did not come back in time; see Spark's log")
                return self._stopping
            except KeyboardInterrupt:
                if self._stopping:
                    self._cancel()
                    raise
                self._stop()

    def _step(self) -> None:
        for task, message in self._channel.receive():
            self._tracker.take(task, message)
        if self._tracker.producers_finished and not self._told_consumers:
            self._told_consumers = True
            self._channel.broadcast({"kind": "producers_finished"})
        if not self._stopping and self._should_stop is not None and self._should_stop():
            self._stop()
        if self._on_progress is not None and time.monotonic() >= self._next_progress_s:
            self._next_progress_s = time.monotonic() + 1
            self._on_progress(self._tracker.progress())

    def _stop(self) -> None:
        self._stopping = True
        self._channel.broadcast({"kind": "stop"})
