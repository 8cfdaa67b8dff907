"""What a run tells while it goes: the face, and the plain lines for logs. The live line is `bench.live`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TextIO

from bench.plan import Plan
from bench.results import TrialPlan, TrialSummary
from bench.units import human_duration, human_ns, human_rate
from spark_loadgen import Progress


class Observer:
    """Told of everything as it happens; this one keeps quiet."""

    def __enter__(self) -> Observer:
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def run_started(self, plan: Plan, out: Path, master: str) -> None:
        """Spark is there; trials begin."""

    def trial_started(self, number: int, trial: TrialPlan) -> None:
        """`number` counts from 1 in the order of running."""

    def step(self, text: str) -> None:
        """What is being done now, between loads."""

    def load(self, progress: Progress) -> None:
        """About once a second while load runs."""

    def trial_ended(self, number: int, trial: TrialPlan, summary: TrialSummary | None) -> None:
        """`summary` is None when the trial failed or was interrupted; `trial.error` says why."""


class PlainObserver(Observer):
    """One line per trial, for logs and pipes."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream or sys.stderr
        self._trials = 0

    def run_started(self, plan: Plan, out: Path, master: str) -> None:
        self._trials = len(plan.trials)
        self._say(f"{headline(plan, master)}; results go to {out}")

    def trial_ended(self, number: int, trial: TrialPlan, summary: TrialSummary | None) -> None:
        self._say(f"trial {number}/{self._trials} {trial.cell}: {'; '.join(outcome(trial, summary))}")

    def _say(self, text: str) -> None:
        print(text, file=self._stream, flush=True)


def headline(plan: Plan, master: str) -> str:
    workload = plan.specification.workload
    return (
        f"{workload.name}: {len(plan.specification.cells)} cells × {workload.trials.n} trials on {master}, "
        f"seed {plan.seed}, about {human_duration(plan.duration_s)}"
    )


def outcome(trial: TrialPlan, summary: TrialSummary | None) -> list[str]:
    """One trial's end in one line, and a line for each reason to doubt it."""
    if summary is None:
        return [trial.status, trial.error] if trial.error else [trial.status]
    response = summary.produce.response_ns
    line = (
        f"{summary.verdict.state}, {human_rate(summary.achieved_per_s)}, "
        f"produce p50 {human_ns(response.p50)} p99 {human_ns(response.p99)}"
    )
    return [line, *(reason.text for reason in summary.verdict.reasons)]
