"""Result directories with chosen summaries, for what concludes from whole runs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from highwater.results.models import RunStatus, Scalar, TrialPlan, TrialSummary
from highwater.results.reader import RunResult
from highwater.results.writer import ResultWriter
from tests.results.manifests import manifest


def run_of(
    directory: Path,
    summaries: Sequence[TrialSummary],
    *,
    axes: dict[str, list[Scalar]] | None = None,
    unfinished: int = 0,
    status: RunStatus = "done",
    for_measurement: bool = True,
    **workload: Any,
) -> RunResult:
    """A run of these trials. `unfinished`: how many planned trials of the first one's cell have no result."""
    done = [_plan(summary, "done") for summary in summaries]
    missing = [_plan(summary.model_copy(update={"trial_id": "missing"}), "planned") for summary in summaries[:1]]
    writer = ResultWriter(directory)
    writer.write_manifest(
        manifest(
            [*done, *(missing * unfinished)],
            for_measurement=for_measurement,
            finished_utc=None,
            status=status,
            workload={"schema": "bench.workload/1", "name": "w", **workload},
            argv=["highwater", "bench", "run", "w.yaml", "--launcher", "process", "--trials", "3", "--out", "old"],
            axes=axes or {},
        )
    )
    for summary in summaries:
        writer.write_trial(summary, [], [], [], [])
    return RunResult(directory)


def _plan(summary: TrialSummary, status: Any) -> TrialPlan:
    return TrialPlan(
        trial_id=summary.trial_id,
        cell=summary.cell,
        factors=summary.factors,
        trial=summary.trial,
        block=summary.block,
        order_in_block=summary.order_in_block,
        role=summary.role,
        status=status,
    )
