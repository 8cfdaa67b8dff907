"""A Spark session with two cores for the tests of the sinks, as their tasks run side by side."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from highwater.pipeline.source import register
from tests.pipeline.spark_session import spark_session


@pytest.fixture(scope="package")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    settings = {"spark__master": "local[2]", "spark__sql__shuffle__partitions": "2"}
    with spark_session(tmp_path_factory.mktemp("spark"), **settings) as session:
        register(session)
        yield session
