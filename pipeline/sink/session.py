"""What a sink reads from its session: driver, number of tasks, copies of tasks."""

from __future__ import annotations

from typing import Final

from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name that PySpark's documentation uses

from highwater.common.spark_master import is_in_one_process
from highwater.pipeline.errors import SettingsError

_LOOPBACK: Final = "127.0.0.1"
_SPECULATION: Final = "spark.speculation"
_MOST_TASKS: Final = 100_000


def runs_in_one_process(spark: SparkSession) -> bool:
    """Whether the executor is the driver, so that none can be lost alone."""
    return is_in_one_process(_setting(spark, "spark.master", ""))


def hosts_of(spark: SparkSession) -> tuple[str, str]:
    """Where the driver listens to tasks, and where tasks find it. Over Spark Connect, the server's host is both."""
    if runs_in_one_process(spark):
        return _LOOPBACK, _LOOPBACK
    host = _setting(spark, "spark.driver.host", _LOOPBACK)
    return _setting(spark, "spark.driver.bindAddress", host), host


def task_count(spark: SparkSession) -> int:
    """How many tasks run at once: Spark Connect says it by the partitions of a range."""
    if is_remote(spark):
        return int(spark.range(_MOST_TASKS).select(F.spark_partition_id()).distinct().count())
    return max(1, spark.sparkContext.defaultParallelism)


def is_remote(spark: SparkSession) -> bool:
    """Whether the session is one of Spark Connect. Its class is another, whose import needs grpc."""
    return type(spark).__module__.startswith("pyspark.sql.connect.")


def refuse_speculation(spark: SparkSession) -> None:
    """Raises SettingsError if Spark starts a second copy of a slow task."""
    if _setting(spark, _SPECULATION, "false").lower() == "true":
        raise SettingsError(f"{_SPECULATION} is true, and two copies of a task must not write; set it to false")


def _setting(spark: SparkSession, name: str, default: str) -> str:
    return str(spark.conf.get(name, default))
