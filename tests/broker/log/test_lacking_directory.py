"""A member of a cluster starts without a log directory whose disk fails; a broker that runs alone does not."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from highwater.broker.log.errors import LogDirectoryError, LogDirectoryFailed
from highwater.broker.log.files import Entry
from highwater.broker.log.log_directories import LogDirectories
from highwater.broker.log.log_directory import MOVED, LogDirectory
from tests.broker.log.building import NOW_MS, SMALL, TOPIC_ID, append, batch
from tests.broker.log.simulated_files import SimulatedFiles
from tests.broker.manual_clock import ManualClock

A, B = Path("/a"), Path("/b")


class FailingFiles(SimulatedFiles):
    """A disk of which nothing can be listed."""

    failing: Path | None = None

    def list(self, path: Path) -> list[Entry]:
        if self.failing is not None and (path == self.failing or self.failing in path.parents):
            raise OSError(errno.EIO, "Input/output error", str(path))
        return super().list(path)


def opened(files: SimulatedFiles, *, may_lack_some: bool = True) -> LogDirectories:
    directories = LogDirectories(
        [LogDirectory(files, path, SMALL, broker_id=1, cluster_id="c", clock=ManualClock(NOW_MS)) for path in (A, B)],
        may_lack_some=may_lack_some,
    )
    directories.load(lambda topic: SMALL, lambda done, total: None)
    return directories


def filled() -> FailingFiles:
    files = FailingFiles()
    directories = opened(files)
    for number in range(4):
        log = directories.create_partition("t", number, TOPIC_ID, SMALL)
        append(log, batch(b"value", producer_id=7, producer_epoch=0, base_sequence=0))
    directories.close()
    return files


def test_a_member_goes_on_with_the_others_and_finds_it_again(caplog: pytest.LogCaptureFixture) -> None:
    files = filled()
    files.failing = B
    directories = opened(files)
    assert [directory.path for directory in directories.all] == [A]
    assert directories.lacking == [B]
    assert not directories.is_complete
    assert sorted(directories.keys()) == [("t", 0), ("t", 2)]
    assert "/b cannot be used: Input/output error" in caplog.text
    assert "partitions there are offline on this broker until you repair the directory" in caplog.text
    directories.close()
    files.failing = None
    directories = opened(files)
    assert directories.is_complete
    assert sorted(directories.keys()) == [("t", number) for number in range(4)]
    assert all(log.log_end_offset == 1 for directory in directories.all for log in directory.logs.values())
    directories.close()


def test_who_runs_alone_needs_all() -> None:
    files = filled()
    files.failing = B
    with pytest.raises(LogDirectoryFailed, match="/b cannot be used: Input/output error; mend that and start again"):
        opened(files, may_lack_some=False)
    files.failing = None
    opened(files, may_lack_some=False).close()


def test_nobody_starts_without_any() -> None:
    files = filled()
    files.failing = Path("/")
    with pytest.raises(LogDirectoryFailed):
        opened(files)
    files.failing = None
    opened(files).close()


def test_the_directory_of_another_broker_is_not_lacking_but_wrong() -> None:
    files = filled()
    with pytest.raises(LogDirectoryError, match=r"broker\.id is 1, but this broker's is 2") as raised:
        LogDirectory(files, A, SMALL, broker_id=2, cluster_id="c", clock=ManualClock(NOW_MS))
    assert not isinstance(raised.value, LogDirectoryFailed)


def test_a_log_that_moved_is_known_to_have_moved_until_its_former_place_is_there() -> None:
    files = filled()
    mark = A / "t-0" / MOVED
    files.close(files.open(mark, create=True))
    files.make_directory(B / "t-0")
    files.failing = B
    opened(files).close()
    assert files.exists(mark)
    files.failing = None
    directories = opened(files)
    assert ("t", 0) in directories.all[0].logs
    assert ("t", 0) not in directories.all[1].logs
    assert not files.exists(mark)
    directories.close()
