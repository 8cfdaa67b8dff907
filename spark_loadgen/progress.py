"""Turns what the tasks report once a second into one picture of the running load."""

from __future__ import annotations

import time
from typing import Any

from spark_loadgen.model import LoadPlan, Phase, Progress
from spark_loadgen.windows import SECOND_NS

_NEVER = 1 << 62


class ProgressTracker:
    """Takes the messages of all tasks; `progress()` is the state now."""

    def __init__(self, plan: LoadPlan) -> None:
        self._plan = plan
        self._arrivals = plan.arrivals
        self._started_ns = time.monotonic_ns()
        self._t0_ns: int | None = None
        self._latest_second = dict.fromkeys(range(plan.tasks), -1)
        self._by_second: dict[int, list[dict[str, Any]]] = {}
        self._failed = dict.fromkeys(range(plan.producers), 0)
        self._producers_running = set(range(plan.producers))

    def take(self, task: int, message: dict[str, Any]) -> None:
        match message["kind"]:
            case "t0":
                self._t0_ns = time.monotonic_ns() + int(message["in_ns"])
            case "progress":
                self._latest_second[task] = message["second"]
                self._by_second.setdefault(message["second"], []).append(message)
                if "failed" in message:
                    self._failed[task] = message["failed"]
            case "producer_finished":
                self._producers_running.discard(task)
                self._latest_second[task] = _NEVER

    @property
    def producers_finished(self) -> bool:
        return not self._producers_running

    def elapsed_s(self) -> float:
        """Since T0; negative before it, and while it has not been agreed on."""
        now_ns = time.monotonic_ns()
        return (now_ns - self._t0_ns) / SECOND_NS if self._t0_ns is not None else -1.0

    def progress(self) -> Progress:
        plan = self._plan
        elapsed_s = self.elapsed_s()
        second = min(self._latest_second.values())
        if second == _NEVER:
            second = max(self._by_second, default=-1)
        reports = self._by_second.get(second, [])
        for old in [s for s in self._by_second if s < second]:
            del self._by_second[old]
        return Progress(
            phase=self._phase(elapsed_s),
            elapsed_s=max(0.0, elapsed_s),
            left_s=max(0.0, plan.schedule_s - max(0.0, elapsed_s)),
            offered=self._offered(second) if reports else 0,
            sent=sum(report.get("sent", 0) for report in reports),
            acked=sum(report.get("acked", 0) for report in reports),
            received=sum(report.get("received", 0) for report in reports),
            failed=sum(self._failed.values()),
            generator_cpu_ratio_max=max((report["cpu_ratio"] for report in reports), default=None),
            produce_p99_ns=_largest(report["p99_ns"] for report in reports if "sent" in report),
            e2e_p99_ns=_largest(report["p99_ns"] for report in reports if "received" in report),
        )

    def _offered(self, second: int) -> int:
        if self._arrivals is None:
            return sum(report.get("sent", 0) for report in self._by_second[second])
        return sum(self._arrivals.offered_in_second(second, worker) for worker in range(self._plan.producers))

    def _phase(self, elapsed_s: float) -> Phase:
        if elapsed_s < 0:
            return "start"
        if elapsed_s < self._plan.warmup_max_s:
            return "warmup"
        return "measure" if elapsed_s < self._plan.schedule_s else "drain"


def _largest(values: Any) -> int | None:
    return max((value for value in values if value is not None), default=None)
