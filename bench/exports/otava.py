"""Exports the CSV of Apache Otava: time, commit, branch, then a column per metric.

https://otava.apache.org/docs/csv One row for this run. `bench history add` appends such rows; its columns are the names
of metrics alone, by which policies and acknowledgements name them.
"""

from __future__ import annotations

from typing import Final

from highwater.bench.exports import ExportedFile, text_file
from highwater.bench.exports.estimates import estimates
from highwater.common.csv_text import csv_text
from highwater.results.reader import RunResult

COLUMNS: Final = ("time", "commit", "branch")


def row(result: RunResult, branch: str = "", commit: str | None = None, *, with_units: bool = False) -> dict[str, str]:
    """Column to text, the leading ones first."""
    manifest = result.manifest
    known = manifest.git.commit if manifest.git else ""
    cells = {"time": manifest.created_utc.replace("Z", "+00:00"), "commit": commit or known, "branch": branch}
    return cells | {
        (estimate.column if with_units else estimate.name): f"{estimate.value:.10g}" for estimate in estimates(result)
    }


def export(result: RunResult) -> list[ExportedFile]:
    cells = row(result, with_units=True)
    return [text_file(csv_text(list(cells), [cells]))]
