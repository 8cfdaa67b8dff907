"""Reads from a query's checkpoint which micro-batch it runs, for sessions of Spark Connect."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name that PySpark's documentation uses

from highwater.common.typed_json import parse_json
from highwater.pipeline.errors import SettingsError
from highwater.pipeline.kafka.offsets import Offsets
from highwater.pipeline.progress.batch import BatchOf, offsets_of_source

_VERSION: Final = "v1"


def batch_of_checkpoint(frame: DataFrame, batch_id: int, checkpoint: str) -> BatchOf:
    """Return the batch with the offsets of all sources; Spark has written them before it runs the batch.

    The start of a query's first batch is in no file: it is None. Raises SettingsError if the query of the batch cannot
    be the one that has this checkpoint.
    """
    files = _read(frame.sparkSession, checkpoint, batch_id)
    query_id = parse_json(files.get("metadata", "{}")).get("id")
    if not query_id or f"{batch_id}" not in files or f"{batch_id + 1}" in files:
        raise SettingsError(
            f"{checkpoint} is not the checkpoint of the query that runs batch {batch_id}: give the sink the "
            "checkpointLocation of its query"
        )
    before = files.get(f"{batch_id - 1}")
    return BatchOf(
        str(query_id),
        batch_id,
        offsets_of_log(files[f"{batch_id}"]),
        None if before is None else offsets_of_log(before),
        # This process serves one run of one query.
        str(os.getpid()),
    )


def offsets_of_log(text: str) -> tuple[Offsets, ...]:
    """Read a file of `offsets/`: a version, the query's settings, and a line for each source. Raises SettingsError."""
    version, _, *lines = text.split("\n")
    if version != _VERSION:
        raise SettingsError(f"this Spark writes offsets in version {version}, and only {_VERSION} can be read")
    return tuple(offsets_of_source(line) for line in lines)


def _read(spark: SparkSession, checkpoint: str, batch_id: int) -> Mapping[str, str]:
    """The text of each file that is there, by its name. Spark reads them, as they can be on any file system."""
    numbers = ",".join(str(each) for each in (batch_id - 1, batch_id, batch_id + 1) if each >= 0)
    try:
        lines = spark.read.text([f"{checkpoint}/metadata", f"{checkpoint}/offsets/{{{numbers}}}"], wholetext=True)
        return {
            row.name: row.value for row in lines.select(F.col("_metadata.file_name").alias("name"), "value").collect()
        }
    except Exception as error:
        if "PATH_NOT_FOUND" in str(error):
            return {}
        raise
