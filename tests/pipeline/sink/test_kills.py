"""Drivers and workers killed with SIGKILL inside of a micro-batch, on our broker and on Apache Kafka's.

`python -m tests.drills.pipeline --quick` kills drivers with each sink on our broker; without it, at every moment.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from highwater.common.spark_java import find_spark_java
from highwater.pipeline.crash_points import DIRECTORY_VARIABLE, CrashPoint
from highwater.pipeline.drill.stops import Stops
from tests.pipeline.kafka.brokers import SYSTEMS, bootstrap_of
from tests.pipeline.source.topics import Topics
from tests.waiting import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.spark, pytest.mark.clients, pytest.mark.timeout(1800)]

DEADLINE_S = 600.0
RECORDS = 150
SOURCE, TARGET = "in", "out"


class Driver:
    """The process of a driver and of its JVM."""

    def __init__(self, form: str, topics: Topics, folder: Path, points: Path) -> None:
        java = str(find_spark_java(os.environ, folder).home)
        more = {"JAVA_HOME": java, "PYSPARK_PYTHON": sys.executable, DIRECTORY_VARIABLE: str(points)}
        arguments = [form, topics.address, SOURCE, TARGET, str(folder / "checkpoint")]
        self._log = folder / "driver.log"
        with self._log.open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "tests.pipeline.sink.copying", *arguments],
                env={**os.environ, "SPARK_LOCAL_IP": "127.0.0.1", **more},
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def wait_for(self, stops: Stops, point: CrashPoint) -> int:
        """The process that has come to the point."""

        def is_there() -> bool:
            assert self.process.poll() is None, self._log.read_text()[-4000:]
            return stops.who_waits(point) is not None

        wait_until(is_there, f"a process at {point.value}", within_s=DEADLINE_S)
        found = stops.who_waits(point)
        assert found is not None
        return found

    def finish(self) -> None:
        assert self.process.wait(DEADLINE_S) == 0, self._log.read_text()[-4000:]

    def kill(self) -> None:
        """The driver and its JVM; workers that are left see that the JVM is gone."""
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


@contextmanager
def driver(form: str, topics: Topics, folder: Path, points: Path) -> Iterator[Driver]:
    running = Driver(form, topics, folder, points)
    try:
        yield running
    finally:
        running.kill()


def batches_seen(topics: Topics) -> dict[bytes, Counter[bytes]]:
    """The values that readers of committed records see, by the batch that wrote them."""
    found: dict[bytes, Counter[bytes]] = {}
    for row in topics.rows(TARGET, 3, read_committed=True):
        (header,) = row["headers"]
        found.setdefault(header["value"], Counter())[row["value"]] += 1
    return found


def filled(address: str) -> Topics:
    topics = Topics(address)
    topics.create(SOURCE, 2)
    topics.create(TARGET, 3)
    for partition in (0, 1):
        topics.produce(SOURCE, RECORDS, partition=partition)
    return topics


def check(topics: Topics) -> None:
    wanted, found = (
        Counter((row["key"], row["value"]) for row in topics.rows(name, partitions, read_committed=True))
        for name, partitions in ((SOURCE, 2), (TARGET, 3))
    )
    assert found == wanted


@pytest.mark.compat
def test_a_killed_driver_leaves_whole_batches_that_are_there_once(tmp_path: Path) -> None:
    points = tmp_path / "points"
    stops = Stops(points)
    seen = []
    with bootstrap_of("4", tmp_path) as address:
        topics = filled(address)
        for point in (CrashPoint.SINK_WRITING, CrashPoint.SINK_BEFORE_COMMIT, CrashPoint.SINK_COMMITTED):
            with driver("batch", topics, tmp_path, points) as running:
                stops.arm(point)
                running.wait_for(stops, point)
                running.kill()
            stops.release()
            seen.append(batches_seen(topics))
        with driver("batch", topics, tmp_path, points) as running:
            running.finish()
        assert stops.passages()[CrashPoint.SINK_SKIPPED] >= 1
        check(topics)
        whole = batches_seen(topics)
    for before in seen:
        assert before == {batch: whole[batch] for batch in before}
    assert len(seen[-1]) > len(seen[0])


@pytest.mark.parametrize("system", SYSTEMS)
def test_a_killed_worker_and_a_killed_driver_cost_a_second_try_and_no_record(system: str, tmp_path: Path) -> None:
    points = tmp_path / "points"
    stops = Stops(points)
    with bootstrap_of(system, tmp_path) as address:
        topics = filled(address)
        with driver("batch", topics, tmp_path, points) as running:
            stops.arm(CrashPoint.SINK_WRITING)
            os.kill(running.wait_for(stops, CrashPoint.SINK_WRITING), signal.SIGKILL)
            stops.arm(CrashPoint.SINK_COMMITTED)
            stops.let_go(CrashPoint.SINK_WRITING)
            running.wait_for(stops, CrashPoint.SINK_COMMITTED)
            running.kill()
        stops.release()
        before = batches_seen(topics)
        assert len(before) == 1
        with driver("batch", topics, tmp_path, points) as running:
            running.finish()
        assert stops.passages()[CrashPoint.SINK_SKIPPED] >= 1
        check(topics)
        whole = batches_seen(topics)
        assert before == {batch: whole[batch] for batch in before}


@pytest.mark.compat
def test_tasks_with_transactions_of_their_own_are_there_once(tmp_path: Path) -> None:
    points = tmp_path / "points"
    stops = Stops(points)
    with bootstrap_of("3.9", tmp_path) as address:
        topics = filled(address)
        for point in (CrashPoint.SINK_WRITING, CrashPoint.SINK_COMMITTED):
            with driver("tasks", topics, tmp_path, points) as running:
                stops.arm(point)
                running.wait_for(stops, point)
                running.kill()
            stops.release()
        with driver("tasks", topics, tmp_path, points) as running:
            running.finish()
        assert stops.passages()[CrashPoint.SINK_SKIPPED] >= 1
        check(topics)
