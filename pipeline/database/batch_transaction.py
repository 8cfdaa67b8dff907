"""Writes the rows of a batch and the progress of the sink in one transaction."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

import pyarrow as pa

from highwater.pipeline.crash_points import CrashPoint, reach
from highwater.pipeline.database.columns import Column, TableColumn, check_columns, check_keys, check_table
from highwater.pipeline.database.dialect import OWN_TABLES, PROGRESS_TABLE, Connection, Cursor, Dialect, check_name
from highwater.pipeline.database.limits import check_values
from highwater.pipeline.database.session import connected, plainly
from highwater.pipeline.errors import DatabaseError, SettingsError
from highwater.pipeline.progress.batch import BatchOf, Progress
from highwater.pipeline.progress.rule import Decision, decide


class Writer:
    """One table, and one name under which its progress is stored."""

    def __init__(
        self,
        dialect: Dialect,
        table: str,
        name: str,
        *,
        key: Sequence[str] = (),
        create: bool = False,
        first_batch: int = 0,
    ) -> None:
        check_name("sink", name)
        if table.rpartition(".")[2].lower() in OWN_TABLES:
            raise SettingsError(f"table {table} is one of Highwater's own: write to another")
        self._dialect = dialect
        self._quoted_table = dialect.quoted_table(table)
        self._table = table
        self._name = name
        self._key = tuple(key)
        self._create = create
        self._first_batch = first_batch
        self._has_progress_table = False
        self._checked: tuple[Column, ...] | None = None
        self._held: tuple[TableColumn, ...] = ()

    def write(self, batch: BatchOf, columns: tuple[Column, ...], pieces: Iterable[pa.RecordBatch]) -> Decision:
        """Write all rows, or skip a batch that is stored already; `pieces` is not touched then.

        Raises ProgressError for a batch that does not connect, SettingsError for a table that does not fit, and
        DatabaseError. After each of them, nothing of the batch is written.
        """
        check_columns(columns)
        self._dialect.names([each.name for each in columns])
        if missing := [each for each in self._key if each not in {column.name for column in columns}]:
            raise SettingsError(f"key: the frame has no column {missing[0]}")
        with connected(self._dialect) as connection:
            # A look ahead without locks: a replay opens no transaction, and waits for nobody.
            if self._decision(connection, batch, lock=False) is Decision.SKIP:
                reach(CrashPoint.SINK_SKIPPED)
                return Decision.SKIP
            self._prepare(connection, columns)
            reach(CrashPoint.SINK_BEGINS)
            with plainly(self._dialect, f"did not take batch {batch.batch_id}"):
                cursor = connection.cursor()
                self._dialect.begin(connection)
                if self._decision(connection, batch, lock=True) is Decision.SKIP:
                    reach(CrashPoint.SINK_SKIPPED)
                    return Decision.SKIP
                reach(CrashPoint.SINK_BEGUN)
                with self._one_row_for_each_key():
                    self._write_rows(cursor, columns, pieces)
                reach(CrashPoint.SINK_WRITTEN)
                self._dialect.store_progress(cursor, self._name, Progress.after(batch, self._table))
                reach(CrashPoint.SINK_BEFORE_COMMIT)
            self._commit(connection, batch)
            reach(CrashPoint.SINK_COMMITTED)
            return Decision.WRITE

    def _decision(self, connection: Connection, batch: BatchOf, *, lock: bool) -> Decision:
        cursor = connection.cursor()
        with plainly(self._dialect, "did not give its progress"):
            if lock:
                stored = self._dialect.locked_progress(cursor, self._name)
            else:
                # Who may write rows need not be allowed to create tables.
                if not self._has_progress_table and not self._dialect.columns(cursor, PROGRESS_TABLE):
                    self._dialect.create_progress_table(cursor)
                self._has_progress_table = True
                stored = self._dialect.progress(cursor, self._name)
                connection.commit()
        return decide(self._name, stored, batch, self._table, first_batch=self._first_batch)

    def _prepare(self, connection: Connection, columns: tuple[Column, ...]) -> None:
        """Look at the table once, and create it if that was asked for."""
        if self._checked == columns:
            return
        dialect, cursor = self._dialect, connection.cursor()
        with plainly(dialect, f"did not show table {self._table}"):
            there = dialect.columns(cursor, self._table)
            if not there and not self._create:
                raise SettingsError(
                    f"{dialect.address.shown} has no table {self._table}: create it, or use create=True"
                )
        if not there:
            with plainly(dialect, f"did not create table {self._table}"):
                dialect.create(cursor, self._table, columns, self._key)
                connection.commit()
                there = dialect.columns(cursor, self._table)
        with plainly(dialect, f"did not show table {self._table}"):
            held = check_table(self._table, columns, self._key, there, dialect.rules, self._type_of)
            dialect.check_engine(cursor, self._table)
            if self._key:
                keys = {column: found for column, found in zip(columns, held, strict=True) if column.name in self._key}
                types = ", ".join(f"{each.name} {self._type_of(each)}" for each in keys)
                check_keys(self._table, list(keys.values()), dialect.unique_keys(cursor, self._table), types)
            connection.commit()
        self._checked, self._held = columns, held

    def _type_of(self, column: Column) -> str:
        return self._dialect.type_of(column, in_key=column.name in self._key)

    def _write_rows(self, cursor: Cursor, columns: tuple[Column, ...], pieces: Iterable[pa.RecordBatch]) -> None:
        dialect, table = self._dialect, self._quoted_table
        stage = dialect.create_stage(cursor, table, columns, self._key) if self._key else table
        dialect.insert(cursor, stage, columns, self._checked_pieces(columns, pieces))
        if self._key:
            dialect.move(cursor, stage, table, columns, self._key)

    def _checked_pieces(
        self, columns: tuple[Column, ...], pieces: Iterable[pa.RecordBatch]
    ) -> Iterator[pa.RecordBatch]:
        for number, piece in enumerate(pieces):
            self._check_values(columns, piece)
            yield piece
            if number == 0:
                reach(CrashPoint.SINK_WRITING)

    @contextmanager
    def _one_row_for_each_key(self) -> Iterator[None]:
        try:
            yield
        except self._dialect.errors as error:
            if self._key and self._dialect.is_same_key_twice(error):
                raise SettingsError(
                    f"two rows of one batch have the same {', '.join(self._key)}, and no order says which of them "
                    "is to stay: aggregate, or keep one row for each key"
                ) from None
            raise

    def _check_values(self, columns: tuple[Column, ...], piece: pa.RecordBatch) -> None:
        for column, held, values in zip(columns, self._held, piece.columns, strict=True):
            if column.name in self._key and values.null_count:
                raise SettingsError(f"column {column.name} is a key, and is null in a row: filter such rows out")
            check_values(self._dialect.address.kind, self._table, column, held, self._dialect.rules, values)

    def _commit(self, connection: Connection, batch: BatchOf) -> None:
        try:
            connection.commit()
        except self._dialect.errors as error:
            if not self._was_committed(batch):
                address = self._dialect.address
                raise DatabaseError(
                    f"{address.shown} did not commit batch {batch.batch_id}, and nothing of it is stored: "
                    f"{address.hide(error)}"
                ) from None

    def _was_committed(self, batch: BatchOf) -> bool:
        """The answer of a commit is lost: the row says what became of it. The lock waits for the transaction's end."""
        try:
            with connected(self._dialect) as connection, plainly(self._dialect, "did not show its progress"):
                self._dialect.begin(connection)
                stored = self._dialect.locked_progress(connection.cursor(), self._name)
        except DatabaseError as error:
            raise DatabaseError(
                f"the answer to the commit of batch {batch.batch_id} was lost, and a restart of the query finds out "
                f"whether it is stored: {error}"
            ) from None
        return stored is not None and (stored.query_id, stored.batch_id) == (batch.query_id, batch.batch_id)
