"""Messages of the telemetry topic as Arrow rows that can be added up in any order. Pure.

A row of kind    is about                                    and adds up by
    bucket       metric `name`, second, bucket               sum of amount
    count        row `name` of Windows, second               sum of amount
    cpu          the busiest task of the second              max of high, in ten-thousandths of a core
    task         task `name`: its messages                   sum of amount, min of low and max of high (their numbers)
    `told`       task `name`: the latest second it reported  max of high: twice the second, plus 1 if it was the last
    skipped      task `name`: messages it left out           max of high
    note         a note of the driver, in payload            max of payload
    malformed    messages that are none, with the reason     sum of amount
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from highwater.bench.telemetry.notes import HostNote, MalformedNoteError, Note, decode_note
from highwater.results.histogram import Histogram
from highwater.spark_loadgen.telemetry.message import MAGIC, MalformedMessageError, TaskMessage

CPU_UNITS: Final = 10_000
KEYS: Final = ("trial", "kind", "name", "second", "bucket")
SCHEMA: Final = pa.schema(
    [
        ("trial", pa.string()),
        ("kind", pa.string()),
        ("name", pa.string()),
        ("second", pa.int32()),
        ("bucket", pa.int32()),
        ("amount", pa.int64()),
        ("low", pa.int64()),
        ("high", pa.int64()),
        ("payload", pa.string()),
    ]
)
_Key = tuple[str, str, str, int]
# So many histograms are held before they are added up: a stream that catches up has thousands in one batch.
_HELD_MAX: Final = 4096


def rows_of(messages: Iterable[bytes | None]) -> pa.RecordBatch:
    """The rows of these messages, added up as far as they agree in KEYS."""
    rows = _Rows()
    for message in messages:
        rows.add(message or b"")
    return rows.batch()


class _Rows:
    def __init__(self) -> None:
        self._buckets: defaultdict[tuple[str, str, int], list[Histogram]] = defaultdict(list)
        self._held = 0
        self._others: dict[_Key, tuple[int, int, int, str | None]] = {}

    def add(self, message: bytes) -> None:
        try:
            if message[: len(MAGIC)] == MAGIC:
                self._add_task(TaskMessage.decode(message))
            else:
                self._add_note(decode_note(message), message.decode())
        except (MalformedMessageError, MalformedNoteError) as error:
            self._put(("", "malformed", str(error), 0), amount=1)

    def batch(self) -> pa.RecordBatch:
        self._add_up()
        others = [
            (trial, kind, name, second, 0, amount, low, high, payload)
            for (trial, kind, name, second), (amount, low, high, payload) in self._others.items()
        ]
        columns = list(zip(*others, strict=True)) or [()] * len(SCHEMA)
        arrays = [pa.array(column, item.type) for column, item in zip(columns, SCHEMA, strict=True)]
        parts = [pa.RecordBatch.from_arrays(arrays, schema=SCHEMA), self._bucket_rows()]
        return pa.Table.from_batches(parts).combine_chunks().to_batches()[0] if self._buckets else parts[0]

    def _bucket_rows(self) -> pa.RecordBatch:
        """The rows of buckets, built by column, since these are nearly all rows."""
        histograms = [histogram for (histogram,) in self._buckets.values()]
        repeats = np.repeat(np.arange(len(histograms)), [len(histogram.indices) for histogram in histograms])

        def of_key(part: int, kind: pa.DataType) -> pa.Array:
            return pa.array([key[part] for key in self._buckets], kind).take(pa.array(repeats))

        def joined(rows: Sequence[NDArray[np.int64]], kind: pa.DataType) -> pa.Array:
            return pa.array(np.concatenate([np.zeros(0, dtype=np.int64), *rows]), pa.int64()).cast(kind)

        zeros = pa.array(np.zeros(len(repeats), dtype=np.int64))
        kinds = pa.array(["bucket"], pa.string()).take(zeros)
        arrays = [
            of_key(0, pa.string()),
            kinds,
            of_key(1, pa.string()),
            of_key(2, pa.int32()),
            joined([histogram.indices for histogram in histograms], pa.int32()),
            joined([histogram.counts for histogram in histograms], pa.int64()),
            zeros,
            zeros,
            pa.nulls(len(repeats), pa.string()),
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)

    def _add_task(self, message: TaskMessage) -> None:
        trial, task = message.trial, str(message.task)
        for (metric, second), histogram in message.histograms.items():
            self._buckets[trial, metric, second].append(histogram)
        self._held += len(message.histograms)
        if self._held > _HELD_MAX:
            self._add_up()
        for name, row in message.counts.items():
            for second, amount in enumerate(row, message.first):
                if amount:
                    self._put((trial, "count", name, second), amount=amount)
        for second, ratio in enumerate(message.cpu_ratio, message.first):
            self._put((trial, "cpu", "", second), high=round(ratio * CPU_UNITS))
        self._put((trial, "task", task, 0), amount=1, low=message.number, high=message.number)
        self._put((trial, "told", task, 0), high=2 * message.second + message.last)
        self._put((trial, "skipped", task, 0), high=message.skipped)

    def _add_note(self, note: Note, text: str) -> None:
        second = note.second if isinstance(note, HostNote) else 0
        name = f"host {note.host}" if isinstance(note, HostNote) else type(note).__name__
        self._put((note.trial, "note", name, second), payload=text)

    def _put(self, key: _Key, *, amount: int = 0, low: int = 0, high: int = 0, payload: str | None = None) -> None:
        if (before := self._others.get(key)) is not None:
            amount, low, high = amount + before[0], min(low, before[1]), max(high, before[2])
            payload = max(filter(None, (payload, before[3])), default=None)
        self._others[key] = (amount, low, high, payload)

    def _add_up(self) -> None:
        for key, histograms in self._buckets.items():
            if len(histograms) != 1:
                self._buckets[key] = [Histogram.merged(histograms)]
        self._held = 0


def rows_of_batches(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """For mapInArrow over a frame with the column `value`: one batch of rows for each batch of messages."""
    for batch in batches:
        yield rows_of(batch.column("value").to_pylist())
