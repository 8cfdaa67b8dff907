"""The tables of a lake: their columns, and the version of each table.

A column that is added needs no new version: it reads as null in older files, and an older Highwater ignores it. A
column whose meaning changes does. Columns of series are those of the models of the result directory.
"""

from __future__ import annotations

from types import NoneType
from typing import Any, Final, Literal, get_args, get_origin

import pyarrow as pa
from pydantic import BaseModel

from highwater.results.host import HostSample
from highwater.results.models import EventLine, PartitionLine, Window
from highwater.results.storage import FioProbe

LAKE_SCHEMA: Final = "bench.lake/1"
SECONDS: Final = "seconds"
"""The table of the histograms of each second: it is larger than all others together."""

_TEXT, _WHOLE, _NUMBER, _FLAG = pa.string(), pa.int64(), pa.float64(), pa.bool_()
_HISTOGRAM: Final = [("buckets", pa.list_(pa.int32())), ("counts", pa.list_(_WHOLE))]
_TRIAL: Final = [("run", _TEXT), ("trial_id", _TEXT)]


def _of_model(model: type[BaseModel], without: tuple[str, ...] = ()) -> list[tuple[str, pa.DataType]]:
    """A column for each field of a model of the result directory."""
    fields = model.model_fields.items()
    return [(name, _arrow_type(field.annotation)) for name, field in fields if name not in without]


def _arrow_type(annotation: Any) -> pa.DataType:
    kinds = {int: _WHOLE, float: _NUMBER, str: _TEXT, bool: _FLAG}
    if get_origin(annotation) is Literal:
        return _TEXT
    (kind,) = [found for found in get_args(annotation) or (annotation,) if found is not NoneType]
    return kinds[kind]


SCHEMAS: Final[dict[str, pa.Schema]] = {
    name: pa.schema(columns)
    for name, columns in {
        "runs": [
            ("run", _TEXT),
            ("environment", _TEXT),
            ("workload", _TEXT),
            ("purpose", _TEXT),
            ("for_measurement", _FLAG),
            ("created_utc", _TEXT),
            ("finished_utc", _TEXT),
            ("status", _TEXT),
            ("exit_code", _WHOLE),
            ("workload_sha256", _TEXT),
            ("commit", _TEXT),
            ("dirty", _FLAG),
            ("seed", _WHOLE),
            ("highwater", _TEXT),
            ("host", _TEXT),
            ("operating_system", _TEXT),
            ("kernel", _TEXT),
            ("cpu_model", _TEXT),
            ("cpu_count", _WHOLE),
            ("memory_bytes", _WHOLE),
            ("trials", _WHOLE),
            ("usable_trials", _WHOLE),
            ("source", _TEXT),
            ("manifest_json", _TEXT),
            ("environment_json", _TEXT),
            ("analysis_json", _TEXT),
        ],
        "trials": [
            *_TRIAL,
            ("cell", _TEXT),
            ("label", _TEXT),
            ("factors_json", _TEXT),
            ("trial", _WHOLE),
            ("block", _WHOLE),
            ("order_in_block", _WHOLE),
            ("role", _TEXT),
            ("verdict", _TEXT),
            ("usable", _FLAG),
            ("started_utc", _TEXT),
            ("measured_s", _NUMBER),
            ("driver", _TEXT),
            ("launcher", _TEXT),
            ("system", _TEXT),
            ("version", _TEXT),
            ("copies", _WHOLE),
            ("partitions", _TEXT),
            ("acks", _TEXT),
            ("compression", _TEXT),
            ("flush_messages", _TEXT),
            ("record_size", _TEXT),
            ("storage", _TEXT),
            ("medium", _TEXT),
            ("emulated", _FLAG),
            ("disk_model", _TEXT),
            ("scheduler", _TEXT),
            ("filesystem", _TEXT),
            ("offered_per_s", _NUMBER),
            ("achieved_per_s", _NUMBER),
            ("sent", _WHOLE),
            ("acked", _WHOLE),
            ("failed", _WHOLE),
            ("received", _WHOLE),
            ("lost", _WHOLE),
            ("duplicated", _WHOLE),
            ("reordered", _WHOLE),
            ("corrupt", _WHOLE),
            ("delivery_checked", _FLAG),
            ("summary_json", _TEXT),
        ],
        "figures": [
            *_TRIAL,
            ("cell", _TEXT),
            ("block", _WHOLE),
            ("role", _TEXT),
            ("usable", _FLAG),
            ("metric", _TEXT),
            ("unit", _TEXT),
            ("better", _TEXT),
            ("value", _NUMBER),
        ],
        "histograms": [*_TRIAL, ("metric", _TEXT), ("count", _WHOLE), *_HISTOGRAM],
        SECONDS: [*_TRIAL, ("metric", _TEXT), ("second", _WHOLE), *_HISTOGRAM],
        "windows": [*_TRIAL, *_of_model(Window)],
        "host": [*_TRIAL, ("host", _TEXT), *_of_model(HostSample)],
        "partitions": [*_TRIAL, *_of_model(PartitionLine)],
        "events": [*_TRIAL, *_of_model(EventLine)],
        "settings": [("run", _TEXT), ("scope", _TEXT), ("name", _TEXT), ("value", _TEXT)],
        "changes": [
            *_TRIAL,
            ("profile", _TEXT),
            ("setting", _TEXT),
            ("before", _TEXT),
            ("after", _TEXT),
            ("verified", _FLAG),
            ("rolled_back", _FLAG),
        ],
        "probes": [
            ("run", _TEXT),
            ("host", _TEXT),
            ("storage", _TEXT),
            ("medium", _TEXT),
            ("disk_model", _TEXT),
            ("moment", _TEXT),
            ("job", _TEXT),
            *_of_model(FioProbe, without=("name",)),
        ],
    }.items()
}
"""Table -> its columns. `run` is the first column of each."""

VERSIONS: Final = dict.fromkeys(SCHEMAS, 1)
