"""The driver's loop over a running load: messages between coordinator and tasks, and deadlines."""

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
from highwater.spark_loadgen.model import LoadPlan, LoadResult, Progress
from highwater.spark_loadgen.payload import read_payload_file
from highwater.spark_loadgen.records import FilePayload
from highwater.spark_loadgen.task import START_TIMEOUT_S, Job, TaskOutcome

_GRACE_S: Final = 30
_POLL_S: Final = 0.1
# Another thread allows the start of a load that waits; the load must not start a tenth of a second later.
_HOLD_POLL_S: Final = 0.005

T = TypeVar("T")


class Background(Generic[T]):
    """A function call in a daemon thread. `woken` is set when the call has finished."""

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
        """The value of the finished call. Raises what the call raised."""
        if self._error is not None:
            raise self._error
        return self._value


def supervise(
    plan: LoadPlan,
    address: tuple[str, str],
    launch: Callable[[Job], list[TaskOutcome]],
    cancel: Callable[[], None],
    slots: int,
    on_progress: Callable[[Progress], None] | None = None,
    should_stop: Callable[[], bool] | None = None,
    may_start: Callable[[], bool] | None = None,
) -> LoadResult:
    """Run one load. `launch` starts the tasks and returns their outcomes; `cancel` kills the tasks.

    address: the address that the driver listens on, and the name under which tasks connect to it.
    may_start: polled when all tasks are ready; the load starts when it returns True.
    Raises LoadSetupError and LoadFailed.
    """
    payload = read_payload_file(plan.payload.path) if isinstance(plan.payload, FilePayload) else plan.payload
    with DriverChannel(*address) as channel:
        job = Job(plan, secrets.randbits(32), payload, channel.address, channel.token)
        running = Background(lambda: launch(job), channel.woken)
        supervisor = Supervisor(plan, channel, running, cancel, on_progress, should_stop, may_start)
        interrupted = supervisor.wait()
        outcomes = running.result()
    coordinator = supervisor.coordinator
    if problems := coordinator.problems:
        others = f" (and {len(problems) - 1} more problems)" if len(problems) > 1 else ""
        raise LoadSetupError(problems[0] + others)
    # Both clocks are read at the end, when the driver stops using them, to convert T0 to wall time.
    t0_unix_ns = time.time_ns() - time.monotonic_ns() + coordinator.report.t0_ns
    outcomes = sorted(outcomes, key=lambda outcome: outcome.number)
    return merge_outcomes(plan, outcomes, coordinator.report, t0_unix_ns, slots, interrupted=interrupted)


class Supervisor:
    """Watches the tasks of one load through their channel. `cancel` kills the tasks."""

    def __init__(
        self,
        plan: LoadPlan,
        channel: DriverChannel,
        running: Background[list[TaskOutcome]],
        cancel: Callable[[], None],
        on_progress: Callable[[Progress], None] | None = None,
        should_stop: Callable[[], bool] | None = None,
        may_start: Callable[[], bool] | None = None,
    ) -> None:
        self.coordinator = Coordinator(plan, clock_name(), hold_start=may_start is not None)
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
        """Wait until the tasks have ended. Returns True when they were stopped early.

        The first KeyboardInterrupt stops the load in order. A second one, or one after `should_stop` has returned True,
        cancels the tasks and is raised to the caller.
        """
        while True:
            try:
                while not self._running.finished.is_set():
                    self._channel.woken.wait(_HOLD_POLL_S if self.coordinator.awaits_start else _POLL_S)
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
            self._send(self.coordinator.receive(task, message, time.monotonic_ns()))
        if self.coordinator.awaits_start and self._may_start is not None and self._may_start():
            self._send(self.coordinator.start(time.monotonic_ns()))
        self._send(self.coordinator.tick(time.monotonic_ns()))
        if not self._stopping and self._should_stop is not None and self._should_stop():
            self._stop()
        if self._on_progress is not None and time.monotonic() >= self._next_progress_s:
            self._next_progress_s = time.monotonic() + 1
            self._on_progress(self.coordinator.tracker.progress())
        self._watch_deadlines()

    def _watch_deadlines(self) -> None:
        now_s, coordinator = time.monotonic(), self.coordinator
        waited_for = coordinator.started or coordinator.awaits_start
        late = not waited_for and not coordinator.problems and now_s > self._start_deadline_s
        if late:
            self._cancel()
            raise LoadFailed(
                f"{coordinator.missing} of {self._plan.tasks} load tasks were not ready within {START_TIMEOUT_S} s; "
                "see the launcher's log"
            )
        if now_s > self._deadline_s:
            self._cancel()
            raise LoadFailed("the load tasks did not end in time; see the launcher's log")

    def _send(self, orders: list[Order]) -> None:
        for task, message in orders:
            if task is None:
                self._channel.broadcast(message)
            else:
                self._channel.send(task, message)

    def _stop(self) -> None:
        self._stopping = True
        self._send(self.coordinator.stop(time.monotonic_ns()))
