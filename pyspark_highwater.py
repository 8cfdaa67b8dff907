"""Spark imports every module `pyspark_*` that it finds and registers its DefaultSource: `highwater` without a call.

Source: pyspark/sql/worker/lookup_data_sources.py of Spark 4. Filters are pushed down, and offsets committed, only after
`highwater.pipeline.register(spark)`.
"""

from highwater.pipeline.source.data_source import HighwaterDataSource as DefaultSource

__all__ = ["DefaultSource"]
