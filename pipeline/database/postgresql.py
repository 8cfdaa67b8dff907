"""PostgreSQL through psycopg: rows go in by COPY, as CSV that Arrow writes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, ClassVar, Final

import psycopg
import pyarrow as pa
from pyarrow import csv

from highwater.pipeline.database import columns as kinds
from highwater.pipeline.database.columns import Column, TableColumn
from highwater.pipeline.database.dialect import LOCK_WAIT_S, Connection, Cursor, Dialect
from highwater.pipeline.database.values import enclosed, hexadecimal

_WHOLE: Final = frozenset({"int2", "int4", "int8", "numeric"})
_TYPES: Final = {
    kinds.BOOLEAN: "boolean",
    kinds.BYTE: "smallint",
    kinds.SHORT: "smallint",
    kinds.INTEGER: "integer",
    kinds.LONG: "bigint",
    kinds.FLOAT: "real",
    kinds.DOUBLE: "double precision",
    kinds.STRING: "text",
    kinds.BINARY: "bytea",
    kinds.DATE: "date",
    kinds.TIMESTAMP: "timestamp with time zone",
    kinds.TIMESTAMP_NTZ: "timestamp without time zone",
}
# Of the client library, where the URL does not say otherwise: a server that is gone is noticed.
_DEFAULTS: Final = {"connect_timeout": "10", "tcp_user_timeout": "60000", "keepalives_idle": "30"}
# Any number that no other program is likely to take in this database: "highwate" in ASCII.
_CREATION_LOCK: Final = int.from_bytes(b"highwate", "big")


class Postgresql(Dialect):
    """Types have the names of pg_type. PostgreSQL itself refuses a value that does not fit its column."""

    errors = (psycopg.Error,)
    accepted: ClassVar = {
        kinds.BOOLEAN: frozenset({"bool"}),
        **dict.fromkeys((kinds.BYTE, kinds.SHORT, kinds.INTEGER, kinds.LONG), _WHOLE),
        kinds.FLOAT: frozenset({"float4", "float8", "numeric"}),
        kinds.DOUBLE: frozenset({"float8", "numeric"}),
        kinds.DECIMAL: frozenset({"numeric"}),
        kinds.STRING: frozenset(
            {"text", "varchar", "bpchar", "citext", "json", "jsonb", "uuid", "inet", "cidr", "macaddr", "xml"}
        ),
        kinds.BINARY: frozenset({"bytea"}),
        kinds.DATE: frozenset({"date"}),
        kinds.TIMESTAMP: frozenset({"timestamptz"}),
        kinds.TIMESTAMP_NTZ: frozenset({"timestamp"}),
    }

    def connect(self) -> Connection:
        defaults: dict[str, Any] = {
            name: value for name, value in _DEFAULTS.items() if name not in self.address.parameters
        }
        connection = psycopg.connect(self.address.url, client_encoding="utf8", **defaults)
        connection.isolation_level = psycopg.IsolationLevel.READ_COMMITTED
        return connection

    def begin(self, connection: Connection) -> None:
        cursor = connection.cursor()
        # A server can be set to answer a commit before it is on the disk: Spark would go on, and the rows be lost.
        cursor.execute("set local synchronous_commit = on")
        cursor.execute(f"set local lock_timeout = '{LOCK_WAIT_S}s'")
        # The COPY lasts as long as the job that computes the rows.
        cursor.execute("set local statement_timeout = 0")

    def create_own_table(self, cursor: Cursor, table: str, columns: str) -> None:
        # "if not exists" alone fails with a duplicate key of the catalogue where two transactions create one table.
        cursor.execute("select pg_advisory_xact_lock(%s)", (_CREATION_LOCK,))
        super().create_own_table(cursor, table, columns)

    def columns(self, cursor: Cursor, table: str) -> list[TableColumn]:
        cursor.execute(
            "select attname, typname, attnotnull, atthasdef or attidentity <> '' or attgenerated <> '', "
            "case when typname = 'numeric' and atttypmod > 0 then (atttypmod - 4) & 65535 end "
            "from pg_attribute join pg_type on pg_type.oid = atttypid "
            "where attrelid = to_regclass(%s) and attnum > 0 and not attisdropped",
            (self.quoted_table(table),),
        )
        return [
            TableColumn(name, type_name, has_default, not not_null, scale)
            for name, type_name, not_null, has_default, scale in cursor.fetchall()
        ]

    def unique_keys(self, cursor: Cursor, table: str) -> list[frozenset[str]]:
        cursor.execute(
            "select array_agg(lower(attname)) from pg_index join pg_attribute on attrelid = indrelid "
            "and attnum = any(indkey[0:indnkeyatts - 1]) "
            "where indrelid = to_regclass(%s) and indisunique and indisvalid and indimmediate "
            "and indpred is null and indexprs is null group by indexrelid",
            (self.quoted_table(table),),
        )
        return [frozenset(names) for (names,) in cursor.fetchall()]

    def type_of(self, column: Column, *, in_key: bool) -> str:
        if column.kind == kinds.DECIMAL:
            return f"numeric({column.precision},{column.scale})"
        return _TYPES[column.kind]

    def insert(self, cursor: Cursor, table: str, columns: Sequence[Column], pieces: Iterable[pa.RecordBatch]) -> None:
        names = self.names([each.name for each in columns])
        real_cursor: Any = cursor
        # One COPY for all: Arrow makes the text of a piece while the server reads the one before it.
        with real_cursor.copy(f"copy {table} ({names}) from stdin with (format csv)") as copy:
            for piece in pieces:
                copy.write(memoryview(_csv(columns, piece)))

    def create_stage(self, cursor: Cursor, table: str, columns: Sequence[Column], key: Sequence[str]) -> str:
        names = self.names([each.name for each in columns])
        stage = "pg_temp.highwater_stage"
        cursor.execute(f"create temporary table highwater_stage on commit drop as select {names} from {table} limit 0")
        return stage

    def move(self, cursor: Cursor, stage: str, table: str, columns: Sequence[Column], key: Sequence[str]) -> None:
        names = self.names([each.name for each in columns])
        others = [self.quoted(each.name) for each in columns if each.name not in key]
        change = "update set " + ", ".join(f"{each} = excluded.{each}" for each in others) if others else "nothing"
        cursor.execute(
            f"insert into {table} ({names}) select {names} from {stage} on conflict ({self.names(key)}) do {change}"
        )

    def is_same_key_twice(self, error: Exception) -> bool:
        """The stage has no key of its own; the move finds it."""
        return isinstance(error, psycopg.errors.CardinalityViolation)


def _csv(columns: Sequence[Column], piece: pa.RecordBatch) -> pa.Buffer:
    """Arrow quotes every text that is there and no null, and COPY takes an empty value without quotes for null."""
    values = [
        enclosed("\\x", hexadecimal(each), "") if column.kind == kinds.BINARY else each
        for column, each in zip(columns, piece.columns, strict=True)
    ]
    text = pa.BufferOutputStream()
    batch = pa.RecordBatch.from_arrays(values, [f"c{number}" for number in range(len(values))])
    csv.write_csv(batch, text, csv.WriteOptions(include_header=False, quoting_style="needed"))
    return text.getvalue()
