"""A recovery by several threads finds what one finds, and leaves no file open when it fails."""

from __future__ import annotations

import os
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from highwater.broker.log.config import LogConfig
from highwater.broker.log.errors import LogDirectoryError
from highwater.broker.log.files import RealFiles
from highwater.broker.log.log_directories import LogDirectories
from highwater.broker.log.log_directory import LogDirectory
from tests.broker.log.building import NOW_MS, TOPIC_ID, append, batch
from tests.broker.manual_clock import ManualClock

CONFIG = LogConfig(segment_bytes=1 << 20)
LOGS = 6


def opened(root: Path) -> LogDirectories:
    files = RealFiles()
    root.mkdir(exist_ok=True)
    return LogDirectories(
        [
            LogDirectory(
                files, root / name, CONFIG, broker_id=1, cluster_id="c", clock=ManualClock(NOW_MS), max_open_segments=1
            )
            for name in "ab"
        ]
    )


def load(directories: LogDirectories, threads: int) -> None:
    directories.load(lambda topic: CONFIG, lambda done, total: None, threads)


def crashed(root: Path) -> None:
    """Logs of a few segments that nobody flushed, one of them with a damaged batch; and a small one."""
    directories = opened(root)
    load(directories, 1)
    for index in range(LOGS):
        log = directories.create_partition("t", index, TOPIC_ID, CONFIG)
        for number in range(2 if index == 0 else 90):
            made = batch(os.urandom(30_000), producer_id=7, producer_epoch=0, base_sequence=number)
            append(log, made, leader_epoch=number // 20)
    (damaged,) = root.glob("?/t-3/00000000000000000000.log")
    directories.close(clean=False)
    with damaged.open("r+b") as file:
        file.seek(500_000)
        file.write(b"damage")


def state(directories: LogDirectories) -> dict[object, object]:
    found: dict[object, object] = {}
    for directory in directories.all:
        for key, log in directory.logs.items():
            indexes = [(segment.offset_index.entries, segment.time_index.entries) for segment in log._segments.all]
            found[key] = (
                *(log.log_end_offset, log.segment_sizes, log.leader_epochs.entries, log.producer_states.encode()),
                indexes,
                log.read(max(log.log_end_offset - 3, 0), 1 << 20, end_offset=log.log_end_offset),
            )
    return found


def open_files(below: Path) -> list[Path]:
    links = [path.readlink() for path in Path("/proc/self/fd").iterdir() if path.is_symlink()]
    return [path for path in links if below in path.parents]


def test_threads_find_what_one_finds(tmp_path: Path) -> None:
    crashed(tmp_path / "one")
    shutil.copytree(tmp_path / "one", tmp_path / "other")
    found = []
    for name, threads in (("one", 1), ("other", 3)):
        directories = opened(tmp_path / name)
        load(directories, threads)
        found.append(state(directories))
        assert len(found[-1]) == LOGS
        directories.close()
    assert found[0] == found[1]
    again = opened(tmp_path / "other")
    load(again, 3)
    assert state(again) == found[0]
    again.close()


def test_logs_that_wait_to_be_taken_up_have_no_file_open(tmp_path: Path) -> None:
    """There may be more of them than the process may have descriptors."""
    crashed(tmp_path)
    directories = opened(tmp_path)
    waiting = []
    with ThreadPoolExecutor(3) as aside:
        for directory in directories.all:
            waiting.append(directory.loading(aside=aside))
            next(waiting[-1])
    locks = {tmp_path / name / ".lock" for name in "ab"}
    assert {*open_files(tmp_path)} - {tmp_path / "a/t-0/00000000000000000000.log"} == locks
    for load in waiting:
        assert next(load, None) is None
    assert sum(len(directory.logs) for directory in directories.all) == LOGS
    directories.close()


def test_a_failure_in_a_thread_ends_the_start_and_closes_all(tmp_path: Path) -> None:
    crashed(tmp_path)
    (foreign,) = tmp_path.glob("?/t-4/00000000000000000000.log")
    data = bytearray(foreign.read_bytes())
    data[16] = 3  # a later message format
    foreign.write_bytes(data)
    directories = opened(tmp_path)
    with pytest.raises(LogDirectoryError, match="message format 3"):
        load(directories, 3)
    assert open_files(tmp_path) == []
