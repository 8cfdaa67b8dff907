"""Reads which micro-batch a function of foreachBatch has: from Spark, or from the query's checkpoint."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name that PySpark's documentation uses

from highwater.common.typed_json import parse_json
from highwater.pipeline.errors import SettingsError
from highwater.pipeline.kafka.offsets import Offsets
from highwater.pipeline.progress.batch import BatchOf, ProgressError, offsets_of_source

_QUERY_ID: Final = "sql.streaming.queryId"
"""The local property that Spark sets in the thread of a query (StreamExecution.QUERY_ID_KEY)."""


def batch_in_hand(frame: DataFrame, batch_id: int, checkpoint: str = "") -> BatchOf:
    """Return the batch that Spark gave to a function of foreachBatch, with the offsets of all its sources.

    checkpoint: the query's, from which the batch is read over Spark Connect. Raises SettingsError outside of
    foreachBatch, and over Spark Connect without a checkpoint.
    """
    # The session of the batch is a clone that does not know its queries; the state that all sessions share does.
    session = getattr(frame.sparkSession, "_jsparkSession", None)
    if session is None:
        if not checkpoint:
            raise SettingsError(
                "Spark Connect does not say which query runs: give the sink checkpoint=, "
                "the checkpointLocation of its query"
            )
        return batch_of_checkpoint(frame, batch_id, checkpoint)
    context = frame.sparkSession.sparkContext
    query_id = context.getLocalProperty(_QUERY_ID)
    if not query_id:
        raise SettingsError("write(frame, batch_id) works inside of foreachBatch alone, in the thread that Spark calls")
    java: Any = context._jvm
    query = session.sharedState().activeStreamingQueries().get(java.java.util.UUID.fromString(query_id))
    if query is None:
        raise SettingsError(f"query {query_id} has ended, and its batch {batch_id} can no longer be written")
    sources = _elements(query.sources())
    return BatchOf(
        query_id,
        batch_id,
        tuple(_offsets(query.availableOffsets().get(each)) for each in sources),
        tuple(_offsets(each) for each in _starts(query, sources)),
        str(query.runId().toString()),
    )


class OncePerBatch:
    """Finds two sinks of one query that share a name: the second one would take its rows for a replay."""

    def __init__(self) -> None:
        self._done: dict[str, tuple[str, int]] = {}

    def check(self, sink: str, batch: BatchOf) -> None:
        """Raises ProgressError if this run of the query has finished the batch under this name before."""
        if self._done.get(sink) == (batch.run_id, batch.batch_id):
            raise ProgressError(
                f"{sink} was given batch {batch.batch_id} twice, and would take the second time for a replay: "
                "give each sink its own name, and call write once for each batch"
            )

    def done(self, sink: str, batch: BatchOf) -> None:
        self._done[sink] = batch.run_id, batch.batch_id


def _starts(query: Any, sources: list[Any]) -> list[Any]:
    """Where the batch begins for each source, as Scala's Option."""
    committed = query.committedOffsets()
    planned = {}
    for leaf in _elements(query.lastExecution().logical().collectLeaves()):
        if leaf.getClass().getSimpleName() == "StreamingDataSourceV2ScanRelation":
            planned.update({number: leaf for number, each in enumerate(sources) if each.equals(leaf.stream())})
    # The first batch follows no other: its plan alone says where it begins. A later plan lacks sources without news.
    return [
        planned[number].startOffset() if number in planned else committed.get(each)
        for number, each in enumerate(sources)
    ]


def _offsets(option: Any) -> Offsets:
    """Offsets of topics, also of Spark's own connector; none for sources of another kind."""
    return offsets_of_source(str(option.get().json())) if option.isDefined() else Offsets({})


def _elements(sequence: Any) -> list[Any]:
    return [sequence.apply(number) for number in range(sequence.size())]


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
