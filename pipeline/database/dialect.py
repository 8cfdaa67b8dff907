"""What the sink asks of a kind of database, and the SQL that all of them share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import Any, ClassVar, Final, Protocol

import pyarrow as pa

from highwater.pipeline.database.address import Address
from highwater.pipeline.database.columns import Column, Rules, TableColumn, UniqueKey
from highwater.pipeline.errors import SettingsError
from highwater.pipeline.progress.batch import Progress, offsets_from_text, offsets_to_text

PROGRESS_TABLE: Final = "highwater_progress"
OWN_TABLES: Final = frozenset({PROGRESS_TABLE, "highwater_offsets", "highwater_stage"})
"""No table of a sink has these names: rows would go to the wrong one."""
LOCK_WAIT_S: Final = 60
"""How long a writer waits for another one to end its transaction."""
_NAME_CHARACTERS: Final = 200
_NO_BATCH: Final = -1
"""The batch of a name that has stored none. The transaction that inserts such a row replaces it, or rolls it back."""


def check_name(what: str, name: str) -> None:
    """Raises SettingsError for a name that a row of progress or of offsets cannot have for itself."""
    if not name or len(name) > _NAME_CHARACTERS:
        raise SettingsError(f"the name of a {what} has 1 to {_NAME_CHARACTERS} characters, and this is {name!r}")
    if name != name.rstrip(" ") or "\0" in name:
        # MariaDB and MySQL take `a` and `a ` for one key, and PostgreSQL has no NUL.
        raise SettingsError(f"the name of a {what} has no space at its end and no NUL, and this is {name!r}")


class Cursor(Protocol):
    """The cursor of Python's DB-API 2."""

    def execute(self, operation: str | bytes, parameters: Sequence[Any] = ..., /) -> Any: ...
    def executemany(self, operation: str, rows: Any, /) -> Any: ...
    def fetchone(self) -> Any: ...
    def fetchall(self) -> Any: ...


class Connection(Protocol):
    """The connection of Python's DB-API 2."""

    def cursor(self) -> Any: ...
    def commit(self) -> None: ...
    def rollback(self) -> None: ...
    def close(self) -> None: ...


