"""The source: topics as DataFrames of PySpark, in batches and in streams."""

from highwater.pipeline.source.data_source import HighwaterDataSource
from highwater.pipeline.source.lag import OffsetsBehind, offsets_behind_latest
from highwater.pipeline.source.session import register

__all__ = ["HighwaterDataSource", "OffsetsBehind", "offsets_behind_latest", "register"]
