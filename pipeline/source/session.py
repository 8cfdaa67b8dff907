"""Makes `highwater` known to a Spark session, and sends the package to executors on other hosts."""

from __future__ import annotations

import atexit
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final
from weakref import WeakSet

from pyspark import SparkContext
from pyspark.sql import SparkSession

from highwater.common.package_archive import write_archive
from highwater.common.spark_master import is_in_one_process
from highwater.pipeline.errors import SettingsError
from highwater.pipeline.sink.session import is_remote
from highwater.pipeline.source.data_source import FilteringDataSource
from highwater.pipeline.source.listener import FinishedBatches

FOLDERS: Final = ("common", "kafka", "pipeline")
"""What a task imports: the tests hold that it is enough."""
LIBRARIES: Final = ("crc32c", "cramjam", "kio", "numpy", "pyarrow")
"""What a task imports of others."""
_PACKAGES: Final = {"google.protobuf": "protobuf"}
"""Where the package of a module has another name."""
_PROBE: Final = """\
import importlib.util, sys
for name in sys.argv[1:]:
    try:
        is_there = importlib.util.find_spec(name) is not None
    except ImportError:
        is_there = False
    if not is_there:
        print(name)
"""
_PROBES_MIN: Final = 8
_PUSHDOWN: Final = "spark.sql.python.filterPushdown.enabled"
_CHOSEN: Final = "PYSPARK_PYTHON"
_SPARKS_CHOICE: Final = "python3"
_PYTHON_TIMEOUT_S: Final = 60
_listened_to: Final[WeakSet[SparkSession]] = WeakSet()
_sent_to: Final[set[str]] = set()
"""Applications that have the package: Spark refuses a file of the same name from another folder."""


def register(spark: SparkSession, imports: Sequence[str] = (), folders: Sequence[str] = ()) -> None:
    """Make `format("highwater")` work in this session: with filters pushed down, and commits when a batch ends.

    The interpreters of executors on other hosts need LIBRARIES; this package is sent to them. `imports` names more
    modules that must be there, such as google.protobuf for transformWithState. `folders` names more folders of this
    package that tasks import from; Python finds a package in one archive alone, so that the first call decides. Raises
    SettingsError if Spark starts another Python on this host, which has no highwater, or if an executor that is there
    lacks a module. With a master `local`, Spark starts the Python of this process from now on, unless PYSPARK_PYTHON is
    set. Over Spark Connect, the server's Python needs this package: nothing is checked there, and nothing sent.
    """
    if isinstance(imports, str):
        raise SettingsError(f"imports is a list of modules: write imports=[{imports!r}]")
    if not is_remote(spark):
        _prepare_workers(spark.sparkContext, imports, folders)
    spark.conf.set(_PUSHDOWN, "true")
    spark.dataSource.register(FilteringDataSource)
    if spark not in _listened_to:
        spark.streams.addListener(FinishedBatches())
        _listened_to.add(spark)


def _prepare_workers(context: SparkContext, imports: Sequence[str], folders: Sequence[str]) -> None:
    if is_in_one_process(str(context.master)) and _CHOSEN not in os.environ and context.pythonExec == _SPARKS_CHOICE:
        # The first python3 on the PATH has neither these libraries nor this version.
        context.pythonExec = sys.executable
    _check_python(str(context.pythonExec), imports)
    if not is_in_one_process(str(context.master)):
        if context.applicationId not in _sent_to:
            # Executors fetch the file itself with their first task, and those that join later do so then.
            scratch = tempfile.mkdtemp(prefix="highwater-")
            atexit.register(shutil.rmtree, scratch, ignore_errors=True)
            context.addPyFile(str(write_archive(Path(scratch), "highwater_pipeline", (*FOLDERS, *folders))))
            _sent_to.add(context.applicationId)
        _check_executors(context, (*LIBRARIES, *imports))


def _check_python(python: str, imports: Sequence[str]) -> None:
    """Spark plans a read with this interpreter on the driver's host."""
    modules = ["highwater.pipeline", *LIBRARIES, *imports]
    try:
        done = subprocess.run(
            [python, "-c", _PROBE, *modules], capture_output=True, text=True, timeout=_PYTHON_TIMEOUT_S, check=False
        )
        missing = done.stdout.split() if done.returncode == 0 else modules
    except OSError:
        missing = modules
    if "highwater.pipeline" in missing:
        raise SettingsError(
            f"Spark runs Python workers with {python}, which cannot import highwater; "
            f"set {_CHOSEN}={sys.executable} before the session starts"
        )
    if missing:
        other = "" if python == sys.executable else f", or set {_CHOSEN}={sys.executable} before the session starts"
        raise SettingsError(f"{python} has no {_named(missing)}{other}")


def _check_executors(context: SparkContext, modules: Sequence[str]) -> None:
    """Run a small job: most executors that are there get a task of it."""
    probe = _PROBE

    # Pickled as it stands here: a function of this module would first import what may be missing.
    def look(_: Iterable[int]) -> Iterator[tuple[str, str, list[str]]]:
        done = subprocess.run([sys.executable, "-c", probe, *modules], capture_output=True, text=True, check=True)
        yield socket.gethostname(), sys.executable, done.stdout.split()

    tasks = max(context.defaultParallelism, _PROBES_MIN)
    for host, python, missing in context.parallelize(range(tasks), tasks).mapPartitions(look).collect():
        if missing:
            raise SettingsError(f"executor on {host}: {python} has no {_named(missing)}")


def _named(missing: Sequence[str]) -> str:
    packages = [_PACKAGES.get(module, module) for module in missing]
    return f"{', '.join(missing)}; install it there: python -m pip install {' '.join(packages)}"
