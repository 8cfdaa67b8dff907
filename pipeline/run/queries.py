"""Starts the queries of a run, watches them, and stops them between two micro-batches."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from highwater.pipeline.run.model import AVAILABLE_NOW, Flow
from highwater.pipeline.run.progress import FlowProgress
from highwater.pipeline.run.sink_formats import Sink

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery

_POLL_S: Final = 0.2


class _StoppedError(Exception):
    """Ends a query before a batch begins; the batch runs at the next start, with the same offsets."""


class FlowRun:
    """One query, from its start to its end."""

    def __init__(self, flow: Flow, frame: DataFrame, sink: Sink, checkpoint: str, stopping: threading.Event) -> None:
        self.flow = flow
        self.progress = FlowProgress(flow.name)
        self.was_stopped = False
        self.has_warned = False
        self._sink = sink
        self._stopping = stopping
        self._failure: BaseException | None = None
        trigger: dict[str, Any] = (
            {"availableNow": True} if flow.trigger == AVAILABLE_NOW else {"processingTime": flow.trigger}
        )
        self.query: StreamingQuery = (
            frame.writeStream.queryName(flow.name)
            .outputMode(flow.output_mode)
            .option("checkpointLocation", checkpoint)
            .trigger(**trigger)
            .foreachBatch(self._write)
            .start()
        )

    def _write(self, frame: DataFrame, batch_id: int) -> None:
        """Called by Spark. No batch begins after a stop was asked for, and one that has begun is finished."""
        if self._stopping.is_set():
            self.was_stopped = True
            raise _StoppedError
        try:
            self._sink.write(frame, batch_id)
        except BaseException as error:
            self._failure = error
            raise

    @property
    def rows_out(self) -> int | None:
        """How many rows the sink has written; None if it does not count them."""
        return self._sink.row_count

    def look(self) -> bool:
        """Read Spark's reports; returns whether there was a new one."""
        return self.progress.add(json.loads(each.json) for each in self.query.recentProgress)

    def stop_if_idle(self) -> None:
        if self.query.isActive and not self.query.status["isTriggerActive"]:
            self.was_stopped = True
            self.query.stop()

    @property
    def failure(self) -> BaseException | None:
        """Why the query ended, if it did not end as it should; the sink's own error where it was the sink."""
        found = self.query.exception()
        return None if found is None or self.was_stopped else self._failure or found


def watch(
    runs: Sequence[FlowRun],
    stopping: threading.Event,
    at_once: threading.Event,
    on_progress: Callable[[FlowRun], None],
) -> Mapping[str, BaseException]:
    """Wait until all queries have ended; returns the failures by flow.

    stopping: ends each query after its batch; set here when one query fails. at_once: ends them in the middle.
    """
    while True:
        for run in runs:
            if run.look():
                on_progress(run)
        active = [run for run in runs if run.query.isActive]
        if not active:
            break
        if any(run.failure is not None for run in runs):
            stopping.set()
        for run in active:
            if at_once.is_set():
                run.was_stopped = True
                run.query.stop()
            elif stopping.is_set():
                run.stop_if_idle()
        time.sleep(_POLL_S)
    for run in runs:
        if run.look():
            on_progress(run)
    return {run.flow.name: failure for run in runs if (failure := run.failure) is not None}
