"""monitor.json: what a monitor saw of the cluster while a run measured it."""

from __future__ import annotations

from pathlib import Path
from typing import Final, Literal

from pydantic import Field

from highwater.common.atomic_files import write_atomically
from highwater.results.base import Model
from highwater.results.files import ResultDirectoryError, dump

MONITOR_FILE: Final = "monitor.json"
MONITOR_SCHEMA: Final = "bench.monitor/1"


class MonitorLine(Model):
    """One series of the monitor's history."""

    kind: str = Field(description="of what: cluster, broker, group, …")
    name: str
    metric: str
    meaning: str
    unit: str = Field(description="of the values: B, B/s, /s, …; empty for what is counted")
    at_ms: list[int] = Field(description="Unix time of each value")
    values: list[float | None] = Field(description="None where the monitor saw nothing")


class MonitorEvent(Model):
    at_ms: int
    kind: str
    text: str


class MonitorWindow(Model):
    schema_: Literal["bench.monitor/1"] = Field(default=MONITOR_SCHEMA, alias="schema")
    cluster: str = Field(description="as the monitor calls it")
    history: str = Field(description="the file or address that this was taken from")
    from_ms: int
    to_ms: int
    lines: list[MonitorLine]
    events: list[MonitorEvent]
    left_out: list[str] = Field(default=[], description="what the history has of this time and this file has not")


def write_monitor_window(directory: Path, window: MonitorWindow) -> Path:
    """Write it in the place of an older one, and return the file. Raises ResultDirectoryError."""
    path = directory / MONITOR_FILE
    try:
        write_atomically(path, dump(window))
    except OSError as error:
        raise ResultDirectoryError(f"{path}: cannot write it: {error.strerror or error}") from error
    return path
