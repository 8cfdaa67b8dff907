"""Whose a log directory is, which process has it open, and what memory holds of it."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from highwater.bench.host_agent import log_directories
from highwater.bench.host_agent.log_directories import Owner, owner_of, process_of, residency_of
from tests.broker.running import running_broker
from tests.conftest import WAIT_FOR_THE_DISK


@pytest.mark.parametrize(
    ("text", "owner"),
    [
        ("version=0\nbroker.id=7\ncluster.id=abc\n", Owner(7, "abc")),
        ("version=1\nnode.id=7\ncluster.id=abc\n", Owner(7, "abc")),
        ("version=0\ncluster.id=abc\n", Owner(None, "abc")),
        ("broker.id=-1\n", Owner(None, "")),
    ],
)
def test_whose_it_is(tmp_path: Path, text: str, owner: Owner) -> None:
    (tmp_path / "meta.properties").write_text(text)
    assert owner_of(tmp_path) == owner


def test_why_it_is_not_known_whose_it_is(tmp_path: Path) -> None:
    assert "no broker has started with it yet" in str(owner_of(tmp_path))
    assert "no broker has started with it yet" in str(owner_of(tmp_path / "missing"))
    meta = tmp_path / "meta.properties"
    meta.write_text("broker.id=\\u12\n")
    assert "is damaged" in str(owner_of(tmp_path))
    meta.write_bytes(b"\xff\xfe")
    assert "cannot be read" in str(owner_of(tmp_path))
    meta.unlink()
    meta.mkdir()
    assert "cannot be read: Is a directory" in str(owner_of(tmp_path))


def test_the_process_that_has_it_open(tmp_path: Path) -> None:
    log = (tmp_path / "log").resolve()
    with running_broker(log) as broker:
        assert process_of(log) == broker.process.pid
        owner = owner_of(log)
        assert isinstance(owner, Owner)
        assert owner.broker_id is not None
        assert re.fullmatch(r"\S{22}", owner.cluster_id)
    assert process_of(log) is None


def test_what_memory_holds(disk_path: Path) -> None:
    for name, size in (("t-0", 1 << 20), ("t-1", 4096), ("not a partition", 100), ("t-2", 0)):
        (disk_path / name).mkdir()
        (disk_path / name / "00000000000000000000.log").write_bytes(b"x" * size)
        (disk_path / name / "00000000000000000000.index").write_bytes(b"x" * 100)
    (disk_path / "t-3").symlink_to(disk_path / "t-0")
    found = residency_of(disk_path)
    assert found.log_bytes == (1 << 20) + 4096
    if not found.problem:  # the kernel has cachestat
        assert found.resident_bytes == found.log_bytes
        # Not os.sync, which holds up whatever writes on this host.
        for segment in disk_path.rglob("*.log"):
            with segment.open("rb") as file:
                WAIT_FOR_THE_DISK(file.fileno())
        with (disk_path / "t-0" / "00000000000000000000.log").open("rb") as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        after = residency_of(disk_path)
        assert (after.resident_bytes, after.unwritten_bytes) == (4096, 0)


def test_what_is_not_known_has_a_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "t-0").mkdir()
    (tmp_path / "t-0" / "0.log").write_bytes(b"x")
    assert "No such file" in residency_of(tmp_path / "missing").problem
    monkeypatch.setattr("highwater.common.cachestat._CACHESTAT", 100_000)
    without = residency_of(tmp_path)
    assert (without.log_bytes, without.resident_bytes) == (1, None)
    assert "is not known: cachestat: Function not implemented" in without.problem
    monkeypatch.setattr(log_directories, "MOST_SEGMENTS", 0)
    assert "has more than 0 segments" in residency_of(tmp_path).problem
