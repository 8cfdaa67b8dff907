"""A Spark session for tests of the pipeline: on loopback, with this interpreter, and small."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pyspark.sql import SparkSession

from highwater.common.spark_java import find_spark_java


@contextmanager
def spark_session(scratch: Path, **more: str) -> Iterator[SparkSession]:
    """Stops the session at the end. `more`: settings of Spark, with two underscores for a dot."""
    before = dict(os.environ)
    os.environ["JAVA_HOME"] = str(find_spark_java(os.environ, scratch).home)
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    os.environ["PYSPARK_PYTHON"] = sys.executable
    settings: dict[str, bool | float | int | str | None] = {
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.memory": "1g",
        "spark.local.dir": str(scratch),
        # Its 15 s were not enough for the JVM and the process of a source on a host with other work.
        "spark.python.authenticate.socketTimeout": "120s",
        "spark.sql.warehouse.dir": str(scratch / "warehouse"),
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "1",
        "spark.ui.enabled": "false",
        **{name.replace("__", "."): value for name, value in more.items()},
    }
    session = SparkSession.builder.master("local[1]").config(map=settings).getOrCreate()
    try:
        session.sparkContext.setLogLevel("OFF")
        yield session
    finally:
        session.stop()
        os.environ.clear()
        os.environ.update(before)
