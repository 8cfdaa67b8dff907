"""Loads on Spark's local slots, against librdkafka's mock broker."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator

import psutil
import pytest

from highwater.spark_loadgen.errors import LoadFailed, LoadSetupError
from highwater.spark_loadgen.launcher import SparkLauncher
from highwater.spark_loadgen.model import Progress
from tests.processes import parent_of, words_of
from tests.spark_loadgen.conftest import PlanMaker
from tests.spark_loadgen.running import interrupt_once
from tests.waiting import wait_until

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def local() -> Iterator[SparkLauncher]:
    with SparkLauncher("local[2]") as launcher:
        yield launcher


def test_a_load_on_local_slots(local: SparkLauncher, make_plan: PlanMaker) -> None:
    seen: list[Progress] = []
    result = local.run(make_plan(), on_progress=seen.append)
    delivery = result.delivery
    assert (delivery.sent, delivery.acked, delivery.received) == (4000, 4000, 4000)
    assert (delivery.lost, delivery.duplicated, delivery.reordered, delivery.corrupt) == (0, 0, 0, 0)
    assert not result.interrupted
    assert any(progress.acked for progress in seen)
    tasks = result.generator.tasks
    assert len({task.pid for task in tasks} | {os.getpid()}) == 3
    assert local.slots == result.generator.slots == 2
    assert {"spark", "java", "python", "confluent-kafka", "librdkafka", "numpy"} <= set(local.versions())


def test_more_tasks_than_slots_is_one_sentence_with_the_way_out(local: SparkLauncher, make_plan: PlanMaker) -> None:
    with pytest.raises(LoadSetupError, match=r"2 producers and 2 consumers need 4 tasks.*2 slots.*local\[4\]"):
        local.run(make_plan(producers=2, consumers_per_group=2))


def test_a_problem_of_the_setup_reaches_the_caller(local: SparkLauncher, make_plan: PlanMaker) -> None:
    with pytest.raises(LoadSetupError, match=r"^topic absent does not exist at .*; create it first$"):
        local.run(make_plan(topic="absent"))


def test_executors_that_do_not_come_are_not_waited_for(local: SparkLauncher, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local, "_executor_timeout_s", 0)
    # Here executors do come: what asks them may be done within a tenth of a second, so it is looked at before.
    monkeypatch.setattr("highwater.spark_loadgen.launcher._POLL_S", 0)
    monkeypatch.setattr(SparkLauncher, "slots", 0)
    with pytest.raises(LoadSetupError, match=r"local\[2\] provided no executor within 0 s: start workers"):
        local._try_executors()


@pytest.fixture
def interruptible() -> Iterator[None]:
    """A shell starts what runs in the background with interrupts ignored; this makes them count again."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interruptible")
def test_an_interrupt_ends_the_load_and_keeps_the_result(local: SparkLauncher, make_plan: PlanMaker) -> None:
    plan = make_plan(measure_s=60)
    handler = signal.getsignal(signal.SIGINT)

    result = local.run(plan, on_progress=interrupt_once())
    assert result.interrupted
    assert 0 < result.delivery.sent == result.delivery.acked == result.delivery.received < 120_000
    assert result.delivery.lost == 0
    assert signal.getsignal(signal.SIGINT) is handler is signal.default_int_handler


def load_workers() -> list[psutil.Process]:
    """Python workers are forked by pyspark.daemon, which Java has started."""

    def is_daemon(process: psutil.Process | None) -> bool:
        return "pyspark.daemon" in words_of(process)

    children = psutil.Process().children(recursive=True)
    return [child for child in children if is_daemon(child) and is_daemon(parent_of(child))]


def test_a_task_that_is_killed_is_one_sentence(local: SparkLauncher, make_plan: PlanMaker) -> None:
    def kill_a_worker(progress: Progress) -> None:
        if progress.acked:
            for worker in load_workers()[:1]:
                worker.kill()

    with pytest.raises(LoadFailed) as caught:
        local.run(make_plan(measure_s=60), on_progress=kill_a_worker)
    assert re.fullmatch("a load task died: Python worker exited unexpectedly.*", str(caught.value))


def test_an_interrupt_while_java_starts_leaves_no_java() -> None:
    script = (
        "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "from highwater.spark_loadgen.launcher import SparkLauncher\n"
        "print('started', flush=True)\n"
        "with SparkLauncher('local[1]'): signal.pause()\n"
    )
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        try:
            assert process.stdout is not None
            process.stdout.readline()
            java: list[psutil.Process] = []

            def has_started() -> bool:
                # And not the `java -version` that comes before.
                children = psutil.Process(process.pid).children()
                java.extend(child for child in children if "pyspark-shell" in words_of(child))
                return bool(java)

            wait_until(has_started, "a process of Spark")
            process.send_signal(signal.SIGINT)
            assert process.wait(60) != 0
        finally:
            process.kill()
    assert not psutil.wait_procs(java, timeout=60)[1]
