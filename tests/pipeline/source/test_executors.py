"""Executors whose Python is another than the driver's: without libraries, and without this package."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from highwater.pipeline.errors import SettingsError
from highwater.pipeline.sink.batch_transaction import TransactionalSink
from highwater.pipeline.source import HighwaterDataSource, register
from tests.pipeline.source.topics import Topics
from tests.pipeline.spark_session import spark_session
from tests.pythons import LIBRARIES, ON_EXECUTOR, Pythons

pytestmark = [pytest.mark.slow, pytest.mark.spark, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def pythons(tmp_path_factory: pytest.TempPathFactory) -> Pythons:
    return Pythons(tmp_path_factory.mktemp("pythons"))


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    settings = {
        "spark__master": "local-cluster[1,1,700]",
        "spark__executor__memory": "700m",
        f"spark__executorEnv__{ON_EXECUTOR}": "1",
        "spark__executorEnv__PYTHONPATH": "",
    }
    with spark_session(tmp_path_factory.mktemp("spark"), **settings) as session:
        yield session


def test_what_executors_lack(
    spark: SparkSession, topics: Topics, pythons: Pythons, monkeypatch: pytest.MonkeyPatch
) -> None:
    topics.create("far")
    topics.produce("far", 20)
    topics.create("copied", 2)
    cluster = {"kafka.bootstrap.servers": topics.address}

    def far() -> DataFrame:
        return spark.read.format("highwater").options(**cluster, subscribe="far").load()

    libraries = pythons.make("libraries", LIBRARIES)
    monkeypatch.setattr(spark.sparkContext, "pythonExec", libraries)
    spark.dataSource.register(HighwaterDataSource)
    with pytest.raises(PySparkException, match="ModuleNotFoundError: No module named 'highwater'"):
        far().collect()

    monkeypatch.setattr(spark.sparkContext, "pythonExec", pythons.make("bare"))
    with pytest.raises(SettingsError, match=r"^executor on .*/bare/bin/python has no crc32c, cramjam, kio"):
        register(spark)
    monkeypatch.setattr(spark.sparkContext, "pythonExec", libraries)
    with pytest.raises(SettingsError, match=r"^executor on .* has no tests; install it there: python -m pip install"):
        register(spark, imports=["json", "tests"])

    register(spark)
    assert far().count() == 20
    TransactionalSink(cluster, "copy", "copied").append(far().select("key", "value"))
    assert len(topics.rows("copied", 2, read_committed=True)) == 20
