"""A Spark session and a broker for the tests of the sinks."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from highwater.pipeline.source import register
from highwater.spark_loadgen.java import find_java
from tests.broker.running import running_broker
from tests.pipeline.source.topics import Topics


@pytest.fixture(scope="package")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    scratch = tmp_path_factory.mktemp("spark")
    before = dict(os.environ)
    os.environ["JAVA_HOME"] = str(find_java(os.environ, scratch).home)
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    os.environ["PYSPARK_PYTHON"] = sys.executable
    settings: dict[str, bool | float | int | str | None] = {
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.memory": "1g",
        "spark.local.dir": str(scratch),
        "spark.sql.warehouse.dir": str(scratch / "warehouse"),
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "2",
        "spark.ui.enabled": "false",
    }
    session = SparkSession.builder.master("local[2]").config(map=settings).getOrCreate()
    try:
        session.sparkContext.setLogLevel("OFF")
        register(session)
        yield session
    finally:
        session.stop()
        os.environ.clear()
        os.environ.update(before)


@pytest.fixture(scope="module")
def topics(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Topics]:
    with running_broker(tmp_path_factory.mktemp("broker") / "log") as broker:
        yield Topics(broker.address)
