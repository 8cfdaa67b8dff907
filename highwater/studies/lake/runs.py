"""Runs of a lake as result directories are: models read back from their rows."""

from __future__ import annotations

from highwater.common.errors import UsageError
from highwater.results.analysis_file import Analysis
from highwater.results.models import Environment, TrialSummary
from highwater.results.models import Manifest as RunManifest
from highwater.results.reader import RunResult
from highwater.studies.lake import storage
from highwater.studies.lake.manifest import Group, Manifest


def result_of(manifest: Manifest, name: str) -> RunResult:
    """The run with this id, or with a part of it that no other id has.

    It has manifest, environment, summaries and analysis; no files, series or histograms. Raises UsageError.
    """
    run, group = manifest.named(name)
    lake = manifest.directory
    _check(manifest, group, ("runs", "trials"))
    (kept,) = storage.rows_of(lake, "runs", group, run.run).to_pylist()
    trials = storage.rows_of(lake, "trials", group, run.run, ["summary_json"])
    return RunResult.of_models(
        lake / run.run,
        RunManifest.model_validate_json(kept["manifest_json"]),
        Environment.model_validate_json(kept["environment_json"]),
        [TrialSummary.model_validate_json(text) for text in trials["summary_json"].to_pylist()],
        Analysis.model_validate_json(kept["analysis_json"]) if kept["analysis_json"] is not None else None,
    )


def _check(manifest: Manifest, group: Group, tables: tuple[str, ...]) -> None:
    for file in group.files:
        if file.table in tables and (what := storage.disagreement(manifest.directory, file)) is not None:
            raise UsageError(f"{what}; take it from a copy of the lake")
