"""One Spark session that has both formats, on a core of its own."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pyspark import SparkContext
from pyspark.sql import SparkSession

from highwater.common.spark_jvm import end_jvm
from highwater.pipeline.source import register
from highwater.spark_loadgen.java import find_java
from tools.pipeline_speed.connector import connector_jars


@contextmanager
def session(cores: int, places: set[int]) -> Iterator[SparkSession]:
    """`local[cores]`; its JVM and its Python workers stay on the processors in `places`."""
    jars = ",".join(map(str, connector_jars()))
    with tempfile.TemporaryDirectory(prefix="highwater-") as scratch:
        before, placed_before = dict(os.environ), os.sched_getaffinity(0)
        os.environ["JAVA_HOME"] = str(find_java(os.environ, Path(scratch)).home)
        os.environ["PYSPARK_PYTHON"] = sys.executable
        os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
        settings: dict[str, bool | float | int | str | None] = {
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.driver.host": "127.0.0.1",
            "spark.driver.memory": "2g",
            "spark.jars": jars,
            "spark.local.dir": scratch,
            # Spark's 15 s are not enough for the process of a source to be found on a busy host.
            "spark.python.authenticate.socketTimeout": "120s",
            "spark.sql.shuffle.partitions": "1",
            "spark.sql.streaming.numRecentProgressUpdates": "10000",
            "spark.sql.warehouse.dir": f"{scratch}/warehouse",
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
        }
        os.sched_setaffinity(0, places)
        spark = SparkSession.builder.master(f"local[{cores}]").config(map=settings).getOrCreate()
        try:
            spark.sparkContext.setLogLevel("ERROR")
            register(spark)
            yield spark
        finally:
            spark.stop()
            # The next session has a JVM of its own: a JVM stays on the processors that it began on.
            end_jvm(SparkContext, SparkContext._gateway)
            os.sched_setaffinity(0, placed_before)
            os.environ.clear()
            os.environ.update(before)
