"""The Spark session of a run, which has the formats of the pipeline."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from highwater.common import spark_session as common

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SETTINGS: Final = {"spark.sql.streaming.stopTimeout": "60s"}


@contextmanager
def spark_session(name: str, master: str, settings: Mapping[str, str], log: Path) -> Iterator[SparkSession]:
    """A session with `format("highwater")`. log: a file for Java's output. Raises UsageError."""
    # Spark's 200 small tasks for each shuffle would be slower than the work itself.
    local = {"spark.sql.shuffle.partitions": str(len(os.sched_getaffinity(0)))} if master.startswith("local") else {}
    with common.spark_session(name, master, {**_SETTINGS, **local, **settings}, log) as session:
        from highwater.pipeline.source import register

        register(session)
        yield session
