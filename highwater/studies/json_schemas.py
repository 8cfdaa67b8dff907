"""The JSON Schemas of all files, from their models: for editors and other programs.

They are shipped in bench/schemas/; a test holds them to the models. `highwater bench schema NAME` prints one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from pydantic import BaseModel

from highwater.bench.gate.policy import POLICY_SCHEMA, Policy
from highwater.bench.workload.layers import INCLUDE
from highwater.bench.workload.model import WORKLOAD_SCHEMA, Workload
from highwater.common.errors import UsageError
from highwater.results.advice import ADVICE_SCHEMA, Advice
from highwater.results.analysis_file import Analysis, Search
from highwater.results.calibration import CALIBRATION_SCHEMA, Calibration
from highwater.results.gate import Gate, ResultComparison
from highwater.results.host import HostSample
from highwater.results.models import (
    Environment,
    EventLine,
    Manifest,
    PartitionLine,
    TrialSummary,
    Verdict,
    Window,
)
from highwater.results.storage import PROBES_SCHEMA, StorageProbes
from highwater.studies.advise.question import QUESTION_SCHEMA, Question
from highwater.studies.capacity.load import LOAD_SCHEMA, Load


def _of(model: type[BaseModel], title: str) -> dict[str, Any]:
    schema = model.model_json_schema(by_alias=True)
    schema.pop("title", None)
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": title} | schema


def _workload() -> dict[str, Any]:
    """The schema of a file as written: with `include`, the included file may have what is required."""
    schema = _of(Workload, WORKLOAD_SCHEMA)
    files = {"type": "string", "minLength": 1}
    schema["properties"][INCLUDE] = {
        "anyOf": [files, {"type": "array", "items": files}],
        "description": "files that this one is laid over, relative to it",
    }
    schema["anyOf"] = [{"required": [INCLUDE]}, {"required": schema.pop("required")}]
    return schema


SCHEMAS: Final[dict[str, Callable[[], dict[str, Any]]]] = {
    "workload": _workload,
    "manifest": lambda: _of(Manifest, "bench.manifest/1"),
    "summary": lambda: _of(TrialSummary, "bench.summary/1"),
    "analysis": lambda: _of(Analysis, "bench.analysis/1"),
    "probes": lambda: _of(StorageProbes, PROBES_SCHEMA),
    "calibration": lambda: _of(Calibration, CALIBRATION_SCHEMA),
    "search": lambda: _of(Search, "bench.search/1"),
    "gate": lambda: _of(Gate, "bench.gate-result/1"),
    "comparison": lambda: _of(ResultComparison, "bench.comparison/1"),
    "env": lambda: _of(Environment, "bench.environment/1"),
    "verdict": lambda: _of(Verdict, "verdict.json of a trial"),
    # Lines have no room for a version: theirs is that of the manifest beside them.
    "windows": lambda: _of(Window, "a line of windows.jsonl"),
    "host": lambda: _of(HostSample, "a line of host.jsonl"),
    "partitions": lambda: _of(PartitionLine, "a line of partitions.jsonl"),
    "events": lambda: _of(EventLine, "a line of events.jsonl"),
    "question": lambda: _of(Question, QUESTION_SCHEMA),
    "load": lambda: _of(Load, LOAD_SCHEMA),
    "advice": lambda: _of(Advice, ADVICE_SCHEMA),
    "gate-policy": lambda: _of(Policy, POLICY_SCHEMA),
}


def json_schema(name: str) -> dict[str, Any]:
    """Raises UsageError for a name that there is none of."""
    if name not in SCHEMAS:
        raise UsageError(f"there is no schema {name!r}; there are {', '.join(SCHEMAS)}")
    return SCHEMAS[name]()
