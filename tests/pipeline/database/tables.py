"""What tests do with a database by themselves, through the bare driver: run SQL, read rows, clear."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_schema

from highwater.pipeline.database.address import read_address
from highwater.pipeline.database.batch_transaction import Writer
from highwater.pipeline.database.dialect import Dialect
from highwater.pipeline.database.dialects import dialect_of
from highwater.pipeline.database.sink import columns_of
from highwater.pipeline.kafka.offsets import Offsets
from highwater.pipeline.progress.batch import BatchOf
from highwater.pipeline.progress.rule import Decision
from tests.database_servers import Server

SCHEMA = pa.schema([("id", pa.int64()), ("word", pa.string())])
COLUMNS = columns_of(from_arrow_schema(SCHEMA))


class Database:
    def __init__(self, url: str, server: Server | None = None) -> None:
        self.url = url
        self.server = server
        self.address = read_address(url)
        self.dialect: Dialect = dialect_of(self.address)

    @property
    def kind(self) -> str:
        return self.address.kind

    def sql(self, *statements: str) -> list[tuple[Any, ...]]:
        """Run statements, commit, and return the rows of the last one."""
        connection = self.dialect.connect()
        try:
            cursor = connection.cursor()
            for statement in statements:
                cursor.execute(statement)
            found = [tuple(row) for row in cursor.fetchall()] if cursor.description else []
            connection.commit()
            return found
        finally:
            connection.close()

    def rows(self, table: str = "results", columns: str = "*") -> list[tuple[Any, ...]]:
        return sorted(self.sql(f"select {columns} from {self.dialect.quoted_table(table)}"), key=repr)

    def clear(self) -> None:
        own = "current_schema()" if self.kind == "postgresql" else "database()"
        tables = self.sql(f"select table_name from information_schema.tables where table_schema = {own}")
        for (name,) in tables:
            self.sql(f"drop table {self.dialect.quoted(name)}")

    def writer(self, name: str = "sink", table: str = "results", *, create: bool = True, **more: Any) -> Writer:
        return Writer(self.dialect, table, name, create=create, **more)


def batch(number: int, query: str = "query", *, start: int | None = None, end: int | None = None) -> BatchOf:
    """Batch `number` has ten offsets of one partition, unless it is said which."""
    first = number * 10 if start is None else start
    last = first + 10 if end is None else end
    return BatchOf(query, number, (_at(last),), (_at(first),))


def _at(offset: int) -> Offsets:
    return Offsets({("orders", 0): offset}, {"orders": "id"})


def pieces(rows: Sequence[tuple[Any, ...]], schema: pa.Schema = SCHEMA, size: int = 4) -> list[pa.RecordBatch]:
    columns = [pa.array([row[number] for row in rows], each.type) for number, each in enumerate(schema)]
    return list(pa.table(columns, schema).to_batches(max_chunksize=size))


def ten(number: int) -> list[tuple[int, str]]:
    return [(each, f"word {each}") for each in range(number * 10, number * 10 + 10)]


def write(
    writer: Writer, of: BatchOf, rows: Sequence[tuple[Any, ...]] | None = None, schema: pa.Schema = SCHEMA
) -> Decision:
    given: Iterable[pa.RecordBatch] = pieces(ten(of.batch_id) if rows is None else rows, schema)
    return writer.write(of, columns_of(from_arrow_schema(schema)), given)
