"""The one module of the log that calls the operating system: pread, pwrite, fsync, rename.

All other modules get a `FileOperations`. Tests give them a file system that fails at a chosen operation, or that loses
what no fsync brought to the disk, as a power cut does. Descriptors are plain integers; paths are absolute.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import logging
import os
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple, Protocol

from highwater.kafka.records.batch import ReadableBuffer

# linux/falloc.h: reserve blocks past the end of the file without moving the end.
_FALLOC_FL_KEEP_SIZE: Final = 1
DISK_IS_FULL: Final = (errno.ENOSPC, errno.EDQUOT)
OUT_OF_DESCRIPTORS: Final = (errno.EMFILE, errno.ENFILE)
MAY_PASS: Final = (*DISK_IS_FULL, *OUT_OF_DESCRIPTORS)
"""Errors that damage nothing: the same work may succeed later."""
TEMPORARY_SUFFIX: Final = ".tmp"
"""The suffix of a file that will replace another one: see `write_durably`."""
_LOOK_EVERY_BYTES: Final = 256 * 1024
"""`is_cached` looks at one byte in so many. A smaller hole in the page cache is not seen, and costs one wait."""
_LOOK_FROM_BYTES: Final = 64 * 1024
"""The size from which `is_cached` and a plain read cost less than `preadv`, whose buffer has to be zeroed."""
# struct flock: type, whence, start, length (0: to the end), pid.
_WHOLE_FILE_WRITE_LOCK: Final = struct.pack("hhqqi", fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
_ONE_BYTE: Final = (bytearray(1),)
_COPIED_BYTES: Final = 1024 * 1024

_logger = logging.getLogger(__name__)


class FilePiece(NamedTuple):
    """A part of a file, which may reach past its end."""

    path: Path
    position: int
    size: int


class Entry(NamedTuple):
    """One name in a directory."""

    name: str
    is_directory: bool
    size_bytes: int


class Stamp(NamedTuple):
    """A change of a file gives it another one."""

    size_bytes: int
    modified_ns: int
    """The wall clock at the last change."""


class FileOperations(Protocol):
    """What the log needs of a file system; every method raises OSError on failure."""

    def open(self, path: Path, *, create: bool = False, empty: bool = False, is_private: bool = False) -> int:
        """Open for reading and writing; with `empty`, without what the file held.

        is_private: only this user may read it.
        """

    def close(self, descriptor: int) -> None: ...

    def pread(self, descriptor: int, size: int, position: int) -> bytes:
        """Up to `size` bytes, fewer only at the end of the file."""

    def pread_into(self, descriptor: int, buffer: memoryview, position: int) -> int:
        """Fill the buffer; returns how many bytes were read, fewer only at the end of the file."""

    def pread_cached(self, descriptor: int, size: int, position: int) -> bytes | bytearray | None:
        """All `size` bytes if the page cache has them, as `is_cached` says; else None, and at the end of the file."""

    def is_cached(self, descriptor: int, size: int, position: int) -> bool:
        """Whether the page cache has these bytes, by a look at some of them; True where nobody can say."""

    def bring_into_cache(self, piece: FilePiece) -> None:
        """Have a part of a file read into the page cache; blocks, and may run in any thread."""

    def pwrite(self, descriptor: int, data: ReadableBuffer, position: int) -> None:
        """Write all of `data`. After an OSError some of it may be written."""

    def pwritev(self, descriptor: int, pieces: Sequence[ReadableBuffer], position: int) -> None:
        """Write all of the pieces, one behind the other, as `pwrite` does."""

    def truncate(self, descriptor: int, size: int) -> None: ...

    def preallocate(self, descriptor: int, size: int) -> None:
        """Reserve blocks up to `size`; the file's size stays."""

    def sync(self, descriptor: int) -> None:
        """fsync: the data of the file, and its size, survive a power cut after this."""

    def sync_directory(self, path: Path) -> None:
        """fsync of a directory: the names in it survive a power cut after this."""

    def read(self, path: Path) -> bytes: ...

    def exists(self, path: Path) -> bool: ...

    def list(self, path: Path) -> list[Entry]:
        """The names in a directory, without those that somebody removes meanwhile."""

    def volume_size(self, path: Path) -> tuple[int, int]:
        """(bytes in all, bytes that can still be written) of the volume that has the directory."""

    def stamp(self, path: Path) -> Stamp:
        """The size of a file, and when its content last changed; of a directory, when its names last changed."""

    def make_directory(self, path: Path) -> None: ...

    def rename(self, old: Path, new: Path) -> None:
        """Atomic; replaces a file that has the new name."""

    def remove(self, path: Path) -> None: ...

    def remove_directory(self, path: Path) -> None: ...

    def lock(self, path: Path) -> int | None:
        """Create a file and lock it until its descriptor is closed; None if somebody else holds the lock."""


