"""Runs a load on Spark: owns the SparkContext, starts the barrier stage, talks with its tasks, brings back the result.

The Java process is started by us and not by SparkContext, so that what it and the Python workers print goes to a file:
the terminal stays the caller's, and when something breaks its last words can be quoted.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final

from highwater.spark_loadgen.errors import LoadFailed, LoadSetupError
from highwater.spark_loadgen.java import Java, find_java
from highwater.spark_loadgen.model import LoadPlan, LoadResult, Progress
from highwater.spark_loadgen.spark_errors import reason_of
from highwater.spark_loadgen.supervision import Background, conduct
from highwater.spark_loadgen.task import Job, Outcome, run_task
from highwater.spark_loadgen.versions import task_versions

if TYPE_CHECKING:
    from pyspark import SparkContext

# What a load must not have: a task tried twice doubles the load, executors that come and go have no barrier.
_CONFIGURATION: Final = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "WARN",
    "spark.speculation": "false",
    "spark.task.maxFailures": "1",
    "spark.dynamicAllocation.enabled": "false",
    "spark.scheduler.barrier.maxConcurrentTasksCheck.interval": "1s",
    "spark.scheduler.barrier.maxConcurrentTasksCheck.maxFailures": "5",
    "spark.barrier.sync.timeout": "300s",
}
_LOOPBACK: Final = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
_MASTER: Final = re.compile(
    r"local(\[(\*|\d+)(,\d+)?\])?|local-cluster\[\d+,\d+,\d+\]|yarn|k8s://.+|spark://[^,]+:\d+(,[^,]+:\d+)*"
)
_SETUP_ERROR: Final = f"{LoadSetupError.__module__}.{LoadSetupError.__qualname__}: "
_CONNECT_TIMEOUT_S: Final = 5
_PATIENCE_S: Final = 60
_PATIENCE_WITH_CONTAINERS_S: Final = 180
# Executors that are there may be slow: on a busy host Python and its packages take their time.
_PATIENCE_WITH_EXECUTORS_S: Final = 180
_POLL_S: Final = 0.1

# Host of an executor, and its versions of what a load needs, or what it lacks.
_Told = tuple[str, Mapping[str, str] | str]


class SparkLauncher:
    """A Spark application that runs loads, one after the other. Context manager; one per process at a time.

    master: any Spark master. spark_conf: settings for it, over ours. log_path: where Java's output goes (default: a
    temporary file that ends with the launcher).
    """

    def __init__(
        self,
        master: str = "local[*]",
        spark_conf: Mapping[str, str] | None = None,
        app_name: str = "highwater",
        *,
        log_path: Path | None = None,
        java: Callable[[Path], Java] | None = None,
    ) -> None:
        self.master = master
        self.name = f"spark {master}"
        self.settings: Mapping[str, str] = dict(spark_conf or {})
        self._local = master == "local" or master.startswith(("local[", "local-cluster["))
        self._in_driver_process = self._local and not master.startswith("local-cluster[")
        self._settings = {**_CONFIGURATION, **(_LOOPBACK if self._local else {}), **self.settings}
        self._patience_s = _PATIENCE_WITH_CONTAINERS_S if master.startswith(("yarn", "k8s")) else _PATIENCE_S
        self._app_name = app_name
        self._log_path = log_path
        self._find_java = java or (lambda scratch: find_java(os.environ, scratch))
        self._cleanup = contextlib.ExitStack()
        self._context: SparkContext | None = None
        self._executor_versions: Mapping[str, str] = {}

    # -- life -------------------------------------------------------------------------------------------------------

    def __enter__(self) -> SparkLauncher:
        """Start Spark. Raises LoadSetupError."""
        try:
            self._start()
        except BaseException:
            self._cleanup.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._context = None
        self._cleanup.close()

    def _start(self) -> None:
        _check_master(self.master)
        scratch = Path(self._cleanup.enter_context(tempfile.TemporaryDirectory(prefix="highwater-spark-")))
        self._log_path = self._log_path or scratch / "spark.log"
        self._java = self._find_java(scratch)
        with _environment(self._driver_environment()):
            self._context = self._start_context(scratch)
        if not self._in_driver_process:
            self._context.addPyFile(str(_zip_package(scratch)))
        self._try_executors()

    def _driver_environment(self) -> dict[str, str]:
        """Workers shall run the driver's interpreter; Spark would take the first python3 on the PATH."""
        environment = {"JAVA_HOME": str(self._java.home), "PYSPARK_DRIVER_PYTHON": sys.executable}
        archives = "spark.archives" in self._settings or "spark.pyspark.python" in self._settings
        if self._in_driver_process or not (archives or "PYSPARK_PYTHON" in os.environ):
            environment["PYSPARK_PYTHON"] = sys.executable
        return environment

    def _start_context(self, scratch: Path) -> SparkContext:
        # Imported here: it takes a third of a second that no other command of the program should pay.
        from pyspark import SparkConf, SparkContext
        from pyspark.errors import PySparkRuntimeError
        from pyspark.java_gateway import launch_gateway

        assert self._log_path is not None
        if SparkContext._active_spark_context is not None:
            raise LoadSetupError("a Spark application already runs in this process; end it first")
        settings = {"spark.local.dir": str(scratch), **self._settings}
        conf = SparkConf().setAll(list(settings.items())).setMaster(self.master).setAppName(self._app_name)
        log = self._cleanup.enter_context(self._log_path.open("ab"))
        # In a thread: only a launch that comes to its end hands over the process, so that Ctrl-C can end that too.
        launch: Background[Any] = Background(
            lambda: launch_gateway(conf, {"stdout": log, "stderr": subprocess.STDOUT})  # type: ignore[no-untyped-call]
        )
        self._cleanup.callback(_end_java, launch)
        launch.finished.wait()
        try:
            gateway = launch.result()
        except PySparkRuntimeError as error:
            raise LoadSetupError(f"Spark's Java process ({self._java.source}) ended: {self._last_words()}") from error
        watchdog = threading.Timer(self._patience_s, gateway.proc.kill)
        watchdog.start()
        # SparkContext takes SIGINT and answers it by killing all tasks; ours ends a load in order.
        on_interrupt = signal.getsignal(signal.SIGINT)
        try:
            context = SparkContext(conf=conf, gateway=gateway)
        except Exception as error:
            if not watchdog.is_alive():
                raise LoadSetupError(
                    f"the Spark master {self.master} did not take the application within {self._patience_s} s"
                ) from error
            raise LoadSetupError(f"Spark does not start with master {self.master}: {reason_of(error)}") from error
        finally:
            watchdog.cancel()
            if threading.current_thread() is threading.main_thread():
                signal.signal(signal.SIGINT, on_interrupt)
        self._cleanup.callback(context.stop)
        return context

    def _last_words(self) -> str:
        """The line of Java's output that says what is wrong."""
        assert self._log_path is not None
        text = self._log_path.read_text("utf-8", "replace")
        lines = [line.strip() for line in text.splitlines() if line.strip() and not line.lstrip().startswith("at ")]
        telling = [line for line in lines if "exception" in line.lower() or "error" in line.lower()]
        return (telling or lines or ["it said nothing"])[-1].removeprefix('Exception in thread "main" ')

    def _try_executors(self) -> None:
        """Throw-away jobs: they bring up Python on the executors and find out whether they have what a load needs."""
        context = self._running()
        partitions, probe = max(1, self.slots if self._in_driver_process else 8), _prober()
        told = self._answers(lambda: context.parallelize(range(partitions), partitions).mapPartitions(probe).collect())
        self._executor_versions = same_versions(told, self.master)
        if not self._in_driver_process:
            self._wait_until_executors_settle()
            # All slots at once: short tasks one after the other may all be taken by whoever came first.
            slots = self.slots
            stage = context.parallelize(range(slots), slots).barrier()
            told = self._answers(lambda: stage.mapPartitions(probe).collect())
            self._executor_versions = same_versions(told, self.master)

    def _answers(self, ask: Callable[[], list[_Told]]) -> list[_Told]:
        job = Background(ask)
        come_by_s = time.monotonic() + self._patience_s
        answer_by_s = come_by_s + _PATIENCE_WITH_EXECUTORS_S
        while not job.finished.wait(_POLL_S):
            now_s = time.monotonic()
            if now_s > come_by_s and self.slots == 0:
                raise LoadSetupError(
                    f"the Spark master {self.master} gave no executor within {self._patience_s} s: "
                    "start workers for it, or free some"
                )
            if now_s > answer_by_s:
                raise LoadSetupError(
                    f"the executors of {self.master} do not come to running a Python task; see its log"
                )
        try:
            return job.result()
        except Exception as error:
            raise LoadSetupError(
                f"the executors of {self.master} cannot run Python tasks: {reason_of(error)}"
            ) from error

    def _wait_until_executors_settle(self) -> None:
        """Executors register one after the other; wait until their number has stood still for two seconds."""
        deadline_s = time.monotonic() + self._patience_s
        slots, since_s = self.slots, time.monotonic()
        while time.monotonic() < min(deadline_s, since_s + 2):
            time.sleep(_POLL_S)
            if self.slots != slots:
                slots, since_s = self.slots, time.monotonic()

    def _running(self) -> SparkContext:
        if self._context is None:
            raise RuntimeError("SparkLauncher is used outside its with block")
        return self._context

    # -- facts ------------------------------------------------------------------------------------------------------

    @property
    def slots(self) -> int:
        """How many tasks can run at once at present."""
        scala_context: Any = self._running()._jsc.sc()
        profile = scala_context.resourceProfileManager().defaultResourceProfile()
        return int(scala_context.maxNumConcurrentTasks(profile))

    def versions(self) -> dict[str, str]:
        """Of everything that makes the load; of the executors, what they have in another version than the driver."""
        context = self._running()
        java: Any = context._jvm
        own = task_versions()
        others = {f"executor {name}": v for name, v in self._executor_versions.items() if v != own.get(name)}
        return {
            **own,
            **others,
            "spark": str(context.version),
            "java": str(java.java.lang.System.getProperty("java.version")),
            "java_source": self._java.source,
        }

    # -- loads ------------------------------------------------------------------------------------------------------

    def run(
        self,
        plan: LoadPlan,
        *,
        on_progress: Callable[[Progress], None] | None = None,
        should_stop: Callable[[], bool] | None = None,
        may_start: Callable[[], bool] | None = None,
    ) -> LoadResult:
        """Run one load. Blocks; `on_progress` is called about once a second.

        may_start: asked when all tasks are ready, again and again until it says yes, which is when the load begins.

        When `should_stop` turns true, or at the first Ctrl-C, the tasks end in order and the result so far comes back
        with `interrupted`; a second Ctrl-C gives up. Raises LoadSetupError when the load cannot start as asked and
        LoadFailed when it breaks.
        """
        context = self._running()
        slots = self.slots
        if plan.tasks > slots:
            raise LoadSetupError(
                f"{plan.producers} producers and {plan.consumers} consumers need {plan.tasks} tasks at once, but "
                f"{self.master} has {slots} slots: use fewer producers or consumers, "
                + (f"or --master local[{plan.tasks}]" if self._in_driver_process else "or more executors")
            )
        host = str(context.getConf().get("spark.driver.host") or socket.gethostname())
        bind = str(context.getConf().get("spark.driver.bindAddress") or host)
        return conduct(
            plan,
            (bind, host),
            lambda job: _barrier_stage(context, job),
            context.cancelAllJobs,
            slots,
            on_progress,
            should_stop,
            may_start,
        )


