"""One Spark session that has both formats, on a core of its own."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.sql import SparkSession

from highwater.common.spark_session import spark_session
from highwater.pipeline.source import register
from tools.pipeline_speed.connector import connector_jars


@contextmanager
def session(cores: int, places: set[int]) -> Iterator[SparkSession]:
    """`local[cores]`; its JVM and its Python workers stay on the processors in `places`."""
    settings = {
        "spark.driver.memory": "2g",
        "spark.jars": ",".join(map(str, connector_jars())),
        "spark.log.level": "ERROR",
        "spark.sql.shuffle.partitions": "1",
        "spark.sql.streaming.numRecentProgressUpdates": "10000",
    }
    placed_before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, places)
    try:
        with spark_session("highwater", f"local[{cores}]", settings) as spark:
            register(spark)
            yield spark
    finally:
        os.sched_setaffinity(0, placed_before)
