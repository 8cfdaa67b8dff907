"""Where a Python worker's time goes that reads a topic for Spark: nanoseconds of CPU for a record.

    python -m tools.reading_profile [--records 400000]

A broker of this checkout has the last processor, the reader the first, together with a process that takes its Arrow
batches from a Unix socket in pieces of 64 KiB, as Spark's JVM does. Each topic is read once before it counts.
"""

from __future__ import annotations

import os
import socket
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Annotated, Any, Final

import pyarrow as pa
import typer

from highwater.kafka.client.blocking_connection import BlockingConnection
from highwater.pipeline.kafka import decode, reader, rows
from highwater.pipeline.kafka.client import Client
from highwater.pipeline.kafka.columns import DEFAULT_COLUMNS
from highwater.pipeline.kafka.settings import settings_of
from tools.pipeline_speed.reading import TOPICS
from tools.pipeline_speed.records import fill, pinned_broker


class _Writer(pa.RecordBatchStreamWriter):  # type: ignore[misc] # Arrow has no types
    """One whose method can be watched: Arrow's own class lets nobody replace it."""

    def write_batch(self, batch: Any) -> None:
        super().write_batch(batch)


_PIECE_BYTES: Final = 64 << 10
_WHOLE: Final = "all"
_REST: Final = "the rest"
_PHASES: Final[dict[str, tuple[Any, str]]] = {
    "receive": (BlockingConnection, "_read"),
    "batch headers": (decode, "read_batches"),
    "CRC": (decode, "check_crcs"),
    "where records begin": (rows, "find_starts"),
    "their fields": (rows, "read_fields"),
    "keys and values": (rows, "_binary"),
    "write to the socket": (_Writer, "write_batch"),
}
"""None of these calls another one."""


def main(
    records: Annotated[int, typer.Option(min=10_000, help="Records of a topic; of the large ones a fifth.")] = 400_000,
) -> None:
    """Print one table for all topics."""
    with pinned_broker() as address, Client(settings_of({"bootstrap.servers": address})) as client:
        topics = [
            fill(client, f"t{number}", shape, int(records * shape.record_share)) for number, shape in enumerate(TOPICS)
        ]
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
        columns = [_measure(client, topic.name, topic.count) for topic in topics]
    lines = [["phase", *(shape.name for shape in TOPICS)], ["---"] * (len(TOPICS) + 1)]
    lines += [[phase, *(f"{each[phase]:.0f} ns" for each in columns)] for phase in (*_PHASES, _REST, _WHOLE)]
    sys.stdout.write("".join(f"| {' | '.join(cells)} |\n" for cells in lines))


def _measure(client: Client, topic: str, count: int) -> dict[str, float]:
    used_s = dict.fromkeys(_PHASES, 0.0)
    client.cluster([topic])
    with _jvm() as out, _watched(used_s):
        _read(client, topic, count, out)
        used_s.update(dict.fromkeys(used_s, 0.0))
        began_s = time.process_time()
        _read(client, topic, count, out)
        whole_s = time.process_time() - began_s
    found = {**used_s, _REST: whole_s - sum(used_s.values()), _WHOLE: whole_s}
    return {phase: seconds / count * 1e9 for phase, seconds in found.items()}


def _read(client: Client, topic: str, count: int, out: Any) -> None:
    """As pyspark's worker does: all columns as one structure."""
    writer = None
    for found in reader.read_range(client, reader.OffsetRange(topic, 0, 0, count), columns=DEFAULT_COLUMNS):
        struct = pa.StructArray.from_arrays(found.rows.columns, fields=list(found.rows.schema))
        batch = pa.RecordBatch.from_arrays([struct], ["_0"])
        writer = writer or _Writer(out, batch.schema)
        writer.write_batch(batch)
    out.flush()


@contextmanager
def _watched(used_s: dict[str, float]) -> Iterator[None]:
    def timed(phase: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def run(*given: Any, **named: Any) -> Any:
            began_s = time.process_time()
            try:
                return call(*given, **named)
            finally:
                used_s[phase] += time.process_time() - began_s

        return run

    originals = {phase: getattr(*place) for phase, place in _PHASES.items()}
    for phase, (owner, name) in _PHASES.items():
        setattr(owner, name, timed(phase, originals[phase]))
    try:
        yield
    finally:
        for phase, (owner, name) in _PHASES.items():
            setattr(owner, name, originals[phase])


@contextmanager
def _jvm() -> Iterator[Any]:
    """The file that a worker writes to. What takes it ends with the file."""
    ours, theirs = socket.socketpair()
    child = os.fork()
    if not child:
        ours.close()
        piece = bytearray(_PIECE_BYTES)
        while theirs.recv_into(piece):
            pass
        os._exit(0)
    theirs.close()
    with ours, ours.makefile("wb", _PIECE_BYTES) as out:
        yield out
    os.waitpid(child, 0)


if __name__ == "__main__":
    typer.run(main)
