"""Takes one safeguard away from a sink or the source, in the process of a drill's driver alone.

A drill that cannot fail proves nothing. No option of a sink or of the source does what this module does.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSourceStreamReader
from pyspark.sql.types import StructType

from highwater.pipeline.kafka.offsets import Offsets
from highwater.pipeline.source.data_source import HighwaterDataSource
from highwater.pipeline.source.options import read_options
from highwater.pipeline.source.stream import StreamReader


def without(safeguard: str, session: SparkSession) -> str:
    """Take it away; returns the name of the source's format to use from now on."""
    return SAFEGUARDS[safeguard](session)


class _Forgetful(StreamReader):
    def _begin(self) -> Offsets:
        return self._positions.starting()


class _ForgetfulDataSource(HighwaterDataSource):
    @classmethod
    def name(cls) -> str:
        return "highwater_forgetful"

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        return _Forgetful(read_options(self.options, is_stream=True))


def _first_offsets(session: SparkSession) -> str:
    session.dataSource.register(_ForgetfulDataSource)
    return _ForgetfulDataSource.name()


SAFEGUARDS: Final[dict[str, Callable[[Any], str]]] = {"first-offsets": _first_offsets}
"""Where a stream began is kept: a restart begins there."""
