"""The sink `format("highwater")`: each task writes alone, at least once or as one transaction.

Exactly once: a task has the transactional id `<prefix>-<query id>-<task>`, and its transaction commits a marker with
its rows. A batch that Spark runs again skips the tasks whose marker names it. That needs a query whose rows come to the
same tasks each time; what a task had is compared with its marker.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)

from highwater.common.topic_partition import TopicPartition
from highwater.common.typed_json import parse_json
from highwater.common.units import plural
from highwater.kafka.requests.broker_error import BrokerError
from highwater.pipeline.crash_points import CrashPoint, reach
from highwater.pipeline.errors import SettingsError
from highwater.pipeline.kafka.client import Client
from highwater.pipeline.kafka.model import CommittedOffset, Producer
from highwater.pipeline.kafka.pool import POOL
from highwater.pipeline.kafka.sender import FENCED, BatchSender, FencedError, fenced_text
from highwater.pipeline.sink.columns import written_columns
from highwater.pipeline.sink.errors import SinkError, errors_of_job
from highwater.pipeline.sink.options import EXACTLY_ONCE, SinkOptions, read_sink_options
from highwater.pipeline.sink.session import is_remote, refuse_speculation
from highwater.pipeline.sink.writing import Writing

_QUERY_ID: Final = "sql.streaming.queryId"
_BATCH_ID: Final = "streaming.sql.batchId"
"""Local properties that Spark gives to the tasks of a micro-batch."""
_ANSWER: Final = pa.schema([("record_count", pa.int64()), ("query_id", pa.string())])
_VERSION: Final = 1
_KNOWN_QUERIES: Final[set[str]] = set()
"""The queries whose plan is stored: Spark makes a new writer for each commit, in one process."""


@dataclass
class TaskWritten(WriterCommitMessage):
    """What a task has written, now or before a restart."""

    record_count: int
    query_id: str = ""


class BatchWriter(DataSourceArrowWriter):
    """The writer of `df.write`: at least once. Rows of a job that fails may be there."""

    def __init__(self, options: SinkOptions, columns: tuple[str, ...]) -> None:
        self._options = options
        self._columns = columns

    def write(self, iterator: Iterator[Any]) -> TaskWritten:
        """Runs in a task. Raises PipelineError."""
        return TaskWritten(_write_at_least_once(self._options, self._columns, iterator))


class StreamWriter(DataSourceStreamArrowWriter):
    """The writer of `df.writeStream`. Spark pickles it into the tasks, and makes another one for each commit."""

    def __init__(self, options: SinkOptions, columns: tuple[str, ...]) -> None:
        self._options = options
        self._columns = columns

    def write(self, iterator: Iterator[Any]) -> TaskWritten:
        """Runs in a task. Raises PipelineError."""
        if self._options.delivery != EXACTLY_ONCE:
            return TaskWritten(_write_at_least_once(self._options, self._columns, iterator))
        context = TaskContext.get()
        assert context is not None
        query_id, batch_id = context.getLocalProperty(_QUERY_ID), context.getLocalProperty(_BATCH_ID)
        assert query_id is not None
        assert batch_id is not None
        with POOL.borrow(self._options.settings) as client:
            task = _Transaction(client, self._options, query_id, int(batch_id), context.partitionId())
            try:
                return TaskWritten(task.write(_selected(iterator, self._columns)), query_id)
            except FencedError as error:
                # A task cannot learn from Spark whether Spark starts a second copy of it.
                raise FencedError(f"{error}, and keep spark.speculation off") from None

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's name
        """Runs on the driver when all tasks have ended. Raises SinkError if others write than the option says."""
        if self._options.delivery != EXACTLY_ONCE:
            return
        written = [each for each in messages if isinstance(each, TaskWritten) and each.record_count]
        if not written:
            # Spark runs one task for a batch without rows, whatever the query says.
            return
        if len(messages) != self._options.tasks:
            raise SinkError(
                f"batch {batchId} was written by {plural(len(messages), 'task')}, and tasks={self._options.tasks}: "
                f"end the query with repartition({self._options.tasks})"
            )
        if (query_id := written[0].query_id) not in _KNOWN_QUERIES:
            with POOL.borrow(self._options.settings) as client:
                _Plan(client, self._options, query_id).keep()
            _KNOWN_QUERIES.add(query_id)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's name
        """What tasks committed is skipped when the batch runs again; the rest was never visible."""


class TopicSink:
    """The same for foreachBatch: `TopicSink(options).write`; with exactly_once it divides rows into `tasks` itself."""

    def __init__(self, options: Mapping[str, str]) -> None:
        """Raises SettingsError. options: those of the format."""
        self._options = read_sink_options(options)
        self.row_count = 0
        """How many rows of the batches that this object was given are in the topic."""

    def write(self, frame: DataFrame, batch_id: int) -> None:
        """Write a micro-batch, without the tasks that have written it already if the delivery is exactly_once.

        Raises PipelineError, or what the query raised.
        """
        if self._options.delivery == EXACTLY_ONCE:
            if is_remote(frame.sparkSession):
                raise SettingsError(
                    "over Spark Connect tasks of foreachBatch do not learn which batch they write: with "
                    'delivery=exactly_once use writeStream.format("highwater"), or TransactionalSink'
                )
            refuse_speculation(frame.sparkSession)
        writer = StreamWriter(self._options, written_columns(frame.schema, self._options.topic))
        rows = frame.repartition(self._options.tasks) if self._options.tasks else frame
        with errors_of_job():
            answers = rows.mapInArrow(_task(writer), "record_count long, query_id string").collect()
        written = [TaskWritten(each.record_count, each.query_id) for each in answers]
        writer.commit(list(written), batch_id)
        self.row_count += sum(each.record_count for each in written)


def _task(writer: StreamWriter) -> Callable[[Iterator[Any]], Iterator[Any]]:
    def write(batches: Iterator[Any]) -> Iterator[Any]:
        written = writer.write(batches)
        yield pa.RecordBatch.from_pylist([asdict(written)], _ANSWER)

    return write


def _selected(batches: Iterator[Any], columns: tuple[str, ...]) -> Iterator[Any]:
    for rows in batches:
        yield rows.select(list(columns))


def _write_at_least_once(options: SinkOptions, columns: tuple[str, ...], batches: Iterator[Any]) -> int:
    context = TaskContext.get()
    with POOL.borrow(options.settings) as client:
        producer = client.init_producer_id()
        if isinstance(producer, BrokerError):
            raise SinkError(f"no producer id: {producer}")
        first = 0 if context is None else context.partitionId()
        writing = Writing(client, BatchSender(client, producer), options, first=first)
        writing.write(_selected(batches, columns))
        return writing.row_count


class _Transaction:
    """One task of one micro-batch."""

    def __init__(self, client: Client, options: SinkOptions, query_id: str, batch_id: int, task: int) -> None:
        self._client = client
        self._options = options
        self._batch_id = batch_id
        self._task = task
        self._id = f"{options.transactional_id_prefix}-{query_id}-{task}"
        self._query_id = query_id
        self._kept = _Kept(client, options.topic)

    def write(self, batches: Iterator[Any]) -> int:
        """Returns how many rows this task has in the topic for this batch. Raises PipelineError."""
        # This ends what an earlier attempt left open, and fences it if it still runs.
        producer = self._client.init_producer_id(self._id, self._options.transaction_timeout_ms)
        self._check(producer, "no producer id")
        assert isinstance(producer, Producer)
        _Plan(self._client, self._options, self._query_id).check()
        stored = self._kept.read(self._id)
        if stored is not None and stored["batch"] >= self._batch_id:
            self._compare(stored, batches)
            reach(CrashPoint.SINK_SKIPPED)
            return int(stored["records"])
        reach(CrashPoint.SINK_BEGINS)
        # The marker's group joins first, so that the transaction is open before the first row.
        self._check(self._client.add_offsets_to_transaction(self._id, producer, self._id), "no transaction")
        reach(CrashPoint.SINK_BEGUN)
        try:
            sender = BatchSender(self._client, producer, transactional_id=self._id)
            writing = Writing(self._client, sender, self._options, first=self._task, joins=(self._id, producer))
            writing.write(batches)
            if writing.row_count and self._task >= self._options.tasks:
                raise SinkError(
                    f"task {self._task} has rows, and tasks={self._options.tasks}: end the query with "
                    f"repartition({self._options.tasks})"
                )
            reach(CrashPoint.SINK_WRITTEN)
            marker = {"version": _VERSION, "batch": self._batch_id, "records": writing.row_count}
            offsets = {self._kept.of: CommittedOffset(self._batch_id, json.dumps(marker))}
            errors = self._client.commit_offsets_in_transaction(self._id, producer, self._id, offsets)
            self._check(next(iter(errors.values()), None), "the marker cannot be written")
        except FencedError:
            raise
        except BaseException:
            self._client.end_transaction(self._id, producer, commit=False)
            raise
        reach(CrashPoint.SINK_BEFORE_COMMIT)
        # Without an answer, the next attempt learns from the marker how the transaction ended.
        self._check(self._client.end_transaction(self._id, producer, commit=True), "no commit")
        reach(CrashPoint.SINK_COMMITTED)
        return writing.row_count

    def _compare(self, stored: dict[str, Any], batches: Iterator[Any]) -> None:
        """A replay must bring the same rows; what is seen of a difference is refused."""
        if stored["batch"] != self._batch_id:
            return
        found = sum(rows.num_rows for rows in batches)
        if found != stored["records"]:
            raise SinkError(
                f"task {self._task} wrote {plural(stored['records'], 'row')} of batch {self._batch_id} before a "
                f"restart, and now has {found}: the query is not deterministic; use TransactionalSink for it"
            )

    def _check(self, answer: object, what: str) -> None:
        _check(answer, self._id, what)


class _Plan:
    """The number of tasks with which a query writes: another one would mix up its markers."""

    def __init__(self, client: Client, options: SinkOptions, query_id: str) -> None:
        self._client = client
        self._tasks = options.tasks
        self._group = f"{options.transactional_id_prefix}-{query_id}"
        self._kept = _Kept(client, options.topic)

    def check(self) -> None:
        """Raises SinkError if the query has written with another number."""
        stored = self._kept.read(self._group)
        if stored is not None and stored["tasks"] != self._tasks:
            raise SinkError(
                f"this query has written with tasks={stored['tasks']} since it began, and now tasks={self._tasks}: "
                "set it back, or begin a new query with a new checkpoint"
            )

    def keep(self) -> None:
        """Store the number of tasks after the first batch whose tasks were counted."""
        if self._kept.read(self._group) is None:
            plan = CommittedOffset(self._tasks, json.dumps({"version": _VERSION, "tasks": self._tasks}))
            errors = self._client.commit_offsets(self._group, {self._kept.of: plan})
            _check(next(iter(errors.values()), None), self._group, "the number of tasks cannot be kept")


class _Kept:
    """What groups keep for this sink, as the metadata of an offset of partition 0 of the topic."""

    def __init__(self, client: Client, topic: str) -> None:
        self._client = client
        self.of: TopicPartition = (topic, 0)

    def read(self, group: str) -> dict[str, Any] | None:
        committed = self._client.committed_offsets(group, [self.of])
        _check(committed, group, "the group cannot be read")
        assert isinstance(committed, dict)
        found = committed.get(self.of)
        if found is None:
            return None
        _check(found, group, "the group cannot be read")
        assert isinstance(found, CommittedOffset)
        try:
            fields: dict[str, Any] = parse_json(found.metadata)
            version = fields["version"]
        except (ValueError, KeyError, TypeError):
            raise SinkError(f"group {group} is not of this sink; set another transactionalIdPrefix") from None
        if version != _VERSION:
            raise SinkError(f"group {group} has a marker of version {version}, and this Highwater writes {_VERSION}")
        return fields


def _check(answer: object, name: str, what: str) -> None:
    """Raises FencedError or SinkError if the answer is an error of the broker."""
    if isinstance(answer, BrokerError):
        if answer.code in FENCED:
            raise FencedError(f"{what}: {fenced_text(name, answer)}")
        raise SinkError(f"{name}: {what}: {answer}")
