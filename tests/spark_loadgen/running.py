"""Runs the tasks of a load as threads of the test, without Spark: the same bodies, channel and supervision."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable

import pytest

from highwater.spark_loadgen.channel import DriverChannel
from highwater.spark_loadgen.errors import LoadSetupError
from highwater.spark_loadgen.model import LoadPlan, LoadResult, Progress
from highwater.spark_loadgen.payload import read_payload_file
from highwater.spark_loadgen.records import FilePayload
from highwater.spark_loadgen.supervision import Background, supervise
from highwater.spark_loadgen.task import Job, TaskOutcome, run_task

DEADLINE_S = 90


def run_outcomes(job: Job) -> list[TaskOutcome]:
    calls = [Background(lambda task=task: run_task(job, task)) for task in range(job.plan.tasks)]  # type: ignore[misc]
    for call in calls:
        assert call.finished.wait(DEADLINE_S)
    return [call.result() for call in calls]


def job_of(plan: LoadPlan, channel: DriverChannel) -> Job:
    payload = read_payload_file(plan.payload.path) if isinstance(plan.payload, FilePayload) else plan.payload
    return Job(plan, 4711, payload, channel.address, channel.token)


def run_load(
    plan: LoadPlan,
    *,
    on_progress: Callable[[Progress], None] | None = None,
    should_stop: Callable[[], bool] | None = None,
) -> LoadResult:
    return supervise(plan, ("127.0.0.1", "127.0.0.1"), run_outcomes, lambda: None, plan.tasks, on_progress, should_stop)


def interrupt_once() -> Callable[[Progress], None]:
    """For `on_progress`: Ctrl-C as soon as records are acknowledged. A second one would end the load at once."""
    is_done = False

    def interrupt(progress: Progress) -> None:
        nonlocal is_done
        if progress.acked and not is_done:
            is_done = True
            os.kill(os.getpid(), signal.SIGINT)

    return interrupt


def setup_error(plan: LoadPlan) -> str:
    with pytest.raises(LoadSetupError) as caught:
        run_load(plan)
    return str(caught.value)
