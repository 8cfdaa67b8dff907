"""Runs loads on Spark: owns the SparkContext and runs each load as one barrier stage.

The launcher starts the Java process itself, instead of SparkContext, so that the output of Java and of the Python
workers goes to a file: it does not disturb the caller's terminal, and an error message can quote it.
"""

from __future__ import annotations

import contextlib
import os
import re
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

from highwater.common.environment_variables import environment_variables
from highwater.common.package_archive import write_archive
from highwater.common.spark_java import Java
from highwater.common.spark_jvm import end_jvm, forget_jvm
from highwater.common.spark_master import master_fault
from highwater.spark_loadgen.errors import LoadFailed, LoadSetupError
from highwater.spark_loadgen.java import find_java
from highwater.spark_loadgen.model import LoadPlan, LoadResult, Progress
from highwater.spark_loadgen.spark_errors import reason_of
from highwater.spark_loadgen.supervision import Background, supervise
from highwater.spark_loadgen.task import Job, TaskOutcome, run_task
from highwater.spark_loadgen.versions import task_versions

if TYPE_CHECKING:
    from pyspark import SparkContext

# A second attempt of a task would double the load, and executors that come and go cannot run a barrier stage.
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
# What tasks import, for executors on other hosts.
_FOLDERS: Final = ("common", "results/histogram.py", "spark_loadgen")
_LOOPBACK: Final = "127.0.0.1"
_DRIVER_ADDRESSES: Final = ("spark.driver.host", "spark.driver.bindAddress")
# Without it, Spark's Java asks for the address of the host's own name, which need not have one.
_LOCAL_ADDRESS: Final = "SPARK_LOCAL_IP"
_SETUP_ERROR: Final = f"{LoadSetupError.__module__}.{LoadSetupError.__qualname__}: "
_EXECUTOR_TIMEOUT_S: Final = 60
_CONTAINER_TIMEOUT_S: Final = 180
# Executors may be slow to answer: on a busy host it takes long to import Python's packages.
_PROBE_TIMEOUT_S: Final = 180
_POLL_S: Final = 0.1

# Host of an executor, and its versions of the packages that a load needs, or the import error.
_ProbeAnswer = tuple[str, Mapping[str, str] | str]


