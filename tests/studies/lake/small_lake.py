"""Result directories of a small lake, written by the project's own writer, the same bytes every time."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from highwater.results import checksums
from highwater.results.models import Scalar, TrialSummary
from tests.reports.sample_run import Sample, write_sample

TINY: Final = Sample(axes={}, trials=2, measure_s=3, rate_per_s=200.0)


def plain(summary: TrialSummary) -> TrialSummary:
    """Without transactions, whose histogram log a sample does not have."""
    return summary.model_copy(update={"transactions": None})


def write_run(
    directory: Path,
    day: int = 1,
    *,
    month: int = 3,
    axes: dict[str, list[Scalar]] | None = None,
    trials: int = 2,
    measure_s: int = 3,
    rate_per_s: float = 200.0,
    name: str = "quickstart",
    change: Callable[[TrialSummary], TrialSummary] = lambda summary: summary,
    manifest: Mapping[str, Any] | None = None,
    detailed: bool = False,
    analysed: bool = False,
) -> Path:
    """A run of this day with its digests. manifest: what is different in its manifest."""
    sample = Sample(
        name=name,
        axes=axes or {},
        trials=trials,
        measure_s=measure_s,
        rate_per_s=rate_per_s,
        detailed=detailed,
        analysed=analysed,
        change=lambda summary: change(plain(summary)),
    )
    write_sample(directory, sample)
    path = directory / "manifest.json"
    asked = json.loads(path.read_text("utf-8")) | {"created_utc": f"2026-{month:02d}-{day:02d}T09:00:00Z"}
    path.write_text(json.dumps(asked | dict(manifest or {})), "utf-8")
    checksums.write(directory)
    return directory