class RealFiles:
    """Linux."""

    __slots__ = ("_without_nowait",)

    def __init__(self) -> None:
        self._without_nowait: set[int] = set()
        """The devices of file systems that cannot say whether a read would wait."""

    def open(self, path: Path, *, create: bool = False, empty: bool = False, is_private: bool = False) -> int:
        flags = os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT if create else 0) | (os.O_TRUNC if empty else 0)
        descriptor = os.open(path, flags, 0o600 if is_private else 0o644)
        if is_private:
            with contextlib.suppress(PermissionError):  # It may belong to another user, who lets this one write it.
                os.fchmod(descriptor, 0o600)  # An earlier version may have made it.
        return descriptor

    def close(self, descriptor: int) -> None:
        os.close(descriptor)

    def pread(self, descriptor: int, size: int, position: int) -> bytes:
        data = os.pread(descriptor, size, position)
        if len(data) == size or not data:
            return data
        # One call returns at most 2 GiB − 4 KiB, and may be cut short by a signal.
        parts = [data]
        done = len(data)
        while done < size and (data := os.pread(descriptor, size - done, position + done)):
            parts.append(data)
            done += len(data)
        return b"".join(parts)

    def pread_into(self, descriptor: int, buffer: memoryview, position: int) -> int:
        done = os.preadv(descriptor, (buffer,), position)
        while done < len(buffer) and (more := os.preadv(descriptor, (buffer[done:],), position + done)):
            done += more
        return done

    def pread_cached(self, descriptor: int, size: int, position: int) -> bytes | bytearray | None:
        if size < _LOOK_FROM_BYTES and not self._without_nowait:
            data = bytearray(size)
            try:
                return data if os.preadv(descriptor, (data,), position, os.RWF_NOWAIT) == size else None
            except OSError:
                pass  # `is_cached` finds out why
        if not self.is_cached(descriptor, size, position):
            return None
        whole = self.pread(descriptor, size, position)
        return whole if len(whole) == size else None

    def is_cached(self, descriptor: int, size: int, position: int) -> bool:
        # A read of one byte shows whether the page is there and whole. cachestat(2) also counts pages that the disk is
        # still reading, and mincore(2) needs a mapping of the file, which costs more than these reads.
        if self._without_nowait and os.fstat(descriptor).st_dev in self._without_nowait:
            return True
        last = position + size - 1
        try:
            for at in range(position, last, _LOOK_EVERY_BYTES):
                if not os.preadv(descriptor, _ONE_BYTE, at, os.RWF_NOWAIT):
                    return True  # the end of the file
            os.preadv(descriptor, _ONE_BYTE, last, os.RWF_NOWAIT)
        except BlockingIOError:
            return False
        except OSError as error:
            # Anything else that is wrong is reported by the read itself.
            if error.errno in (errno.EOPNOTSUPP, errno.ENOSYS):
                self._note_without_nowait(descriptor)
        return True

    def _note_without_nowait(self, descriptor: int) -> None:
        self._without_nowait.add(os.fstat(descriptor).st_dev)
        _logger.warning(
            "the file system of %s cannot say what is in the page cache (RWF_NOWAIT): fetches of records that are not "
            "there stop all clients until the disk has them",
            Path(f"/proc/self/fd/{descriptor}").readlink(),
        )

    def bring_into_cache(self, piece: FilePiece) -> None:
        position, end = piece.position, piece.position + piece.size
        descriptor = os.open(piece.path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            nowhere = os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)
            try:
                # Few long calls: each one takes the interpreter's lock from the event loop when it returns.
                while position < end and (size := os.sendfile(nowhere, descriptor, position, end - position)):
                    position += size
            except OSError as error:
                if error.errno not in (errno.EINVAL, errno.ENOSYS):
                    raise
                # A file system without sendfile: copy the bytes.
                while position < end and (data := os.pread(descriptor, min(_COPIED_BYTES, end - position), position)):
                    position += len(data)
            finally:
                os.close(nowhere)
        finally:
            os.close(descriptor)

    def pwrite(self, descriptor: int, data: ReadableBuffer, position: int) -> None:
        written = os.pwrite(descriptor, data, position)
        if written == len(data):
            return
        view = memoryview(data)
        while written < len(view):
            written += os.pwrite(descriptor, view[written:], position + written)

    def pwritev(self, descriptor: int, pieces: Sequence[ReadableBuffer], position: int) -> None:
        written = os.pwritev(descriptor, pieces, position)
        if written != sum(map(len, pieces)):
            self.pwrite(descriptor, b"".join(pieces)[written:], position + written)

    def truncate(self, descriptor: int, size: int) -> None:
        os.ftruncate(descriptor, size)

    def preallocate(self, descriptor: int, size: int) -> None:
        libc = ctypes.CDLL(None, use_errno=True)
        result = libc.fallocate(descriptor, _FALLOC_FL_KEEP_SIZE, ctypes.c_int64(0), ctypes.c_int64(size))
        # Without fallocate the writes take less even times, and nothing else changes.
        if result != 0 and ctypes.get_errno() != errno.EOPNOTSUPP:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))

    def sync(self, descriptor: int) -> None:
        os.fdatasync(descriptor)

    def sync_directory(self, path: Path) -> None:
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def read(self, path: Path) -> bytes:
        # A start reads several small files of each partition: `Path.read_bytes` makes nine system calls for each.
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            return self.pread(descriptor, os.fstat(descriptor).st_size, 0)
        except OSError as error:
            error.filename = str(path)
            raise
        finally:
            os.close(descriptor)

    def exists(self, path: Path) -> bool:
        return path.exists()

    def list(self, path: Path) -> list[Entry]:
        entries = []
        with os.scandir(path) as found:
            for entry in found:
                is_directory = entry.is_dir()
                try:
                    entries.append(Entry(entry.name, is_directory, 0 if is_directory else entry.stat().st_size))
                except FileNotFoundError:
                    continue
        return entries

    def volume_size(self, path: Path) -> tuple[int, int]:
        volume = os.statvfs(path)
        return volume.f_blocks * volume.f_frsize, volume.f_bavail * volume.f_frsize

    def stamp(self, path: Path) -> Stamp:
        found = path.stat()
        return Stamp(found.st_size, found.st_mtime_ns)

    def make_directory(self, path: Path) -> None:
        path.mkdir()

    def rename(self, old: Path, new: Path) -> None:
        old.rename(new)

    def remove(self, path: Path) -> None:
        path.unlink()

    def remove_directory(self, path: Path) -> None:
        path.rmdir()

    def lock(self, path: Path) -> int | None:
        descriptor = self.open(path, create=True)
        try:
            # An open file description lock (fcntl(2)) keeps out Apache Kafka, whose Java takes a POSIX lock, and
            # another broker even in this process; closing another descriptor of the file does not release it.
            fcntl.fcntl(descriptor, fcntl.F_OFD_SETLK, _WHOLE_FILE_WRITE_LOCK)
        except OSError as error:
            os.close(descriptor)
            if error.errno in (errno.EAGAIN, errno.EACCES):
                return None
            raise
        return descriptor


