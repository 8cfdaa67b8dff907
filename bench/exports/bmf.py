"""Exports Bencher Metric Format: benchmark, measure, value, bounds.

https://bencher.dev/docs/reference/bencher-metric-format/ The format has no units, so the unit is part of the measure's
name.
"""

from __future__ import annotations

import json

from highwater.bench.exports import ExportedFile, text_file
from highwater.bench.exports.estimates import estimates
from highwater.results.reader import RunResult


def export(result: RunResult) -> list[ExportedFile]:
    document: dict[str, dict[str, dict[str, float]]] = {}
    for estimate in estimates(result):
        measure = {"value": estimate.value}
        if estimate.ci95 is not None:
            measure |= {"lower_value": estimate.ci95[0], "upper_value": estimate.ci95[1]}
        benchmark = f"{result.manifest.name}/{estimate.cell}"
        document.setdefault(benchmark, {})[_measure(estimate.metric.name, estimate.metric.unit)] = measure
    return [text_file(json.dumps(document, indent=2, ensure_ascii=False) + "\n")]


def _measure(name: str, unit: str) -> str:
    return name if name.endswith(unit) else f"{name} ({unit})"
