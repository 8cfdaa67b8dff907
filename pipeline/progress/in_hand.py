"""Reads from Spark which micro-batch a function of foreachBatch has in its hands."""

from __future__ import annotations

from typing import Any, Final

from pyspark.sql import DataFrame

from highwater.pipeline.errors import SettingsError
from highwater.pipeline.kafka.offsets import Offsets
from highwater.pipeline.progress.batch import BatchOf, ProgressError, offsets_of_source
from highwater.pipeline.progress.in_checkpoint import batch_of_checkpoint

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
