"""Named places in sources and sinks at which a drill stops a process; without a drill they do nothing.

A drill sets HIGHWATER_CRASH_DIRECTORY to a folder, for all processes of a pipeline. Each passage of a place appends a
line `NAME PID` to the file `passed` there. If the folder has the file NAME.armed, the first process at the place
renames it to NAME.reached-PID, and waits until the drill has deleted that file.

A drill of several queries has a folder in it for each. Spark runs tasks of all queries in the same processes: a task
learns from a local property which query it is for, and all other code from QUERY.
"""

from __future__ import annotations

import os
import sys
import time
from contextvars import ContextVar
from enum import Enum
from pathlib import Path
from typing import Final

DIRECTORY_VARIABLE: Final = "HIGHWATER_CRASH_DIRECTORY"
PASSED: Final = "passed"
ARMED: Final = ".armed"
REACHED: Final = ".reached-"
QUERY_PROPERTY: Final = "highwater.drill.query"
QUERY: Final = ContextVar("highwater_drill_query", default="")
"""The name of the query's folder in that of the drill; empty for a drill of one query."""
_POLL_S: Final = 0.01


class CrashPoint(Enum):
    """Where a process may die, in the order of a micro-batch. Tasks are on executors; all else is on the driver."""

    SOURCE_FIRST_OFFSETS = "source-first-offsets"
    """The first offsets of a stream are known and stored, Spark does not have them yet."""
    SOURCE_PLANNED = "source-planned"
    """The offset log has the batch; its tasks are divided, none has begun."""
    SOURCE_READING = "source-reading"
    """A task has read records of a fetch, and has not passed them on."""
    SINK_BEGINS = "sink-begins"
    """The sink has the batch, and has checked whether it is a replay; nothing is open."""
    SINK_BEGUN = "sink-begun"
    """The transaction is open, or the folder exists; no row is written."""
    SINK_WRITING = "sink-writing"
    """Some rows of the batch are written, and others are not. It is in a task if tasks write."""
    SINK_WRITTEN = "sink-written"
    """All rows are written, the progress is not."""
    SINK_BEFORE_COMMIT = "sink-before-commit"
    """The progress is written, the transaction is open."""
    SINK_COMMITTED = "sink-committed"
    """The transaction is committed. Spark does not know: a restart runs the batch again."""
    SINK_SKIPPED = "sink-skipped"
    """A replay of a committed batch was recognised, and nothing was written."""


def reach(point: CrashPoint) -> None:
    """Stop here if a drill has asked for it."""
    if folder := os.environ.get(DIRECTORY_VARIABLE):
        _stop_if_armed(Path(folder, _query()), point.value)


def _query() -> str:
    pyspark = sys.modules.get("pyspark")
    if pyspark is not None and (task := pyspark.TaskContext.get()) is not None:
        return task.getLocalProperty(QUERY_PROPERTY) or ""
    return QUERY.get()


def _stop_if_armed(folder: Path, name: str) -> None:
    try:
        # One short write at the end of a file: lines of several processes do not mix.
        with (folder / PASSED).open("ab", buffering=0) as passed:
            passed.write(f"{name} {os.getpid()}\n".encode())
        reached = (folder / f"{name}{ARMED}").rename(folder / f"{name}{REACHED}{os.getpid()}")
    except FileNotFoundError:
        return
    while reached.exists():
        time.sleep(_POLL_S)
