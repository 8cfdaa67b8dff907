"""MariaDB and MySQL through PyMySQL: inserts of many rows, text and bytes as hexadecimal digits.

LOAD DATA LOCAL would be faster. It lets the server name a file of this host, which the client then sends: not used.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pymysql
from pyarrow import compute

from highwater.common.nearest import did_you_mean
from highwater.pipeline.database import columns as kinds
from highwater.pipeline.database.address import Address
from highwater.pipeline.database.columns import Column, Rules, TableColumn, UniqueKey
from highwater.pipeline.database.dialect import LOCK_WAIT_S, Connection, Cursor, Dialect
from highwater.pipeline.database.values import DAY_MICROSECONDS, as_text, days_of, enclosed, hexadecimal
from highwater.pipeline.errors import SettingsError

_BITS: Final = {"tinyint": 8, "smallint": 16, "mediumint": 24, "int": 32, "bigint": 64}
_CHARACTER_SET: Final = "utf8mb4"
_WHOLE: Final = {name: (-(1 << bits - 1), (1 << bits - 1) - 1) for name, bits in _BITS.items()} | {
    f"{name} unsigned": (0, (1 << bits) - 1) for name, bits in _BITS.items()
}
_DAYS: Final = (days_of("0001-01-01"), days_of("10000-01-01"))
_NAME_CHARACTERS: Final = 64
_KEY_COLLATIONS: Final = ("utf8mb4_nopad_bin", "utf8mb4_0900_bin")
"""Collations of MariaDB and of MySQL in which capitals, accents and trailing spaces differ, as in Spark."""
_KEY_CHARACTERS: Final = 255
_TYPES: Final = {
    kinds.BOOLEAN: "boolean",
    kinds.BYTE: "tinyint",
    kinds.SHORT: "smallint",
    kinds.INTEGER: "int",
    kinds.LONG: "bigint",
    # FLOAT shows six digits to whoever reads it.
    kinds.FLOAT: "double",
    kinds.DOUBLE: "double",
    kinds.STRING: f"longtext character set {_CHARACTER_SET}",
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
# Strict: a value that does not fit its column is an error, and is not cut. A 0 is a 0, also where numbers are made up.
_SQL_MODE: Final = (
    "STRICT_ALL_TABLES,NO_ZERO_DATE,NO_ZERO_IN_DATE,NO_ENGINE_SUBSTITUTION,ERROR_FOR_DIVISION_BY_ZERO,"
    "NO_AUTO_VALUE_ON_ZERO"
)
_STATEMENT_BYTES: Final = 4 << 20
_PACKET_HEADER_BYTES: Final = 64
_UNICODE_MAX: Final = 0xFFFF
_DUPLICATE: Final = 1062


class Mysql(Dialect):
    errors = (pymysql.Error,)
    quote = "`"
    unless_there = "on duplicate key update name = name"
    progress_types = ("varchar(249) character set utf8mb4 collate utf8mb4_bin", "longtext")
    table_options = " engine=InnoDB default character set utf8mb4"
    rules = Rules(
        accepted={
            **dict.fromkeys(
                (kinds.BOOLEAN, kinds.BYTE, kinds.SHORT, kinds.INTEGER, kinds.LONG), frozenset({*_WHOLE, "decimal"})
            ),
            kinds.FLOAT: frozenset({"double"}),
            kinds.DOUBLE: frozenset({"double"}),
            kinds.DECIMAL: frozenset({"decimal"}),
            # CHAR cuts spaces, ENUM takes the number of a value for the value, MySQL's JSON sorts the members.
            kinds.STRING: frozenset({"varchar", "tinytext", "text", "mediumtext", "longtext", "uuid"}),
            kinds.BINARY: frozenset({"varbinary", "tinyblob", "blob", "mediumblob", "longblob"}),
            kinds.DATE: frozenset({"date"}),
            kinds.TIMESTAMP: frozenset({"datetime", "timestamp"}),
            kinds.TIMESTAMP_NTZ: frozenset({"datetime"}),
        },
        bounds={
            **_WHOLE,
            "date": (_DAYS[0], _DAYS[1] - 1),
            "datetime": (_DAYS[0] * DAY_MICROSECONDS, _DAYS[1] * DAY_MICROSECONDS - 1),
            "timestamp": (1_000_000, (1 << 31) * 1_000_000 - 1),
        },
        has_nan=False,
        has_infinity=False,
    )

    def __init__(self, address: Address) -> None:
        super().__init__(address)
        self._key_collation = _KEY_COLLATIONS[0]

    def connect(self) -> Connection:
        where = self.address
        options = dict(_DEFAULTS)
        for name, text in where.parameters.items():
            if name == "password":
                continue
            if name not in _PARAMETERS:
                known = ", ".join(_PARAMETERS)
                raise SettingsError(
                    f"{where.shown}: {name} is not a parameter of this URL{did_you_mean(name, _PARAMETERS)}: {known}"
                )
            try:
                options[name] = _PARAMETERS[name](text)
            except ValueError:
                raise SettingsError(f"{where.shown}: {name}={text} is not a number of seconds") from None
        own_file = Path("~/.my.cnf").expanduser()
        if "read_default_file" not in options and own_file.is_file():
            options["read_default_file"] = str(own_file)
        given = {"host": where.host, "port": where.port, "user": where.user, "database": where.database}
        password = where.password or os.environ.get("MYSQL_PWD", "")
        connect: Any = pymysql.connect  # its types know no options that are collected in a dictionary
        connection: Any = connect(
            **{name: value for name, value in given.items() if value},
            **options,
            password=password,
            charset="utf8mb4",
            autocommit=False,
            local_infile=False,
            sql_mode=_SQL_MODE,
            init_command=f"set time_zone = '+00:00', innodb_lock_wait_timeout = {LOCK_WAIT_S}",
        )
        self._key_collation = _KEY_COLLATIONS["MariaDB" not in connection.get_server_info()]
        found: Connection = connection
        return found

    def begin(self, connection: Connection) -> None:
        connection.cursor().execute("start transaction")

    def columns(self, cursor: Cursor, table: str) -> list[TableColumn]:
        cursor.execute(
            "select column_name, data_type, column_type, "
            "column_default is not null or extra like '%%auto_increment%%', is_nullable, "
            "extra like '%%GENERATED', numeric_precision, numeric_scale, datetime_precision, "
            "character_maximum_length, character_octet_length, character_set_name "
            "from information_schema.columns where table_name = %s and table_schema = coalesce(%s, database())",
            _parts(table),
        )
        return [_column(*each) for each in cursor.fetchall()]

    def unique_keys(self, cursor: Cursor, table: str) -> list[UniqueKey]:
        """Raises SettingsError if there are several: MySQL would replace a row that any of them finds."""
        cursor.execute(
            "select index_name, column_name, sub_part, collation_name from information_schema.statistics "
            "left join information_schema.columns using (table_schema, table_name, column_name) "
            "where non_unique = 0 and table_name = %s and table_schema = coalesce(%s, database())",
            _parts(table),
        )
        columns: dict[str, set[str]] = {}
        lossy: dict[str, str] = {}
        for index, column, prefix, collation in cursor.fetchall():
            columns.setdefault(index, set()).add(column)
            if prefix is not None:
                lossy[index] = f"a prefix of {prefix} characters of {column}"
            elif collation is not None and collation not in _KEY_COLLATIONS:
                lossy.setdefault(index, f"the collation {collation}")
        if len(columns) > 1:
            raise SettingsError(
                f"table {table} has the unique keys {', '.join(sorted(columns))}, and this database would replace rows "
                "by any of them: leave one, or append"
            )
        return [UniqueKey(frozenset(each), lossy.get(index, "")) for index, each in columns.items()]

    def name_fault(self, name: str) -> str:
        if len(name) > _NAME_CHARACTERS:
            return f"has {len(name)} characters, and names have {_NAME_CHARACTERS} at most in this database"
        if any(ord(each) > _UNICODE_MAX for each in name):
            return f"has a character beyond U+{_UNICODE_MAX:X}, in place of which this database stores a question mark"
        return "has a space at its end" if name.endswith(" ") else ""

    def check_engine(self, cursor: Cursor, table: str) -> None:
        cursor.execute(
            "select engine, table_name from information_schema.tables "
            "where table_name = %s and table_schema = coalesce(%s, database())",
            _parts(table),
        )
        found = cursor.fetchone()
        if found is not None:
            self.check_stored_name(table, found[1])
        if found is not None and found[0] != "InnoDB":
            raise SettingsError(f"table {table} is of engine {found[0]}, which has no transactions: alter it to InnoDB")

    def type_of(self, column: Column, *, in_key: bool) -> str:
        if column.kind == kinds.DECIMAL:
            if column.scale > _SCALE_MAX:
                raise SettingsError(f"column {column.name} is {column}: this database has 30 decimals at most")
            return f"decimal({column.precision},{column.scale})"
        if in_key and column.kind in (kinds.STRING, kinds.BINARY):
            text = f"varchar({_KEY_CHARACTERS}) character set {_CHARACTER_SET} collate {self._key_collation}"
            return text if column.kind == kinds.STRING else f"varbinary({_KEY_CHARACTERS})"
        return _TYPES[column.kind]

    def insert(self, cursor: Cursor, table: str, columns: Sequence[Column], pieces: Iterable[pa.RecordBatch]) -> None:
        cursor.execute("select @@max_allowed_packet")
        packet_bytes = int(cursor.fetchone()[0])
        for piece in pieces:
            if piece.num_rows:
                self._insert_one(cursor, table, columns, piece, packet_bytes)

    def _insert_one(
        self, cursor: Cursor, table: str, columns: Sequence[Column], piece: pa.RecordBatch, packet_bytes: int
    ) -> None:
        literals = [_literals(column, each) for column, each in zip(columns, piece.columns, strict=True)]
        rows = enclosed("(", compute.binary_join_element_wise(*literals, pa.scalar(",", pa.large_string())), "),")
        start = f"insert into {table} ({self.names([each.name for each in columns])}) values ".encode()
        room_bytes = packet_bytes - len(start) - _PACKET_HEADER_BYTES
        _, offsets, text = rows.buffers()
        ends = np.frombuffer(offsets, np.int64, len(rows) + 1, rows.offset * 8)
        if len(wide := np.flatnonzero(np.diff(ends) > room_bytes)):
            raise SettingsError(self._too_wide(columns, piece.slice(int(wide[0]), 1), packet_bytes))
        begin, last = int(ends[0]), int(ends[-1])
        while begin < last:
            # As many rows as a statement holds, and one in any case; without the comma after the last one.
            next_row = int(np.searchsorted(ends, begin, "right"))
            full = int(np.searchsorted(ends, begin + min(_STATEMENT_BYTES, room_bytes), "right")) - 1
            end = int(ends[max(next_row, full)])
            cursor.execute(start + bytes(memoryview(text)[begin : end - 1]))
            begin = end

    def _too_wide(self, columns: Sequence[Column], row: pa.RecordBatch, packet_bytes: int) -> str:
        sizes = [
            (compute.binary_length(each)[0].as_py() or 0, column.name)
            for column, each in zip(columns, row.columns, strict=True)
            if column.kind in (kinds.STRING, kinds.BINARY)
        ]
        size, name = max(sizes, default=(0, columns[0].name))
        return (
            f"column {name} holds a value of {size:,} bytes, and {self.address.shown} takes a row of about half of its "
            f"max_allowed_packet={packet_bytes}: raise that setting above twice the row, or shorten the value"
        )

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
        case kinds.DECIMAL:
            # With an exponent and without quotes, the literal would be a double, which has 17 digits.
            found = enclosed("'", as_text(values), "'")
        case _:
            found = as_text(values)
    return compute.fill_null(compute.cast(found, pa.large_string()), "null")


def _column(
    name: str,
    data_type: str,
    column_type: str,
    has_default: int,
    is_nullable: str,
    is_generated: int,
    precision: int | None,
    scale: int | None,
    second_digits: int | None,
    characters: int | None,
    octets: int | None,
    character_set: str | None,
) -> TableColumn:
    """The column that a row of information_schema.columns describes."""
    type_name = data_type.lower()
    if "unsigned" in column_type:
        type_name += " unsigned"
    is_foreign = character_set not in (None, _CHARACTER_SET)
    return TableColumn(
        name,
        type_name,
        column_type,
        bool(has_default),
        is_nullable == "YES",
        bool(is_generated),
        precision if type_name == "decimal" else None,
        scale,
        second_digits or 0,
        characters if type_name == "varchar" else None,
        None if type_name == "varchar" else octets,
        f"character set {character_set}" if is_foreign else "",
    )


def _parts(table: str) -> tuple[str, str | None]:
    schema, dot, name = table.rpartition(".")
    return name, schema if dot else None