class Dialect(ABC):
    """One for each database that is written to. Drivers' own errors (`errors`) pass through all methods."""

    errors: ClassVar[tuple[type[Exception], ...]]
    rules: ClassVar[Rules]
    mark: ClassVar[str] = "%s"
    quote: ClassVar[str] = '"'
    progress_types: ClassVar[tuple[str, str]] = ("varchar(249)", "text")
    """The types of a name, which is at most as long as a topic's name, and of end offsets."""
    table_options: ClassVar[str] = ""
    lock: ClassVar[str] = " for update"
    """Ends a select that locks its rows until the transaction ends."""
    unless_there: ClassVar[str] = "on conflict do nothing"

    def __init__(self, address: Address) -> None:
        self.address = address

    # Connections

    @abstractmethod
    def connect(self) -> Connection: ...

    @abstractmethod
    def begin(self, connection: Connection) -> None:
        """Open a transaction in which a commit is on the disk when it returns."""

    # Tables

    @abstractmethod
    def columns(self, cursor: Cursor, table: str) -> list[TableColumn]:
        """The columns of a table; empty if there is no such table."""

    @abstractmethod
    def unique_keys(self, cursor: Cursor, table: str) -> list[UniqueKey]:
        """The primary key and each unique index by which rows can be replaced."""

    @abstractmethod
    def type_of(self, column: Column, *, in_key: bool) -> str:
        """The type in a table that is created. Raises SettingsError for a column that the database cannot hold."""

    def check_engine(self, cursor: Cursor, table: str) -> None:
        """Raises SettingsError if a commit need not keep the rows of a table, or if the table has another name."""
        return

    def create(self, cursor: Cursor, table: str, columns: Sequence[Column], key: Sequence[str]) -> None:
        lines = [
            f"{self.quoted(each.name)} {self.type_of(each, in_key=each.name in key)}"
            f"{' not null' if each.name in key else ''}"
            for each in columns
        ]
        if key:
            lines.append(f"primary key ({self.names(key)})")
        cursor.execute(f"create table {self.quoted_table(table)} ({', '.join(lines)}){self.table_options}")

    @staticmethod
    def check_stored_name(table: str, stored: str) -> None:
        """Raises SettingsError for other capitals: two sinks that name two tables would share one."""
        if table.rpartition(".")[2] != stored:
            raise SettingsError(f"table {table} is named {stored} in this database: write its name in the same way")

    # Rows

    @abstractmethod
    def insert(self, cursor: Cursor, table: str, columns: Sequence[Column], pieces: Iterable[pa.RecordBatch]) -> None:
        """Add rows to a table whose name is quoted already; a piece is in when the next one is taken, or all are."""

    @abstractmethod
    def create_stage(self, cursor: Cursor, table: str, columns: Sequence[Column], key: Sequence[str]) -> str:
        """A table of this transaction with these columns, for one row for each key; returns its quoted name."""

    @abstractmethod
    def move(self, cursor: Cursor, stage: str, table: str, columns: Sequence[Column], key: Sequence[str]) -> None:
        """Replace the rows of the table that have the keys of the stage, and add the others."""

    @abstractmethod
    def is_same_key_twice(self, error: Exception) -> bool:
        """Whether the stage or the move found two rows with one key."""

    # Progress

    def create_progress_table(self, cursor: Cursor) -> None:
        name, text = self.progress_types
        self.create_own_table(
            cursor,
            PROGRESS_TABLE,
            f"name {name} not null primary key, target {name} not null, query_id varchar(64) not null, "
            f"batch_id bigint not null, end_offsets {text} not null, schema_version integer not null",
        )

    def create_own_table(self, cursor: Cursor, table: str, columns: str) -> None:
        """Create one of our tables unless it is there, also while others do the same."""
        cursor.execute(f"create table if not exists {self.quoted(table)} ({columns}){self.table_options}")

    def locked_progress(self, cursor: Cursor, name: str) -> Progress | None:
        """Lock the row of a name until the transaction ends, waiting for others to let go, and return it."""
        # What is not there cannot be locked.
        values = (name, *_row(Progress("", _NO_BATCH, ())))
        self.insert_unless_there(cursor, PROGRESS_TABLE, ("name", *_FIELDS), values)
        return self.progress(cursor, name, lock=self.lock)

    def insert_unless_there(self, cursor: Cursor, table: str, columns: Sequence[str], values: Sequence[object]) -> None:
        """Insert a row of one of our tables unless its key is there; wait for another who inserts the same."""
        marks = ", ".join([self.mark] * len(values))
        cursor.execute(
            f"insert into {self.quoted(table)} ({', '.join(columns)}) values ({marks}) {self.unless_there}", values
        )

    def progress(self, cursor: Cursor, name: str, lock: str = "") -> Progress | None:
        """Raises ProgressError if the row is damaged."""
        cursor.execute(
            "select query_id, batch_id, end_offsets, target, schema_version "
            f"from {self.quoted(PROGRESS_TABLE)} where name = {self.mark}{lock}",
            (name,),
        )
        row = cursor.fetchone()
        if row is None or row[1] == _NO_BATCH:
            return None
        return Progress(row[0], row[1], offsets_from_text(row[2]), row[3], row[4])

    def store_progress(self, cursor: Cursor, name: str, progress: Progress) -> None:
        marks = ", ".join(f"{each} = {self.mark}" for each in _FIELDS)
        cursor.execute(
            f"update {self.quoted(PROGRESS_TABLE)} set {marks} where name = {self.mark}",
            (*_row(progress), name),
        )

    # Names

    def quoted(self, name: str) -> str:
        """A name is never read as SQL."""
        if "\0" in name or not name:
            raise SettingsError(f"{name!r} cannot be the name of a table or of a column")
        if fault := self.name_fault(name):
            raise SettingsError(f"{name!r} {fault}: use another name")
        return f"{self.quote}{name.replace(self.quote, self.quote * 2)}{self.quote}"

    def name_fault(self, name: str) -> str:
        """Why the database would store a name in another way, and take two names for one; empty if it does not."""
        return ""

    def quoted_table(self, table: str) -> str:
        """`table` or `schema.table`."""
        return ".".join(self.quoted(part) for part in table.split("."))

    def names(self, columns: Sequence[str]) -> str:
        return ", ".join(self.quoted(each) for each in columns)


_FIELDS: Final = ("target", "query_id", "batch_id", "end_offsets", "schema_version")


def _row(progress: Progress) -> tuple[str, str, int, str, int]:
    text = offsets_to_text(progress.end_offsets)
    return progress.target, progress.query_id, progress.batch_id, text, progress.schema_version
