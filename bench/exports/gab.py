"""github-action-benchmark's JSON: one list where bigger is better, one where smaller is better.

https://github.com/benchmark-action/github-action-benchmark#examples (customBiggerIsBetter, customSmallerIsBetter)
"""

from __future__ import annotations

import json

from highwater.bench.exports import ExportedFile, text_file
from highwater.bench.exports.estimates import Estimate, estimates
from highwater.results.reader import RunResult


def export(result: RunResult) -> list[ExportedFile]:
    found = list(estimates(result))
    return [
        text_file(_entries([item for item in found if item.metric.better == better], result), suffix)
        for better, suffix in (("higher", "-bigger"), ("lower", "-smaller"))
    ]


def _entries(found: list[Estimate], result: RunResult) -> str:
    entries = [
        {
            "name": f"{result.manifest.name} {item.name}",
            "unit": item.metric.unit,
            "value": item.value,
            "range": "–" if item.ci95 is None else f"{item.ci95[0]:.6g} to {item.ci95[1]:.6g}",
            "extra": f"{item.metric.meaning}; median of {len(item.values)} trials",
        }
        for item in found
    ]
    return json.dumps(entries, indent=2, ensure_ascii=False) + "\n"
