"""What the tasks of a whole-batch transaction do: choose partitions, write for the driver's producer."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Final

import numpy as np
import pyarrow as pa

from highwater.common.topic_partition import TopicPartition
from highwater.pipeline.errors import ClientError, PipelineError
from highwater.pipeline.kafka.client import Client
from highwater.pipeline.kafka.model import Producer
from highwater.pipeline.kafka.pool import POOL
from highwater.pipeline.kafka.sender import BatchSender, FencedError, SequenceLostError
from highwater.pipeline.sink.errors import TaskLostError
from highwater.pipeline.sink.grants import CHOICE, COMPUTED_AGAIN, GrantAddress
from highwater.pipeline.sink.options import SinkOptions
from highwater.pipeline.sink.targets import Targets, with_partition
from highwater.pipeline.sink.writing import Writing

REPORT_SCHEMA: Final = "report binary"
LOST: Final = "lost"
"""The whole batch can be tried again."""
FENCED: Final = "fenced"
REFUSED: Final = "refused"


@dataclass(frozen=True)
class TaskReport:
    """Errors come to the driver as values: Spark would run a task that raises again, and hide its first error."""

    written: list[tuple[str, int, int, int]] = field(default_factory=list)
    """(topic, partition, records, next sequence)."""
    failure: str = ""
    """LOST, FENCED, REFUSED, or empty."""
    message: str = ""

    def to_rows(self) -> Any:
        text = json.dumps(asdict(self)).encode()
        edges = np.array([0, len(text)], np.int32)
        column = pa.Array.from_buffers(pa.binary(), 1, [None, pa.py_buffer(edges), pa.py_buffer(text)])
        return pa.RecordBatch.from_arrays([column], schema=pa.schema([("report", pa.binary())]))

    @classmethod
    def from_bytes(cls, text: bytes) -> TaskReport:
        fields = json.loads(text)
        return cls([(topic, *numbers) for topic, *numbers in fields["written"]], fields["failure"], fields["message"])


@dataclass(frozen=True)
class ChoosePartitions:
    """The first of two steps: adds the target to each row, so that Spark can bring rows of one target together."""

    options: SinkOptions
    counts: Mapping[str, int]
    grants: GrantAddress

    def __call__(self, batches: Iterator[Any]) -> Iterator[Any]:
        with POOL.borrow(self.options.settings) as client:
            targets = Targets(client, self.options.topic, self.counts, _task_number())
            for batch in batches:
                for _, found in targets.of(batch):
                    yield with_partition(found)
        if not self.grants.ask(CHOICE):
            raise TaskLostError(COMPUTED_AGAIN)


@dataclass(frozen=True)
class WriteTask:
    """Writes the rows of a task. No other task of the job writes to the same partitions."""

    options: SinkOptions
    counts: Mapping[str, int]
    transactional_id: str
    producer: Producer
    sequences: Mapping[TopicPartition, int]
    grants: GrantAddress
    adds_partitions: bool
    """Whether the driver has left it to the tasks to add their partitions to the transaction."""
    only_partition_of_task: int | None = None
    """If the rows may go anywhere, task n writes to partition n + this, modulo their number, and to no other."""

    def __call__(self, batches: Iterator[Any]) -> Iterator[Any]:
        yield self._report(batches).to_rows()

    def _report(self, batches: Iterator[Any]) -> TaskReport:
        try:
            if not self.grants.ask(_task_number()):
                return TaskReport(failure=LOST, message="a task was run a second time")
            with POOL.borrow(self.options.settings) as client:
                return TaskReport(written=self._write(client, batches))
        except FencedError as error:
            return TaskReport(failure=FENCED, message=str(error))
        except (ClientError, SequenceLostError) as error:
            return TaskReport(failure=LOST, message=str(error))
        except PipelineError as error:
            return TaskReport(failure=REFUSED, message=str(error))

    def _write(self, client: Client, batches: Iterator[Any]) -> list[tuple[str, int, int, int]]:
        writing = Writing(
            client,
            BatchSender(client, self.producer, transactional_id=self.transactional_id, sequences=self.sequences),
            self.options,
            counts=self.counts,
            first=self._first(),
            joins=(self.transactional_id, self.producer) if self.adds_partitions else None,
        )
        written = writing.write(map(self._restricted, batches))
        return [(*of, each.record_count, each.next_sequence) for of, each in sorted(written.items())]

    def _first(self) -> int:
        return _task_number() + (self.only_partition_of_task or 0)

    def _restricted(self, rows: Any) -> Any:
        if self.only_partition_of_task is None or not rows.num_rows:
            return rows
        count = self.counts[self.options.topic]
        column = np.full(rows.num_rows, self._first() % count, np.int32)
        array = pa.Array.from_buffers(pa.int32(), rows.num_rows, [None, pa.py_buffer(column)])
        return rows.append_column("partition", array)


def _task_number() -> int:
    from pyspark import TaskContext

    context = TaskContext.get()
    assert context is not None
    return context.partitionId()
