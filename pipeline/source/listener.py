"""Reports each finished micro-batch to the source at once, for `commitOffsets`."""

from __future__ import annotations

import json
from typing import Any

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

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802 - Spark's name
        progress = event.progress
        for source in progress.sources:
            address = _read(source.latestOffset).get(COMMITS)
            end = _read(source.endOffset)
            if isinstance(address, dict) and end:
                tell(address, Finished(end, str(progress.id), progress.batchId))

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802 - Spark's name
        """Nothing is finished yet."""

    def onQueryIdle(self, event: QueryIdleEvent) -> None:  # noqa: N802 - Spark's name
        """Nothing is new."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802 - Spark's name
        """The last batch has been reported."""


def _read(offsets: str | None) -> dict[str, Any]:
    """Offsets of this source; those of other sources can be of any form."""
    try:
        found = json.loads(offsets or "{}")
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
