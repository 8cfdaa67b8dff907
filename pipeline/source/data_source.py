"""The data source `highwater` of PySpark: topics as DataFrames."""

from __future__ import annotations

from dataclasses import replace

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from highwater.pipeline.errors import SettingsError
from highwater.pipeline.kafka.columns import schema_of
from highwater.pipeline.registry.decoding import Formats
from highwater.pipeline.sink.columns import written_columns
from highwater.pipeline.sink.options import EXACTLY_ONCE, read_sink_options
from highwater.pipeline.sink.partition_transaction import BatchWriter, StreamWriter
from highwater.pipeline.source.batch import BatchReader, FilteringBatchReader
from highwater.pipeline.source.options import Options, read_options
from highwater.pipeline.source.reading import keep_what_is_imported
from highwater.pipeline.source.stream import StreamReader


class HighwaterDataSource(DataSource):
    """Register it with `spark.dataSource.register`, or with `register` of this package, which does more."""

    _formats: Formats | None = None
    """Resolved once."""

    @classmethod
    def name(cls) -> str:
        return "highwater"

    def schema(self) -> StructType:
        """The schema of the columns that the options name. Raises SettingsError for options that fit no read."""
        options = self._with_formats(self._options_of_either_kind())
        columns = options.columns
        arrow = schema_of(columns) if options.formats is None else options.formats.schema_of(columns)
        schema: StructType = from_arrow_schema(arrow, prefer_timestamp_ntz=True)
        keep_what_is_imported()
        return schema

    def reader(self, schema: StructType) -> DataSourceReader:
        return BatchReader(self._options(is_stream=False))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        return StreamReader(self._options(is_stream=True))

    def _options(self, *, is_stream: bool) -> Options:
        return self._with_formats(read_options(self.options, is_stream=is_stream))

    def _with_formats(self, options: Options) -> Options:
        """Spark pickles this source after it has asked for the schema: readers have the same schemas of values."""
        if options.formats is None:
            return options
        if self._formats is None:
            self._formats = options.formats.resolved()
        return replace(options, formats=self._formats)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        options = read_sink_options(self.options)
        if overwrite:
            raise SettingsError("a topic cannot be overwritten; write with mode append")
        if options.delivery == EXACTLY_ONCE:
            raise SettingsError(
                "delivery=exactly_once is for streams; TransactionalSink(…).append(frame) writes a DataFrame as "
                "one transaction"
            )
        return BatchWriter(options, written_columns(schema, options.topic))

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802 - Spark's name
        options = read_sink_options(self.options)
        if overwrite:
            raise SettingsError("a topic cannot be overwritten; use output mode append or update")
        return StreamWriter(options, written_columns(schema, options.topic))

    def _options_of_either_kind(self) -> Options:
        """Spark does not say yet whether this is a stream."""
        try:
            return read_options(self.options, is_stream=False)
        except SettingsError as error:
            try:
                return read_options(self.options, is_stream=True)
            except SettingsError:
                raise error from None


class FilteringDataSource(HighwaterDataSource):
    """The same for sessions in which spark.sql.python.filterPushdown.enabled is true."""

    def reader(self, schema: StructType) -> DataSourceReader:
        return FilteringBatchReader(self._options(is_stream=False))
