"""Runs the tasks of a load as threads of the test, without Spark: the same bodies, channel and supervision."""

from __future__ import annotations

import threading
from collections.abc import Callable

from spark_loadgen import FilePayload, LoadPlan, LoadResult, Progress
from spark_loadgen.channel import DriverChannel
from spark_loadgen.merge import merge_outcomes
from spark_loadgen.payload import read_payload_file
from spark_loadgen.supervision import Background, Supervision
from spark_loadgen.task import Job, Outcome, run_task

DEADLINE_S = 90


class Gathering:
    """all_gather among threads."""

    def __init__(self, tasks: int) -> None:
        self._texts = [""] * tasks
        self._barrier = threading.Barrier(tasks)

    def of_task(self, task: int) -> Callable[[str], list[str]]:
        def all_gather(text: str) -> list[str]:
            self._texts[task] = text
            self._barrier.wait(DEADLINE_S)
            return list(self._texts)

        return all_gather


def run_outcomes(job: Job) -> list[Outcome]:
    gathering = Gathering(job.plan.tasks)
    calls = [
        Background(lambda task=task: run_task(job, task, gathering.of_task(task)))  # type: ignore[misc]
        for task in range(job.plan.tasks)
    ]
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
    with DriverChannel("127.0.0.1", "127.0.0.1") as channel:
        job = job_of(plan, channel)
        running = Background(lambda: run_outcomes(job))
        interrupted = Supervision(plan, channel, running, lambda: None, on_progress, should_stop).wait()
        outcomes = running.result()
    assert outcomes[0].setup_errors == []
    return merge_outcomes(plan, outcomes, plan.tasks, interrupted=interrupted)


def setup_errors(plan: LoadPlan) -> list[str]:
    with DriverChannel("127.0.0.1", "127.0.0.1") as channel:
        outcomes = run_outcomes(job_of(plan, channel))
    assert all(outcome.report is None for outcome in outcomes)
    assert len({tuple(outcome.setup_errors) for outcome in outcomes}) == 1
    return outcomes[0].setup_errors
