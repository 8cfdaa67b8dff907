"""The sinks that a drill knows: crash points, promises, safeguards that can be taken away. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from highwater.pipeline.crash_points import CrashPoint

FILE: Final = "file"
SQLITE: Final = "sqlite"
POSTGRESQL: Final = "postgresql"
MARIADB: Final = "mariadb"
PARQUET: Final = "parquet"
DELTA: Final = "delta"
ICEBERG: Final = "iceberg"
TOPIC_BATCH: Final = "topic-batch"
TOPIC_PARTITION: Final = "topic-partition"

FIRST_OFFSETS: Final = "first-offsets"
MARKER: Final = "marker"
ROW_LOCK: Final = "row-lock"
FENCING: Final = "fencing"

_SOURCE: Final = (CrashPoint.SOURCE_FIRST_OFFSETS, CrashPoint.SOURCE_PLANNED, CrashPoint.SOURCE_READING)
_ALL: Final = tuple(CrashPoint)


@dataclass(frozen=True, slots=True)
class Kind:
    """has_server: a database server can be killed. whole_batches: no reader ever sees a part of a batch.

    resumes: what the sink has stored says where a query without its checkpoint goes on.
    """

    points: tuple[CrashPoint, ...]
    safeguards: tuple[str, ...]
    has_server: bool = False
    whole_batches: bool = True
    resumes: bool = True


KINDS: Final[dict[str, Kind]] = {
    FILE: Kind(
        (*_SOURCE, CrashPoint.SINK_BEGINS, CrashPoint.SINK_COMMITTED, CrashPoint.SINK_SKIPPED),
        (FIRST_OFFSETS,),
        whole_batches=False,
        resumes=False,
    ),
    SQLITE: Kind(_ALL, (MARKER, ROW_LOCK, FIRST_OFFSETS)),
    POSTGRESQL: Kind(_ALL, (MARKER, ROW_LOCK, FIRST_OFFSETS), has_server=True),
    MARIADB: Kind(_ALL, (MARKER, ROW_LOCK, FIRST_OFFSETS), has_server=True),
    # A batch that is written again replaces itself, so that a missing look at its progress does not show.
    PARQUET: Kind(_ALL, (FIRST_OFFSETS,)),
    DELTA: Kind(_ALL, (MARKER, FENCING, FIRST_OFFSETS)),
    ICEBERG: Kind(_ALL, (MARKER, FENCING, FIRST_OFFSETS)),
    TOPIC_BATCH: Kind(_ALL, (MARKER, FENCING, FIRST_OFFSETS)),
    TOPIC_PARTITION: Kind(_ALL, (MARKER, FENCING, FIRST_OFFSETS), whole_batches=False, resumes=False),
}
