"""How fast the sink writes into databases over one connection, beside the ways of the driver alone."""

from __future__ import annotations

import random
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa

from highwater.pipeline.database.address import read_address
from highwater.pipeline.database.batch_transaction import Writer
from highwater.pipeline.database.columns import DOUBLE, INTEGER, LONG, STRING, Column
from highwater.pipeline.database.dialect import Dialect
from highwater.pipeline.database.dialects import dialect_of
from highwater.pipeline.progress.batch import BatchOf
from highwater.pipeline.progress.rule import Decision
from tests.database_servers import running_postgresql
from tools.pipeline_speed.passes import Pass, in_turns

SINK, SINK_WITH_KEY, EXECUTEMANY, COPY = "sink", "sink with a key", "executemany", "COPY, row by row"
SQLITE, POSTGRESQL = "SQLite", "PostgreSQL"
TEXT_BYTES: Final = 86
_ROWS_AT_ONCE: Final = 10_000
"""As Spark gives them."""
_COLUMNS: Final = (Column("p", INTEGER), Column("o", LONG), Column("a", DOUBLE), Column("t", STRING))


def measure(rows: int, rounds: int, chooser: random.Random) -> dict[str, dict[str, list[Pass]]]:
    """Database → writer → a pass for each round. The files of both are on the disk of the working directory."""
    with (
        tempfile.TemporaryDirectory(dir=".", prefix=".pipeline-speed-") as scratch,
        running_postgresql(Path(scratch).absolute()) as server,
    ):
        urls = {SQLITE: f"sqlite:{Path(scratch).absolute() / 'results.db'}", POSTGRESQL: server.url}
        return {name: _of_one(url, rows, rounds, chooser) for name, url in urls.items()}


def _of_one(url: str, rows: int, rounds: int, chooser: random.Random) -> dict[str, list[Pass]]:
    dialect = dialect_of(read_address(url))
    writers: dict[str, Callable[[], None]] = {
        SINK: _Sink(dialect, rows).write,
        SINK_WITH_KEY: _Sink(dialect, rows, key="o").write,
        EXECUTEMANY: lambda: _by_driver(dialect, rows, _executemany),
    }
    if url.startswith("postgresql:"):
        writers[COPY] = lambda: _by_driver(dialect, rows, _copy)
    return in_turns(writers, rounds, chooser)


class _Sink:
    """A new table and a new name; each call writes the next batch, and its progress in the same transaction."""

    def __init__(self, dialect: Dialect, rows: int, key: str = "") -> None:
        self._table = f"sink_{time.time_ns()}"
        self._writer = Writer(dialect, self._table, self._table, key=[key] if key else [], create=True)
        self._rows = rows
        self._batch_id = 0

    def write(self) -> None:
        batch = BatchOf("bench", self._batch_id, ())
        decision = self._writer.write(batch, _COLUMNS, _pieces(self._batch_id * self._rows, self._rows))
        assert decision is Decision.WRITE
        self._batch_id += 1


def _by_driver(dialect: Dialect, rows: int, insert: Callable[[Dialect, Any, str, list[Any]], None]) -> None:
    """One transaction without a progress into a new table. Making Python's values out of Arrow's is part of it."""
    connection: Any = dialect.connect()
    try:
        cursor = connection.cursor()
        table = f"driver_{time.time_ns()}"
        dialect.create(cursor, table, _COLUMNS, ())
        connection.commit()
        dialect.begin(connection)
        for piece in _pieces(0, rows):
            insert(dialect, cursor, table, list(zip(*(each.to_pylist() for each in piece.columns), strict=True)))
        connection.commit()
        cursor.execute(f"select count(*) from {table}")
        assert cursor.fetchone() == (rows,)
    finally:
        connection.close()


def _executemany(dialect: Dialect, cursor: Any, table: str, values: list[Any]) -> None:
    marks = ", ".join([dialect.mark] * len(_COLUMNS))
    cursor.executemany(f"insert into {table} values ({marks})", values)


def _copy(dialect: Dialect, cursor: Any, table: str, values: list[Any]) -> None:
    with cursor.copy(f"copy {table} from stdin") as copy:
        for row in values:
            copy.write_row(row)


_TEXTS: Final = pa.array([f"value {number:0{TEXT_BYTES - 6}d}" for number in range(_ROWS_AT_ONCE)])


def _pieces(first: int, count: int) -> Iterator[pa.RecordBatch]:
    for begin in range(first, first + count, _ROWS_AT_ONCE):
        size = min(_ROWS_AT_ONCE, first + count - begin)
        offsets = np.arange(begin, begin + size, dtype=np.int64)
        columns = [pa.array(each) for each in ((offsets % 8).astype(np.int32), offsets, offsets * 0.5)]
        yield pa.RecordBatch.from_arrays([*columns, _TEXTS.slice(0, size)], [each.name for each in _COLUMNS])
