"""The real file operations: short reads and writes, locks, replacing a file."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import patch

import pytest

from highwater.broker.log.files import (
    Entry,
    FilePiece,
    RealFiles,
    is_piece_cached,
    sync_file,
    write_durably,
    write_file,
)

FILES = RealFiles()


@pytest.fixture
def tmp_path(disk_path: Path) -> Path:
    return disk_path


def test_short_writes_and_reads_are_continued(tmp_path: Path) -> None:
    descriptor = FILES.open(tmp_path / "f", create=True)
    real_pwrite, real_pread, real_preadv = os.pwrite, os.pread, os.preadv
    with (
        patch("os.pwrite", lambda fd, data, position: real_pwrite(fd, data[:3], position)),
        patch("os.pread", lambda fd, size, position: real_pread(fd, min(size, 3), position)),
    ):
        FILES.pwrite(descriptor, b"0123456789", 2)
        assert FILES.pread(descriptor, 8, 2) == b"01234567"
        assert FILES.pread(descriptor, 100, 9) == b"789"
        assert FILES.pread(descriptor, 5, 12) == b""
        assert FILES.read(tmp_path / "f") == b"\0\x000123456789"
    with patch("os.preadv", lambda fd, buffers, position: real_preadv(fd, [buffers[0][:3]], position)):
        buffer = memoryview(bytearray(8))
        assert FILES.pread_into(descriptor, buffer, 2) == 8
        assert bytes(buffer) == b"01234567"
        assert FILES.pread_into(descriptor, buffer, 9) == 3
        assert bytes(buffer[:3]) == b"789"
    FILES.close(descriptor)


def test_a_file_is_made_and_overwritten_without_a_call_that_truncates_it(tmp_path: Path) -> None:
    """ext4 writes a file that was truncated to nothing to the disk when it is closed; a new one it does not."""
    with patch("os.ftruncate", side_effect=AssertionError), patch("os.truncate", side_effect=AssertionError):
        for content in (b"0123456789", b"01", b""):
            write_file(FILES, tmp_path / "f", content)
            assert (tmp_path / "f").read_bytes() == content
            (tmp_path / "g.tmp").write_bytes(b"left behind by a crash")
            write_durably(FILES, tmp_path / "g", content)
            assert (tmp_path / "g").read_bytes() == content


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


@pytest.mark.parametrize("size", [1, 100_000, 1_000_000])
def test_bytes_that_were_just_written_are_in_the_page_cache(tmp_path: Path, size: int) -> None:
    write_file(FILES, tmp_path / "f", bytes(size + 10))
    files = RealFiles()
    descriptor = files.open(tmp_path / "f")
    # A file system that cannot say so leaves everything to the reads.
    assert files.pread_cached(descriptor, size, 5) == bytes(size)
    assert files.pread_cached(descriptor, size, 15) is None
    assert files.is_cached(descriptor, size, 5)
    assert files.is_cached(descriptor, size * 100, 5)
    assert files.is_cached(descriptor, 1, size * 100)
    files.close(descriptor)
    assert is_piece_cached(files, FilePiece(tmp_path / "f", 5, size))
    assert is_piece_cached(files, FilePiece(tmp_path / "missing", 0, size))


@pytest.mark.parametrize("size", [100, 100_000])
def test_bytes_that_are_not_in_the_page_cache_are_not_read(tmp_path: Path, size: int) -> None:
    write_file(FILES, tmp_path / "f", bytes(size))
    files = RealFiles()
    descriptor = files.open(tmp_path / "f")
    with patch("os.preadv", side_effect=BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable")):
        assert files.pread_cached(descriptor, size, 0) is None
    assert files.pread_cached(descriptor, size, 0) == bytes(size)
    files.close(descriptor)


@pytest.mark.parametrize("hole", [0, 262_144, 1_100_000 - 4096])
def test_a_hole_in_the_page_cache_is_seen_at_the_start_in_the_middle_and_at_the_end(tmp_path: Path, hole: int) -> None:
    size = 1_100_000
    write_file(FILES, tmp_path / "f", bytes(size))
    files = RealFiles()
    descriptor = files.open(tmp_path / "f")
    real_preadv = os.preadv

    def preadv(descriptor: int, buffers: Sequence[bytearray], position: int, flags: int) -> int:
        assert flags == os.RWF_NOWAIT
        if hole <= position < hole + 262_144:
            raise BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable")
        return real_preadv(descriptor, buffers, position)

    with patch("os.preadv", preadv):
        assert not files.is_cached(descriptor, size, 0)
        assert files.is_cached(descriptor, hole, 0) or not hole
        assert files.is_cached(descriptor, size - hole, hole + 262_144)
    files.close(descriptor)


@pytest.mark.parametrize("error_number", [errno.EOPNOTSUPP, errno.ENOSYS])
def test_a_file_system_that_cannot_say_what_is_cached_is_named_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, error_number: int
) -> None:
    write_file(FILES, tmp_path / "f", b"0123456789")
    files = RealFiles()
    descriptor = files.open(tmp_path / "f")
    with patch("os.preadv", side_effect=OSError(error_number, os.strerror(error_number))) as asked:
        for _ in range(3):
            assert files.is_cached(descriptor, 10, 0)
            assert files.pread_cached(descriptor, 10, 0) == b"0123456789"
    assert asked.call_count == 1
    (line,) = caplog.messages
    assert line.startswith(f"the file system of {tmp_path}/f cannot say what is in the page cache (RWF_NOWAIT)")
    files.close(descriptor)


def test_an_error_of_the_disk_is_left_to_the_read(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    write_file(FILES, tmp_path / "f", b"0123456789")
    files = RealFiles()
    descriptor = files.open(tmp_path / "f")
    with patch("os.preadv", side_effect=OSError(errno.EIO, "Input/output error")):
        assert files.is_cached(descriptor, 10, 0)
        assert files.pread_cached(descriptor, 10, 0) == b"0123456789"
    assert files.is_cached(descriptor, 10, 0)
    assert not caplog.messages
    files.close(descriptor)


@pytest.mark.parametrize("size", [0, 1, 300_000, 20_000_000, 40_000_000])
@pytest.mark.parametrize("has_sendfile", [True, False])
def test_pieces_are_brought_into_the_cache_whatever_their_size(tmp_path: Path, size: int, has_sendfile: bool) -> None:
    path = tmp_path / "f"
    with path.open("wb") as file:
        file.truncate(20_000_000)
    taken = 0
    real_sendfile, real_pread = os.sendfile, os.pread

    def sendfile(to: int, descriptor: int, position: int, size: int) -> int:
        nonlocal taken
        if not has_sendfile:
            raise OSError(errno.EINVAL, "Invalid argument")
        assert position == 7 + taken
        got = real_sendfile(to, descriptor, position, min(size, 7_000_000))
        taken += got
        return got

    def pread(descriptor: int, size: int, position: int) -> bytes:
        nonlocal taken
        assert not has_sendfile
        assert position == 7 + taken
        got = real_pread(descriptor, size, position)
        taken += len(got)
        return got

    with patch("os.sendfile", sendfile), patch("os.pread", pread):
        RealFiles().bring_into_cache(FilePiece(path, 7, size))
    assert taken == min(size, 20_000_000 - 7)
    with pytest.raises(FileNotFoundError):
        FILES.bring_into_cache(FilePiece(tmp_path / "missing", 0, 10))


def test_an_error_of_the_disk_ends_bringing(tmp_path: Path) -> None:
    write_file(FILES, tmp_path / "f", b"0123456789")
    with (
        patch("os.sendfile", side_effect=OSError(errno.EIO, "Input/output error")),
        pytest.raises(OSError, match="outp"),
    ):
        FILES.bring_into_cache(FilePiece(tmp_path / "f", 0, 10))
