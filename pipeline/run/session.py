"""The Spark session of a run: Java found, its output in a file, settings that are quiet."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from highwater.common.environment_variables import environment_variables
from highwater.common.errors import MissingDependencyError
from highwater.common.spark_java import find_spark_java
from highwater.pipeline.errors import SettingsError
from highwater.pipeline.run.failures import first_error_in, reason_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LOOPBACK: Final = "127.0.0.1"
_END_TIMEOUT_S: Final = 30
# Results must not depend on the time zone of the host that happens to run them.
_SETTINGS: Final = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "WARN",
    "spark.speculation": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.streaming.stopTimeout": "60s",
}


@contextlib.contextmanager
def spark_session(name: str, master: str, settings: Mapping[str, str], log: Path) -> Iterator[SparkSession]:
    """A session with `format("highwater")`. settings: override those of this module. log: a file for Java's output.

    Raises SettingsError if there is no Java, or Spark does not start.
    """
    with contextlib.ExitStack() as cleanup:
        scratch = Path(cleanup.enter_context(tempfile.TemporaryDirectory(prefix="highwater-spark-")))
        try:
            java = find_spark_java(os.environ, scratch)
        except MissingDependencyError as error:
            raise SettingsError(str(error)) from None
        environment = {"JAVA_HOME": str(java.home), "PYSPARK_DRIVER_PYTHON": sys.executable}
        local = {}
        if master.startswith("local"):
            environment["SPARK_LOCAL_IP"] = os.environ.get("SPARK_LOCAL_IP", _LOOPBACK)
            local = {
                "spark.driver.host": _LOOPBACK,
                "spark.driver.bindAddress": _LOOPBACK,
                # Spark's 200 small tasks for each shuffle would be slower than the work itself.
                "spark.sql.shuffle.partitions": str(len(os.sched_getaffinity(0))),
            }
        environment["PYSPARK_PYTHON"] = os.environ.get("PYSPARK_PYTHON", sys.executable)
        cleanup.enter_context(environment_variables(environment))
        folders = {"spark.local.dir": str(scratch), "spark.sql.warehouse.dir": str(scratch / "warehouse")}
        session = _start(name, master, {**folders, **local, **_SETTINGS, **settings}, log, cleanup)
        yield session


def _start(
    name: str, master: str, settings: Mapping[str, str], log: Path, cleanup: contextlib.ExitStack
) -> SparkSession:
    from pyspark import SparkConf, SparkContext
    from pyspark.errors import PySparkRuntimeError
    from pyspark.java_gateway import launch_gateway
    from pyspark.sql import SparkSession

    from highwater.pipeline.source import register

    conf = SparkConf().setAll(list(settings.items())).setMaster(master).setAppName(name)
    log.parent.mkdir(parents=True, exist_ok=True)
    output = cleanup.enter_context(log.open("wb"))
    with ThreadPoolExecutor(1) as pool:
        # In a thread, because Ctrl-C must not interrupt a launch that has not yet returned the process.
        launch = pool.submit(
            launch_gateway,
            conf,
            {"stdout": output, "stderr": subprocess.STDOUT},
        )
    try:
        gateway: Any = launch.result()
    except PySparkRuntimeError:
        raise SettingsError(f"Spark's Java process ended: {first_error_in(log)}") from None
    cleanup.callback(_end_java, gateway)
    before = {number: signal.getsignal(number) for number in (signal.SIGINT,)}
    try:
        context = SparkContext(conf=conf, gateway=gateway)
    except Exception as error:
        raise SettingsError(f"Spark does not start with master {master}: {reason_of(error)}") from error
    finally:
        # SparkContext installs a handler of SIGINT that cancels all jobs; a run ends in order.
        if threading.current_thread() is threading.main_thread():
            for number, handler in before.items():
                signal.signal(number, handler)
    session = SparkSession(context)
    cleanup.callback(session.stop)
    register(session)
    return session


def _end_java(gateway: Any) -> None:
    with contextlib.suppress(Exception):
        gateway.shutdown()
    # Java ends when its standard input does.
    gateway.proc.stdin.close()
    try:
        gateway.proc.wait(_END_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        gateway.proc.kill()
        gateway.proc.wait()
