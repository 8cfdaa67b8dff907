"""A table that a sink of a drill writes to, read by the plain client of its database."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any, Final

from highwater.pipeline.database.address import MYSQL, SQLITE, Address, read_address
from highwater.pipeline.drill.errors import DrillSetupError
from highwater.pipeline.drill.ledger import Row
from highwater.pipeline.drill.model import SinkSpec
from highwater.pipeline.drill.names import BATCH_COLUMN

_PROGRESS_TABLE: Final = "highwater_progress"
_TIMEOUT_S: Final = 30


class TableOutput:
    """The sink creates the table."""

    def __init__(self, kind: str, url: str, table: str) -> None:
        """Raises DrillSetupError if the database cannot be reached, SettingsError for a URL that is none."""
        self._address = read_address(url)
        self._table = table
        self.spec = SinkSpec(kind, {"url": url, "table": table})
        self.resume_from = f"{url}#{table}"
        try:
            with self._cursor():
                pass
        except Exception as error:
            raise DrillSetupError(f"{self._address.shown}: {self._address.hide(error)}") from None

    def rows(self) -> list[Row]:
        with self._cursor() as cursor:
            if not self._has(cursor, self._table):
                return []
            cursor.execute(
                f"select {self._quoted('key')}, {self._quoted(BATCH_COLUMN)} from {self._quoted(self._table)}"
            )
            return [Row(*row) for row in cursor.fetchall()]

    def remove(self) -> None:
        """The table, and the row of the progress."""
        with self._cursor() as cursor:
            cursor.execute(f"drop table if exists {self._quoted(self._table)}")
            if self._has(cursor, _PROGRESS_TABLE):
                # The name was made by the drill.
                cursor.execute(f"delete from {_PROGRESS_TABLE} where name = '{self._table}'")

    @contextmanager
    def _cursor(self) -> Iterator[Any]:
        """The cursor of a transaction that is committed at the end."""
        with closing(_connect(self._address)) as connection:
            yield connection.cursor()
            connection.commit()

    def _has(self, cursor: Any, table: str) -> bool:
        catalogue = (
            f"select 1 from sqlite_master where name = '{table}'"
            if self._address.kind == SQLITE
            else f"select 1 from information_schema.tables where table_name = '{table}'"
        )
        cursor.execute(catalogue)
        return bool(cursor.fetchone())

    def _quoted(self, name: str) -> str:
        return f"`{name}`" if self._address.kind == MYSQL else f'"{name}"'


def _connect(address: Address) -> Any:
    if address.kind == SQLITE:
        return sqlite3.connect(address.path, timeout=_TIMEOUT_S)
    if address.kind == MYSQL:
        import pymysql

        return pymysql.connect(
            host=address.host,
            port=address.port or 3306,
            user=address.user,
            password=address.password,
            database=address.database,
            connect_timeout=_TIMEOUT_S,
        )
    import psycopg

    return psycopg.connect(address.url, connect_timeout=_TIMEOUT_S)
