"""SQLite: one file, one writer at a time; the lock of the file is the lock of the progress."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

import pyarrow as pa

from highwater.pipeline.database import columns as kinds
from highwater.pipeline.database.columns import Column, Rules, TableColumn, UniqueKey
from highwater.pipeline.database.dialect import LOCK_WAIT_S, Connection, Cursor, Dialect
from highwater.pipeline.database.values import as_text, python_values
from highwater.pipeline.errors import SettingsError

_NUMBERS: Final = frozenset({"integer", "numeric", "blob"})
_WHOLE: Final = (kinds.BOOLEAN, kinds.BYTE, kinds.SHORT, kinds.INTEGER, kinds.LONG)
# SQLite has no type for these. Text keeps every digit, and sorts by time.
_AS_TEXT: Final = (kinds.DECIMAL, kinds.DATE, kinds.TIMESTAMP, kinds.TIMESTAMP_NTZ)


class Sqlite(Dialect):
    """Types are affinities here: what SQLite makes of the declared type of a column."""

    errors = (sqlite3.Error,)
    mark = "?"
    lock = ""  # `begin immediate` has locked the file
    rules = Rules(
        accepted={
            **dict.fromkeys(_WHOLE, _NUMBERS),
            kinds.FLOAT: frozenset({"real", "numeric", "blob"}),
            kinds.DOUBLE: frozenset({"real", "numeric", "blob"}),
            kinds.STRING: frozenset({"text", "blob"}),
            kinds.BINARY: frozenset({"blob"}),
            kinds.DECIMAL: frozenset({"text", "blob"}),
            # DATE and DATETIME are numeric, and keep a text that is no number.
            **dict.fromkeys((kinds.DATE, kinds.TIMESTAMP, kinds.TIMESTAMP_NTZ), frozenset({"text", "numeric", "blob"})),
        },
        bounds={},
        has_nan=False,
    )

    def connect(self) -> Connection:
        path = Path(self.address.path)
        if not path.parent.is_dir():
            raise SettingsError(f"{self.address.shown}: there is no folder {path.parent}")
        connection = sqlite3.connect(path, timeout=LOCK_WAIT_S, isolation_level=None, check_same_thread=False)
        # Readers go on while a batch is written.
        connection.execute("pragma journal_mode=wal")
        connection.execute("pragma synchronous=full")
        return connection

    def begin(self, connection: Connection) -> None:
        connection.cursor().execute("begin immediate")

    def columns(self, cursor: Cursor, table: str) -> list[TableColumn]:
        cursor.execute('select name, type, "notnull", dflt_value, pk from pragma_table_info(?, ?)', _parts(table))
        found = []
        for name, declared, not_null, default, pk in cursor.fetchall():
            # SQLite puts a number where null is given for it.
            is_row_id = pk == 1 and declared.upper() == "INTEGER"
            affinity = _affinity(declared)
            found.append(
                TableColumn(
                    name,
                    affinity,
                    f"{declared or 'without a type'} ({affinity} for SQLite)",
                    default is not None or pk == 1,
                    not (not_null or is_row_id),
                )
            )
        return found

    def unique_keys(self, cursor: Cursor, table: str) -> list[UniqueKey]:
        name, schema = _parts(table)
        cursor.execute(
            'select name, origin from pragma_index_list(?, ?) where "unique" and not partial', (name, schema)
        )
        keys, origins = [], set()
        for index, origin in cursor.fetchall():
            origins.add(origin)
            cursor.execute("select name, coll from pragma_index_xinfo(?, ?) where key", (index, schema))
            parts = cursor.fetchall()
            lossy = next((f"the collation {collation}" for _, collation in parts if collation != "BINARY"), "")
            if None not in (columns := [column for column, _ in parts]):  # an expression has no name
                keys.append(UniqueKey(frozenset(columns), lossy))
        if "pk" not in origins:  # the number of the row has no index
            cursor.execute("select name from pragma_table_info(?, ?) where pk > 0", (name, schema))
            keys.append(UniqueKey(frozenset(column for (column,) in cursor.fetchall())))
        return keys

    def check_engine(self, cursor: Cursor, table: str) -> None:
        name, schema = _parts(table)
        cursor.execute(f"select name from {self.quoted(schema)}.sqlite_master where lower(name) = lower(?)", (name,))
        if found := cursor.fetchone():
            self.check_stored_name(table, found[0])

    def type_of(self, column: Column, *, in_key: bool) -> str:
        if column.kind in _WHOLE:
            return "integer"
        return {kinds.FLOAT: "real", kinds.DOUBLE: "real", kinds.BINARY: "blob"}.get(column.kind, "text")

    def insert(self, cursor: Cursor, table: str, columns: Sequence[Column], pieces: Iterable[pa.RecordBatch]) -> None:
        marks = ", ".join(["?"] * len(columns))
        names = self.names([each.name for each in columns])
        for piece in pieces:
            values = [
                python_values(as_text(each) if column.kind in _AS_TEXT else each)
                for column, each in zip(columns, piece.columns, strict=True)
            ]
            # A table can say that rows which break its rules are left out, or replace others: `or abort` overrules it.
            cursor.executemany(f"insert or abort into {table} ({names}) values ({marks})", zip(*values, strict=True))

    def create_stage(self, cursor: Cursor, table: str, columns: Sequence[Column], key: Sequence[str]) -> str:
        stage = "temp.highwater_stage"
        cursor.execute(f"drop table if exists {stage}")
        # A column without a type takes each value as it comes.
        names = self.names([each.name for each in columns])
        cursor.execute(f"create table {stage} ({names}, primary key ({self.names(key)})) without rowid")
        return stage

    def move(self, cursor: Cursor, stage: str, table: str, columns: Sequence[Column], key: Sequence[str]) -> None:
        names = self.names([each.name for each in columns])
        others = [self.quoted(each.name) for each in columns if each.name not in key]
        change = "update set " + ", ".join(f"{each} = excluded.{each}" for each in others) if others else "nothing"
        # Without its where, SQLite would read `on conflict` as a join.
        cursor.execute(
            f"insert or abort into {table} ({names}) select {names} from {stage} where true "
            f"on conflict ({self.names(key)}) do {change}"
        )

    def is_same_key_twice(self, error: Exception) -> bool:
        return isinstance(error, sqlite3.IntegrityError) and "highwater_stage" in str(error)


def _parts(table: str) -> tuple[str, str]:
    schema, dot, name = table.rpartition(".")
    return name, schema if dot else "main"


def _affinity(declared: str) -> str:
    """Apply the rules of SQLite's documentation, "Determination Of Column Affinity", in their order."""
    name = declared.upper()
    if "INT" in name:
        return "integer"
    if any(part in name for part in ("CHAR", "CLOB", "TEXT")):
        return "text"
    if "BLOB" in name or not name:
        return "blob"
    return "real" if any(part in name for part in ("REAL", "FLOA", "DOUB")) else "numeric"
