"""Spark sessions of commands that sum up topics: small, on loopback, with the source `highwater`."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from highwater.common.errors import UsageError
from highwater.common.spark_master import master_fault
from highwater.pipeline.errors import PipelineError
from highwater.spark_loadgen.errors import LoadSetupError
from highwater.spark_loadgen.java import find_java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DEFAULT_MASTER: Final = "local[2]"
_SETTINGS: Final = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.memory": "1g",
    # A micro-batch has a few thousand rows; two hundred partitions, the default, would each be a task.
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.session.timeZone": "UTC",
    "spark.log.level": "ERROR",
    # Progress of each micro-batch is kept for people who look; the figures are in the store.
    "spark.sql.streaming.numRecentProgressUpdates": "10",
    "spark.sql.streaming.minBatchesToRetain": "10",
}
SHIPPED: Final = ("bench", "spark_loadgen")
"""What a task imports beside what the source `highwater` does."""


@contextmanager
def spark_session(
    name: str, master: str = DEFAULT_MASTER, settings: Mapping[str, str] | None = None
) -> Iterator[SparkSession]:
    """A session, and this package for executors on other hosts. Raises UsageError when Spark cannot start."""
    from pyspark.errors import PySparkException, PySparkRuntimeError
    from pyspark.sql import SparkSession

    from highwater.common.spark_master import is_in_one_process
    from highwater.pipeline.source.session import register

    if fault := master_fault(master):
        raise UsageError(fault)
    with tempfile.TemporaryDirectory(prefix=f"{name}-") as scratch:
        try:
            os.environ["JAVA_HOME"] = str(find_java(os.environ, Path(scratch)).home)
        except LoadSetupError as error:
            raise UsageError(str(error)) from error
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        every: dict[str, bool | float | int | str | None] = {**_SETTINGS, "spark.local.dir": scratch}
        if is_in_one_process(master):
            os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
            every.update(dict.fromkeys(("spark.driver.host", "spark.driver.bindAddress"), "127.0.0.1"))
        builder = SparkSession.builder.master(master).appName(name)
        try:
            spark = builder.config(map={**every, **(settings or {})}).getOrCreate()
        except (PySparkException, PySparkRuntimeError) as error:
            raise UsageError(f"Spark does not start with master {master}: {str(error).splitlines()[0]}") from error
        try:
            register(spark, folders=SHIPPED)
            yield spark
        except PipelineError as error:
            raise UsageError(str(error)) from error
        finally:
            spark.stop()
