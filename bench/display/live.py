"""The live line of a run on a terminal: trial, phase, rate, remaining time."""

from __future__ import annotations

import time
from pathlib import Path

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.markup import escape
from rich.padding import Padding
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from highwater.bench.results import TrialPlan, TrialSummary
from highwater.bench.trials.plan import RUN_OVERHEAD_S, Plan
from highwater.bench.trials.progress import Observer, Skips, headline, label, outcome, progress_line
from highwater.common.units import wait_text
from highwater.spark_loadgen import Progress

STATE_STYLE = {
    "valid": "green",
    "inconclusive": "yellow",
    "invalid": "red",
    "failed": "red",
    "interrupted": "yellow",
    "skipped": "dim",
}


class LiveObserver(Observer):
    """Two live lines at the bottom, and one line above them for every trial that has ended."""

    def __init__(self, console: Console, plan: Plan) -> None:
        self._console = console
        self._expected_s = [float(duration_s) for duration_s in plan.durations_s]
        self._skips = Skips()
        self._trials = len(plan.trials)
        self._number = 0
        self._cell = ""
        self._step = "starting the load generator"
        self._progress: Progress | None = None
        self._started_s = self._trial_started_s = time.monotonic()
        self._live = Live(get_renderable=self._render, console=console, refresh_per_second=4, transient=True)

    def __enter__(self) -> LiveObserver:
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    def run_started(self, plan: Plan, out: Path, master: str) -> None:
        self._console.print(f"[bold]{escape(headline(plan, master))}[/]", highlight=False)

    def trial_started(self, number: int, trial: TrialPlan) -> None:
        self._number, self._cell, self._progress = number, label(trial), None
        self._step = ""
        if number > len(self._expected_s):  # in a search, whose length is an estimate
            self._expected_s.append(self._expected_s[-1])
            self._trials = number
        self._trial_started_s = time.monotonic()

    def step(self, text: str) -> None:
        self._step, self._progress = text, None

    def load(self, progress: Progress) -> None:
        self._progress = progress

    def trial_ended(self, number: int, trial: TrialPlan, summary: TrialSummary | None) -> None:
        if trial.status == "skipped":
            self._expected_s[number - 1] = 0.0
            if self._skips.told_before(trial):
                return
        elif trial.status == "done" and number == self._number:  # trials that ran at the same time add no time
            took_s = time.monotonic() - self._trial_started_s
            # The overhead of a trial depends on the host: estimate it from the first trials.
            surplus_s = took_s - self._expected_s[number - 1]
            self._expected_s[number:] = [expected_s + surplus_s / 2 for expected_s in self._expected_s[number:]]
        state = summary.verdict.state if summary else trial.status
        head, *reasons = outcome(trial, summary)
        line = Text(f"{number:>{len(str(self._trials))}}/{self._trials} {label(trial)}  ")
        self._console.print(line.append(head, style=STATE_STYLE[state]))
        for reason in reasons:
            self._console.print(Padding(Text(reason, style=STATE_STYLE[state]), (0, 0, 0, 6)))

    def _render(self) -> RenderableType:
        now_s = time.monotonic()
        done_s = sum(self._expected_s[: max(0, self._number - 1)])
        if self._number:
            done_s += min(now_s - self._trial_started_s, self._expected_s[self._number - 1])
        total_s = sum(self._expected_s)
        bar = Table.grid(padding=(0, 2), expand=False)
        left_s = total_s - done_s + (0 if self._number else RUN_OVERHEAD_S)
        bar.add_row(
            ProgressBar(total=total_s, completed=done_s, width=30),
            f"{wait_text(round(now_s - self._started_s))} elapsed, about {wait_text(round(left_s))} left",
        )
        head = f"trial {self._number}/{self._trials}  {self._cell}" if self._number else ""
        return Group(Text(head, style="bold", no_wrap=True), Text(self._state(), no_wrap=True), bar)

    def _state(self) -> str:
        return self._step if self._progress is None else progress_line(self._progress)
