"""Refuses sessions in which Spark starts a second copy of a slow task."""

from __future__ import annotations

from typing import Final

from pyspark.sql import SparkSession

from highwater.pipeline.errors import SettingsError

_SPECULATION: Final = "spark.speculation"


def refuse_speculation(spark: SparkSession) -> None:
    """Raises SettingsError if it is on."""
    if str(spark.sparkContext.getConf().get(_SPECULATION, "false")).lower() == "true":
        raise SettingsError(f"{_SPECULATION} is true, and two copies of a task must not write; set it to false")
