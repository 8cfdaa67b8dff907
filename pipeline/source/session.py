"""Makes `highwater` known to a Spark session, and sends the package to executors on other hosts."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

from pyspark.sql import SparkSession

from highwater.common.package_archive import write_archive
from highwater.pipeline.errors import SettingsError
from highwater.pipeline.source.data_source import FilteringDataSource

FOLDERS: Final = ("broker/protocol", "broker/records", "broker/security", "common", "pipeline")
"""What a task imports: the tests hold that it is enough."""
_PUSHDOWN: Final = "spark.sql.python.filterPushdown.enabled"
_PYTHON_TIMEOUT_S: Final = 60


def register(spark: SparkSession) -> None:
    """Make `format("highwater")` work in this session, with filters that are pushed down to the source.

    The interpreters of executors on other hosts need kio, crc32c, cramjam, numpy and pyarrow; this package is sent to
    them. Raises SettingsError if Spark starts another Python on this host, which has no highwater.
    """
    context = spark.sparkContext
    _check_python(str(context.pythonExec))
    spark.conf.set(_PUSHDOWN, "true")
    spark.dataSource.register(FilteringDataSource)
    if not is_in_one_process(str(context.master)):
        with tempfile.TemporaryDirectory(prefix="highwater-") as scratch:
            context.addPyFile(str(write_archive(Path(scratch), "highwater_pipeline", FOLDERS)))


def is_in_one_process(master: str) -> bool:
    """Whether the executor is the driver, so that nothing has to be sent to it."""
    return master == "local" or master.startswith("local[")


def _check_python(python: str) -> None:
    """Spark plans a read with this interpreter on the driver's host."""
    command = [python, "-c", "import highwater.pipeline"]
    try:
        missing = subprocess.run(command, capture_output=True, timeout=_PYTHON_TIMEOUT_S, check=False).returncode != 0
    except OSError:
        missing = True
    if missing:
        raise SettingsError(
            f"Spark runs Python workers with {python}, which cannot import highwater; "
            f"set PYSPARK_PYTHON={sys.executable} before the session starts"
        )
