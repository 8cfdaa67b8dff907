"""Files with keys, users and settings are for the broker's user alone, whatever the umask is."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from highwater.broker.cluster.zookeeper import Create
from highwater.broker.log.files import RealFiles
from highwater.broker.tree.changes import Change, encode_change
from highwater.broker.tree.journal import Journal
from highwater.broker.tree.snapshot import encode_tree
from tests.broker.handlers.harness import NodeHarness


@pytest.fixture(autouse=True)
def any_umask() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


def modes(directory: Path) -> dict[str, int]:
    return {path.name: stat.S_IMODE(path.stat().st_mode) for path in directory.iterdir() if path.is_file()}


def test_the_metadata_of_a_broker_that_runs_alone(tmp_path: Path) -> None:
    node = NodeHarness(tmp_path / "log")
    node.create_topic("t")
    metadata = tmp_path / "log" / "embedded-metadata.json"
    metadata.chmod(0o644)  # as an earlier version left it
    node.create_topic("u")
    assert modes(tmp_path / "log")[metadata.name] == 0o600
    node.close()


def test_the_tree_that_processes_share(tmp_path: Path) -> None:
    journal = Journal(RealFiles(), tmp_path / "metadata", 600)
    changes: list[Change] = []
    journal.tree.recorded = changes.append
    journal.tree.execute(0, Create("/a", b"secret"), 0)
    journal.append(b"".join(map(encode_change, changes)))
    journal.begin_anew(encode_tree(journal.tree), journal.tree.zxid)
    journal.close()
    assert set(modes(tmp_path / "metadata").values()) == {0o600}
    for path in (tmp_path / "metadata").iterdir():
        path.chmod(0o644)
    journal = Journal(RealFiles(), tmp_path / "metadata", 600)
    assert {mode for name, mode in modes(tmp_path / "metadata").items() if name.startswith("journal")} == {0o600}
    journal.close()
