"""Control groups of version 2, in a tree that stands for one: what is handed down, and how a disk is held back."""

from __future__ import annotations

from pathlib import Path

import pytest

from highwater.bench.storage.control_groups import Hierarchies
from highwater.tuning.hostfiles import HostFiles
from tests.lab import disks, groups
from tests.lab.record import Node

NODE = Node("a", 1, 1)


@pytest.fixture
def unified(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The kernel makes these files; here they are there beforehand."""
    for path in (
        tmp_path,
        *(tmp_path / name for name in ("highwater-lab", "highwater-lab/a", "highwater-lab/a/node1")),
    ):
        path.mkdir(exist_ok=True)
        (path / "cgroup.controllers").write_text("cpu io memory pids\n")
        (path / "cgroup.subtree_control").touch()
    (tmp_path / "highwater-lab/a/node1/io.max").touch()
    monkeypatch.setattr(groups, "trees", lambda: [tmp_path])
    return tmp_path


def test_a_host_is_given_all_controllers_and_a_proxy_none(unified: Path) -> None:
    assert groups.make("a", "proxy") == [unified / "highwater-lab/a/proxy"]
    assert (unified / "highwater-lab/a/node1/cgroup.subtree_control").read_text() == ""
    groups.make("a", "node1", is_divided=True)
    assert (unified / "cgroup.subtree_control").read_text() == "+io +memory"
    for name in ("highwater-lab", "highwater-lab/a", "highwater-lab/a/node1"):
        assert (unified / name / "cgroup.subtree_control").read_text() == "+cpu +io +memory +pids"


def test_a_hard_disk_is_as_slow_as_one_for_all_of_its_host(unified: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disks, "hierarchies", lambda _: Hierarchies(HostFiles(), None, None, str(unified)))
    disks.limit("7:3", NODE)
    written = (unified / "highwater-lab/a/node1/io.max").read_text()
    assert written == "7:3 rbps=125829120 wbps=125829120 riops=120 wiops=120\n"
