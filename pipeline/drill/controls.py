"""Takes one safeguard away from a sink or the source, in the process of a drill's driver alone.

A drill that cannot fail proves nothing. No option of a sink or of the source does what this module does.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import import_module
from typing import Any, ClassVar, Final

from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSourceStreamReader
from pyspark.sql.types import StructType

from highwater.pipeline.drill.drilled_source import DrilledSource
from highwater.pipeline.drill.kinds import (
    DELTA,
    FENCING,
    FIRST_OFFSETS,
    ICEBERG,
    MARKER,
    ROW_LOCK,
    TOPIC_BATCH,
    TOPIC_PARTITION,
)
from highwater.pipeline.kafka.client import Client
from highwater.pipeline.kafka.offsets import Offsets
from highwater.pipeline.kafka.sender import BatchSender
from highwater.pipeline.progress.rule import Decision
from highwater.pipeline.sink import batch_transaction, partition_transaction
from highwater.pipeline.sink.batch_tasks import WriteTask
from highwater.pipeline.sink.columns import written_columns
from highwater.pipeline.sink.options import read_sink_options
from highwater.pipeline.sink.partition_transaction import StreamWriter, TaskWritten
from highwater.pipeline.source.data_source import HighwaterDataSource
from highwater.pipeline.source.options import read_options
from highwater.pipeline.source.stream import StreamReader


@dataclass(frozen=True, slots=True)
class FormatNames:
    """Names for `format(…)`."""

    source: str = "highwater"
    sink: str = "highwater"


def without(safeguard: str, kind: str, session: SparkSession) -> FormatNames:
    """Take it away; returns the formats to use from now on."""
    if safeguard == FIRST_OFFSETS:
        session.dataSource.register(_ForgetfulSource)
        return FormatNames(source=_ForgetfulSource.name())
    if kind == TOPIC_PARTITION:
        # Tasks write in processes of their own, to which Spark sends the writer.
        session.dataSource.register(_CARELESS[safeguard])
        return FormatNames(sink=_CARELESS[safeguard].name())
    _TAKE_AWAY[safeguard](kind)
    return FormatNames()


class _ForgetfulReader(StreamReader):
    """Asks the cluster again where the stream begins."""

    def _begin(self) -> Offsets:
        return self._positions.starting()


class _ForgetfulSource(DrilledSource):
    @classmethod
    def name(cls) -> str:
        return "highwater_forgetful"

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        self.name_query()
        return _ForgetfulReader(read_options(self.options, is_stream=True))


class _WriterWithoutMarker(StreamWriter):
    def write(self, iterator: Iterator[Any]) -> TaskWritten:
        partition_transaction._Kept.read = _nothing_stored  # type: ignore[method-assign,assignment]
        return super().write(iterator)


class _WriterWithoutFencing(StreamWriter):
    def write(self, iterator: Iterator[Any]) -> TaskWritten:
        _fencing(TOPIC_PARTITION)
        return super().write(iterator)


class _SinkWithoutMarker(HighwaterDataSource):
    writer_class: ClassVar[type[StreamWriter]] = _WriterWithoutMarker

    @classmethod
    def name(cls) -> str:
        return "highwater_without_marker"

    def streamWriter(self, schema: StructType, overwrite: bool) -> StreamWriter:  # noqa: N802 - Spark's name
        options = read_sink_options(self.options)
        return self.writer_class(options, written_columns(schema, options.topic))


class _SinkWithoutFencing(_SinkWithoutMarker):
    writer_class = _WriterWithoutFencing

    @classmethod
    def name(cls) -> str:
        return "highwater_without_fencing"


_CARELESS: Final = {MARKER: _SinkWithoutMarker, FENCING: _SinkWithoutFencing}


def _nothing_stored(_transaction: object, _group: str) -> None:
    return None


def _always_write(*_: Any, **__: Any) -> Decision:
    return Decision.WRITE


def _marker(kind: str) -> None:
    """Nobody looks what is stored already."""
    module = {TOPIC_BATCH: "sink.batch_transaction", DELTA: "tables.sink", ICEBERG: "tables.sink"}.get(
        kind, "database.batch_transaction"
    )
    vars(import_module(f"highwater.pipeline.{module}"))["decide"] = _always_write


def _row_lock(kind: str) -> None:
    """What the locked row says is not heeded, and the look ahead of the transaction is trusted."""
    from highwater.pipeline.database.batch_transaction import Writer

    decision = Writer._decision

    def careless(writer: Writer, connection: Any, batch: Any, *, lock: bool) -> Decision:
        found = decision(writer, connection, batch, lock=lock)
        return Decision.WRITE if lock else found

    Writer._decision = careless  # type: ignore[method-assign,assignment]


def _fencing(kind: str) -> None:
    """Each driver has a transactional id of its own, so that no broker refuses an old one.

    Of a table: what others have committed since it was opened is read just before the commit, and not heeded.
    """
    if kind in (DELTA, ICEBERG):
        _without_fence_of_table(kind)
        return
    if getattr(Client, _PATCHED, False):
        return
    setattr(Client, _PATCHED, True)
    for name in (
        "init_producer_id",
        "add_partitions_to_transaction",
        "add_offsets_to_transaction",
        "commit_offsets_in_transaction",
        "end_transaction",
    ):
        setattr(Client, name, _with_id_of_process(getattr(Client, name)))
    # Records carry the transactional id as well.
    if kind == TOPIC_BATCH:

        def task(options: Any, counts: Any, transactional_id: str, *arguments: Any, **named: Any) -> Any:
            return WriteTask(options, counts, _of_process(transactional_id), *arguments, **named)

        vars(batch_transaction)["WriteTask"] = task
    else:

        def sender(client: Client, producer: Any, *, transactional_id: str) -> Any:
            return BatchSender(client, producer, transactional_id=_of_process(transactional_id))

        vars(partition_transaction)["BatchSender"] = sender


def _without_fence_of_table(kind: str) -> None:
    table: Any = import_module(f"highwater.pipeline.tables.{kind}")._Table
    append = table.append

    def careless(self: Any, *arguments: Any) -> None:
        if kind == DELTA:
            self._table.update_incremental()
        else:
            self._table.refresh()
        append(self, *arguments)

    table.append = careless


_PATCHED: Final = "_ids_of_processes"
"""Spark uses a worker for many tasks."""


def _with_id_of_process(method: Callable[..., Any]) -> Callable[..., Any]:
    def call(client: Client, transactional_id: str, *arguments: Any, **named: Any) -> Any:
        return method(client, _of_process(transactional_id), *arguments, **named)

    return call


def _of_process(transactional_id: str) -> str:
    return f"{transactional_id}-{os.getpid()}"


_TAKE_AWAY: Final[dict[str, Callable[[str], None]]] = {MARKER: _marker, ROW_LOCK: _row_lock, FENCING: _fencing}