class SparkLauncher:
    """A Spark application that runs loads, one after the other. Context manager; one per process at a time.

    master: any Spark master. spark_conf: Spark settings; they override the launcher's own. log_path: file for Java's
    output (default: a temporary file that is deleted with the launcher).
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
        # One of the two alone would be combined with loopback, which the other address does not reach.
        on_loopback = self._local and self.settings.keys().isdisjoint(_DRIVER_ADDRESSES)
        addresses = dict.fromkeys(_DRIVER_ADDRESSES, _LOOPBACK) if on_loopback else {}
        self._settings = {**_CONFIGURATION, **addresses, **self.settings}
        self._executor_timeout_s = _CONTAINER_TIMEOUT_S if master.startswith(("yarn", "k8s")) else _EXECUTOR_TIMEOUT_S
        self._app_name = app_name
        self._log_path = log_path
        self._find_java = java or (lambda scratch: find_java(os.environ, scratch))
        self._cleanup = contextlib.ExitStack()
        self._context: SparkContext | None = None
        self._executor_versions: Mapping[str, str] = {}

    # -- before it starts ---------------------------------------------------------------------------------------------

    def check(self) -> None:
        """Find what keeps Spark from starting, as far as that is known without a start. Raises LoadSetupError."""
        _check_master(self.master)
        with tempfile.TemporaryDirectory(prefix="highwater-spark-") as scratch:
            self._find_java(Path(scratch))

    @property
    def slots_by_master(self) -> int | None:
        """How many tasks the master's name allows at once; None if only a running Spark knows."""
        if "spark.task.cpus" in self.settings:
            return None
        if match := re.fullmatch(r"local-cluster\[(\d+),(\d+),\d+\]", self.master):
            return int(match[1]) * int(match[2])
        if match := re.fullmatch(r"local(?:\[(\*|\d+)(?:,\d+)?\])?", self.master):
            return len(os.sched_getaffinity(0)) if match[1] == "*" else int(match[1] or 1)
        return None

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
        with environment_variables(self._driver_environment()):
            self._context = self._start_context(scratch)
        if not self._in_driver_process:
            self._context.addPyFile(str(write_archive(scratch, "spark_loadgen", _FOLDERS)))
        self._try_executors()

    def _driver_environment(self) -> dict[str, str]:
        """Make workers run the driver's interpreter; Spark would use the first python3 on the PATH.

        A local master uses loopback, unless the user's environment names another address.
        """
        environment = {"JAVA_HOME": str(self._java.home), "PYSPARK_DRIVER_PYTHON": sys.executable}
        if self._local:
            environment[_LOCAL_ADDRESS] = os.environ.get(_LOCAL_ADDRESS, _LOOPBACK)
        archives = "spark.archives" in self._settings or "spark.pyspark.python" in self._settings
        if self._in_driver_process or not (archives or "PYSPARK_PYTHON" in os.environ):
            environment["PYSPARK_PYTHON"] = sys.executable
        return environment

    def _start_context(self, scratch: Path) -> SparkContext:
        # Imported here: the import takes a third of a second, which other commands should not pay for.
        from pyspark import SparkConf, SparkContext
        from pyspark.errors import PySparkRuntimeError
        from pyspark.java_gateway import launch_gateway

        assert self._log_path is not None
        if SparkContext._active_spark_context is not None:
            raise LoadSetupError("a Spark application is already running in this process; stop it first")
        forget_jvm(SparkContext)
        settings = {"spark.local.dir": str(scratch), **self._settings}
        conf = SparkConf().setAll(list(settings.items())).setMaster(self.master).setAppName(self._app_name)
        log = self._cleanup.enter_context(self._log_path.open("ab"))
        # In a thread, because only a launch that completes returns the process: Ctrl-C must not interrupt the launch.
        launch: Background[Any] = Background(
            lambda: launch_gateway(conf, {"stdout": log, "stderr": subprocess.STDOUT})  # type: ignore[no-untyped-call]
        )
        self._cleanup.callback(_end_java, launch)
        launch.finished.wait()
        try:
            gateway = launch.result()
        except PySparkRuntimeError as error:
            raise LoadSetupError(
                f"Spark's Java process ({self._java.source}) ended: {_with_way_out(self._last_error())}"
            ) from error
        watchdog = threading.Timer(self._executor_timeout_s, gateway.proc.kill)
        watchdog.start()
        # SparkContext installs a SIGINT handler that kills all tasks; the previous handler ends a load in order.
        on_interrupt = signal.getsignal(signal.SIGINT)
        try:
            context = SparkContext(conf=conf, gateway=gateway)
        except Exception as error:
            if not watchdog.is_alive():
                raise LoadSetupError(
                    f"the Spark master {self.master} did not accept the application within {self._executor_timeout_s} s"
                ) from error
            raise LoadSetupError(f"Spark does not start with master {self.master}: {reason_of(error)}") from error
        finally:
            watchdog.cancel()
            if threading.current_thread() is threading.main_thread():
                signal.signal(signal.SIGINT, on_interrupt)
        self._cleanup.callback(context.stop)
        return context

    def _last_error(self) -> str:
        """The last line of Java's output that reports an error."""
        assert self._log_path is not None
        text = self._log_path.read_text("utf-8", "replace")
        lines = [line.strip() for line in text.splitlines() if line.strip() and not line.lstrip().startswith("at ")]
        errors = [line for line in lines if "exception" in line.lower() or "error" in line.lower()]
        return (errors or lines or ["it printed nothing"])[-1].removeprefix('Exception in thread "main" ')

    def _try_executors(self) -> None:
        """Run probe jobs that start Python on the executors and check that they have what a load needs."""
        context = self._running()
        partitions, probe = max(1, self.slots if self._in_driver_process else 8), _prober()
        answers = self._probe_answers(
            lambda: context.parallelize(range(partitions), partitions).mapPartitions(probe).collect()
        )
        self._executor_versions = common_versions(answers, self.master)
        if not self._in_driver_process:
            self._wait_until_executors_settle()
            # A barrier stage on all slots: one executor could run all tasks of an ordinary stage, one after the other.
            slots = self.slots
            stage = context.parallelize(range(slots), slots).barrier()
            answers = self._probe_answers(lambda: stage.mapPartitions(probe).collect())
            self._executor_versions = common_versions(answers, self.master)

    def _probe_answers(self, ask: Callable[[], list[_ProbeAnswer]]) -> list[_ProbeAnswer]:
        job = Background(ask)
        executors_by_s = time.monotonic() + self._executor_timeout_s
        answer_by_s = executors_by_s + _PROBE_TIMEOUT_S
        while not job.finished.wait(_POLL_S):
            now_s = time.monotonic()
            if now_s > executors_by_s and self.slots == 0:
                raise LoadSetupError(
                    f"the Spark master {self.master} provided no executor within {self._executor_timeout_s} s: "
                    "start workers for it, or free some"
                )
            if now_s > answer_by_s:
                raise LoadSetupError(
                    f"the executors of {self.master} did not finish a Python task in time; see Spark's log"
                )
        try:
            return job.result()
        except Exception as error:
            raise LoadSetupError(
                f"the executors of {self.master} cannot run Python tasks: {reason_of(error)}"
            ) from error

    def _wait_until_executors_settle(self) -> None:
        """Executors register one after the other: wait until their number has not changed for two seconds."""
        deadline_s = time.monotonic() + self._executor_timeout_s
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
        """How many tasks can run at once now."""
        scala_context: Any = self._running()._jsc.sc()
        profile = scala_context.resourceProfileManager().defaultResourceProfile()
        return int(scala_context.maxNumConcurrentTasks(profile))

    def versions(self) -> dict[str, str]:
        """Versions of everything that makes the load; those of executors only where they differ from the driver's."""
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

        may_start: polled when all tasks are ready; the load starts when it returns True.

        When `should_stop` returns True, or at the first Ctrl-C, the tasks end in order and the result so far is
        returned with `interrupted`; a second Ctrl-C cancels them. Raises LoadSetupError when the load cannot start as
        planned and LoadFailed when it breaks.
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
        return supervise(
            plan,
            (bind, host),
            lambda job: _barrier_stage(context, job),
            context.cancelAllJobs,
            slots,
            on_progress,
            should_stop,
            may_start,
        )


