"""The driver's watch over a running load: carries the coordinator's orders to the tasks and sees to its end."""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable
from typing import Final, Generic, TypeVar

from highwater.spark_loadgen.channel import DriverChannel, clock_name
from highwater.spark_loadgen.coordination import Coordinator, Order
from highwater.spark_loadgen.errors import LoadFailed, LoadSetupError
from highwater.spark_loadgen.merge import merge_outcomes
from highwater.spark_loadgen.model import FilePayload, LoadPlan, LoadResult, Progress
from highwater.spark_loadgen.payload import read_payload_file
from highwater.spark_loadgen.task import START_TIMEOUT_S, Job, Outcome

_GRACE_S: Final = 30
_POLL_S: Final = 0.1
# What is held back is let go by another thread, and shall not lose the race by a tenth of a second.
_HELD_POLL_S: Final = 0.005

T = TypeVar("T")


class Background(Generic[T]):
    """A call in a thread of its own that does not keep the process alive. `woken` is set when it has finished."""

    def __init__(self, function: Callable[[], T], woken: threading.Event | None = None) -> None:
        self.finished = threading.Event()
        self._function = function
        self._woken = woken
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
            if self._woken is not None:
                self._woken.set()

    def result(self) -> T:
        """Of a finished call. Raises what it raised."""
        if self._error is not None:
            raise self._error
        return self._value


def conduct(
    plan: LoadPlan,
    address: tuple[str, str],
    launch: Callable[[Job], list[Outcome]],
    cancel: Callable[[], None],
    slots: int,
    on_progress: Callable[[Progress], None] | None = None,
    should_stop: Callable[[], bool] | None = None,
    may_start: Callable[[], bool] | None = None,
) -> LoadResult:
    """Run one load on tasks that `launch` starts and waits for, and `cancel` kills.

    address: where the driver listens, and the name tasks know that by. may_start: asked when all tasks are ready, again
    and again until it says yes, which is when the load begins. Raises LoadSetupError and LoadFailed.
    """
    payload = read_payload_file(plan.payload.path) if isinstance(plan.payload, FilePayload) else plan.payload
    with DriverChannel(*address) as channel:
        job = Job(plan, secrets.randbits(32), payload, channel.address, channel.token)
        running = Background(lambda: launch(job), channel.woken)
        supervision = Supervision(plan, channel, running, cancel, on_progress, should_stop, may_start)
        interrupted = supervision.wait()
        outcomes = running.result()
    coordinator = supervision.coordinator
    if problems := coordinator.problems:
        others = f" (and {len(problems) - 1} more problems)" if len(problems) > 1 else ""
        raise LoadSetupError(problems[0] + others)
    # The tasks' end is the driver's last sight of its clocks, so T0 is told in wall time by the same reading.
    t0_unix_ns = time.time_ns() - time.monotonic_ns() + coordinator.course.t0_ns
    outcomes = sorted(outcomes, key=lambda outcome: outcome.number)
    return merge_outcomes(plan, outcomes, coordinator.course, t0_unix_ns, slots, interrupted=interrupted)


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
        may_start: Callable[[], bool] | None = None,
    ) -> None:
        self.coordinator = Coordinator(plan, clock_name(), held=may_start is not None)
        self._plan = plan
        self._channel = channel
        self._running = running
        self._cancel = cancel
        self._on_progress = on_progress
        self._should_stop = should_stop
        self._may_start = may_start
        self._stopping = False
        self._next_progress_s = 0.0
        self._start_deadline_s = time.monotonic() + START_TIMEOUT_S
        self._deadline_s = self._start_deadline_s + plan.schedule_s + 2 * plan.drain_max_s + _GRACE_S

    def wait(self) -> bool:
        """Returns when the tasks have ended; True when they were told to stop early.

        The first KeyboardInterrupt tells them so; at the second, or when the load was asked to stop before, they are
        cancelled and it is passed on.
        """
        while True:
            try:
                while not self._running.finished.is_set():
                    self._channel.woken.wait(_HELD_POLL_S if self.coordinator.is_held else _POLL_S)
                    self._channel.woken.clear()
                    self._step()
                return self._stopping
            except KeyboardInterrupt:
                if self._stopping or (self._should_stop is not None and self._should_stop()):
                    self._cancel()
                    raise
                self._stop()

    def _step(self) -> None:
        for task, message in self._channel.receive():
            self._tell(self.coordinator.take(task, message, time.monotonic_ns()))
        if self.coordinator.is_held and self._may_start is not None and self._may_start():
            self._tell(self.coordinator.start(time.monotonic_ns()))
        self._tell(self.coordinator.turn(time.monotonic_ns()))
        if not self._stopping and self._should_stop is not None and self._should_stop():
            self._stop()
        if self._on_progress is not None and time.monotonic() >= self._next_progress_s:
            self._next_progress_s = time.monotonic() + 1
            self._on_progress(self.coordinator.tracker.progress())
        self._watch_deadlines()

    def _watch_deadlines(self) -> None:
        now_s, coordinator = time.monotonic(), self.coordinator
        waited_for = coordinator.started or coordinator.is_held
        late = not waited_for and not coordinator.problems and now_s > self._start_deadline_s
        if late:
            self._cancel()
            raise LoadFailed(
                f"{coordinator.missing} of {self._plan.tasks} load tasks were not ready within {START_TIMEOUT_S} s; "
                "see the launcher's log"
            )
        if now_s > self._deadline_s:
            self._cancel()
            raise LoadFailed("the load tasks did not come back in time; see the launcher's log")

    def _tell(self, orders: list[Order]) -> None:
        for task, message in orders:
            if task is None:
                self._channel.broadcast(message)
            else:
                self._channel.send(task, message)

    def _stop(self) -> None:
        self._stopping = True
        self._tell(self.coordinator.stop(time.monotonic_ns()))
