"""The Spark session of a run: Java found, its output in a file, settings that are quiet."""

from __future__ import annotations

import contextlib
import os
import shlex
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
from highwater.common.java_properties import format_properties
from highwater.common.spark_java import find_spark_java
from highwater.common.spark_jvm import end_jvm, forget_jvm
from highwater.common.spark_master import standalone_addresses
from highwater.pipeline.errors import SettingsError
from highwater.pipeline.run.failures import first_error_in, not_accepted, reason_of, refusal_in

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LOOPBACK: Final = "127.0.0.1"
_POLL_S: Final = 0.5
_ARGUMENTS: Final = "PYSPARK_SUBMIT_ARGS"
_JAVA_OPTIONS: Final = "SPARK_SUBMIT_OPTS"
# Results must not depend on the time zone of the host that happens to run them.
_SETTINGS: Final = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "WARN",
    # Spark's 15 s are not enough for its own processes to find each other on a host with much other work.
    "spark.python.authenticate.socketTimeout": "120s",
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
        python = os.environ.get("PYSPARK_PYTHON") or settings.get("spark.pyspark.python") or sys.executable
        environment["PYSPARK_PYTHON"] = python
        # So that a JVM that is killed leaves nothing behind.
        environment[_JAVA_OPTIONS] = (
            f"-Djava.io.tmpdir={shlex.quote(str(scratch))} {os.environ.get(_JAVA_OPTIONS, '')}".strip()
        )
        folders = {"spark.local.dir": str(scratch), "spark.sql.warehouse.dir": str(scratch / "warehouse")}
        every = {**folders, **local, **_SETTINGS, **settings, "spark.master": master, "spark.app.name": name}
        cleanup.enter_context(environment_variables(environment))
        file = scratch / "settings.properties"
        with environment_variables({_ARGUMENTS: arguments_of_submit(file, every)}):
            gateway = _launch(log, cleanup)
        # Java has read it, and a process that is killed would leave it behind.
        file.unlink()
        yield _start(gateway, every, log, cleanup)


def arguments_of_submit(file: Path, settings: Mapping[str, str]) -> str:
    """Write settings to the file: they can be secrets, and everybody on a host can read arguments of processes."""
    file.touch(0o600)
    file.write_text(format_properties(settings), "ascii")
    others = os.environ.get(_ARGUMENTS, "pyspark-shell")
    return f"--properties-file {shlex.quote(str(file))} --load-spark-defaults {others}"


def _launch(log: Path, cleanup: contextlib.ExitStack) -> Any:
    """Start Java. Raises SettingsError."""
    from pyspark import SparkContext
    from pyspark.errors import PySparkRuntimeError
    from pyspark.java_gateway import launch_gateway

    log.parent.mkdir(parents=True, exist_ok=True)
    output = cleanup.enter_context(log.open("wb"))
    forget_jvm(SparkContext)
    # In a session of its own, because a signal to the whole group is for this process, which still needs Java to end.
    options = {"stdout": output, "stderr": subprocess.STDOUT, "start_new_session": True}
    with ThreadPoolExecutor(1) as pool:
        # In a thread, because Ctrl-C must not interrupt a launch that has not yet returned the process.
        launch = pool.submit(launch_gateway, None, options)
    try:
        gateway: Any = launch.result()
    except PySparkRuntimeError:
        raise SettingsError(f"Spark's Java process ended: {first_error_in(log)}") from None
    cleanup.callback(end_jvm, SparkContext, gateway)
    return gateway


def _start(gateway: Any, settings: Mapping[str, str], log: Path, cleanup: contextlib.ExitStack) -> SparkSession:
    from pyspark import SparkConf, SparkContext
    from pyspark.sql import SparkSession

    from highwater.pipeline.source import register

    master = settings["spark.master"]
    before = {number: signal.getsignal(number) for number in (signal.SIGINT,)}
    conf = SparkConf().setAll(list(settings.items()))
    try:
        with _ended_when_refused(gateway, master, log):
            context = SparkContext(conf=conf, gateway=gateway)
        if context._jsc.sc().isStopped():
            raise SettingsError(f"{not_accepted(master)} (Spark's log: {log})")
    except SettingsError:
        raise
    except Exception as error:
        raise SettingsError(
            refusal_in(_text(log), master) or f"Spark does not start with master {master}: {reason_of(error)}"
        ) from error
    finally:
        # SparkContext installs a handler of SIGINT that cancels all jobs; a run ends in order.
        if threading.current_thread() is threading.main_thread():
            for number, handler in before.items():
                signal.signal(number, handler)
    session = SparkSession(context)
    cleanup.callback(session.stop)
    register(session)
    return session


@contextlib.contextmanager
def _ended_when_refused(gateway: Any, master: str, log: Path) -> Iterator[None]:
    """Spark would repeat three times in a minute what a master with another secret refuses at once."""
    if not standalone_addresses(master):
        yield
        return
    ended = threading.Event()

    def watch() -> None:
        while not ended.wait(_POLL_S):
            if refusal_in(_text(log), master):
                gateway.proc.kill()
                return

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield
    finally:
        ended.set()
        watcher.join()


def _text(log: Path) -> str:
    return log.read_text("utf-8", "replace")
