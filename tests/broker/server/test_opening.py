"""Which log directories a start takes up: one whose disk fails is left out by a member of a cluster alone."""

from __future__ import annotations

import shlex
import shutil
import subprocess
import uuid
from pathlib import Path

import pytest

from highwater.broker.log.config import LogConfig
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


class TestADirectoryThatIsEmpty:
    """Its disk did not mount: it is not a new directory, in which logs of before would begin anew."""

    def used(self, folder: Path, cluster_id: str | None = None) -> list[Path]:
        paths = [folder / name for name in ("a", "b", "c")]
        directories = open_directories(BrokerConfig([]), RealFiles(), paths, 1, cluster_id)
        directories.create_partition("t", 0, uuid.UUID(int=7), LogConfig())
        directories.close()
        return paths

    @pytest.mark.parametrize("lost", [0, 1])
    @pytest.mark.parametrize("is_there", [True, False], ids=["mount point", "below it"])
    def test_a_broker_that_runs_alone_does_not_start_without_it(
        self, tmp_path: Path, lost: int, *, is_there: bool
    ) -> None:
        paths = self.used(tmp_path)
        paths[lost].rename(tmp_path / "unmounted")
        if is_there:
            paths[lost].mkdir()
        with pytest.raises(LogDirectoryFailed, match=f"log directory {paths[lost]} is empty, although .* mounted"):
            open_directories(BrokerConfig([]), RealFiles(), paths, 1)
        shutil.rmtree(paths[lost])
        (tmp_path / "unmounted").rename(paths[lost])
        open_directories(BrokerConfig([]), RealFiles(), paths, 1).close()

    def test_a_member_starts_without_it(self, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
        paths = self.used(tmp_path, CLUSTER_ID)
        paths[0].rename(tmp_path / "unmounted")
        for _ in range(2):
            directories = open_directories(BrokerConfig([]), RealFiles(), paths, 1, CLUSTER_ID)
            assert directories.lacking == paths[:1]
            directories.close()
        assert f"The broker starts without {paths[0]}" in caplog.text

    def test_a_new_disk_in_its_place(self, tmp_path: Path) -> None:
        paths = self.used(tmp_path)
        shutil.rmtree(paths[1])
        with pytest.raises(LogDirectoryFailed) as told:
            open_directories(BrokerConfig([]), RealFiles(), paths, 1)
        subprocess.run(shlex.split(str(told.value).partition("be lost: ")[2]), check=True)
        open_directories(BrokerConfig([]), RealFiles(), paths, 1).close()

    def test_directories_that_are_added_moved_and_left_out(self, tmp_path: Path) -> None:
        paths = self.used(tmp_path)
        paths[2] = paths[2].rename(tmp_path / "moved")
        more = [*paths, tmp_path / "d"]
        open_directories(BrokerConfig([]), RealFiles(), more, 1).close()
        for chosen in (paths[:2], paths[:1], paths):
            open_directories(BrokerConfig([]), RealFiles(), chosen, 1).close()
        shutil.rmtree(more[3])
        open_directories(BrokerConfig([]), RealFiles(), more, 1).close()
