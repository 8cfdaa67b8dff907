"""Question files for tests, and a stand-in for what runs trials on them."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from pathlib import Path
from typing import Final

from highwater.bench.runs.agenda import Agenda, BlockAgenda, Skipped, TrialOutcome
from highwater.bench.trials.plan import Plan
from highwater.bench.workload.model import Workload
from highwater.results.models import Environment, Manifest, RunStatus, TrialSummary
from highwater.results.reader import RunResult
from highwater.results.writer import ResultWriter
from highwater.studies.advise.advising import MakeAgenda
from tests.bench.made_up_runs import of_plan
from tests.bench.summaries import LATE, summary
from tests.results.manifests import manifest

BASE: Final = """\
schema: bench.workload/1
name: base
topics: {partitions: 2}
producers: {client: {acks: all, linger.ms: 5}}
records: {size: 100B}
load: {rate: 1k/s}
phases: {warmup: 1s, measure: 2s, drain: 5s}
storage: {probe: false}
"""
QUESTION: Final = """\
schema: bench.question/1
name: quick
workload: base.yaml
objective: {least: produce.p99}
touch:
  producers.client.linger.ms: {from: 0, to: 40}
  producers.client.batch.size: [16KiB, 64KiB, 256KiB, 1MiB]
  system.config.num.io.threads: [1, 2, 4]
budget: 15m
"""


def write_question(folder: Path, question: str = QUESTION, base: str = BASE) -> Path:
    (folder / "base.yaml").write_text(base)
    path = folder / "question.yaml"
    path.write_text(question)
    return path


def p99_of(workload: Workload) -> float:
    """Lowest without lingering and with batches of 64 KiB; threads do nothing. In ns."""
    linger = float(workload.producers.client.get("linger.ms", 5))
    batch = {"16KiB": 1.4, "64KiB": 1.0, "256KiB": 1.1, "1MiB": 1.3}[
        str(workload.producers.client.get("batch.size", "1MiB"))
    ]
    return 1e6 * (2 + linger) * batch


class Runner:
    """Writes a result directory whose trials have the p99 of their workload, with some noise."""

    def __init__(
        self,
        p99: Callable[[Workload], float] = p99_of,
        noise: float = 0.03,
        stop_after: int | None = None,
        invalid: Callable[[Workload], bool] = lambda _: False,
        change: Callable[[TrialSummary, Workload], TrialSummary] = lambda made, _: made,
    ) -> None:
        self.p99, self.noise, self.stop_after, self.invalid, self.change = p99, noise, stop_after, invalid, change
        self.trials = 0

    def __call__(self, plan: Plan, out: Path, resume: bool, make_agenda: MakeAgenda | None) -> Manifest:
        writer = ResultWriter.reopen(out) if resume else ResultWriter(out)
        outcomes: list[TrialOutcome] = []
        if resume:
            result = RunResult(out)
            found = {trial.summary.trial_id: trial.summary for trial in result.trials}
            outcomes = [TrialOutcome(trial, found[trial.trial_id]) for trial in result.manifest.trials]
        agenda: Agenda = BlockAgenda(plan) if make_agenda is None else make_agenda(writer)
        status: RunStatus = "done"
        while (step := agenda.next(outcomes)) is not None:
            assert not isinstance(step, Skipped)
            if self.trials == self.stop_after:
                status = "interrupted"
                break
            self.trials += 1
            (planned,) = step
            workload = planned.cell.workload
            chance = random.Random(f"{planned.plan.block} {planned.plan.trial_id}")
            made = summary(
                planned.plan.block,
                planned.plan.factors,
                p99_ns=round(self.p99(workload) * math.exp(chance.gauss(0, self.noise))),
                role=planned.plan.role,
                trial_id=planned.plan.trial_id,
                cell=planned.plan.cell,
                reason=LATE if self.invalid(workload) else None,
            )
            made = self.change(made, workload)
            writer.write_trial(made, [], [])
            outcomes.append(TrialOutcome(planned.plan.model_copy(update={"status": "done"}), made))
        chosen = {"name": "quick", "axes": dict(agenda.axes), "exit_code": 0 if status == "done" else 130}
        ran = manifest((outcome.plan for outcome in outcomes), status=status, **(of_plan(plan) | chosen))
        writer.write_environment(Environment(facts={}, tuning=[]))
        writer.write_manifest(ran)
        return ran
