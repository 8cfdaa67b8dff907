"""Loads on plain processes, against librdkafka's mock broker."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from highwater.spark_loadgen.errors import LoadFailed, LoadSetupError
from highwater.spark_loadgen.model import Progress
from highwater.spark_loadgen.process_launcher import ProcessLauncher
from tests.processes import words_of
from tests.spark_loadgen.conftest import PlanMaker
from tests.spark_loadgen.running import interrupt_once

DEADLINE_S = 60


@pytest.fixture(scope="module")
def launcher() -> Iterator[ProcessLauncher]:
    with ProcessLauncher() as running:
        yield running


def workers(process: psutil.Process | None = None) -> list[psutil.Process]:
    children = (process or psutil.Process()).children()
    return [child for child in children if "highwater.spark_loadgen.process_worker" in words_of(child)]


def test_processes_stay_from_one_load_to_the_next(launcher: ProcessLauncher, make_plan: PlanMaker) -> None:
    pids = []
    for _ in range(2):
        result = launcher.run(make_plan(measure_s=1))
        delivery = result.delivery
        assert (delivery.sent, delivery.acked, delivery.received, delivery.lost) == (2000, 2000, 2000, 0)
        assert (result.e2e_clock, result.interrupted) == ("same_host_monotonic", False)
        pids.append({task.pid for task in result.generator.tasks})
    assert pids[0] == pids[1] == {worker.pid for worker in workers()}
    assert os.getpid() not in pids[0]
    assert {"python", "confluent-kafka", "librdkafka", "numpy"} <= set(launcher.versions())


def test_a_problem_of_the_setup_reaches_the_caller(launcher: ProcessLauncher, make_plan: PlanMaker) -> None:
    with pytest.raises(LoadSetupError, match=r"^topic absent does not exist at .*; create it first$"):
        launcher.run(make_plan(topic="absent"))


@pytest.mark.slow
def test_a_process_that_is_killed_is_one_sentence_and_the_next_load_runs(
    launcher: ProcessLauncher, make_plan: PlanMaker
) -> None:
    def kill_one(progress: Progress) -> None:
        if progress.acked:
            for worker in workers()[:1]:
                worker.kill()

    # Were the load carried on to its end, the test would not come to its own.
    with pytest.raises(LoadFailed) as caught:
        launcher.run(make_plan(measure_s=3600), on_progress=kill_one)
    assert re.fullmatch(r"a load task died: process \d+ was killed by SIGKILL", str(caught.value))
    assert not workers()
    assert launcher.run(make_plan(measure_s=1)).delivery.received == 2000


def test_an_interrupt_ends_the_load_and_keeps_the_result(launcher: ProcessLauncher, make_plan: PlanMaker) -> None:
    interrupt = interrupt_once()
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        result = launcher.run(make_plan(measure_s=60), on_progress=interrupt)
    finally:
        signal.signal(signal.SIGINT, before)
    assert result.interrupted
    assert 0 < result.delivery.sent == result.delivery.acked == result.delivery.received < 120_000
    assert "stop" in {event.kind for event in result.events}


@pytest.mark.slow
def test_a_driver_that_is_killed_leaves_no_process(make_plan: PlanMaker, tmp_path: Path) -> None:
    plan = make_plan(measure_s=60)
    script = (
        "import sys\n"
        "from highwater.spark_loadgen.model import LoadPlan\n"
        "from highwater.spark_loadgen.process_launcher import ProcessLauncher\n"
        "from highwater.spark_loadgen.records import FixedSize, GeneratedPayload\n"
        "from highwater.spark_loadgen.schedule import OpenSchedule\n"
        f"plan = LoadPlan({plan.bootstrap_servers!r}, {plan.topics!r}, {plan.partitions}, 1, 1, 1, "
        "OpenSchedule.constant(2000.0), 0, 60, 10, FixedSize(100), GeneratedPayload(0.5), 7)\n"
        "with ProcessLauncher() as launcher:\n"
        "    launcher.run(plan, on_progress=lambda progress: print(progress.acked, flush=True))\n"
    )
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert any(line.strip() != "0" for line in process.stdout)
            left = workers(psutil.Process(process.pid))
            assert len(left) == 2
        finally:
            process.kill()
    assert not psutil.wait_procs(left, timeout=DEADLINE_S)[1]


def test_it_runs_inside_its_with_block_only(make_plan: PlanMaker) -> None:
    with pytest.raises(RuntimeError, match="outside its with block"):
        ProcessLauncher().run(make_plan())
