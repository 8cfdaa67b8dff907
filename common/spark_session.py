"""Starts Spark for every room: Java, its log, settings that nobody else reads; ends all of it."""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from .child_process import await_end
from .environment_variables import environment_variables
from .errors import MissingDependencyError, UsageError
from .java_properties import format_properties
from .spark_errors import first_error_in, not_accepted, reason_of, refusal_in
from .spark_java import Java, find_spark_java
from .spark_master import master_fault

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

FindJava = Callable[[Mapping[str, str], Path], Java]
_NO_SETTINGS: Final[Mapping[str, str]] = {}
_SETTINGS: Final = {
    "spark.log.level": "WARN",
    # Spark's 15 s are not enough for its own processes to find each other on a host with much other work.
    "spark.python.authenticate.socketTimeout": "120s",
    "spark.speculation": "false",
    # Results must not depend on the time zone of the host that happens to run them.
    "spark.sql.session.timeZone": "UTC",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}
# Over TCP, each task waits 40 ms for an acknowledgement that the kernel delays (Nagle): Java sends to Python's workers
# in small pieces.
_UNIX_SOCKETS: Final = "spark.python.unix.domain.socket"
_SOCKET_FOLDER_BYTES_MAX: Final = 61
"""Spark allows no more, because the path of a Unix socket has at most 107 bytes (unix(7))."""
_LOOPBACK: Final = "127.0.0.1"
_DRIVER_ADDRESSES: Final = ("spark.driver.host", "spark.driver.bindAddress")
_ARGUMENTS: Final = "PYSPARK_SUBMIT_ARGS"
_JAVA_OPTIONS: Final = "SPARK_SUBMIT_OPTS"
# Without it, Spark's Java asks for the address of the host's own name, which need not have one.
_LOCAL_ADDRESS: Final = "SPARK_LOCAL_IP"
_PYTHON: Final = "PYSPARK_PYTHON"
_POLL_S: Final = 0.5
_END_TIMEOUT_S: Final = 30


@dataclass(frozen=True, slots=True)
class RunningSpark:
    """An application. java: what it runs on. scratch: a folder that is removed when the application ends."""

    context: SparkContext
    java: Java
    scratch: Path


@contextlib.contextmanager
def spark_session(
    name: str, master: str, settings: Mapping[str, str] = _NO_SETTINGS, log: Path | None = None
) -> Iterator[SparkSession]:
    """An application as `running_spark` starts it, with a session. Raises UsageError."""
    with running_spark(name, master, settings, log) as spark:
        from pyspark.sql import SparkSession

        session = SparkSession(spark.context)
        try:
            yield session
        finally:
            session.stop()


@contextlib.contextmanager
def running_spark(
    name: str,
    master: str,
    settings: Mapping[str, str] = _NO_SETTINGS,
    log: Path | None = None,
    *,
    python: str = "",
    within_s: float | None = None,
    java: FindJava = find_spark_java,
) -> Iterator[RunningSpark]:
    """Start an application in a JVM of its own; both end with the context. A process can have one at a time.

    settings: of Spark; they override those of this module. log: a file for the output of Java and of Python workers.
    python: the interpreter of workers; without it the one that the environment or the settings name, or else this one.
    within_s: how long the master may take to accept the application. Raises UsageError.
    """
    with contextlib.ExitStack() as cleanup:
        scratch = Path(cleanup.enter_context(tempfile.TemporaryDirectory(prefix="highwater-")))
        found = _checked(master, java, scratch)
        log = log or scratch / "spark.log"
        log.parent.mkdir(parents=True, exist_ok=True)
        every = _all_settings(name, master, settings, scratch)
        file = scratch / "settings.properties"
        arguments = {_ARGUMENTS: arguments_of_submit(file, every)}
        # Only for the start: other programs that this process starts have a Java and an address of their own.
        with environment_variables(_environment(found, every, python, scratch) | arguments):
            gateway = _launch(found, log, cleanup)
            # Java has read it, and a process that is killed would leave it behind.
            file.unlink()
            context = _connect(gateway, every, log, within_s, cleanup)
        yield RunningSpark(context, found, scratch)


def check_start(master: str, java: FindJava = find_spark_java) -> None:
    """Find what keeps Spark from starting, as far as that is known without a start. Raises UsageError."""
    with tempfile.TemporaryDirectory(prefix="highwater-") as scratch:
        _checked(master, java, Path(scratch))


def _checked(master: str, java: FindJava, scratch: Path) -> Java:
    if fault := master_fault(master):
        raise UsageError(fault)
    try:
        return java(os.environ, scratch)
    except MissingDependencyError as error:
        raise UsageError(str(error)) from None


