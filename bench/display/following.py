"""An observer that knows how a run stands: trial, step, load, time left; others derive from it."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from highwater.bench.trials.plan import RUN_OVERHEAD_S, Plan
from highwater.bench.trials.progress import Observer
from highwater.results.models import TrialPlan, TrialSummary
from highwater.spark_loadgen.model import Progress


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


# The plan's own overhead counts as much as half a trial, so that one slow first trial does not decide.
_WEIGHT_OF_THE_PLAN: Final = 0.5
# Analysis and digests, after the last trial.
_END_S: Final = 1.0


@dataclass(slots=True)
class TimeLeft:
    """How long a run still takes: the plan's durations, corrected by what its trials really took.

    Times are in seconds since its launcher was there; trials are counted from 1 in the order of running.

    expected_s: by the plan, of each trial; 0 for a trial that runs beside another. probes_s: by the plan, of all probes
    of the storage, half of them before the first trial and half after the last.
    """

    expected_s: list[float]
    probes_s: float = 0.0
    _surpluses_s: list[float] = field(default_factory=list, init=False)
    _before_s: float | None = field(default=None, init=False)
    _number: int = field(default=0, init=False)
    _started_s: float = field(default=0.0, init=False)
    _running: bool = field(default=False, init=False)
    _took_s: float = field(default=0.0, init=False)

    def trial_started(self, number: int, now_s: float) -> None:
        if self._before_s is None:
            self._before_s = now_s
        # A search may need more trials than planned.
        self.expected_s += [self.expected_s[-1]] * (number - len(self.expected_s))
        self._number, self._started_s, self._running = number, now_s, True

    def trial_ended(self, number: int, now_s: float, *, whole: bool = True) -> None:
        """Record the end of a trial; if it ran as a whole, its time corrects what the others are expected to take."""
        took_s = now_s - self._started_s
        if whole and self.expected_s[number - 1]:
            self._surpluses_s.append(took_s - self.expected_s[number - 1])
        self._running, self._took_s = False, self._took_s + took_s

    def trial_skipped(self, number: int) -> None:
        self.expected_s[number - 1] = 0.0

    def done_s(self, now_s: float) -> float:
        """The time that trials have taken."""
        return self._took_s + (now_s - self._started_s if self._running else 0.0)

    def left_s(self, now_s: float) -> float:
        trials_s = sum(map(self._expected_s, range(self._number + 1, len(self.expected_s) + 1)))
        if self._before_s is None:
            return max(0.0, self.probes_s / 2 - now_s) + trials_s + self.probes_s / 2 + _END_S
        running_s = max(0.0, self._expected_s(self._number) - (now_s - self._started_s)) if self._running else 0.0
        # The probes after the trials take as long as those before them took.
        return running_s + trials_s + (self._before_s if self.probes_s else 0.0) + _END_S

    def _expected_s(self, number: int) -> float:
        by_plan_s = self.expected_s[number - 1]
        return max(0.0, by_plan_s + _correction_s(self._surpluses_s)) if by_plan_s else 0.0


def _correction_s(surpluses_s: Sequence[float]) -> float:
    """What to add to the plan's duration of a trial, from what earlier trials took over theirs."""
    return sum(surpluses_s) / (len(surpluses_s) + _WEIGHT_OF_THE_PLAN)