def _barrier_stage(context: SparkContext, job: Job) -> list[Outcome]:
    """All tasks at once or none; they meet over the driver's channel and not at the barrier, which Spark polls."""

    def body(tasks: Iterable[int]) -> Iterator[Outcome]:
        yield run_task(job, next(iter(tasks)))

    # A result stage with no shuffle behind it: Spark would run a failed map stage again, and the load with it.
    count = job.plan.tasks
    try:
        return context.parallelize(range(count), count).barrier().mapPartitions(body).collect()
    except Exception as error:
        reason = reason_of(error)
        if reason.startswith(_SETUP_ERROR):
            raise LoadSetupError(reason.removeprefix(_SETUP_ERROR)) from error
        raise LoadFailed(f"a load task died: {reason}") from error


def _prober() -> Callable[[Iterable[int]], Iterator[_Told]]:
    """What executors are asked. A function within one is shipped whole: this module would need what they may lack."""

    def probe(_: Iterable[int]) -> Iterator[_Told]:
        import importlib
        import socket

        try:
            importlib.import_module("highwater.spark_loadgen.task")
            found = importlib.import_module("highwater.spark_loadgen.versions").task_versions()
        except ImportError as error:
            found = str(error)
        yield socket.gethostname(), found

    return probe


def same_versions(told: Iterable[_Told], master: str) -> dict[str, str]:
    """What all executors have. Raises LoadSetupError when they differ, or one lacks something."""
    known: dict[str, tuple[str, str]] = {}
    for host, versions in told:
        if isinstance(versions, str):
            raise LoadSetupError(
                f"the executors of {master} lack a package: {versions} on {host}; install confluent-kafka and numpy "
                "there, or ship them with spark.archives"
            )
        for name, version in versions.items():
            first_host, first = known.setdefault(name, (host, version))
            if version != first:
                raise LoadSetupError(
                    f"the executors of {master} differ: {name} is {first} on {first_host} and {version} on {host}; "
                    "a load is made by one version of everything, so install the same on all"
                )
    return {name: version for name, (_, version) in known.items()}


