"""Which log directories a start takes up: one whose disk fails is left out by a member of a cluster alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from highwater.broker.log.errors import LogDirectoryError, LogDirectoryFailed
from highwater.broker.log.files import RealFiles
from highwater.broker.server.opening import open_directories
from highwater.broker.settings.config import BrokerConfig

CLUSTER_ID = "vPeOCWypqUOSepEvx0cbog"


def test_a_member_leaves_out_what_cannot_be_used(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    paths = [tmp_path / name for name in ("a", "b", "c")]
    paths[0].write_text("no directory, as if the disk were not there")
    config = BrokerConfig([])
    directories = open_directories(config, RealFiles(), paths, 1, CLUSTER_ID)
    assert [directory.path for directory in directories.all] == paths[1:]
    assert directories.lacking == paths[:1]
    assert directories.home == paths[1]
    assert f"The broker starts without {paths[0]}" in caplog.text
    with pytest.raises(LogDirectoryError, match="is in use by another broker"):
        open_directories(config, RealFiles(), paths, 1, CLUSTER_ID)
    directories.close()
    with pytest.raises(LogDirectoryFailed, match=f"log directory {paths[0]} cannot be used"):
        open_directories(config, RealFiles(), paths[:1], 1, CLUSTER_ID)


def test_a_broker_that_runs_alone_does_not_start(tmp_path: Path) -> None:
    paths = [tmp_path / name for name in ("a", "b")]
    paths[1].write_text("no directory")
    with pytest.raises(LogDirectoryFailed, match=f"log directory {paths[1]} cannot be used"):
        open_directories(BrokerConfig([]), RealFiles(), paths, 1)
    paths[1].unlink()
    open_directories(BrokerConfig([]), RealFiles(), paths, 1).close()
