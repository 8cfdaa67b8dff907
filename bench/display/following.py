"""An observer that knows how a run stands: trial, step, load, time left; others derive from it."""

from __future__ import annotations

import time
from pathlib import Path

from highwater.bench.trials.plan import RUN_OVERHEAD_S, Plan
from highwater.bench.trials.progress import Observer
from highwater.bench.trials.time_left import TimeLeft
from highwater.results.models import TrialPlan, TrialSummary
from highwater.spark_loadgen import Progress


class FollowingObserver(Observer):
    """`progress` is None between loads, and `trial` before the first one."""

    def __init__(self, plan: Plan) -> None:
        self.trials = len(plan.trials)
        self.number = 0
        self.trial: TrialPlan | None = None
        self.step_text = "starting the load generator"
        self.progress: Progress | None = None
        self._time_left = TimeLeft([float(duration_s) for duration_s in plan.durations_s], plan.probes_s)
        self._started_s = time.monotonic()
        self._launched_s: float | None = None

    def run_started(self, plan: Plan, out: Path, master: str) -> None:
        self._launched_s = time.monotonic()

    def trial_started(self, number: int, trial: TrialPlan) -> None:
        self.number, self.trial, self.progress = number, trial, None
        self.step_text = ""
        self.trials = max(self.trials, number)  # a search may need more than planned
        self._time_left.trial_started(number, self._since_launch_s())

    def step(self, text: str) -> None:
        self.step_text, self.progress = text, None

    def load(self, progress: Progress) -> None:
        self.progress = progress

    def trial_ended(self, number: int, trial: TrialPlan, summary: TrialSummary | None) -> None:
        if trial.status == "skipped":
            self._time_left.trial_skipped(number)
        elif number == self.number:  # trials that ran at the same time add no time
            self._time_left.trial_ended(number, self._since_launch_s(), whole=trial.status == "done")

    @property
    def elapsed_s(self) -> float:
        return time.monotonic() - self._started_s

    @property
    def done_s(self) -> float:
        """The time that trials have taken."""
        return self._time_left.done_s(self._since_launch_s())

    @property
    def left_s(self) -> float:
        launching_s = max(0.0, RUN_OVERHEAD_S - self.elapsed_s) if self._launched_s is None else 0.0
        return self._time_left.left_s(self._since_launch_s()) + launching_s

    def _since_launch_s(self) -> float:
        return 0.0 if self._launched_s is None else time.monotonic() - self._launched_s
