"""Spark starts with settings in a file that only their owner can read, and ends with all that is its own."""

from __future__ import annotations

import os
import shlex
import stat
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import psutil
import pytest

from highwater.common.errors import UsageError
from highwater.common.java_properties import parse_properties
from highwater.common.spark_session import arguments_of_submit, spark_session


def test_settings_are_not_among_the_arguments_of_a_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYSPARK_SUBMIT_ARGS", raising=False)
    settings = {"spark.authenticate.secret": "p\u00e4ss = word", "spark.ui.enabled": "false"}
    arguments = arguments_of_submit(tmp_path / "a file", settings)
    assert shlex.split(arguments) == [
        *("--properties-file", str(tmp_path / "a file"), "--load-spark-defaults"),
        "pyspark-shell",
    ]
    assert stat.S_IMODE((tmp_path / "a file").stat().st_mode) == 0o600
    read = parse_properties((tmp_path / "a file").read_text("ascii"))
    assert {each.name: each.value for each in read} == settings


def test_arguments_of_the_environment_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", "--queue night pyspark-shell")
    assert arguments_of_submit(tmp_path / "file", {}).endswith(" --queue night pyspark-shell")


def test_an_import_costs_nothing_that_only_a_session_needs() -> None:
    script = "import sys, highwater.common.spark_session; sys.exit('pyspark' in sys.modules)"
    subprocess.run([sys.executable, "-c", script], check=True)


@pytest.mark.spark
def test_no_file_keeps_settings_when_java_has_read_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    settings = {"spark.driver.memory": "600m", "spark.hadoop.password": "hidden"}
    with spark_session("name", "local[1]", settings, tmp_path / "log") as spark:
        assert spark.sparkContext.getConf().get("spark.hadoop.password") == "hidden"
        java: Any = spark.sparkContext._jvm
        assert java.java.lang.Runtime.getRuntime().maxMemory() <= 600 << 20
        files = [path for path in tmp_path.rglob("*") if path.is_file()]
        assert [path for path in files if b"hidden" in path.read_bytes()] == []


@pytest.mark.spark
def test_each_session_of_a_process_has_a_jvm_and_settings_of_its_own(tmp_path: Path) -> None:
    jvms: list[Any] = []
    before = dict(os.environ)
    for memory_mib in (500, 600):
        with spark_session("name", "local[1]", {"spark.driver.memory": f"{memory_mib}m"}) as spark:
            java: Any = spark.sparkContext._jvm
            assert java.java.lang.Runtime.getRuntime().maxMemory() <= memory_mib << 20
            jvms.append(psutil.Process(java.java.lang.ProcessHandle.current().pid()))
            assert dict(os.environ) == before
            with pytest.raises(UsageError, match="already running in this process; stop it first"):
                spark_session("other", "local[1]").__enter__()
            assert spark.range(3).count() == 3
    assert not any(jvm.is_running() for jvm in jvms)


@pytest.mark.spark
@pytest.mark.parametrize(("path_bytes", "has_unix_sockets"), [(42, True), (43, False)])
def test_workers_are_on_unix_sockets_where_the_path_fits(
    path_bytes: int, has_unix_sockets: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    with tempfile.TemporaryDirectory(dir="/tmp") as short:
        folder = Path(short) / ("t" * (path_bytes - len(short) - 1))
        folder.mkdir()
        monkeypatch.setattr("tempfile.tempdir", str(folder))
        with spark_session("name", "local[1]") as spark:
            ((enabled, place),) = spark.sparkContext.parallelize([0], 1).map(_worker_sockets).collect()
            assert enabled == has_unix_sockets
            if enabled:
                assert Path(place).parent == folder
                assert stat.S_IMODE(Path(place).stat().st_mode) == 0o700


def _worker_sockets(_: int) -> tuple[bool, str]:
    """Of Spark's worker: whether it is on Unix sockets, and their folder."""
    enabled = os.environ.get("PYTHON_UNIX_DOMAIN_ENABLED", "").lower() == "true"
    return enabled, os.environ.get("PYTHON_WORKER_FACTORY_SOCK_DIR", "")