def is_piece_cached(files: FileOperations, piece: FilePiece) -> bool:
    """Whether the page cache has a part of a file, by its name. True for a missing file: opening it fails at once."""
    try:
        descriptor = files.open(piece.path)
    except FileNotFoundError:
        return True
    try:
        return files.is_cached(descriptor, piece.size, piece.position)
    finally:
        files.close(descriptor)


def write_file(files: FileOperations, path: Path, data: bytes) -> None:
    """Make or overwrite a file, without fsync."""
    # No truncation of a file that is new: ext4 would write its blocks to the disk when it is closed (auto_da_alloc).
    descriptor = files.open(path, create=True, empty=True)
    try:
        if data:
            files.pwrite(descriptor, data, 0)
    finally:
        files.close(descriptor)


def write_durably(files: FileOperations, path: Path, data: bytes, *, is_private: bool = False) -> None:
    """Replace a file. After a crash or a power cut at any moment, either the old or the new content is there, whole.

    is_private: only the broker's user may read it.
    """
    temporary = path.with_name(path.name + TEMPORARY_SUFFIX)
    descriptor = files.open(temporary, create=True, empty=True, is_private=is_private)
    try:
        files.pwrite(descriptor, data, 0)
        files.sync(descriptor)
    finally:
        files.close(descriptor)
    files.rename(temporary, path)
    files.sync_directory(path.parent)


def sync_file(files: FileOperations, path: Path) -> None:
    """fsync a file by its name; a file that retention or deletion removed meanwhile needs no fsync."""
    try:
        descriptor = files.open(path)
    except FileNotFoundError:
        return
    try:
        files.sync(descriptor)
    finally:
        files.close(descriptor)
