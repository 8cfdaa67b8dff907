"""Settings go to Spark through a file that only their owner can read."""

from __future__ import annotations

import shlex
import stat
from pathlib import Path
from typing import Any

import pytest

from highwater.common.java_properties import parse_properties
from highwater.pipeline.run.session import arguments_of_submit, spark_session


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


@pytest.mark.slow
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
