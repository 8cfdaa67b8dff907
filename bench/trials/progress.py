"""What a run reports while it goes: the interface for observers, and the plain lines for logs."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, TextIO

from highwater.bench.telemetry.publishing import Sampled
from highwater.bench.trials.plan import Plan
from highwater.common.units import count_text, duration_ns_text, percent_text, plural, rate_text, wait_text
from highwater.results.metrics import metric, value_text
from highwater.results.models import SloResult, TrialPlan, TrialSummary
from highwater.spark_loadgen.model import Progress

# On a terminal the line changes every second; a log would be flooded.
PLAIN_EVERY_S: Final = 10.0
# A reason gives the finding, then what it means and what to do: `the CPUs were 97 % busy (limit 95 %): …; stop …`.
_FINDING: Final = re.compile(r".+?(?=;|(?<=\)):)|.+")


class Observer:
    """Hears of everything as it happens; this class prints nothing."""

    @property
    def process_ids(self) -> tuple[int, ...]:
        """Processes that it has on this host. They are no part of the load, and the run records what they used."""
        return ()

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

    def hosts_sampled(self, hosts: Mapping[str, Sampled]) -> None:
        """A load begins, and these hosts are sampled until its end."""

    def load(self, progress: Progress) -> None:
        """About once a second while load runs."""

    def trial_ended(self, number: int, trial: TrialPlan, summary: TrialSummary | None) -> None:
        """`summary` is None when the trial failed or was interrupted; `trial.error` says why."""


class PlainObserver(Observer):
    """One line per trial, and one every few seconds while load runs; for logs and pipes."""

    def __init__(self, stream: TextIO | None = None, now_s: Callable[[], float] = time.monotonic) -> None:
        self._stream = stream or sys.stderr
        self._now_s = now_s
        self._trials = 0
        self._number = 0
        self._told_s = 0.0
        self._skips = Skips()
        self._outcomes = Outcomes()

    def run_started(self, plan: Plan, out: Path, master: str) -> None:
        self._trials = len(plan.trials)
        self._say(f"{headline(plan, master)}; results go to {out}")

    def trial_started(self, number: int, trial: TrialPlan) -> None:
        self._number, self._told_s = number, self._now_s()

    def load(self, progress: Progress) -> None:
        if self._now_s() - self._told_s >= PLAIN_EVERY_S:
            self._told_s = self._now_s()
            self._say(f"trial {self._number}/{self._trials} {progress_line(progress)}")

    def trial_ended(self, number: int, trial: TrialPlan, summary: TrialSummary | None) -> None:
        if self._skips.told_before(trial):
            return
        self._say(f"trial {number}/{self._trials} {label(trial)}: {'; '.join(self._outcomes.of(trial, summary))}")

    def _say(self, text: str) -> None:
        # A reader that has gone (`2>&1 | head`) is no reason to end a run, and no failure of the system.
        with suppress(BrokenPipeError):
            print(text, file=self._stream, flush=True)


class Skips:
    """A cell that is decided early has many trials left, and one line is enough for them."""

    def __init__(self) -> None:
        self._told: set[tuple[str, str | None]] = set()

    def told_before(self, trial: TrialPlan) -> bool:
        """Whether a trial of the same cell was skipped for the same reason before."""
        if trial.status != "skipped":
            return False
        told = (label(trial), trial.error) in self._told
        self._told.add((label(trial), trial.error))
        return told


class Outcomes:
    """The lines of trials that ended. Each reason is explained once in a run; later trials show the finding alone."""

    def __init__(self) -> None:
        self._explained: set[str] = set()

    def of(self, trial: TrialPlan, summary: TrialSummary | None) -> list[str]:
        """One trial's end in one line, and a line for each reason to doubt it."""
        reasons = summary.verdict.reasons if summary else []
        texts = [_finding(r.text) if r.check in self._explained else r.text for r in reasons]
        self._explained.update(reason.check for reason in reasons)
        return _outcome(trial, summary, texts)


def label(trial: TrialPlan) -> str:
    """The cell; of an A/A twin that it is one."""
    return f"{trial.cell} (A/A)" if trial.role == "a_a" else trial.cell


def progress_line(progress: Progress) -> str:
    """How a running load stands, in one line."""
    if progress.phase == "start":
        return "load tasks agree on a start"
    parts = [f"{progress.phase} {progress.elapsed_s:.0f}/{progress.elapsed_s + progress.left_s:.0f} s"]
    if progress.phase in ("warmup", "measure"):
        parts.append(f"{count_text(progress.acked)} of {rate_text(progress.offered)}")
    else:
        parts.append(f"{rate_text(progress.received)} received")
    if progress.produce_p50_ns is not None and progress.produce_p99_ns is not None:
        parts.append(f"p50 {duration_ns_text(progress.produce_p50_ns)} p99 {duration_ns_text(progress.produce_p99_ns)}")
    parts.append(f"lag {count_text(progress.lag)}")
    parts.append(f"{count_text(progress.outstanding)} outstanding")
    if progress.generator_cpu_ratio_max is not None:
        parts.append(f"generator {percent_text(progress.generator_cpu_ratio_max)} of a core")
    if progress.failed:
        parts.append(f"{progress.failed} failed")
    return " · ".join(parts)


def headline(plan: Plan, master: str) -> str:
    workload = plan.specification.workload
    cells, measured = len(plan.specification.cells), sum(trial.plan.role == "measure" for trial in plan.trials)
    size = f"{plural(cells, 'cell')} × {plural(workload.trials.n, 'trial')}"
    if measured != cells * workload.trials.n:  # a search runs as many trials as it needs
        size = f"about {plural(measured, 'trial')}"
    return f"{workload.name}: {size} on {master}, seed {plan.seed}, about {wait_text(plan.duration_s)}"


def _outcome(trial: TrialPlan, summary: TrialSummary | None, reasons: Sequence[str]) -> list[str]:
    """One trial's end in one line, and a line for each of `reasons` to doubt it and for each missed objective."""
    if summary is None:
        return [trial.status, trial.error] if trial.error else [trial.status]
    response = summary.produce.response_ns
    parts = [summary.verdict.state, rate_text(summary.achieved_per_s)]
    if summary.driver in ("rdkafka_performance", "wire_load") and summary.generator.consumers:
        parts.append(f"read at {rate_text(summary.consumed_per_s)}")
    if response.count or summary.driver in ("client", "wire"):
        parts.append(f"produce p50 {duration_ns_text(response.p50)} p99 {duration_ns_text(response.p99)}")
    line = ", ".join(parts)
    missed = [f"objective missed: {slo_text(result)}" for result in summary.slo if not result.met]
    return [line, *reasons, *missed]


def _finding(reason: str) -> str:
    found = _FINDING.match(reason)
    return found[0] if found else reason


def slo_text(result: SloResult) -> str:
    """`e2e.p99 was 31 ms, <20ms is asked for`."""
    value = "not measured" if result.value is None else value_text(result.value, metric(result.metric).unit)
    return f"{result.metric} was {value}, {result.bound} is required"
