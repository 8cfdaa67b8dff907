"""MariaDB and MySQL through PyMySQL: inserts of many rows, text and bytes as hexadecimal digits.

LOAD DATA LOCAL would be faster. It lets the server name a file of this host, which the client then sends: not used.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, ClassVar, Final

import numpy as np
import pyarrow as pa
import pymysql
from pyarrow import compute

from highwater.common.nearest import did_you_mean
from highwater.pipeline.database import columns as kinds
from highwater.pipeline.database.columns import Column, TableColumn
from highwater.pipeline.database.dialect import LOCK_WAIT_S, Connection, Cursor, Dialect
from highwater.pipeline.database.values import as_text, enclosed, hexadecimal
from highwater.pipeline.errors import SettingsError

_WHOLE: Final = frozenset({"tinyint", "smallint", "mediumint", "int", "bigint", "decimal"})
_KEY_CHARACTERS: Final = 255
_TYPES: Final = {
    kinds.BOOLEAN: "boolean",
    kinds.BYTE: "tinyint",
    kinds.SHORT: "smallint",
    kinds.INTEGER: "int",
    kinds.LONG: "bigint",
    kinds.FLOAT: "float",
    kinds.DOUBLE: "double",
    kinds.STRING: "longtext",
    kinds.BINARY: "longblob",
    kinds.DATE: "date",
    # TIMESTAMP ends in 2038, and is shown in the zone of whoever reads it.
    kinds.TIMESTAMP: "datetime(6)",
    kinds.TIMESTAMP_NTZ: "datetime(6)",
}
_SCALE_MAX: Final = 30
_PARAMETERS: Final[dict[str, Callable[[str], Any]]] = {
    "unix_socket": str,
    "read_default_file": lambda text: str(Path(text).expanduser()),
    "read_default_group": str,
    "connect_timeout": int,
    "read_timeout": int,
    "write_timeout": int,
    "ssl_ca": str,
    "ssl_cert": str,
    "ssl_key": str,
    "ssl_verify_cert": lambda text: text.lower() in ("1", "true", "yes"),
    "ssl_verify_identity": lambda text: text.lower() in ("1", "true", "yes"),
}
_DEFAULTS: Final[dict[str, Any]] = {"connect_timeout": 10, "read_timeout": 600, "write_timeout": 600}
# Strict: a value that does not fit its column is an error, and is not cut.
_SQL_MODE: Final = "STRICT_ALL_TABLES,NO_ZERO_DATE,NO_ZERO_IN_DATE,NO_ENGINE_SUBSTITUTION,ERROR_FOR_DIVISION_BY_ZERO"
_STATEMENT_BYTES: Final = 4 << 20
_NO_SUCH_TABLE: Final = 1146
_DUPLICATE: Final = 1062


class Mysql(Dialect):
    errors = (pymysql.Error,)
    has_nan = False
    has_infinity = False
    quote = "`"
    unless_there = "on duplicate key update name = name"
    progress_types = ("varchar(200) character set utf8mb4 collate utf8mb4_bin", "longtext")
    table_options = " engine=InnoDB default character set utf8mb4"
    accepted: ClassVar = {
        **dict.fromkeys((kinds.BOOLEAN, kinds.BYTE, kinds.SHORT, kinds.INTEGER, kinds.LONG), _WHOLE),
        kinds.FLOAT: frozenset({"float", "double"}),
        kinds.DOUBLE: frozenset({"double"}),
        kinds.DECIMAL: frozenset({"decimal"}),
        kinds.STRING: frozenset(
            {"char", "varchar", "tinytext", "text", "mediumtext", "longtext", "json", "enum", "uuid", "inet6"}
        ),
        kinds.BINARY: frozenset({"varbinary", "tinyblob", "blob", "mediumblob", "longblob"}),
        kinds.DATE: frozenset({"date"}),
        kinds.TIMESTAMP: frozenset({"datetime", "timestamp"}),
        kinds.TIMESTAMP_NTZ: frozenset({"datetime"}),
    }

    def connect(self) -> Connection:
        where = self.address
        options = dict(_DEFAULTS)
        for name, text in where.parameters.items():
            if name == "password":
                continue
            if name not in _PARAMETERS:
                known = ", ".join(_PARAMETERS)
                raise SettingsError(
                    f"{where.shown}: {name} is no parameter of this URL{did_you_mean(name, _PARAMETERS)}: {known}"
                )
            try:
                options[name] = _PARAMETERS[name](text)
            except ValueError:
                raise SettingsError(f"{where.shown}: {name}={text} is no number of seconds") from None
        own_file = Path("~/.my.cnf").expanduser()
        if "read_default_file" not in options and own_file.is_file():
            options["read_default_file"] = str(own_file)
        given = {"host": where.host, "port": where.port, "user": where.user, "database": where.database}
        password = where.password or os.environ.get("MYSQL_PWD", "")
        connect: Any = pymysql.connect  # its types know no options that are collected in a dictionary
        connection: Connection = connect(
            **{name: value for name, value in given.items() if value},
            **options,
            password=password,
            charset="utf8mb4",
            autocommit=False,
            local_infile=False,
            sql_mode=_SQL_MODE,
            init_command=f"set time_zone = '+00:00', innodb_lock_wait_timeout = {LOCK_WAIT_S}",
        )
        return connection

    def begin(self, connection: Connection) -> None:
        connection.cursor().execute("start transaction")

    def columns(self, cursor: Cursor, table: str) -> list[TableColumn]:
        cursor.execute(
            "select column_name, data_type, is_nullable, column_default is not null "
            "or extra like '%%auto_increment%%' or extra like '%%GENERATED%%', numeric_scale "
            "from information_schema.columns where table_name = %s and table_schema = coalesce(%s, database())",
            _parts(table),
        )
        return [
            TableColumn(
                name, type_name.lower(), bool(has_default), nullable == "YES", scale if type_name == "decimal" else None
            )
            for name, type_name, nullable, has_default, scale in cursor.fetchall()
        ]

    def unique_keys(self, cursor: Cursor, table: str) -> list[frozenset[str]]:
        """Raises SettingsError if there are several: MySQL would replace a row that any of them finds."""
        cursor.execute(
            "select index_name, lower(column_name) from information_schema.statistics "
            "where non_unique = 0 and table_name = %s and table_schema = coalesce(%s, database())",
            _parts(table),
        )
        keys: dict[str, set[str]] = {}
        for index, column in cursor.fetchall():
            keys.setdefault(index, set()).add(column)
        if len(keys) > 1:
            raise SettingsError(
                f"table {table} has the unique keys {', '.join(sorted(keys))}, and this database would replace rows by "
                "any of them: leave one, or append"
            )
        return [frozenset(each) for each in keys.values()]

    def check_engine(self, cursor: Cursor, table: str) -> None:
        cursor.execute(
            "select engine from information_schema.tables "
            "where table_name = %s and table_schema = coalesce(%s, database())",
            _parts(table),
        )
        found = cursor.fetchone()
        if found is not None and found[0] != "InnoDB":
            raise SettingsError(f"table {table} is of engine {found[0]}, which has no transactions: alter it to InnoDB")

    def type_of(self, column: Column, *, in_key: bool) -> str:
        if column.kind == kinds.DECIMAL:
            if column.scale > _SCALE_MAX:
                raise SettingsError(f"column {column.name} is {column}: this database has 30 decimals at most")
            return f"decimal({column.precision},{column.scale})"
        if in_key and column.kind in (kinds.STRING, kinds.BINARY):
            # Keys that differ in capitals or in accents alone are two keys, as they are for Spark.
            text = f"varchar({_KEY_CHARACTERS}) character set utf8mb4 collate utf8mb4_bin"
            return text if column.kind == kinds.STRING else f"varbinary({_KEY_CHARACTERS})"
        return _TYPES[column.kind]

    def insert(self, cursor: Cursor, table: str, columns: Sequence[Column], pieces: Iterable[pa.RecordBatch]) -> None:
        for piece in pieces:
            if piece.num_rows:
                self._insert_one(cursor, table, columns, piece)

    def _insert_one(self, cursor: Cursor, table: str, columns: Sequence[Column], piece: pa.RecordBatch) -> None:
        literals = [_literals(column, each) for column, each in zip(columns, piece.columns, strict=True)]
        rows = enclosed("(", compute.binary_join_element_wise(*literals, pa.scalar(",", pa.large_string())), "),")
        start = f"insert into {table} ({self.names([each.name for each in columns])}) values ".encode()
        _, offsets, text = rows.buffers()
        ends = np.frombuffer(offsets, np.int64, len(rows) + 1, rows.offset * 8)
        begin, last = int(ends[0]), int(ends[-1])
        while begin < last:
            # As many rows as a statement holds, and one in any case; without the comma after the last one.
            next_row = int(np.searchsorted(ends, begin, "right"))
            full = int(np.searchsorted(ends, begin + _STATEMENT_BYTES, "right")) - 1
            end = int(ends[max(next_row, full)])
            cursor.execute(start + bytes(memoryview(text)[begin : end - 1]))
            begin = end

    def create_stage(self, cursor: Cursor, table: str, columns: Sequence[Column], key: Sequence[str]) -> str:
        names = self.names([each.name for each in columns])
        cursor.execute("drop temporary table if exists highwater_stage")
        cursor.execute(
            f"create temporary table highwater_stage (primary key ({self.names(key)})) as "
            f"select {names} from {table} limit 0"
        )
        return "highwater_stage"

    def move(self, cursor: Cursor, stage: str, table: str, columns: Sequence[Column], key: Sequence[str]) -> None:
        names = self.names([each.name for each in columns])
        changed = [self.quoted(each.name) for each in columns if each.name not in key] or [self.quoted(key[0])]
        change = ", ".join(f"{each} = values({each})" for each in changed)
        cursor.execute(f"insert into {table} ({names}) select {names} from {stage} on duplicate key update {change}")

    def is_same_key_twice(self, error: Exception) -> bool:
        return isinstance(error, pymysql.err.IntegrityError) and error.args[0] == _DUPLICATE


def _literals(column: Column, values: pa.Array) -> pa.Array:
    """Each value as SQL. Digits are the only characters in it that come from text or bytes."""
    match column.kind:
        case kinds.STRING:
            found = enclosed("_utf8mb4 x'", hexadecimal(values), "'")
        case kinds.BINARY:
            found = enclosed("x'", hexadecimal(values), "'")
        case kinds.DATE | kinds.TIMESTAMP | kinds.TIMESTAMP_NTZ:
            found = enclosed("'", compute.utf8_rtrim(as_text(values), "Z"), "'")
        case _:
            found = as_text(values)
    return compute.fill_null(compute.cast(found, pa.large_string()), "null")


def _parts(table: str) -> tuple[str, str | None]:
    schema, dot, name = table.rpartition(".")
    return name, schema if dot else None
