"""The engine of one host: DuckDB over Arrow, which reads the Parquet files by pyarrow.

DuckDB itself may open no file, load no extension and see no variable of Python; its configuration is locked. What a
statement can reach is therefore the tables of the lake, and they cannot be written.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import duckdb
import pyarrow as pa
from duckdb.func import FunctionNullHandling, PythonUDFType

from highwater.bench.errors import UsageError
from highwater.bench.lake import storage
from highwater.bench.lake.engine import Parameters, given_for, one_line, plain_types, with_markers
from highwater.bench.lake.functions import FUNCTIONS, Function
from highwater.bench.lake.manifest import Manifest
from highwater.bench.lake.merging import percentiles_of
from highwater.bench.lake.tables import SCHEMAS

_CLOSED: Final[dict[str, str | bool | int | float | list[str]]] = {
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
    "python_enable_replacements": False,
    "preserve_insertion_order": True,
}
_TYPES: Final = {pa.float64(): "DOUBLE", pa.int64(): "BIGINT", pa.int32(): "INTEGER", pa.string(): "VARCHAR"}


class LocalEngine:
    """DuckDB, open on a lake."""

    def __init__(self, manifest: Manifest) -> None:
        """Raises UsageError when the lake cannot be read."""
        self._lake: Path = manifest.directory
        self._groups = manifest.groups()
        self._connection = duckdb.connect(":memory:", config=_CLOSED)
        for function in FUNCTIONS:
            self._create(function)
        self._connection.execute("create macro pair(x, y) as [cast(x as double), cast(y as double)]")
        for table in SCHEMAS:
            self._connection.register(table, storage.dataset_of(self._lake, table, self._groups))
        self._connection.execute("set enable_external_access = false")
        self._connection.execute("set lock_configuration = true")

    def query(self, sql: str, parameters: Parameters) -> pa.Table:
        values = given_for(sql, parameters)
        try:
            statements = duckdb.extract_statements(with_markers(sql, "$"))
            if len(statements) != 1 or statements[0].type != duckdb.StatementType.SELECT:
                raise UsageError("a lake can only be read: give one SELECT")
            return plain_types(self._connection.sql(statements[0].query, params=values).to_arrow_table())
        except (pa.ArrowException, duckdb.IOException, OSError) as error:
            raise UsageError(storage.damaged(self._lake, self._groups, error)) from None
        except duckdb.Error as error:
            if (what := _damaged_file(error)) is not None:
                raise UsageError(storage.damaged(self._lake, self._groups, what)) from None
            raise one_line(error, SCHEMAS) from None

    def percentiles(
        self, sql: str, parameters: Parameters, by: Sequence[str], percentiles: Sequence[float]
    ) -> pa.Table:
        return percentiles_of(self.query(sql, parameters), by, percentiles)

    def _create(self, function: Function) -> None:
        self._connection.create_function(
            function.name,
            function.of,
            [_sql_type(kind) for kind in function.arguments],
            _sql_type(function.result),
            type=PythonUDFType.ARROW,
            null_handling=FunctionNullHandling.SPECIAL,
        )


def _sql_type(kind: pa.DataType) -> str:
    return f"{_sql_type(kind.value_type)}[]" if pa.types.is_list(kind) else _TYPES[kind]


def _damaged_file(error: duckdb.Error) -> Exception | None:
    """What pyarrow says of a file, which DuckDB hands on as an error of its own."""
    said = str(error)
    return error if any(word in said for word in ("Parquet", "parquet", "No such file", "thrift", "Corrupt")) else None
