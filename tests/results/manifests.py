"""Manifests of runs that nobody ran."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from highwater.results.models import Manifest, TrialPlan


def manifest(trials: Iterable[TrialPlan], **chosen: Any) -> Manifest:
    """The manifest of a run of these trials; its other fields are `chosen`, or those of a run that is done."""
    usual: dict[str, Any] = {
        "name": "w",
        "purpose": "",
        "for_measurement": True,
        "created_utc": "2026-01-01T00:00:00Z",
        "finished_utc": "2026-01-01T00:01:00Z",
        "status": "done",
        "exit_code": 0,
        "workload": {"schema": "bench.workload/1", "name": "w"},
        "workload_sha256": "0" * 64,
        "workload_file": "w.yaml",
        "argv": [],
        "cwd": "/",
        "git": None,
        "seed": 1,
        "axes": {},
        "versions": {},
    }
    return Manifest(trials=list(trials), **(usual | chosen))
