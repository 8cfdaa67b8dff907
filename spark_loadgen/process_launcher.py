"""Runs loads as plain processes of this host, without Spark: the same tasks, channel and results.

It serves to measure Spark's own influence on a measurement, and to run loads on a machine without Java.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Final

from highwater.common.child_process import await_end, how_it_ended, program
from highwater.spark_loadgen.errors import LoadFailed, LoadSetupError
from highwater.spark_loadgen.model import LoadPlan, LoadResult, Progress
from highwater.spark_loadgen.supervision import Background, supervise
from highwater.spark_loadgen.task import Job, TaskOutcome
from highwater.spark_loadgen.versions import task_versions

_LOOPBACK: Final = "127.0.0.1"
_PROCESSES_MAX: Final = 1024
_END_TIMEOUT_S: Final = 5


@dataclass(frozen=True, slots=True)
class _Worker:
    process: subprocess.Popen[bytes]
    connection: Connection


class ProcessLauncher:
    """Keeps one process per task from one load to the next, and their output meanwhile. Context manager."""

    name: Final = "processes"
    master: Final = "plain processes"
    settings: Final[Mapping[str, str]] = {}

    def __init__(self) -> None:
        self._log: IO[bytes] | None = None
        self._workers: list[_Worker] = []

    def __enter__(self) -> ProcessLauncher:
        self._log = tempfile.TemporaryFile(prefix="highwater-load-")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end_workers()
        if self._log is not None:
            self._log.close()

    def check(self) -> None:
        """Plain processes can always start."""

    @property
    def slots_by_master(self) -> int:
        return _PROCESSES_MAX

    @property
    def slots(self) -> int:
        """How many tasks can run at once; more tasks than cores are reported as oversubscription."""
        return _PROCESSES_MAX

    def versions(self) -> dict[str, str]:
        """Versions of everything that makes the load."""
        return task_versions()

    def run(
        self,
        plan: LoadPlan,
        *,
        on_progress: Callable[[Progress], None] | None = None,
        should_stop: Callable[[], bool] | None = None,
        may_start: Callable[[], bool] | None = None,
    ) -> LoadResult:
        """Run one load. Same behaviour and errors as SparkLauncher.run."""
        self._start_workers(plan.tasks)
        try:
            return supervise(
                plan,
                (_LOOPBACK, _LOOPBACK),
                self._run_tasks,
                self._kill_workers,
                plan.tasks,
                on_progress,
                should_stop,
                may_start,
            )
        except BaseException:
            self._kill_workers()  # some may still be running the load
            self._end_workers()
            raise

    def _start_workers(self, count: int) -> None:
        if self._log is None:
            raise RuntimeError("ProcessLauncher is used outside its with block")
        package = str(Path(__file__).parents[2])
        path = os.pathsep.join([package, *filter(None, [os.environ.get("PYTHONPATH")])])
        while len(self._workers) < count:
            ours, theirs = Pipe()
            with theirs:
                process = subprocess.Popen(
                    [*program("highwater.spark_loadgen.process_worker"), str(theirs.fileno())],
                    stdin=subprocess.DEVNULL,
                    stdout=self._log,
                    stderr=self._log,
                    pass_fds=[theirs.fileno()],
                    env={**os.environ, "PYTHONPATH": path},
                )
            self._workers.append(_Worker(process, ours))

    def _run_tasks(self, job: Job) -> list[TaskOutcome]:
        """Run one task on each process. The first failure ends all tasks, as in a barrier stage of Spark."""
        woken = threading.Event()
        workers = self._workers[: job.plan.tasks]
        calls = [
            Background(lambda task=task, worker=worker: _run_task(worker, job, task), woken)  # type: ignore[misc]
            for task, worker in enumerate(workers)
        ]
        while not all(call.finished.is_set() for call in calls):
            woken.wait()
            woken.clear()
            for call in calls:
                if call.finished.is_set():
                    call.result()
        return [call.result() for call in calls]

    def _kill_workers(self) -> None:
        for worker in self._workers:
            worker.process.kill()

    def _end_workers(self) -> None:
        workers, self._workers = self._workers, []
        for worker in workers:
            worker.connection.close()
        for worker in workers:
            await_end(worker.process, _END_TIMEOUT_S)


def _run_task(worker: _Worker, job: Job, task: int) -> TaskOutcome:
    """Raises LoadFailed when the process dies, or the error that the task raised."""
    try:
        worker.connection.send((job, task))
        answer: Any = worker.connection.recv()
    except (OSError, EOFError):
        process = worker.process
        raise LoadFailed(f"a load task died: process {process.pid} {how_it_ended(process.wait())}") from None
    if isinstance(answer, LoadSetupError | LoadFailed):
        raise answer
    if isinstance(answer, Exception):
        raise LoadFailed(f"a load task died: {answer!r}") from answer
    assert isinstance(answer, TaskOutcome)
    return answer
