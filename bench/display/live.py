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

from highwater.bench.trials.plan import RUN_OVERHEAD_S, Plan
from highwater.bench.trials.progress import Observer, Outcomes, Skips, headline, label, progress_line
from highwater.bench.trials.time_left import TimeLeft
from highwater.common.units import wait_text
from highwater.results.models import TrialPlan, TrialSummary
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
        self._time_left = TimeLeft([float(duration_s) for duration_s in plan.durations_s], plan.probes_s)
        self._skips = Skips()
        self._trials = len(plan.trials)
        self._number = 0
        self._cell = ""
        self._outcomes = Outcomes()
        self._step = "starting the load generator"
        self._progress: Progress | None = None
        self._started_s = time.monotonic()
        self._launched_s: float | None = None
        self._live = Live(get_renderable=self._render, console=console, refresh_per_second=4, transient=True)

    def __enter__(self) -> LiveObserver:
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    def run_started(self, plan: Plan, out: Path, master: str) -> None:
        self._launched_s = time.monotonic()
        self._console.print(f"[bold]{escape(headline(plan, master))}[/]", highlight=False)

    def trial_started(self, number: int, trial: TrialPlan) -> None:
        self._number, self._cell, self._progress = number, label(trial), None
        self._step = ""
        self._trials = max(self._trials, number)  # a search may need more than planned
        self._time_left.trial_started(number, self._since_launch_s())

    def step(self, text: str) -> None:
        self._step, self._progress = text, None

    def load(self, progress: Progress) -> None:
        self._progress = progress

    def trial_ended(self, number: int, trial: TrialPlan, summary: TrialSummary | None) -> None:
        if trial.status == "skipped":
            self._time_left.trial_skipped(number)
            if self._skips.told_before(trial):
                return
        elif number == self._number:  # trials that ran at the same time add no time
            self._time_left.trial_ended(number, self._since_launch_s(), whole=trial.status == "done")
        state = summary.verdict.state if summary else trial.status
        head, *reasons = self._outcomes.of(trial, summary)
        line = Text(f"{number:>{len(str(self._trials))}}/{self._trials} {label(trial)}  ")
        self._console.print(line.append(head, style=STATE_STYLE[state]))
        for reason in reasons:
            self._console.print(Padding(Text(reason, style=STATE_STYLE[state]), (0, 0, 0, 6)))

    def _render(self) -> RenderableType:
        elapsed_s = time.monotonic() - self._started_s
        launching_s = max(0.0, RUN_OVERHEAD_S - elapsed_s) if self._launched_s is None else 0.0
        done_s = self._time_left.done_s(self._since_launch_s())
        left_s = self._time_left.left_s(self._since_launch_s()) + launching_s
        bar = Table.grid(padding=(0, 2), expand=False)
        bar.add_row(
            ProgressBar(total=done_s + left_s, completed=done_s, width=30),
            f"{wait_text(round(elapsed_s))} elapsed, about {wait_text(round(left_s))} left",
        )
        head = f"trial {self._number}/{self._trials}  {self._cell}" if self._number else ""
        return Group(Text(head, style="bold", no_wrap=True), Text(self._state(), no_wrap=True), bar)

    def _since_launch_s(self) -> float:
        return 0.0 if self._launched_s is None else time.monotonic() - self._launched_s

    def _state(self) -> str:
        return self._step if self._progress is None else progress_line(self._progress)
