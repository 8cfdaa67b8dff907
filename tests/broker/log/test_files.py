"""The real file operations: short reads and writes, locks, replacing a file."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import patch

import pytest

from highwater.broker.log.files import Entry, RealFiles, sync_file, write_durably, write_file

FILES = RealFiles()


def test_short_writes_and_reads_are_continued(tmp_path: Path) -> None:
    descriptor = FILES.open(tmp_path / "f", create=True)
    real_pwrite, real_pread = os.pwrite, os.pread
    with (
        patch("os.pwrite", lambda fd, data, position: real_pwrite(fd, data[:3], position)),
        patch("os.pread", lambda fd, size, position: real_pread(fd, min(size, 3), position)),
    ):
        FILES.pwrite(descriptor, b"0123456789", 2)
        assert FILES.pread(descriptor, 8, 2) == b"01234567"
        assert FILES.pread(descriptor, 100, 9) == b"789"
        assert FILES.pread(descriptor, 5, 12) == b""
    FILES.close(descriptor)


def test_a_file_that_goes_while_its_folder_is_listed_is_left_out(tmp_path: Path) -> None:
    write_file(FILES, tmp_path / "goes", b"")
    write_file(FILES, tmp_path / "stays", b"12")
    real_scandir = os.scandir

    @contextmanager
    def scandir(path: Path) -> Iterator[Iterator[os.DirEntry[str]]]:
        with real_scandir(path) as found:
            entries = list(found)
        (tmp_path / "goes").unlink()
        yield iter(entries)

    with patch("os.scandir", scandir):
        assert FILES.list(tmp_path) == [Entry("stays", False, 2)]


def test_a_volume_tells_its_size_as_df_does(tmp_path: Path) -> None:
    told = shutil.disk_usage(tmp_path)
    size_bytes, free_bytes = FILES.volume_size(tmp_path)
    assert size_bytes == told.total
    assert 0 < free_bytes < size_bytes


def test_a_lock_keeps_others_out_until_it_is_closed(tmp_path: Path) -> None:
    path = tmp_path / ".lock"
    held = FILES.lock(path)
    assert held is not None
    assert FILES.lock(path) is None
    # Java's FileLock is a POSIX lock: another process asking for one is what Apache Kafka would be.
    posix = f"import fcntl; fcntl.lockf(open({str(path)!r}, 'r+'), fcntl.LOCK_EX | fcntl.LOCK_NB)"
    assert subprocess.run([sys.executable, "-c", posix], stderr=subprocess.DEVNULL, check=False).returncode == 1
    FILES.close(held)
    again = FILES.lock(path)
    assert again is not None
    FILES.close(again)


def test_a_lock_that_java_holds_keeps_us_out(tmp_path: Path) -> None:
    path = tmp_path / ".lock"
    holder = subprocess.Popen(
        [
            sys.executable,
            "-c",
            f"import fcntl; f = open({str(path)!r}, 'w'); fcntl.lockf(f, fcntl.LOCK_EX); print(flush=True); input()",
        ],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    try:
        assert holder.stdout is not None
        holder.stdout.readline()
        assert FILES.lock(path) is None
    finally:
        holder.communicate(b"\n")


def test_replacing_a_file_leaves_the_old_one_until_the_new_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint"
    write_durably(FILES, path, b"old")
    with patch.object(RealFiles, "sync", side_effect=OSError("broken disk")), pytest.raises(OSError, match="broken"):
        write_durably(FILES, path, b"new")
    assert path.read_bytes() == b"old"
    write_durably(FILES, path, b"n")
    assert path.read_bytes() == b"n"
    write_file(FILES, path, b"")
    assert FILES.list(tmp_path) == [Entry("checkpoint", False, 0)]


def test_a_file_that_went_needs_no_syncing(tmp_path: Path) -> None:
    sync_file(FILES, tmp_path / "gone")
