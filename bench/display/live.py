"""The live line of a run on a terminal: trial, phase, rate, remaining time."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.markup import escape
from rich.padding import Padding
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from highwater.bench.display.following import FollowingObserver
from highwater.bench.trials.plan import Plan
from highwater.bench.trials.progress import Outcomes, Skips, headline, label, progress_line
from highwater.common.units import wait_text
from highwater.results.models import TrialPlan, TrialSummary

STATE_STYLE = {
    "valid": "green",
    "inconclusive": "yellow",
    "invalid": "red",
    "failed": "red",
    "interrupted": "yellow",
    "skipped": "dim",
}


class LiveObserver(FollowingObserver):
    """Two live lines at the bottom, and one line above them for every trial that has ended."""

    def __init__(self, console: Console, plan: Plan) -> None:
        super().__init__(plan)
        self._console = console
        self._skips = Skips()
        self._outcomes = Outcomes()
        self._live = Live(get_renderable=self._render, console=console, refresh_per_second=4, transient=True)

    def __enter__(self) -> LiveObserver:
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    def run_started(self, plan: Plan, out: Path, master: str) -> None:
        super().run_started(plan, out, master)
        self._console.print(f"[bold]{escape(headline(plan, master))}[/]", highlight=False)

    def trial_ended(self, number: int, trial: TrialPlan, summary: TrialSummary | None) -> None:
        super().trial_ended(number, trial, summary)
        if self._skips.told_before(trial):
            return
        state = summary.verdict.state if summary else trial.status
        head, *reasons = self._outcomes.of(trial, summary)
        line = Text(f"{number:>{len(str(self.trials))}}/{self.trials} {label(trial)}  ")
        self._console.print(line.append(head, style=STATE_STYLE[state]))
        for reason in reasons:
            self._console.print(Padding(Text(reason, style=STATE_STYLE[state]), (0, 0, 0, 6)))

    def _render(self) -> RenderableType:
        done_s, left_s = self.done_s, self.left_s
        bar = Table.grid(padding=(0, 2), expand=False)
        bar.add_row(
            ProgressBar(total=done_s + left_s, completed=done_s, width=30),
            f"{wait_text(round(self.elapsed_s))} elapsed, about {wait_text(round(left_s))} left",
        )
        head = "" if self.trial is None else f"trial {self.number}/{self.trials}  {label(self.trial)}"
        return Group(Text(head, style="bold", no_wrap=True), Text(self._state(), no_wrap=True), bar)

    def _state(self) -> str:
        return self.step_text if self.progress is None else progress_line(self.progress)
