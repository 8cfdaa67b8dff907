"""The driver's state machine of a load: messages from tasks in, messages to tasks out.

    task                                   driver
    hello (host, clock)
                                           role (task number), when all tasks have sent hello
    ready (problem, clock reading)
                                           start (T0 on the task's own clock; None if a task has a problem), when all
                                           tasks are ready and the caller allows the start
    progress, once a second
                                           measure (first measured second), when the load is steady
                                           consume, when the backlog is built or all producers have finished
    producer_finished
                                           producers_finished, when all producers have finished
                                           stop, at any time

Pure: time is an argument, and messages to send are returned.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from highwater.spark_loadgen.assignment import assign_pairs
from highwater.spark_loadgen.errors import LoadSetupError
from highwater.spark_loadgen.model import EndToEndClock, Event, LoadPlan, SteadyReport, SteadyWarmup
from highwater.spark_loadgen.progress import ProgressTracker
from highwater.spark_loadgen.steady import judge_window
from highwater.spark_loadgen.windows import SECOND_NS

# From `start` to T0: time for the message to reach every task and for the task's loop to get ready.
LEAD_NS: Final = 50_000_000
# From the finding that the load is steady to the measured phase: every task must receive `measure` before.
_ANNOUNCED_S: Final = 1

Order = tuple[int | None, Mapping[str, Any]]
"""A message and the task that receives it; None = all tasks."""


@dataclass(frozen=True, slots=True)
class ConsumerStart:
    """When waiting consumers started, and what had been acknowledged by then.

    built: the planned backlog was reached; False = the producers finished before.
    """

    at_s: float
    records: int
    bytes: int
    built: bool


@dataclass(frozen=True, slots=True)
class DriverReport:
    """What only the driver knows about a load. Instants `_s` are seconds since T0."""

    t0_ns: int = 0
    """On the driver's CLOCK_MONOTONIC."""
    e2e_clock: EndToEndClock = "same_host_monotonic"
    clock_error_ns: int = 0
    clock_spread_ns: int = 0
    measure_start_s: int = 0
    steady: SteadyReport | None = None
    consumer_start: ConsumerStart | None = None
    events: list[Event] = field(default_factory=list)


