"""Records that are ready for the client, many at a time: arguments of produce(), made ahead of time."""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Callable
from operator import add, length_hint
from typing import Any, Final

import numpy as np
from confluent_kafka import KafkaException
from numpy.typing import NDArray

from highwater.spark_loadgen.assignment import assigned_partitions
from highwater.spark_loadgen.content import Content
from highwater.spark_loadgen.model import LoadPlan
from highwater.spark_loadgen.schedule import Schedule
from highwater.spark_loadgen.stamp import STAMP, STAMP_BYTES, encode_stamps, write_stamps

_BLOCK_BYTES: Final = 1 << 20
_BLOCK_RECORDS_MAX: Final = 1024
# A closed loop stamps its records when it makes their block; a small block is soon sent.
_CLOSED_LOOP_BLOCK_RECORDS: Final = 512
_NO_PARTITION: Final = -1
_CALLBACK: Final = 4
"""Position of the delivery callback among the arguments of Producer.produce."""


class ReadyRecords:
    """Consecutive records. `columns` has one list for each argument of Producer.produce; columns[1] are the values.

    The values are valid until the next block is made.
    """

    __slots__ = ("columns", "first", "intended_ns")

    def __init__(self, first: int, intended_ns: list[int], columns: list[list[Any]]) -> None:
        self.first = first
        self.intended_ns = intended_ns
        self.columns = columns

    @property
    def end(self) -> int:
        """Sequence of the record after the last one."""
        return self.first + len(self.intended_ns)

    def due_end(self, start: int, elapsed_ns: int) -> int:
        """Sequence of the first record, from `start` on, that is not due yet."""
        return self.first + bisect_right(self.intended_ns, elapsed_ns, start - self.first)

    def value_bytes(self, sequence: int) -> int:
        return memoryview(self.columns[1][sequence - self.first]).nbytes

    def produce(self, produce: Callable[..., None], start: int, end: int) -> tuple[int, Exception | None]:
        """Produce records `start` to `end` − 1. Returns the sequence after the last one produced, and the error if any.

        All calls run in C code: a Python loop would add half of the client's own cost.
        """
        at, until = start - self.first, end - self.first
        topics, values, *others = self.columns
        values_left = iter(values[at:until])
        calls = map(produce, topics[at:until], values_left, *[column[at:until] for column in others])
        try:
            deque(calls, maxlen=0)
        except (BufferError, KafkaException) as refusal:
            # The iterator has also passed the value of the call that failed.
            return end - length_hint(values_left) - 1, refusal
        return end, None

    def produce_timed(self, produce: Callable[..., None], sequence: int, callback: Callable[..., None]) -> None:
        """Produce one record with a delivery callback of its own. Raises BufferError and KafkaException."""
        arguments = [column[sequence - self.first] for column in self.columns]
        arguments += (None, None, None, _NO_PARTITION, None)[len(arguments) : _CALLBACK + 1]
        arguments[_CALLBACK] = callback
        produce(*arguments)


