"""A Spark session with the source and the sinks, and a broker, for each file of tests that asks for them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from highwater.pipeline.source import register
from tests.broker.running import running_broker
from tests.pipeline.source.topics import Topics
from tests.pipeline.spark_session import spark_session


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    with spark_session(tmp_path_factory.mktemp("spark")) as session:
        register(session)
        yield session


@pytest.fixture(scope="module")
def topics(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Topics]:
    quick = ("group.initial.rebalance.delay.ms=0",)
    with running_broker(tmp_path_factory.mktemp("broker") / "log", properties=quick) as broker:
        yield Topics(broker.address)