def _check_master(master: str) -> None:
    """Spark itself would say it in thirty lines, and try a dead standalone master for a minute."""
    if not _MASTER.fullmatch(master):
        raise LoadSetupError(
            f"{master!r} is no Spark master: use local[N], local[*], spark://HOST:PORT, yarn or k8s://URL"
        )
    failures = []
    for address in master.removeprefix("spark://").split(",") if master.startswith("spark://") else ():
        host, _, port = address.rpartition(":")
        try:
            socket.create_connection((host.strip("[]"), int(port)), timeout=_CONNECT_TIMEOUT_S).close()
        except OSError as error:
            failures.append(error.strerror or str(error))
        else:
            return
    if failures:
        raise LoadSetupError(f"the Spark master {master} does not answer: {failures[0]}")


@contextlib.contextmanager
def _environment(changes: Mapping[str, str]) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in changes}
    os.environ.update(changes)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _zip_package(scratch: Path) -> Path:
    """`highwater` with this package alone, as an archive that executors import from."""
    package = Path(__file__).parent
    copy = scratch / "package"
    shutil.copytree(package, copy / "highwater" / package.name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(package.parent / "__init__.py", copy / "highwater")
    return Path(shutil.make_archive(str(scratch / package.name), "zip", copy))


def _end_java(launch: Background[Any]) -> None:
    """End the Java process, so that the next launcher of this process starts with settings of its own."""
    from pyspark import SparkContext

    launch.finished.wait()
    try:
        gateway = launch.result()
    except Exception:
        return  # nothing was launched; whoever waited for it has been told why
    gateway.shutdown()
    gateway.proc.stdin.close()  # Spark's gateway server ends when its standard input does
    try:
        gateway.proc.wait(timeout=10)
    except subprocess.TimeoutExpired:
        gateway.proc.kill()
        gateway.proc.wait()
    SparkContext._gateway = None
    SparkContext._jvm = None
