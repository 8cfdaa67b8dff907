"""Result directories with chosen summaries, for what concludes from whole runs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from highwater.results.models import Manifest, RunStatus, Scalar, TrialPlan, TrialSummary
from highwater.results.reader import RunResult
from highwater.results.writer import ResultWriter


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
        Manifest(
            name="w",
            purpose="",
            for_measurement=for_measurement,
            created_utc="2026-01-01T00:00:00Z",
            finished_utc=None,
            status=status,
            exit_code=0,
            workload={"schema": "bench.workload/1", "name": "w", **workload},
            workload_sha256="0" * 64,
            workload_file="w.yaml",
            argv=["highwater", "bench", "run", "w.yaml", "--launcher", "process", "--trials", "3", "--out", "old"],
            cwd="/",
            git=None,
            seed=1,
            axes=axes or {},
            trials=[*done, *(missing * unfinished)],
            versions={},
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
