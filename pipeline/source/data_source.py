"""The data source `highwater` of PySpark: topics as DataFrames."""

from __future__ import annotations

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
from highwater.pipeline.sink.columns import written_columns
from highwater.pipeline.sink.options import EXACTLY_ONCE, read_sink_options
from highwater.pipeline.sink.partition_transaction import BatchWriter, StreamWriter
from highwater.pipeline.source.batch import BatchReader, FilteringBatchReader
from highwater.pipeline.source.options import Options, read_options
from highwater.pipeline.source.stream import StreamReader


class HighwaterDataSource(DataSource):
    """Register it with `spark.dataSource.register`, or with `register` of this package, which does more."""

    @classmethod
    def name(cls) -> str:
        return "highwater"

    def schema(self) -> StructType:
        """Of the columns that the options ask for. Raises SettingsError for options that fit no read."""
        schema: StructType = from_arrow_schema(schema_of(self._options_of_either_kind().columns))
        return schema

    def reader(self, schema: StructType) -> DataSourceReader:
        return BatchReader(read_options(self.options, is_stream=False))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        return StreamReader(read_options(self.options, is_stream=True))

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        options = read_sink_options(self.options)
        if overwrite:
            raise SettingsError("a topic cannot be overwritten; write with mode append")
        if options.delivery == EXACTLY_ONCE:
            raise SettingsError(
                "delivery=exactly_once is for streams; batch_transaction.Sink(…).append(frame) writes a DataFrame as "
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
        return FilteringBatchReader(read_options(self.options, is_stream=False))