def _all_settings(name: str, master: str, settings: Mapping[str, str], scratch: Path) -> dict[str, str]:
    local = master.startswith("local")
    # One of the two alone would be combined with loopback, which the other address does not reach.
    on_loopback = local and settings.keys().isdisjoint(_DRIVER_ADDRESSES)
    fits = len(os.fsencode(scratch)) <= _SOCKET_FOLDER_BYTES_MAX
    return {
        **_SETTINGS,
        **(dict.fromkeys(_DRIVER_ADDRESSES, _LOOPBACK) if on_loopback else {}),
        # Other hosts have no such folder.
        **({f"{_UNIX_SOCKETS}.enabled": "true", f"{_UNIX_SOCKETS}.dir": str(scratch)} if local and fits else {}),
        "spark.local.dir": str(scratch),
        "spark.sql.warehouse.dir": str(scratch / "warehouse"),
        **settings,
        "spark.master": master,
        "spark.app.name": name,
    }


def _environment(java: Java, settings: Mapping[str, str], python: str, scratch: Path) -> dict[str, str]:
    """Spark's own choice for workers would be the first python3 on the PATH; an archive is for that one."""
    of_archive = "python3" if "spark.archives" in settings else sys.executable
    environment = {
        "JAVA_HOME": str(java.home),
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        _PYTHON: python or os.environ.get(_PYTHON) or settings.get("spark.pyspark.python") or of_archive,
        # So that a JVM that is killed leaves nothing behind.
        _JAVA_OPTIONS: f"-Djava.io.tmpdir={shlex.quote(str(scratch))} {os.environ.get(_JAVA_OPTIONS, '')}".strip(),
    }
    if settings["spark.master"].startswith("local"):
        environment[_LOCAL_ADDRESS] = os.environ.get(_LOCAL_ADDRESS, _LOOPBACK)
    return environment


def arguments_of_submit(file: Path, settings: Mapping[str, str]) -> str:
    """Write settings to the file: they can be secrets, and everybody on a host can read arguments of processes."""
    file.touch(0o600)
    file.write_text(format_properties(settings), "ascii")
    others = os.environ.get(_ARGUMENTS, "pyspark-shell")
    return f"--properties-file {shlex.quote(str(file))} --load-spark-defaults {others}"


def _launch(java: Java, log: Path, cleanup: contextlib.ExitStack) -> Any:
    """Start Java. Raises UsageError."""
    # Imported here: the import takes a third of a second, which other commands should not pay for.
    from pyspark import SparkContext
    from pyspark.errors import PySparkRuntimeError
    from pyspark.java_gateway import launch_gateway

    if SparkContext._active_spark_context is not None:
        raise UsageError("a Spark application is already running in this process; stop it first")
    # PySpark would stay in the JVM that an earlier session has left.
    SparkContext._gateway = SparkContext._jvm = None
    output = cleanup.enter_context(log.open("wb"))
    # In a session of its own, because a signal to the whole group is for this process, which still needs Java to end.
    options = {"stdout": output, "stderr": subprocess.STDOUT, "start_new_session": True}
    # In a thread, because only a launch that completes returns the process: Ctrl-C must not interrupt the launch.
    launch = ThreadPoolExecutor(1).submit(launch_gateway, None, options)
    cleanup.callback(_end, launch, SparkContext)
    try:
        return launch.result()
    except PySparkRuntimeError:
        text = log.read_text("utf-8", "replace")
        raise UsageError(f"Spark's Java process ({java.source}) ended: {first_error_in(text)}") from None


def _connect(
    gateway: Any, settings: Mapping[str, str], log: Path, within_s: float | None, cleanup: contextlib.ExitStack
) -> SparkContext:
    from pyspark import SparkConf, SparkContext

    master, since_s, ended = settings["spark.master"], time.monotonic(), threading.Event()

    def refusal() -> str | None:
        if within_s is not None and time.monotonic() - since_s > within_s:
            return f"the Spark master {master} did not accept the application within {within_s:g} s"
        return refusal_in(log.read_text("utf-8", "replace"), master)

    def watch() -> None:
        # Spark would repeat three times in a minute what a master with another secret refuses at once.
        while not ended.wait(_POLL_S):
            if refusal():
                gateway.proc.kill()
                return

    on_interrupt = signal.getsignal(signal.SIGINT)
    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        context = SparkContext(conf=SparkConf().setAll(list(settings.items())), gateway=gateway)
    except Exception as error:
        raise UsageError(refusal() or f"Spark does not start with master {master}: {reason_of(error)}") from error
    finally:
        ended.set()
        watcher.join()
        # SparkContext installs a handler of SIGINT that cancels all jobs; callers end theirs in order.
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, on_interrupt)
    cleanup.callback(context.stop)
    if context._jsc.sc().isStopped():
        raise UsageError(not_accepted(master))
    return context


def _end(launch: Future[Any], spark_context: Any) -> None:
    """End the JVM, so that the next session of this process starts another one with its own settings."""
    if launch.exception() is not None:
        return  # nothing was launched; _launch has raised the error
    gateway = launch.result()
    with contextlib.suppress(Exception):
        gateway.shutdown()
    # Spark's gateway server ends when its standard input does.
    gateway.proc.stdin.close()
    await_end(gateway.proc, _END_TIMEOUT_S)
    if spark_context._gateway is gateway:
        spark_context._gateway = spark_context._jvm = None
