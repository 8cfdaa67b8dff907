"""The Spark session of the telemetry job: small, on loopback, with the source `highwater`."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from highwater.bench.errors import UsageError
from highwater.common.package_archive import write_archive
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
_SHIPPED: Final = ("bench", "common", "spark_loadgen")


@contextmanager
def telemetry_session(master: str = DEFAULT_MASTER) -> Iterator[SparkSession]:
    """Raises UsageError when Spark cannot start."""
    from pyspark.errors import PySparkException, PySparkRuntimeError
    from pyspark.sql import SparkSession

    from highwater.pipeline.source.session import is_in_one_process, register

    with tempfile.TemporaryDirectory(prefix="highwater-telemetry-") as scratch:
        try:
            os.environ["JAVA_HOME"] = str(find_java(os.environ, Path(scratch)).home)
        except LoadSetupError as error:
            raise UsageError(str(error)) from error
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        settings: dict[str, bool | float | int | str | None] = {**_SETTINGS, "spark.local.dir": scratch}
        if is_in_one_process(master):
            os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
            settings.update(dict.fromkeys(("spark.driver.host", "spark.driver.bindAddress"), "127.0.0.1"))
        builder = SparkSession.builder.master(master).appName("highwater-telemetry")
        try:
            spark = builder.config(map=settings).getOrCreate()
        except (PySparkException, PySparkRuntimeError) as error:
            raise UsageError(f"Spark does not start with master {master}: {str(error).splitlines()[0]}") from error
        try:
            register(spark)
            if not is_in_one_process(master):
                spark.sparkContext.addPyFile(str(write_archive(Path(scratch), "highwater_bench", _SHIPPED)))
            yield spark
        except PipelineError as error:
            raise UsageError(str(error)) from error
        finally:
            spark.stop()
