"""Runs first in each Python process that Spark starts for a drill: imports once what all of them need.

Spark puts its library in front of the path as a ZIP file, whose modules Python compiles anew in each process. The same
library is installed as files with compiled code. The daemons that Spark forks workers from import what workers need.
"""

from __future__ import annotations

import gc
import sys
from importlib import import_module

_ZIPPED = "pyspark.zip"
_DAEMON = "pyspark.daemon"
_OF_WORKERS = (
    "pyspark.worker",
    "pyspark.sql.worker.create_data_source",
    "pyspark.sql.worker.plan_data_source_read",
    "pyspark.sql.worker.write_into_data_source",
    "highwater.pipeline.drill.drilled_source",
    "highwater.pipeline.drill.writing",
    "highwater.pipeline.sink.batch_transaction",
    "highwater.pipeline.sink.partition_transaction",
    "highwater.pipeline.source.data_source",
)
_TASKS = "pyspark.worker"
_OF_TASKS = (
    "encodings.idna",
    "highwater.pipeline.sink.arrow_pieces",
    "highwater.pipeline.files.parquet",
    # Half a second, and pyarrow imports it for the first table.
    "pandas",
)

# kio makes strategies for tests if it can: a seventh of the time of all imports.
sys.modules["hypothesis"] = None  # type: ignore[assignment]
sys.path[:] = [place for place in sys.path if not place.endswith(_ZIPPED)]
if _DAEMON in sys.orig_argv:
    for name in (*_OF_WORKERS, *(_OF_TASKS if _TASKS in sys.orig_argv else ())):
        import_module(name)
    # Workers share this memory as long as no collection writes to it.
    gc.freeze()
