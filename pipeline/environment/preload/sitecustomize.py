"""Runs first in each Python process that Spark starts on this host: imports what all of them need.

Spark puts its library in front of the path as a ZIP file, whose modules Python compiles anew in each process. The same
library is installed as files with compiled code. The daemons that Spark forks workers from import what workers need.
"""

from __future__ import annotations

import gc
import sys
from importlib import import_module
from importlib.machinery import PathFinder
from importlib.util import module_from_spec
from pathlib import Path

_ZIPPED = "pyspark.zip"
_DAEMON = "pyspark.daemon"
_OF_WORKERS = (
    "pyspark.worker",
    "pyspark.sql.worker.create_data_source",
    "pyspark.sql.worker.plan_data_source_read",
    "pyspark.sql.worker.write_into_data_source",
    "highwater.pipeline.sink.batch_transaction",
    "highwater.pipeline.sink.partition_transaction",
    "highwater.pipeline.source.data_source",
)

here = str(Path(__file__).parent)
sys.path[:] = [place for place in sys.path if place != here and not place.endswith(_ZIPPED)]
# The host's own file of this name, which Python would have run if this folder did not stand before it.
spec = PathFinder.find_spec("sitecustomize", sys.path)
if spec is not None and spec.loader is not None:
    spec.loader.exec_module(module_from_spec(spec))
if _DAEMON in sys.orig_argv:
    for name in _OF_WORKERS:
        import_module(name)
    # Workers share this memory as long as no collection writes to it.
    gc.freeze()