class RecordMaker:
    """Makes the blocks of one worker in sequence."""

    def __init__(self, plan: LoadPlan, worker: int, magic: int, content: Content, schedule: Schedule | None) -> None:
        self._worker = worker
        self._content = content
        self._schedule = schedule
        most = _BLOCK_RECORDS_MAX if schedule else _CLOSED_LOOP_BLOCK_RECORDS
        self._records = max(1, min(most, int(_BLOCK_BYTES / content.mean_value_bytes)))
        self._values = Values(content, worker, magic, self._records)
        if plan.pairs:
            places = assigned_partitions(plan.topics, plan.partitions, plan.producers, worker)
            self._topics, self._partitions = [topic for topic, _ in places], [partition for _, partition in places]
        else:
            # Without a partition the client's own partitioner chooses, as in most applications. Consumers can still
            # check the order, since a partition keeps the order of the calls.
            shift = worker % len(plan.topics)
            self._topics, self._partitions = [*plan.topics[shift:], *plan.topics[:shift]], [_NO_PARTITION]
        self._partitioned = plan.pairs
        self._keyed = plan.keys is not None

    def after(self, block: ReadyRecords | None, total: int | None, elapsed_ns: int) -> ReadyRecords:
        """The next block, at most up to record `total`. In a closed loop its records are intended for `elapsed_ns`."""
        first = block.end if block else 0
        end = first + self._records if total is None else min(first + self._records, total)
        sequences = np.arange(first, end, dtype=np.int64)
        if self._schedule is None:
            intended_ns = np.full(len(sequences), elapsed_ns, dtype=np.int64)
        else:
            intended_ns = self._schedule.intended_ns(sequences, self._worker)
        values = self._values.of_row(first, intended_ns)
        return ReadyRecords(first, intended_ns.tolist(), self._columns(first, values, sequences))

    def _columns(self, first: int, values: list[Any], sequences: np.ndarray[Any, Any]) -> list[list[Any]]:
        count = len(values)
        columns: list[list[Any]] = [_in_turn(self._topics, first, count), values]
        if self._keyed or self._partitioned or self._content.has_headers:
            keys, partitions = self._content.keys_and_partitions(self._worker, sequences)
            columns.append(list(keys) if keys else [None] * count)
            if partitions is None or self._partitioned:
                partitions = _in_turn(self._partitions, first, count)
            columns.append(partitions)
        if self._content.has_headers:
            # Callback, its alias, the timestamp (0 = now), headers.
            columns += [[None] * count, [None] * count, [0] * count]
            columns.append(self._content.headers_in_row(self._worker, sequences))
        return columns


def _in_turn(places: list[Any], first: int, count: int) -> list[Any]:
    """The places of records `first` to `first + count` − 1 when records take the places in turn."""
    start = first % len(places)
    return (places * (1 + (start + count) // len(places)))[start : start + count]


class Values:
    """The values of consecutive records of one worker: stamp and body joined, some hundred at a time.

    For bodies of one size there is one array in which each body follows the space for its stamp; stamps are written in
    bulk, and the client receives views of that array. The client copies each value anyway, and a second copy would be
    most of the generator's own cost of a 1 KiB record. When sizes vary, stamp and body of each record are concatenated.
    """

    def __init__(self, content: Content, worker: int, magic: int, row_max: int) -> None:
        """row_max: largest number of values in one call."""
        self._content = content
        self._worker = worker
        self._magic = magic
        sizes = set(map(len, content.pool))
        self._rows = _rows(content.pool, row_max, sizes.pop()) if len(sizes) == 1 and 0 not in sizes else None
        # A NumPy scalar of a structured array is a view of its row, not a copy.
        self._views = [] if self._rows is None else list(self._rows)

    def of_row(self, first: int, intended_ns: NDArray[np.int64]) -> list[Any]:
        """The values of records from `first` on, one for each intended time (ns since T0), as bytes-like objects.

        The values are valid until the next call.
        """
        if self._rows is None:
            stamps = encode_stamps(self._worker, self._magic, first, intended_ns)
            return list(map(add, stamps, self._content.bodies_in_row(self._worker, first, len(stamps))))
        start = self._content.pool_position(self._worker, first)
        end = start + len(intended_ns)
        write_stamps(self._rows["stamp"][start:end], self._worker, self._magic, first, intended_ns)
        return self._views[start:end]


def _rows(bodies: list[bytes], row_max: int, body_bytes: int) -> NDArray[Any]:
    """Rows of stamp and body for the whole pool, and `row_max` more, so that every row of values is contiguous."""
    count = len(bodies)
    rows = np.zeros(count + row_max, dtype=[("stamp", STAMP), ("body", f"V{body_bytes}")])
    assert rows.dtype.itemsize == STAMP_BYTES + body_bytes
    rows["body"] = np.frombuffer(b"".join(bodies), dtype=f"V{body_bytes}")[np.arange(count + row_max) % count]
    return rows
