"""Crash points: passed without a drill, journalled with one, and a stop for the first process alone."""

from __future__ import annotations

import contextvars
import os
import pickle
import subprocess
import sys
import threading
from dataclasses import dataclass
from pathlib import Path

import pytest
from pyspark import TaskContext

from highwater.pipeline.crash_points import DIRECTORY_VARIABLE, QUERY, QUERY_PROPERTY, CrashPoint, reach
from highwater.pipeline.drill.drilled_source import QUERY_OPTION, DrilledSource
from highwater.pipeline.drill.stops import Stops
from tests.waiting import wait_until

POINT = CrashPoint.SINK_WRITTEN
PROGRAM = "from highwater.pipeline.crash_points import CrashPoint, reach; reach(CrashPoint.SINK_WRITTEN)"


def start(folder: Path) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", PROGRAM], env={DIRECTORY_VARIABLE: str(folder)})


def test_without_a_drill_nothing_stops(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(DIRECTORY_VARIABLE, raising=False)
    reach(POINT)


def test_an_armed_point_stops_the_first_process_until_it_is_released(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stops = Stops(tmp_path)
    monkeypatch.setenv(DIRECTORY_VARIABLE, str(tmp_path))
    stops.arm(POINT)
    process = start(tmp_path)
    try:
        wait_until(lambda: stops.who_waits(POINT) is not None, "the process is at the point")
        assert stops.who_waits(POINT) == process.pid
        assert not stops.disarm(POINT)
        reach(POINT)
        assert process.poll() is None
        stops.release()
        assert process.wait(60) == 0
    finally:
        process.kill()
        process.wait()
    assert stops.who_waits(POINT) is None
    assert stops.journal() == [(POINT, process.pid), (POINT, os.getpid())]


def test_a_disarmed_point_stops_nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stops = Stops(tmp_path)
    monkeypatch.setenv(DIRECTORY_VARIABLE, str(tmp_path))
    stops.arm(POINT)
    assert stops.disarm(POINT)
    reach(POINT)
    assert stops.passages() == {POINT: 1}


def test_each_query_has_its_own_stops(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A task says which query it is for; what runs in no task says it by QUERY."""
    one, two = Stops(tmp_path, "one"), Stops(tmp_path, "two")
    monkeypatch.setenv(DIRECTORY_VARIABLE, str(tmp_path))
    one.arm(POINT)

    def pass_for_two() -> None:
        QUERY.set("two")
        reach(POINT)

    contextvars.Context().run(pass_for_two)
    assert (one.passages(), two.passages()) == ({}, {POINT: 1})
    monkeypatch.setattr(TaskContext, "get", lambda: Task("two"))
    reach(POINT)
    assert two.passages() == {POINT: 2}
    monkeypatch.setattr(TaskContext, "get", lambda: Task("one"))
    stopped = threading.Thread(target=reach, args=[POINT])
    stopped.start()
    wait_until(lambda: one.who_waits(POINT) == os.getpid(), "the task of the armed query is at the point")
    assert two.who_waits(POINT) is None
    two.release()
    assert stopped.is_alive()
    one.release()
    stopped.join()
    assert one.passages() == {POINT: 1}


@dataclass
class Task:
    """Of Spark, for one query."""

    query: str

    def getLocalProperty(self, name: str) -> str | None:  # noqa: N802 - Spark's name
        return {QUERY_PROPERTY: self.query}.get(name)


def test_the_process_of_a_source_knows_its_query(tmp_path: Path) -> None:
    options = {"subscribe": "a", "kafka.bootstrap.servers": "a:1", "startingOffsets": "earliest", QUERY_OPTION: "one"}
    source = pickle.loads(pickle.dumps(DrilledSource(options)))  # noqa: S301 - ours

    def query_of_reader() -> str:
        source.streamReader(source.schema())
        return QUERY.get()

    assert contextvars.Context().run(query_of_reader) == "one"
    assert QUERY.get() == ""


def test_a_drill_that_is_gone_stops_nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(DIRECTORY_VARIABLE, str(tmp_path / "gone"))
    reach(POINT)


def test_lines_of_threads_do_not_mix(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stops = Stops(tmp_path)
    monkeypatch.setenv(DIRECTORY_VARIABLE, str(tmp_path))

    def pass_often() -> None:
        for _ in range(200):
            reach(POINT)

    threads = [threading.Thread(target=pass_often) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert stops.passages() == {POINT: 800}
