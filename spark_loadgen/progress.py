"""The progress of a running load, summed up from the reports that tasks send once a second."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from typing import Any, Final

from highwater.spark_loadgen.model import LoadPlan, Phase, Progress, Second
from highwater.spark_loadgen.windows import SECOND_NS

_NEVER: Final = 1 << 62


class ProgressTracker:
    """Receives the messages of all tasks; `progress()` is the state now, `history` has every whole second since T0."""

    def __init__(self, plan: LoadPlan) -> None:
        self._plan = plan
        self._arrivals = plan.arrivals
        self._latest_second = dict.fromkeys(range(plan.tasks), -1)
        self._by_second: dict[int, list[dict[str, Any]]] = {}
        self._totals: dict[int, dict[str, int]] = {}
        # As of the latest whole second: counts of different moments would show a lag that there is not.
        self._totals_then: dict[int, dict[str, int]] = {}
        self._producers_running = set(range(plan.producers))
        self.history: list[Second] = []
        self.t0_ns: int | None = None
        """On this host's CLOCK_MONOTONIC."""
        self.measure_start_s = plan.warmup_max_s

    def receive(self, task: int, message: dict[str, Any]) -> None:
        """task: producers are numbered from 0, consumers after them."""
        match message["kind"]:
            case "progress":
                self._latest_second[task] = message["second"]
                self._by_second.setdefault(message["second"], []).append({**message, "task": task})
                self._totals[task] = message["totals"]
            case "producer_finished":
                self._producers_running.discard(task)
                self._latest_second[task] = _NEVER
                self._totals[task] = self._totals_then[task] = message["totals"]
        complete = min(self._latest_second.values())
        if complete == _NEVER:
            complete = max(self._by_second, default=-1)
        while len(self.history) <= complete:
            reports = self._by_second.pop(len(self.history), [])
            self._totals_then |= {report["task"]: report["totals"] for report in reports}
            self.history.append(_second(reports))

    @property
    def producers_finished(self) -> bool:
        return not self._producers_running

    @property
    def acked(self) -> int:
        """Records since T0, as last reported."""
        return _total(self._totals, "acked")

    @property
    def acked_bytes(self) -> int:
        return _total(self._totals, "acked_bytes")

    def elapsed_s(self) -> float:
        """Seconds since T0; negative before T0 and while T0 is not set."""
        return (time.monotonic_ns() - self.t0_ns) / SECOND_NS if self.t0_ns is not None else -1.0

    def progress(self) -> Progress:
        elapsed_s = self.elapsed_s()
        end_s = self.measure_start_s + self._plan.measure_s
        latest = self.history[-1] if self.history else _second([])
        acked, failed = self.acked, _total(self._totals, "failed")
        acked_then = _total(self._totals_then, "acked") - _total(self._totals_then, "aborted")
        return Progress(
            phase=self._phase(elapsed_s, end_s),
            elapsed_s=max(0.0, elapsed_s),
            left_s=max(0.0, end_s - max(0.0, elapsed_s)),
            offered=self._offered(len(self.history) - 1, latest),
            sent=latest.sent,
            acked=latest.acked,
            received=latest.received,
            failed=failed,
            generator_cpu_ratio_max=latest.cpu_ratio_max,
            produce_p50_ns=latest.produce_p50_ns,
            produce_p99_ns=latest.produce_p99_ns,
            e2e_p99_ns=latest.e2e_p99_ns,
            lag=max(0, self._plan.groups * acked_then - _total(self._totals_then, "received")),
            outstanding=max(0, _total(self._totals, "sent") - acked - failed),
            measured=self.history[self.measure_start_s : end_s],
            t0_ns=self.t0_ns,
            measure_start_s=self.measure_start_s,
            acked_bytes=latest.acked_bytes,
        )

    def _offered(self, second: int, latest: Second) -> int:
        if self._arrivals is None or second < 0:
            return latest.sent
        if second >= self.measure_start_s + self._plan.measure_s:
            return 0
        return sum(self._arrivals.offered_in_second(second, worker) for worker in range(self._plan.producers))

    def _phase(self, elapsed_s: float, end_s: int) -> Phase:
        if elapsed_s < 0:
            return "start"
        if elapsed_s < self.measure_start_s:
            return "warmup"
        return "measure" if elapsed_s < end_s else "drain"


def _total(totals_of_tasks: Mapping[int, Mapping[str, int]], name: str) -> int:
    return sum(totals.get(name, 0) for totals in totals_of_tasks.values())


def _second(reports: list[dict[str, Any]]) -> Second:
    produced = [report for report in reports if "sent" in report]
    consumed = [report for report in reports if "received" in report]
    return Second(
        sent=sum(report["sent"] for report in produced),
        acked=sum(report["acked"] for report in produced),
        acked_bytes=sum(report["acked_bytes"] for report in produced),
        received=sum(report["received"] for report in consumed),
        cpu_ratio_max=max((report["cpu_ratio"] for report in reports), default=None),
        produce_p50_ns=_largest(report["p50_ns"] for report in produced),
        produce_p99_ns=_largest(report["p99_ns"] for report in produced),
        e2e_p99_ns=_largest(report["p99_ns"] for report in consumed),
        timed=sum(report["timed"] for report in produced),
        service_sum_ns=sum(report["service_sum_ns"] for report in produced),
        service_max_ns=max((report["service_max_ns"] for report in produced), default=0),
    )


def _largest(values: Iterable[int | None]) -> int | None:
    return max((value for value in values if value is not None), default=None)