def _barrier_stage(context: SparkContext, job: Job) -> list[TaskOutcome]:
    """Run all tasks at once or none. They synchronise over the driver's channel: Spark polls its barrier slowly."""

    def body(tasks: Iterable[int]) -> Iterator[TaskOutcome]:
        yield run_task(job, next(iter(tasks)))

    # A result stage without a shuffle: Spark would run a failed map stage, and so the load, again.
    count = job.plan.tasks
    try:
        return context.parallelize(range(count), count).barrier().mapPartitions(body).collect()
    except Exception as error:
        reason = reason_of(error)
        if reason.startswith(_SETUP_ERROR):
            raise LoadSetupError(reason.removeprefix(_SETUP_ERROR)) from error
        raise LoadFailed(f"a load task died: {reason}") from error


def _prober() -> Callable[[Iterable[int]], Iterator[_ProbeAnswer]]:
    """The function that executors run. It is nested, so that Spark ships its code: executors may lack this module."""

    def probe(_: Iterable[int]) -> Iterator[_ProbeAnswer]:
        import importlib
        import socket

        try:
            importlib.import_module("highwater.spark_loadgen.task")
            found = importlib.import_module("highwater.spark_loadgen.versions").task_versions()
        except ImportError as error:
            found = str(error)
        yield socket.gethostname(), found

    return probe


def common_versions(answers: Iterable[_ProbeAnswer], master: str) -> dict[str, str]:
    """The versions that all executors have. Raises LoadSetupError when they differ or a package is missing."""
    known: dict[str, tuple[str, str]] = {}
    for host, versions in answers:
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
                    "a load needs the same versions on all of them: install those"
                )
    return {name: version for name, (_, version) in known.items()}


def _with_way_out(java_error: str) -> str:
    unknown = re.search(r"java\.net\.UnknownHostException: ([^:\s]+)", java_error)
    if unknown is None:
        return java_error
    return (
        f"this host's own name, {unknown[1]}, has no address: add it to /etc/hosts, or set {_LOCAL_ADDRESS} to the "
        "address of this host that executors reach"
    )


def _check_master(master: str) -> None:
    if fault := master_fault(master):
        raise LoadSetupError(fault)


def _end_java(launch: Background[Any]) -> None:
    """End the Java process, so that the next launcher in this process starts with its own settings."""
    from pyspark import SparkContext

    launch.finished.wait()
    try:
        gateway = launch.result()
    except Exception:
        return  # nothing was launched; _start_context has raised the error
    end_jvm(SparkContext, gateway)
