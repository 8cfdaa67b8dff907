"""Spark sessions of commands that sum up topics: small, with the source `highwater`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from highwater.common import spark_session as common
from highwater.common.errors import UsageError
from highwater.pipeline.errors import PipelineError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DEFAULT_MASTER: Final = "local[2]"
_SETTINGS: Final = {
    "spark.driver.memory": "1g",
    # A micro-batch has a few thousand rows; two hundred partitions, the default, would each be a task.
    "spark.sql.shuffle.partitions": "2",
    "spark.log.level": "ERROR",
    # Progress of each micro-batch is kept for people who look; the figures are in the store.
    "spark.sql.streaming.numRecentProgressUpdates": "10",
    "spark.sql.streaming.minBatchesToRetain": "10",
}
SHIPPED: Final = ("bench", "results", "spark_loadgen", "studies")
"""What a task imports beside what the source `highwater` does."""


@contextmanager
def spark_session(
    name: str, master: str = DEFAULT_MASTER, settings: Mapping[str, str] | None = None
) -> Iterator[SparkSession]:
    """A session, and this package for executors on other hosts. Raises UsageError."""
    with common.spark_session(name, master, {**_SETTINGS, **(settings or {})}) as spark:
        from highwater.pipeline.source.session import register

        try:
            register(spark, folders=SHIPPED)
            yield spark
        except PipelineError as error:
            raise UsageError(str(error)) from error