class Coordinator:
    """Call `receive` with every message, and `tick` at least a few times a second."""

    def __init__(self, plan: LoadPlan, driver_clock: str, *, hold_start: bool = False) -> None:
        """driver_clock: clock_name() of the driver. hold_start: tasks that are ready wait for a call of `start`."""
        self._plan = plan
        self._driver_clock = driver_clock
        self._hold_start = hold_start
        self._answered = False
        self._hellos: dict[int, dict[str, Any]] = {}
        self._numbers: dict[int, int] = {}
        self._readies: dict[int, dict[str, Any]] = {}
        self._steady = False
        self._judged_seconds = 0
        self._consuming = plan.start_after_backlog_bytes is None and not plan.start_after_load
        self._finish_sent = False
        self.problems: list[str] = []
        """Problems of the set-up; if there are any, the tasks end without load."""
        self.started = False
        self.tracker = ProgressTracker(plan)
        self.report = DriverReport(measure_start_s=plan.warmup_max_s, steady=_not_yet_steady(plan.warmup))

    @property
    def awaits_start(self) -> bool:
        """All tasks are ready and wait for `start`."""
        return self._hold_start and not self.missing and not self._answered

    @property
    def missing(self) -> int:
        """How many tasks have not reported ready."""
        return self._plan.tasks - len(self._readies)

    def receive(self, task: int, message: dict[str, Any], now_ns: int) -> list[Order]:
        """task: the launcher's number of the sender. now_ns: the driver's CLOCK_MONOTONIC."""
        match message["kind"]:
            case "hello":
                self._hellos[task] = message
                return self._assign_numbers() if len(self._hellos) == self._plan.tasks else []
            case "ready":
                self._readies[task] = message
                return self.start(now_ns) if not self.missing and not self._hold_start else []
            case _:
                self.tracker.receive(self._numbers[task], message)
                return self.tick(now_ns)

    def tick(self, now_ns: int) -> list[Order]:
        """Return the messages that are due because time has passed."""
        if not self.started:
            return []
        elapsed_s = (now_ns - self.report.t0_ns) / SECOND_NS
        return [*self._judge_steady(elapsed_s), *self._start_consumers(elapsed_s), *self._end_producers(elapsed_s)]

    def stop(self, now_ns: int) -> list[Order]:
        """End the load early."""
        self._note((now_ns - self.report.t0_ns) / SECOND_NS if self.started else 0.0, "stop", "stopped early")
        return [(None, {"kind": "stop"})]

    # --- to the start ------------------------------------------------------------------------------------------------

    def _assign_numbers(self) -> list[Order]:
        tasks = sorted(self._hellos)
        hellos = [self._hellos[task] for task in tasks]
        numbers = list(range(len(tasks)))
        if self._plan.pairs:
            try:
                numbers = assign_pairs([hello["clock"] for hello in hellos], [hello["host"] for hello in hellos])
            except LoadSetupError as error:
                self.problems.append(str(error))
        self._numbers = dict(zip(tasks, numbers, strict=True))
        return [(task, {"kind": "role", "number": number}) for task, number in self._numbers.items()]

    def start(self, now_ns: int) -> list[Order]:
        """Send T0, or None when a task has a problem. Call it when all tasks are ready."""
        self._answered = True
        self.problems = list(
            dict.fromkeys([*self.problems, *(r["problem"] for r in self._readies.values() if r["problem"])])
        )
        if self.problems:
            return [(None, {"kind": "start", "t0_ns": None})]
        clocks = {task: str(hello["clock"]) for task, hello in self._hellos.items()}
        readings = _readings(self._driver_clock, clocks, self._readies)
        one_clock = self._plan.pairs or len(readings) == 1
        errors_ns = sorted((error_ns for _, error_ns in readings.values()), reverse=True)
        wall_offsets_ns = [ready["wall_offset_ns"] for ready in self._readies.values()]
        t0_ns = now_ns + LEAD_NS + 4 * errors_ns[0]
        self.report = replace(
            self.report,
            t0_ns=t0_ns,
            e2e_clock="same_host_monotonic" if one_clock else "measured_offset",
            # Two hosts' clocks are each compared with the driver's, so the two errors add up.
            clock_error_ns=0 if one_clock else sum(errors_ns[:2]),
            clock_spread_ns=max(wall_offsets_ns) - min(wall_offsets_ns) if len(readings) > 1 else 0,
        )
        self.tracker.t0_ns = t0_ns
        self.started = True
        return [(task, {"kind": "start", "t0_ns": t0_ns + readings[clock][0]}) for task, clock in clocks.items()]

    # --- while it runs -----------------------------------------------------------------------------------------------

    def _judge_steady(self, elapsed_s: float) -> list[Order]:
        warmup = self._plan.warmup
        if not isinstance(warmup, SteadyWarmup) or self._steady:
            return []
        history = self.tracker.history
        judged, self._judged_seconds = self._judged_seconds, len(history)
        if len(history) < warmup.window_s or len(history) == judged or elapsed_s >= warmup.max_s:
            return []
        window = history[-warmup.window_s :]
        rates: list[list[float]] = [[float(second.acked) for second in window]]
        if self._plan.consumers and self._consuming:
            rates.append([float(second.received) for second in window])
        finding = judge_window(
            rates,
            [second.produce_p50_ns for second in window],
            [second.produce_p99_ns for second in window],
            warmup.slope_ratio,
        )
        start_s = min(warmup.max_s, int(elapsed_s) + 1 + _ANNOUNCED_S) if finding.steady else warmup.max_s
        report = SteadyReport(
            attained=finding.steady,
            at_s=float(start_s),
            slope_ratio=finding.change_ratio,
            scatter_ratio=finding.scatter_ratio,
            window_s=warmup.window_s,
            because=finding.because,
        )
        self.report = replace(self.report, steady=report, measure_start_s=start_s)
        if not finding.steady:
            return []
        self._steady = True
        self.tracker.measure_start_s = start_s
        self._note(elapsed_s, "steady", f"steady after {len(history)} s; measured from second {start_s} on")
        return [(None, {"kind": "measure", "second": start_s})]

    def _start_consumers(self, elapsed_s: float) -> list[Order]:
        if self._consuming:
            return []
        wanted_bytes, acked_bytes = self._plan.start_after_backlog_bytes, self.tracker.acked_bytes
        reached = wanted_bytes is not None and acked_bytes >= wanted_bytes
        if not reached and not self.tracker.producers_finished:
            return []
        self._consuming = True
        consumer_start = ConsumerStart(
            elapsed_s, self.tracker.acked, acked_bytes, built=reached or wanted_bytes is None
        )
        self.report = replace(self.report, consumer_start=consumer_start)
        self._note(elapsed_s, "consumers_start", "the backlog is built" if reached else "all producers have finished")
        return [(None, {"kind": "consume"})]

    def _end_producers(self, elapsed_s: float) -> list[Order]:
        if self._finish_sent or not self.tracker.producers_finished:
            return []
        self._finish_sent = True
        self._note(elapsed_s, "producers_finished", "all producers have finished")
        return [(None, {"kind": "producers_finished"})]

    def _note(self, at_s: float, kind: str, text: str) -> None:
        self.report.events.append(Event(round(at_s, 3), kind, text))


def _not_yet_steady(warmup: int | SteadyWarmup) -> SteadyReport | None:
    if isinstance(warmup, int):
        return None
    return SteadyReport(False, float(warmup.max_s), None, None, warmup.window_s, "no window was complete")


def _readings(
    driver_clock: str, clocks: Mapping[int, str], readies: Mapping[int, dict[str, Any]]
) -> dict[str, tuple[int, int]]:
    """For each clock, its offset from the driver's clock and the error of the offset, from the most exact reading."""
    readings: dict[str, tuple[int, int]] = {}
    for task, clock in clocks.items():
        ready = readies[task]
        reading = (0, 0) if clock == driver_clock else (int(ready["offset_ns"]), int(ready["error_ns"]))
        if clock not in readings or reading[1] < readings[clock][1]:
            readings[clock] = reading
    return readings
