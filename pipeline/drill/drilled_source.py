"""The source of a drill: `format("highwater")`, whose process knows which query it serves."""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import Final

from pyspark.sql.datasource import DataSourceStreamReader
from pyspark.sql.types import StructType

from highwater.pipeline.crash_points import QUERY
from highwater.pipeline.source.data_source import FilteringDataSource

QUERY_OPTION: Final = "drilled"
"""The name of the query."""


class DrilledSource(FilteringDataSource):
    """Spark makes it once, and sends it to the process that it starts for each stream."""

    def __init__(self, options: MutableMapping[str, str]) -> None:
        self._query = options.pop(QUERY_OPTION, "")
        super().__init__(options)

    def name_query(self) -> None:
        """Crash points of this process are of this query from now on; those of tasks ask Spark."""
        QUERY.set(self._query)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        self.name_query()
        return super().streamReader(schema)
