"""The engine for large lakes: Spark SQL over the same files, with the same functions.

A statement stands in the FROM clause of a SELECT of ours, so that Spark's grammar takes nothing but a query; files as
tables (``select * from parquet.`/path` ``) are switched off, and functions that call Java are refused.
"""

from __future__ import annotations

import re
import tempfile
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.functions import ArrowUDFType, arrow_udf
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import LongType, StructField, StructType

from highwater.common.errors import UsageError
from highwater.common.package_archive import write_archive
from highwater.common.spark_master import is_in_one_process
from highwater.common.spark_session import spark_session
from highwater.studies.lake import storage
from highwater.studies.lake.engine import NO_TABLES, Parameters, Tables, check_names, given_for, one_line, plain_types
from highwater.studies.lake.functions import FUNCTIONS, Function
from highwater.studies.lake.manifest import Manifest
from highwater.studies.lake.merging import COUNT, merged_in_parts, percentile_column, percentiles_of
from highwater.studies.lake.tables import SCHEMAS

_TYPES: Final = {pa.float64(): "double", pa.int64(): "bigint", pa.int32(): "int", pa.string(): "string"}
# What the functions import, for executors on other hosts.
_FOLDERS: Final = ("common", "results/analysis", "results/histogram.py", "studies/lake")
_CALLS_JAVA: Final = re.compile(r"\b(reflect|java_method|try_reflect)\b", re.IGNORECASE)
_SETTINGS: Final = {
    "spark.driver.memory": "1g",
    "spark.sql.runSQLOnFiles": "false",
    "spark.sql.ansi.enabled": "true",
    "spark.sql.ansi.doubleQuotedIdentifiers": "true",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.sources.ignoreDataLocality": "true",
    "spark.sql.shuffle.partitions": "4",
    "spark.sql.adaptive.enabled": "true",
}


class SparkEngine:
    """Spark SQL, open on a lake."""

    def __init__(self, manifest: Manifest, spark: SparkSession) -> None:
        """spark: a session with these settings. Raises UsageError when the lake cannot be read."""
        self._lake: Path = manifest.directory
        self._groups = manifest.groups()
        self._spark = spark
        for function in FUNCTIONS:
            spark.udf.register(function.name, _udf(function))
        spark.sql(
            "create or replace temporary function pair(x double, y double) returns array<double> return array(x, y)"
        )
        for table, schema in SCHEMAS.items():
            paths = [
                str((self._lake / file.path).absolute())
                for group in self._groups
                for file in group.files
                if file.table == table
            ]
            shape = from_arrow_schema(schema)
            try:
                frame = spark.read.schema(shape).parquet(*paths) if paths else spark.createDataFrame([], shape)
            except PySparkException as error:
                raise UsageError(storage.damaged(self._lake, self._groups, error)) from None
            frame.createOrReplaceTempView(table)

    def query(self, sql: str, parameters: Parameters, tables: Tables = NO_TABLES) -> pa.Table:
        check_names(tables, SCHEMAS)
        try:
            for name, rows in tables.items():
                self._spark.createDataFrame(rows, from_arrow_schema(rows.schema)).createOrReplaceTempView(name)
            return plain_types(self._frame(sql, parameters).toArrow())
        except PySparkException as error:
            raise self._told(error) from None
        finally:
            for name in tables:
                self._spark.catalog.dropTempView(name)

    def percentiles(
        self, sql: str, parameters: Parameters, by: Sequence[str], percentiles: Sequence[float]
    ) -> pa.Table:
        def merge(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for part in merged_in_parts((pa.Table.from_batches([batch]) for batch in batches if batch.num_rows), by):
                yield from part.to_batches()

        def finish(rows: pa.Table) -> pa.Table:
            return percentiles_of(rows, by, percentiles)

        try:
            frame = self._frame(sql, parameters).select(*by, "buckets", "counts")
            keys = [field for field in frame.schema.fields if field.name in by]
            figures = [COUNT, *map(percentile_column, percentiles)]
            shape = StructType([*keys, *(StructField(name, LongType()) for name in figures)])
            parts = frame.mapInArrow(merge, frame.schema)
            return plain_types(parts.groupBy(*by).applyInArrow(finish, shape).orderBy(*by).toArrow())
        except PySparkException as error:
            raise self._told(error) from None

    def _frame(self, sql: str, parameters: Parameters) -> DataFrame:
        values = given_for(sql, parameters)
        if (found := _CALLS_JAVA.search(sql)) is not None:
            raise UsageError(f"a lake can only be read: {found[1]} calls Java")
        statement = f"select * from (\n{sql.strip().rstrip(';')}\n) as asked"
        return self._spark.sql(statement, args=values)

    def _told(self, error: PySparkException) -> UsageError:
        if "FAILED_READ_FILE" in str(error) or "FILE_NOT_EXIST" in str(error):
            return UsageError(storage.damaged(self._lake, self._groups, error))
        return one_line(error, SCHEMAS)


@contextmanager
def opened_on_spark(manifest: Manifest, master: str, settings: Mapping[str, str] | None) -> Iterator[SparkEngine]:
    """Start Spark, with this package for executors on other hosts. Raises UsageError."""
    every = {**_SETTINGS, **(settings or {})}
    with (
        tempfile.TemporaryDirectory(prefix="highwater-lake-") as scratch,
        spark_session("highwater-lake", master, every) as spark,
    ):
        if not is_in_one_process(master):
            spark.sparkContext.addPyFile(str(write_archive(Path(scratch), "highwater-lake", _FOLDERS)))
        yield SparkEngine(manifest, spark)


def _udf(function: Function) -> Any:
    def apply(*arguments: pa.Array) -> pa.Array:
        # 99.9 is a decimal in Spark's SQL.
        return function.of(*(given.cast(kind) for given, kind in zip(arguments, function.arguments, strict=True)))

    with warnings.catch_warnings():
        # The UDF's arguments vary in number, so annotations cannot give its kind.
        warnings.filterwarnings("ignore", "It is preferred to specify type hints", UserWarning)
        return arrow_udf(apply, _sql_type(function.result), ArrowUDFType.SCALAR)


def _sql_type(kind: pa.DataType) -> str:
    return f"array<{_sql_type(kind.value_type)}>" if pa.types.is_list(kind) else _TYPES[kind]
