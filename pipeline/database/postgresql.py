"""PostgreSQL through psycopg: rows go in by COPY, as CSV that Arrow writes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

import psycopg
import pyarrow as pa
from pyarrow import csv

from highwater.pipeline.database import columns as kinds
from highwater.pipeline.database.columns import Column, Rules, TableColumn, UniqueKey
from highwater.pipeline.database.dialect import LOCK_WAIT_S, Connection, Cursor, Dialect
from highwater.pipeline.database.values import (
    DAY_MICROSECONDS,
    as_text,
    days_of,
    enclosed,
    has_far_years,
    hexadecimal,
)
from highwater.pipeline.errors import SettingsError

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
_NAME_BYTES: Final = 63
_FIRST_DAY: Final = days_of("-4713-11-24")
# Of the client library, where the URL does not say otherwise: a server that is gone is noticed.
_DEFAULTS: Final = {"connect_timeout": "10", "tcp_user_timeout": "60000", "keepalives_idle": "30"}
# Any number that no other program is likely to take in this database: "highwate" in ASCII.
_CREATION_LOCK: Final = int.from_bytes(b"highwate", "big")


class Postgresql(Dialect):
    """Types have the names of pg_type."""

    errors = (psycopg.Error,)
    rules = Rules(
        accepted={
            kinds.BOOLEAN: frozenset({"bool"}),
            **dict.fromkeys((kinds.BYTE, kinds.SHORT, kinds.INTEGER, kinds.LONG), _WHOLE),
            kinds.FLOAT: frozenset({"float4", "float8", "numeric"}),
            kinds.DOUBLE: frozenset({"float8", "numeric"}),
            kinds.DECIMAL: frozenset({"numeric"}),
            # jsonb, inet and others store what a text means, and show it in another spelling.
            kinds.STRING: frozenset({"text", "varchar", "citext", "json", "uuid"}),
            kinds.BINARY: frozenset({"bytea"}),
            kinds.DATE: frozenset({"date"}),
            kinds.TIMESTAMP: frozenset({"timestamptz"}),
            kinds.TIMESTAMP_NTZ: frozenset({"timestamp"}),
        },
        bounds={
            "int2": (-(1 << 15), (1 << 15) - 1),
            "int4": (-(1 << 31), (1 << 31) - 1),
            "date": (_FIRST_DAY, days_of("5874897-12-31")),
            **dict.fromkeys(
                ("timestamp", "timestamptz"),
                (_FIRST_DAY * DAY_MICROSECONDS, days_of("294277-01-01") * DAY_MICROSECONDS - 1),
            ),
        },
        lossy_in_keys=frozenset({"citext"}),
        tells_capitals_apart=True,
        has_nul=False,
    )

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
        # A numeric keeps precision and scale in its modifier, the scale in its lowest 11 bits, with a sign.
        cursor.execute(
            "select attname, typname, format_type(atttypid, atttypmod), atthasdef or attidentity <> '', "
            "not attnotnull, attgenerated <> '', "
            "case when typname = 'numeric' and atttypmod >= 4 then (atttypmod - 4) >> 16 end, "
            "case when typname = 'numeric' and atttypmod >= 4 then (((atttypmod - 4) & 2047) # 1024) - 1024 end, "
            "case when typname like 'timestamp%%' and atttypmod >= 0 then atttypmod else 6 end, "
            "case when typname = 'varchar' and atttypmod >= 4 then atttypmod - 4 end, "
            "null, case current_setting('server_encoding') when 'UTF8' then '' else 'an encoding other than UTF8' end "
            "from pg_attribute join pg_type on pg_type.oid = atttypid "
            "where attrelid = to_regclass(%s) and attnum > 0 and not attisdropped",
            (self.quoted_table(table),),
        )
        return [TableColumn(*each) for each in cursor.fetchall()]

    def unique_keys(self, cursor: Cursor, table: str) -> list[UniqueKey]:
        cursor.execute(
            "select array_agg(attname::text), coalesce(bool_or(not collisdeterministic), false) from pg_index "
            "cross join unnest(indkey::int2[], indcollation::oid[]) with ordinality as part(number, collated, place) "
            "join pg_attribute on attrelid = indrelid and attnum = number "
            "left join pg_collation on pg_collation.oid = collated "
            "where indrelid = to_regclass(%s) and indisunique and indisvalid and indimmediate "
            "and indpred is null and indexprs is null and place <= indnkeyatts group by indexrelid",
            (self.quoted_table(table),),
        )
        return [
            UniqueKey(frozenset(names), "a collation that is not deterministic" if is_loose else "")
            for names, is_loose in cursor.fetchall()
        ]

    def check_engine(self, cursor: Cursor, table: str) -> None:
        cursor.execute(
            "select 1 from pg_class where oid = to_regclass(%s) and relpersistence = 'u'", (self.quoted_table(table),)
        )
        if cursor.fetchone():
            raise SettingsError(
                f"table {table} is unlogged, and a crash of the server empties it: alter it with `set logged`"
            )

    def name_fault(self, name: str) -> str:
        size = len(name.encode())
        return f"has {size} bytes, and PostgreSQL cuts names after {_NAME_BYTES}" if size > _NAME_BYTES else ""

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
    values = [_for_csv(column, each) for column, each in zip(columns, piece.columns, strict=True)]
    text = pa.BufferOutputStream()
    batch = pa.RecordBatch.from_arrays(values, [f"c{number}" for number in range(len(values))])
    csv.write_csv(batch, text, csv.WriteOptions(include_header=False, quoting_style="needed"))
    return text.getvalue()


def _for_csv(column: Column, values: pa.Array) -> pa.Array:
    if column.kind == kinds.BINARY:
        return enclosed("\\x", hexadecimal(values), "")
    if has_far_years(values):
        return pa.array([each and _with_era(each) for each in as_text(values).to_pylist()], pa.string())
    return values


def _with_era(text: str) -> str:
    """Convert an ISO year, which may have a sign or be 0, into one with BC: 1 BC is before 1 AD."""
    sign = text[0] if text[0] in "+-" else ""
    year, dash, rest = text.removeprefix(sign).partition("-")
    if sign == "-" or not int(year):
        return f"{int(year) + 1:04}{dash}{rest} BC"
    return f"{year}{dash}{rest}"
