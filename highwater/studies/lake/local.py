"""The engine of one host: DuckDB, which reads the Parquet files in pieces, within a bounded memory.

DuckDB may open the files of the lake and no other, load no extension and see no variable of Python; its configuration
is locked. What a statement can reach is therefore the tables of the lake, and they cannot be written. What does not fit
into the memory of a statement goes to a folder of its own in the folder for temporary files.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Final

import duckdb
import pyarrow as pa
from duckdb.func import FunctionNullHandling, PythonUDFType

from highwater.common.errors import UsageError
from highwater.studies.lake import storage
from highwater.studies.lake.engine import (
    MEMORY_BYTES,
    NO_TABLES,
    Parameters,
    Tables,
    check_names,
    given_for,
    one_line,
    plain_types,
    with_markers,
)
from highwater.studies.lake.functions import FUNCTIONS, Function
from highwater.studies.lake.manifest import Manifest
from highwater.studies.lake.merging import merged_in_parts, percentiles_of
from highwater.studies.lake.tables import SCHEMAS

_CLOSED: Final[dict[str, str | bool | int | float | list[str]]] = {
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
    "python_enable_replacements": False,
    "preserve_insertion_order": True,
}
_TYPES: Final = {
    pa.float64(): "DOUBLE",
    pa.int64(): "BIGINT",
    pa.int32(): "INTEGER",
    pa.string(): "VARCHAR",
    pa.bool_(): "BOOLEAN",
}
# What readers of Parquet say of a damaged file.
_DAMAGED: Final = ("arquet", "No such file", "thrift", "TProtocol", "Corrupt", "ZSTD")
# Histograms that are merged at once. Each has some thousand buckets: at 4,096 they took 600 MiB more, and no less time.
_ROWS_AT_ONCE: Final = 512


class LocalEngine:
    """DuckDB, open on a lake."""

    def __init__(self, manifest: Manifest, connection: duckdb.DuckDBPyConnection, link: Path) -> None:
        """link: a path to the lake without characters of patterns. Raises UsageError when the lake cannot be read."""
        self._lake: Path = manifest.directory
        self._groups = manifest.groups()
        self._connection = connection
        for function in FUNCTIONS:
            self._create(function)
        connection.execute("create macro pair(x, y) as [cast(x as double), cast(y as double)]")
        # Files of a lake never change.
        connection.execute("set parquet_metadata_cache = true")
        with self._told():
            self._open_files(link)
        connection.execute("set enable_external_access = false")
        connection.execute("set lock_configuration = true")

    def query(self, sql: str, parameters: Parameters, tables: Tables = NO_TABLES) -> pa.Table:
        check_names(tables, SCHEMAS)
        with self._told(), ExitStack() as stack:
            for name, rows in tables.items():
                self._connection.register(name, rows)
                stack.callback(self._connection.unregister, name)
            return plain_types(self._asked(sql, parameters).to_arrow_table())

    def percentiles(
        self, sql: str, parameters: Parameters, by: Sequence[str], percentiles: Sequence[float]
    ) -> pa.Table:
        with self._told(), closing(self._asked(sql, parameters).to_arrow_reader(_ROWS_AT_ONCE)) as reader:
            if missing := [name for name in (*by, "buckets", "counts") if name not in reader.schema.names]:
                raise UsageError(f"the statement cannot be answered: there is no column {missing[0]} to pool")
            parts = (pa.Table.from_batches([batch]) for batch in reader if batch.num_rows)
            whole = next(merged_in_parts(parts, by), reader.schema.empty_table())
            return percentiles_of(plain_types(whole), by, percentiles)

    def _open_files(self, link: Path) -> None:
        paths: dict[str, list[str]] = {table: [] for table in SCHEMAS}
        rows = dict.fromkeys(SCHEMAS, 0)
        for file in (file for group in self._groups for file in group.files):
            paths[file.table].append(str(link / file.path))
            rows[file.table] += file.rows
        every = ", ".join(_quoted(path) for found in paths.values() for path in found)
        self._connection.execute(f"set allowed_paths = [{every}]")
        for table, schema in SCHEMAS.items():
            if not paths[table]:
                self._connection.register(table, schema.empty_table())
                continue
            files = ", ".join(map(_quoted, paths[table]))
            # A column that a file does not have is null.
            columns = ", ".join(
                f"{_quoted(field.name)}: {{name: {_quoted(field.name)}, type: {_quoted(_sql_type(field.type))}, "
                "default_value: NULL}"
                for field in schema
            )
            # DuckDB looks into the first file only, and without this would hold the larger side of a join in memory.
            self._connection.execute(
                f'create view "{table}" as from read_parquet([{files}], schema = map {{{columns}}}, '
                f"hive_partitioning = false, explicit_cardinality = {rows[table]})"
            )

    def _asked(self, sql: str, parameters: Parameters) -> duckdb.DuckDBPyRelation:
        values = given_for(sql, parameters)
        statements = duckdb.extract_statements(with_markers(sql, "$"))
        if len(statements) != 1 or statements[0].type != duckdb.StatementType.SELECT:
            raise UsageError("a lake can only be read: give one SELECT")
        return self._connection.sql(statements[0].query, params=values)

    @contextmanager
    def _told(self) -> Iterator[None]:
        """Errors in one line each; one about a file names the first file that is not as the manifest says."""
        try:
            yield
        except duckdb.OutOfMemoryException:
            (limit,) = self._connection.sql("select current_setting('memory_limit')").fetchall()[0]
            raise UsageError(
                f"the statement needs more memory than {limit}; give it more with --memory, or ask on --engine spark"
            ) from None
        except (pa.ArrowException, duckdb.IOException, OSError) as error:
            raise UsageError(storage.damaged(self._lake, self._groups, error)) from None
        except duckdb.Error as error:
            if (what := _damaged_file(error)) is not None:
                raise UsageError(storage.damaged(self._lake, self._groups, what)) from None
            raise one_line(error, SCHEMAS) from None

    def _create(self, function: Function) -> None:
        self._connection.create_function(
            function.name,
            function.of,
            [_sql_type(kind) for kind in function.arguments],
            _sql_type(function.result),
            type=PythonUDFType.ARROW,
            null_handling=FunctionNullHandling.SPECIAL,
        )


@contextmanager
def opened_locally(manifest: Manifest, memory_bytes: int = MEMORY_BYTES) -> Iterator[LocalEngine]:
    """An engine with so much memory for statements. Raises UsageError when the lake cannot be read."""
    with ExitStack() as stack:
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="highwater-lake-")))
        # DuckDB takes [, * and ? in the path of a file for a pattern.
        link = scratch / "lake"
        link.symlink_to(manifest.directory.absolute())
        settings = {**_CLOSED, "memory_limit": f"{memory_bytes}B", "temp_directory": str(scratch / "spilled")}
        connection = stack.enter_context(duckdb.connect(":memory:", config=settings))
        yield LocalEngine(manifest, connection, link)


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _sql_type(kind: pa.DataType) -> str:
    return f"{_sql_type(kind.value_type)}[]" if pa.types.is_list(kind) else _TYPES[kind]


def _damaged_file(error: duckdb.Error) -> Exception | None:
    """What the reader of Parquet says of a file, which is not always an error about files."""
    said = str(error)
    return error if any(word in said for word in _DAMAGED) else None
