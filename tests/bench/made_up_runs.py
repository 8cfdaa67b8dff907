"""Runs of a plan without a broker and without load: each trial's summary is made up."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from highwater.bench.runs.agenda import BlockAgenda, FinishedCells, Skipped, TrialOutcome
from highwater.bench.trials.plan import Plan, PlannedTrial
from highwater.results.models import Environment, Manifest, RunStatus, TrialSummary
from highwater.results.writer import ResultWriter
from tests.results.manifests import manifest


def make_up(
    plan: Plan,
    out: Path,
    finished_cells: FinishedCells | None,
    measure: Callable[[PlannedTrial], TrialSummary | None],
    status: RunStatus = "done",
    facts: Mapping[str, Any] | None = None,
) -> Manifest:
    """Write a result directory. measure: the summary of a trial; None fails it, as if the broker had been killed."""
    writer = ResultWriter(out)
    agenda = BlockAgenda(plan, finished_cells)
    outcomes: list[TrialOutcome] = []
    while (step := agenda.next(outcomes)) is not None:
        if isinstance(step, Skipped):
            outcomes.append(TrialOutcome(step.planned.plan.model_copy(update={"status": "skipped"}), None))
            continue
        for planned in step:
            found = measure(planned)
            ended = {"status": "done"} if found else {"status": "failed", "error": "the broker was killed by SIGKILL"}
            outcomes.append(TrialOutcome(planned.plan.model_copy(update=ended), found))
            if found:
                writer.write_trial(found, [], [])
    made = manifest((outcome.plan for outcome in outcomes), status=status, **of_plan(plan))
    writer.write_manifest(made)
    writer.write_environment(Environment(facts=dict(facts or {}), tuning=[]))
    return made


def of_plan(plan: Plan) -> dict[str, Any]:
    """What a manifest has of its plan."""
    specification = plan.specification
    return {
        "name": specification.workload.name,
        "workload": specification.workload.as_document(),
        "workload_sha256": specification.sha256,
        "seed": plan.seed,
        "axes": specification.axes,
    }
