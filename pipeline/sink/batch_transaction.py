"""A sink for foreachBatch that writes a whole micro-batch to topics as one transaction of Kafka.

All tasks write with one producer id and epoch, each to partitions of its own. The marker, which names the query and the
batch, is committed in the same transaction as offsets of a group: a batch that Spark runs again is recognised by it.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from typing import Any, Final

from kio.schema.errors import ErrorCode
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name that PySpark's documentation uses

from highwater.common.topic_partition import TopicPartition
from highwater.kafka.requests.broker_error import BrokerError
from highwater.pipeline.crash_points import CrashPoint, reach
from highwater.pipeline.errors import ClientError, SettingsError
from highwater.pipeline.kafka.client import Client
from highwater.pipeline.kafka.model import CommittedOffset, Producer
from highwater.pipeline.kafka.sender import FENCED, FORGOTTEN, FencedError, fenced_text
from highwater.pipeline.progress.batch import BatchOf, Progress
from highwater.pipeline.progress.in_hand import OncePerBatch, batch_in_hand
from highwater.pipeline.progress.marker import from_marker, to_marker
from highwater.pipeline.progress.rule import Decision, decide
from highwater.pipeline.sink import batch_tasks
from highwater.pipeline.sink.batch_tasks import REPORT_SCHEMA, ChoosePartitions, TaskReport, WriteTask
from highwater.pipeline.sink.columns import written_columns
from highwater.pipeline.sink.errors import SinkError, TaskLostError, errors_of_job
from highwater.pipeline.sink.grants import GrantAddress, Grants
from highwater.pipeline.sink.options import AT_LEAST_ONCE, SinkOptions, read_sink_options
from highwater.pipeline.sink.session import hosts_of, refuse_speculation, task_count
from highwater.pipeline.sink.targets import partition_count

TRIES: Final = 3
"""Tries of a batch whose task was lost or whose broker could not be reached, before the query fails."""
_SERVERS: Final = "kafka.bootstrap.servers"
_COLUMNS_TARGET: Final = "the topics of the column topic"
_UNKNOWN_END: Final = "it is not known whether the transaction was committed"
_ONCE: Final = OncePerBatch()
_LOG: Final = logging.getLogger(__name__)


class TransactionalSink:
    """`frame.writeStream.foreachBatch(TransactionalSink(…).write)`; one for each query, in the driver.

    The group with the name of the transactional id keeps the marker; `resumeFrom=group:NAME` reads it.
    """

    def __init__(
        self,
        options: Mapping[str, str] | str,
        transactional_id: str,
        topic: str | None = None,
        *,
        marker_topic: str | None = None,
        first_batch: int = 0,
        checkpoint: str = "",
    ) -> None:
        """Raises SettingsError. Nothing is sent before the first batch.

        options: those of the sink, such as kafka.bootstrap.servers; a text is these servers. transactional_id: no other
        sink may have it. topic: of all rows; without it each row has a column `topic`, and `marker_topic` names one
        topic, with which the marker is kept. first_batch: where a sink begins that is added to a running query, or
        whose marker has expired. checkpoint: the query's checkpointLocation, which a sink over Spark Connect needs.
        """
        given = {_SERVERS: options} if isinstance(options, str) else dict(options)
        if topic is not None:
            given["topic"] = topic
        self._options: SinkOptions = read_sink_options(given)
        if self._options.delivery != AT_LEAST_ONCE:
            raise SettingsError('delivery is of format("highwater"); this sink is always exactly once')
        if not transactional_id:
            raise SettingsError("transactional_id is empty; give each sink a name of its own")
        self._marker_topic = marker_topic or self._options.topic
        if not self._marker_topic:
            raise SettingsError(
                "without topic, marker_topic has to name a topic of the cluster, with which the marker is kept"
            )
        self._transactional_id = transactional_id
        self._first_batch = first_batch
        self._checkpoint = checkpoint
        servers = ",".join(f"{host}:{port}" for host, port in self._options.settings.bootstrap_servers)
        self._name = f"sink {transactional_id} at {servers}"
        self.row_count = 0
        """How many rows this object has written."""
        self._client = Client(self._options.settings)
        self._producer: Producer | None = None
        self._before: Producer | None = None
        """The producer of this life, before an abort."""
        self._sequences: dict[TopicPartition, int] = {}
        self._fenced = ""

    def write(self, frame: DataFrame, batch_id: int) -> None:
        """Write the rows once, or nothing if they are there already. Raises PipelineError, or what the query raised."""
        batch = batch_in_hand(frame, batch_id, self._checkpoint)
        _ONCE.check(self._name, batch)
        self._write(frame, batch)
        _ONCE.done(self._name, batch)

    def _write(self, frame: DataFrame, batch: BatchOf | None) -> None:
        if self._fenced:
            raise FencedError(self._fenced)
        refuse_speculation(frame.sparkSession)
        columns = written_columns(frame.schema, self._options.topic)
        for left in reversed(range(TRIES)):
            try:
                self._try(frame, columns, batch)
                return
            except FencedError as error:
                self._fenced = str(error)
                raise
            except (TaskLostError, ClientError) as error:
                self._abort()
                if not left:
                    raise
                _LOG.warning("sink %s: %s is aborted and tried again: %s", self._transactional_id, _name(batch), error)
            except BaseException:
                self._abort()
                raise

    def append(self, frame: DataFrame) -> None:
        """Write a DataFrame of a batch job: readers of committed records see all rows or none.

        Nothing keeps a second call from writing the rows again. Raises as `write` does.
        """
        self._write(frame, None)

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    # One try

    def _try(self, frame: DataFrame, columns: tuple[str, ...], batch: BatchOf | None) -> None:
        producer = self._producer_of_this_life()
        if batch is not None and self._decision(batch) is Decision.SKIP:
            reach(CrashPoint.SINK_SKIPPED)
            return
        reach(CrashPoint.SINK_BEGINS)
        begun_s = time.monotonic()
        counts = self._counts()
        if self._options.topic:
            partitions = [(self._options.topic, number) for number in range(counts[self._options.topic])]
            errors = self._client.add_partitions_to_transaction(self._transactional_id, producer, partitions)
            self._check(next(iter(errors.values()), None), "the transaction cannot begin")
        reach(CrashPoint.SINK_BEGUN)
        reports = self._run(frame, columns, producer, counts)
        reach(CrashPoint.SINK_WRITTEN)
        self._commit(producer, batch, counts)
        reach(CrashPoint.SINK_COMMITTED)
        written = [each for report in reports for each in report.written]
        self._sequences |= {(topic, number): sequence for topic, number, _, sequence in written}
        self.row_count += sum(record_count for _, _, record_count, _ in written)
        self._warn_if_slow(batch, time.monotonic() - begun_s)

    def _decision(self, batch: BatchOf) -> Decision:
        stored = self._stored()
        return decide(self._transactional_id, stored, batch, self._target, first_batch=self._first_batch)

    @property
    def _target(self) -> str:
        return self._options.topic or _COLUMNS_TARGET

    def _producer_of_this_life(self) -> Producer:
        """Ends what an earlier driver left open, and fences that driver; after an abort, gets a new epoch."""
        if self._producer is None:
            found = self._client.init_producer_id(
                self._transactional_id, self._options.transaction_timeout_ms, self._before
            )
            self._check(found, f"no producer id for the transactional id {self._transactional_id}")
            assert isinstance(found, Producer)
            self._producer = found
            self._sequences = {}
        return self._producer

    def _stored(self) -> Progress | None:
        committed = self._client.committed_offsets(self._transactional_id)
        self._check(committed, f"group {self._transactional_id}, which keeps the marker")
        assert isinstance(committed, dict)
        found: dict[TopicPartition, CommittedOffset] = {}
        for of, each in committed.items():
            self._check(each, f"group {self._transactional_id}, which keeps the marker")
            assert isinstance(each, CommittedOffset)
            found[of] = each
        return from_marker(found)

    def _counts(self) -> dict[str, int]:
        """How many partitions the topics have that the driver knows of."""
        names = {self._options.topic, self._marker_topic} - {""}
        return {name: partition_count(self._client, name) for name in sorted(names)}

    def _run(
        self, frame: DataFrame, columns: tuple[str, ...], producer: Producer, counts: Mapping[str, int]
    ) -> list[TaskReport]:
        """Write the rows. Returns what the tasks have written."""
        spark = frame.sparkSession
        with Grants(*hosts_of(spark)) as grants:
            chosen = frame.select(*map(_as_bytes, columns))
            rows, only_partition = self._divided(chosen, counts, grants.address)
            task = WriteTask(
                self._options,
                counts,
                self._transactional_id,
                producer,
                self._sequences,
                grants.address,
                adds_partitions=not self._options.topic,
                only_partition_of_task=only_partition,
            )
            with errors_of_job():
                found = rows.mapInArrow(task, REPORT_SCHEMA).collect()
        reports = [TaskReport.from_bytes(bytes(row.report)) for row in found]
        _raise_for(reports)
        return reports

    def _divided(
        self, rows: DataFrame, counts: Mapping[str, int], grants: GrantAddress
    ) -> tuple[DataFrame, int | None]:
        """The rows in tasks that own their partitions, and where the tasks' only partitions begin if they have one."""
        if self._options.topic:
            count = counts[self._options.topic]
            if count == 1:
                return rows.coalesce(1), None
            if "key" not in rows.columns and "partition" not in rows.columns:
                # No shuffle is needed: the tasks divide the partitions.
                return rows.coalesce(count), self._emptiest(self._options.topic, count)
        chosen = rows.mapInArrow(ChoosePartitions(self._options, counts, grants), _with_partition(rows))
        tasks = task_count(rows.sparkSession)
        if self._options.topic:
            tasks = min(tasks, counts[self._options.topic])
            return chosen.repartitionById(tasks, F.pmod("partition", F.lit(tasks))), None
        by_hash = F.pmod(F.hash("topic", "partition"), F.lit(tasks))
        return chosen.repartitionById(tasks, by_hash), None

    def _emptiest(self, topic: str, count: int) -> int:
        """The partition that this producer wrote least to: with fewer tasks than partitions, it comes first."""
        return min(range(count), key=lambda number: self._sequences.get((topic, number), 0))

    def _commit(self, producer: Producer, batch: BatchOf | None, counts: Mapping[str, int]) -> None:
        group = self._transactional_id
        if batch is not None:
            error = self._client.add_offsets_to_transaction(self._transactional_id, producer, group)
            self._check(error, "the marker cannot join the transaction")
            marker = to_marker(Progress.after(batch, self._target), self._marker_topic, counts[self._marker_topic])
            errors = self._client.commit_offsets_in_transaction(self._transactional_id, producer, group, marker)
            self._check(next(iter(errors.values()), None), "the marker cannot be written")
        reach(CrashPoint.SINK_BEFORE_COMMIT)
        try:
            error = self._client.end_transaction(self._transactional_id, producer, commit=True)
        except ClientError as lost:
            if batch is not None:
                # The marker will say how it ended.
                raise
            raise SinkError(f"{_UNKNOWN_END}: {lost}") from None
        if batch is None and error is not None and (error.is_retriable or error.code is FORGOTTEN):
            # The last of several tries: an earlier one may have ended it.
            raise SinkError(f"{_UNKNOWN_END}: {error}")
        self._check(error, "the transaction cannot be committed")

    def _abort(self) -> None:
        """End the transaction as far as possible; the next try, or the next driver, ends it in any case."""
        producer, self._producer = self._producer, None
        if producer is None:
            return
        self._before = producer
        try:
            self._client.end_transaction(self._transactional_id, producer, commit=False)
        except ClientError as error:
            _LOG.warning("sink %s: the transaction is left to be aborted later: %s", self._transactional_id, error)

    def _check(self, answer: object, what: str) -> None:
        """Raises FencedError or SinkError if the answer is an error of the broker."""
        if not isinstance(answer, BrokerError):
            return
        if answer.code in FENCED:
            raise FencedError(f"{what}: {fenced_text(self._transactional_id, answer)}")
        if answer.code is ErrorCode.invalid_transaction_timeout:
            timeout_ms = self._options.transaction_timeout_ms
            raise SettingsError(
                f"kafka.transaction.timeout.ms={timeout_ms} is above transaction.max.timeout.ms of the brokers; "
                "lower it"
            )
        # A forgotten producer gets a successor, unless another driver has the transactional id by then (KIP-360).
        if answer.is_retriable or answer.code is FORGOTTEN:
            raise TaskLostError(f"{what}: {answer}")
        raise SinkError(f"{what}: {answer}")

    def _warn_if_slow(self, batch: BatchOf | None, took_s: float) -> None:
        if took_s * 2000 > self._options.transaction_timeout_ms:
            _LOG.warning(
                "sink %s: %s took %.0f s, more than half of kafka.transaction.timeout.ms=%s; raise that (and "
                "transaction.max.timeout.ms of the brokers), or read less in a batch",
                self._transactional_id,
                _name(batch),
                took_s,
                self._options.transaction_timeout_ms,
            )


def _name(batch: BatchOf | None) -> str:
    return "the DataFrame" if batch is None else f"batch {batch.batch_id}"


def _as_bytes(column: str) -> Any:
    """The column as the tasks expect it."""
    if column in ("key", "value"):
        return F.col(column).cast("binary").alias(column)
    return F.col(column).cast("int").alias(column) if column == "partition" else F.col(column)


def _with_partition(rows: DataFrame) -> Any:
    """The schema of the rows with the column that ChoosePartitions adds or replaces."""
    return rows.schema if "partition" in rows.columns else rows.withColumn("partition", F.lit(0)).schema


def _raise_for(reports: list[TaskReport]) -> None:
    """The error that says most: a refusal ends the query, a lost task is tried again."""
    by_kind = {each.failure: each.message for each in reports if each.failure}
    if batch_tasks.FENCED in by_kind:
        raise FencedError(by_kind[batch_tasks.FENCED])
    if batch_tasks.REFUSED in by_kind:
        raise SinkError(by_kind[batch_tasks.REFUSED])
    if batch_tasks.LOST in by_kind:
        raise TaskLostError(by_kind[batch_tasks.LOST])
