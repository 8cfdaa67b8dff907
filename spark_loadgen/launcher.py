"""Runs loads on Spark: owns the SparkContext and runs each load as one barrier stage."""

from __future__ import annotations

import contextlib
import os
import re
import socket
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final

from highwater.common.package_archive import write_archive
from highwater.common.spark_errors import reason_of
from highwater.common.spark_java import find_spark_java
from highwater.common.spark_master import is_in_one_process
from highwater.common.spark_session import FindJava, check_start, running_spark
from highwater.spark_loadgen.errors import LoadFailed, LoadSetupError
from highwater.spark_loadgen.model import LoadPlan, LoadResult, Progress
from highwater.spark_loadgen.supervision import Background, supervise
from highwater.spark_loadgen.task import Job, TaskOutcome, run_task
from highwater.spark_loadgen.versions import task_versions

if TYPE_CHECKING:
    from pyspark import SparkContext

# A second attempt of a task would double the load, and executors that come and go cannot run a barrier stage.
_CONFIGURATION: Final = {
    "spark.task.maxFailures": "1",
    "spark.dynamicAllocation.enabled": "false",
    "spark.scheduler.barrier.maxConcurrentTasksCheck.interval": "1s",
    "spark.scheduler.barrier.maxConcurrentTasksCheck.maxFailures": "5",
    "spark.barrier.sync.timeout": "300s",
}
# What tasks import, for executors on other hosts.
_FOLDERS: Final = ("common", "results/histogram.py", "spark_loadgen")
_APPLICATION: Final = "highwater"
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

    master: any Spark master. spark_conf: Spark settings; they override the launcher's own.
    """

    def __init__(
        self,
        master: str = "local[*]",
        spark_conf: Mapping[str, str] | None = None,
        *,
        java: FindJava = find_spark_java,
    ) -> None:
        self.master = master
        self.name = f"spark {master}"
        self.settings: Mapping[str, str] = dict(spark_conf or {})
        self._in_driver_process = is_in_one_process(master)
        self._executor_timeout_s = _CONTAINER_TIMEOUT_S if master.startswith(("yarn", "k8s")) else _EXECUTOR_TIMEOUT_S
        self._find_java = java
        self._cleanup = contextlib.ExitStack()
        self._context: SparkContext | None = None
        self._executor_versions: Mapping[str, str] = {}

    # -- before it starts ---------------------------------------------------------------------------------------------

    def check(self) -> None:
        """Find what keeps Spark from starting, as far as that is known without a start. Raises UsageError."""
        check_start(self.master, self._find_java)

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
        """Start Spark. Raises UsageError, and LoadSetupError for executors that cannot run a load."""
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
        application = running_spark(
            _APPLICATION,
            self.master,
            {**_CONFIGURATION, **self.settings},
            # Tasks of this process's own load need its packages.
            python=sys.executable if self._in_driver_process else "",
            within_s=self._executor_timeout_s,
            java=self._find_java,
        )
        spark = self._cleanup.enter_context(application)
        self._context, self._java = spark.context, spark.java
        if not self._in_driver_process:
            self._context.addPyFile(str(write_archive(spark.scratch, "spark_loadgen", _FOLDERS)))
        self._try_executors()

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
