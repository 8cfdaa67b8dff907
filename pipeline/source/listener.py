"""Reports each finished micro-batch to the source at once, for `commitOffsets`."""

from __future__ import annotations

import json
from typing import Any, ClassVar

from pyspark import SparkContext
from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)

from highwater.pipeline.source.group_commits import COMMITS, Finished, tell


class FinishedBatches(StreamingQueryListener):
    """Runs in the driver's Python, in a thread of Spark's."""

    @property
    def _jlistener(self) -> Any:
        jvm = SparkContext._jvm
        assert jvm is not None
        return jvm.PythonStreamingQueryListenerWrapper(_JavaListener())

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802 - Spark's name
        """Over Spark Connect."""
        _report(event.progress.json)

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802 - Spark's name
        """Nothing is finished yet."""

    def onQueryIdle(self, event: QueryIdleEvent) -> None:  # noqa: N802 - Spark's name
        """Nothing is new."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802 - Spark's name
        """The last batch has been reported."""


class _JavaListener:
    """What the JVM calls. PySpark's own asks it for each figure of each event, in dozens of calls for a batch."""

    def onQueryProgress(self, event: Any) -> None:  # noqa: N802 - Spark's name
        _report(event.progress().json())

    def onQueryStarted(self, event: Any) -> None:  # noqa: N802 - Spark's name
        """Nothing is finished yet."""

    def onQueryIdle(self, event: Any) -> None:  # noqa: N802 - Spark's name
        """Nothing is new."""

    def onQueryTerminated(self, event: Any) -> None:  # noqa: N802 - Spark's name
        """The last batch has been reported."""

    class Java:
        """The interface, as Py4J asks for it."""

        implements: ClassVar = ["org.apache.spark.sql.streaming.PythonStreamingQueryListener"]


def _report(progress_text: str) -> None:
    """Offsets of this source are objects; those of other sources can be of any form."""
    progress = json.loads(progress_text)
    for source in progress["sources"]:
        latest, end = source.get("latestOffset"), source.get("endOffset")
        address = latest.get(COMMITS) if isinstance(latest, dict) else None
        if isinstance(address, dict) and isinstance(end, dict) and end:
            tell(address, Finished(end, progress["id"], progress["batchId"]))
