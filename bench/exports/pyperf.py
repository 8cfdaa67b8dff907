"""Exports pyperf's JSON: a benchmark for each cell and metric, a run for each trial.

https://pyperf.readthedocs.io/en/latest/api.html#pyperf-json-format pyperf has seconds, bytes and integers; less is
always better, and 0 is not allowed. So rates are inverted to seconds per record or byte, and metrics with another unit
(ratios) or without a better direction are left out.
"""

from __future__ import annotations

import json
from typing import Any, Final

from highwater.bench.exports import ExportedFile, text_file
from highwater.bench.exports.estimates import Estimate, estimates
from highwater.results.reader import RunResult

_FORMAT_VERSION: Final = "1.0"
_NS_PER_S: Final = 1e9


def export(result: RunResult) -> list[ExportedFile]:
    benchmarks = [made for estimate in estimates(result) if (made := _benchmark(estimate)) is not None]
    metadata = _metadata(result)
    document = {"version": _FORMAT_VERSION, "metadata": metadata, "benchmarks": benchmarks}
    return [text_file(json.dumps(document, indent=1, ensure_ascii=False) + "\n")]


def _benchmark(estimate: Estimate) -> dict[str, Any] | None:
    converted = _converted(estimate)
    if converted is None:
        return None
    unit, name, values = converted
    return {"metadata": {"name": name, "unit": unit}, "runs": [{"values": [value]} for value in values]}


def _converted(estimate: Estimate) -> tuple[str, str, list[float | int]] | None:
    values, metric = estimate.values, estimate.metric
    if metric.better == "none" or min(values) <= 0:
        return None
    if metric.better == "higher":
        per = {"per_s": "second_per_record", "bytes_per_s": "second_per_byte"}.get(metric.unit)
        return ("second", f"{estimate.name}.{per}", [1 / value for value in values]) if per else None
    match metric.unit:
        case "ns":
            return "second", estimate.name, [value / _NS_PER_S for value in values]
        case "s" | "s_per_gib":
            return "second", estimate.name, list(values)
        case "bytes":
            return "byte", estimate.name, [round(value) for value in values]
        case "records":
            return "integer", estimate.name, [round(value) for value in values]
    return None


def _metadata(result: RunResult) -> dict[str, str | int]:
    facts, manifest = result.environment.facts, result.manifest
    known: dict[str, str | int | None] = {
        "hostname": facts.get("hostname"),
        "platform": facts.get("kernel_release"),
        "cpu_model_name": facts.get("cpu_model"),
        "cpu_count": facts.get("cpu_count"),
        "python_version": manifest.versions.get("python"),
        "date": manifest.created_utc.removesuffix("Z"),
        "description": manifest.name,
        "commit_id": manifest.git.commit if manifest.git else None,
        "load_generator": f"highwater {manifest.versions.get('highwater', '')}".strip(),
    }
    return {name: value for name, value in known.items() if value is not None}
