"""All access to a host's files, below a root that may be a captured or a fake tree."""

from __future__ import annotations

import errno
import fcntl
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Final

from ..common.atomic_files import flush_to_disk
from .errors import TuningError

_CHUNK_BYTES: Final = 65_536
_MOST_LINKS: Final = 40
_NULL_DEVICE: Final = os.makedev(1, 3)
# O_NONBLOCK: opening a pipe in a file's place must not wait for a writer; it is refused afterwards.
_TO_READ: Final = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK


@dataclass(frozen=True)
class Reading:
    """A file's text without surrounding white space, or the reason why there is none."""

    text: str | None
    reason: str = ""


@dataclass(frozen=True)
class Attributes:
    """The attributes of a file. `regular` is False for links, devices, folders, and a file with several names."""

    regular: bool
    mode: int
    user_id: int
    group_id: int
    size_bytes: int


class HostFiles:
    """Reads and writes absolute host paths below `root`.

    Reading never raises; a failed `Reading` has the reason. Nothing is cached, so that reading back after a write shows
    the actual content. Writing raises OSError.
    """

    def __init__(self, root: Path = Path("/")) -> None:
        self.root = root
        self._above = "" if root == Path("/") else str(root)

    @property
    def is_running_system(self) -> bool:
        """Whether the root is the host that runs this program, so that its kernel can be asked."""
        return self.root == Path("/")

    def locate(self, path: str) -> Path:
        return Path(self._above + path)

    def read(self, path: str) -> Reading:
        try:
            return Reading(self._bytes_of(path).decode("utf-8", errors="replace").strip())
        except FileNotFoundError:
            return Reading(None, f"{path} does not exist")
        except OSError as error:
            return Reading(None, f"{path} cannot be read: {error.strerror or error}")
        except ValueError:  # a path built from another file's content may contain a null byte
            return Reading(None, f"{path!r} cannot be read: it is not a path")

    def read_verbatim(self, path: str) -> str | None:
        """The whole text of a configuration file, None when the file does not exist.

        Bytes that are no UTF-8 are kept as surrogates, and `replace_file` writes them back. Raises TuningError for an
        existing file that cannot be read, as a caller would overwrite a missing file.
        """
        try:
            return self._bytes_of(path).decode("utf-8", errors="surrogateescape")
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else error
            raise TuningError(f"{path} cannot be read ({reason}); make it readable") from error

    def read_of_others(self, path: str) -> str | None:
        """The whole text of a file that Highwater never writes, with any bytes; None when it cannot be read."""
        try:
            return self._bytes_of(path).decode("utf-8", errors="replace")
        except (OSError, ValueError):
            return None

    def names(self, path: str) -> list[str]:
        """Names in a directory in order; empty when the directory does not exist."""
        try:
            return sorted(entry.name for entry in self.locate(path).iterdir())
        except (OSError, ValueError):
            return []

    def link(self, path: str) -> str | None:
        try:
            return str(self.locate(path).readlink())
        except (OSError, ValueError):
            return None

    def exists(self, path: str) -> bool:
        return self.locate(path).exists()

    def is_folder(self, path: str) -> bool:
        return self.locate(path).is_dir()

    def real_path(self, path: str) -> str:
        """The path without `..`; on the running system also without links."""
        return os.path.realpath(self.locate(path)) if self.is_running_system else os.path.normpath(path)

    def is_on_read_only(self, path: str) -> bool:
        """Whether the file system of this path is read-only; False when that is unknown."""
        try:
            return bool(os.statvfs(self.locate(path)).f_flag & os.ST_RDONLY)
        except OSError:
            return False

    def may_write(self, path: str) -> bool:
        """Whether this process may write a file, by access(2), which considers each file's own rules."""
        return os.access(self.locate(path), os.W_OK)

    def modified_s(self, path: str) -> float | None:
        """The time of the last write, in seconds since the epoch; None when the file does not exist."""
        try:
            return self.locate(path).stat().st_mtime
        except (OSError, ValueError):
            return None

    def attributes(self, path: str) -> Attributes | None:
        """The attributes of the name itself; links are not followed. None when the name does not exist."""
        try:
            found = self.locate(path).lstat()
        except (OSError, ValueError):
            return None
        return Attributes(
            regular=stat.S_ISREG(found.st_mode) and found.st_nlink == 1,
            mode=stat.S_IMODE(found.st_mode),
            user_id=found.st_uid,
            group_id=found.st_gid,
            size_bytes=found.st_size,
        )

    def writable_by_others(self, path: str) -> str:
        """The first folder or link on the way to `path`, or `path` itself, that another user may change.

        Others are all users but root and the user of this process. Empty when nobody else may; a part that does not
        exist ends the way. Raises OSError for a path that cannot be looked at.
        """
        place, links = PurePosixPath("/"), 0
        waiting = list(reversed(PurePosixPath(path).parts[1:]))
        while waiting:
            name = waiting.pop()
            place = place.parent if name == ".." else place / name
            try:
                found = self.locate(str(place)).lstat()
            except FileNotFoundError:
                return ""
            if _may_be_changed_by_others(found):
                return str(place)
            if stat.S_ISLNK(found.st_mode):
                links += 1
                if links > _MOST_LINKS:
                    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
                link = PurePosixPath(self.locate(str(place)).readlink())
                place = PurePosixPath("/") if link.is_absolute() else place.parent
                waiting += reversed([part for part in link.parts if part != "/"])
        return ""

    def missing_folders(self, path: str) -> tuple[str, ...]:
        """The folders above `path` that do not exist, the outermost first."""
        parents = [str(parent) for parent in PurePosixPath(path).parents]
        return tuple(reversed([parent for parent in parents if not self.exists(parent)]))

    def process_started(self, pid: int) -> str:
        """The start time of a process, in ticks since boot; empty when the process has ended."""
        text = self.read(f"/proc/{pid}/stat").text
        # The second field, the name, is in brackets and may contain any character.
        fields = text.rpartition(")")[2].split() if text else []
        return fields[19] if len(fields) > 19 else ""

    def write_setting(self, path: str, text: str) -> None:
        """Write a kernel setting in one write call, as /proc and /sys require."""
        descriptor = os.open(self._inside(self.locate(path)), os.O_WRONLY | os.O_TRUNC | os.O_NOCTTY)
        try:
            os.write(descriptor, (text + "\n").encode())
        finally:
            os.close(descriptor)

    def replace_file(self, path: str, text: str, mode: int, owner: tuple[int, int] | None = None) -> None:
        """Replace a file atomically and durably: after a crash, either the old or the new file exists.

        owner: ids of user and group; None: those of the writing process. Missing folders are created.
        """
        target = self.locate(path)
        self._inside(target.parent)
        target.parent.mkdir(parents=True, exist_ok=True)
        temporary = _temporary(target)
        try:
            self._write_whole(temporary, text, mode, owner)
            _copy_extended_attributes(target, temporary)
            self._put_in_place(temporary, target)
        except OSError:
            temporary.unlink(missing_ok=True)
            raise
        flush_to_disk(target.parent)

    def discard_temporary(self, path: str) -> None:
        """Remove the temporary file that a killed `replace_file` left beside its target."""
        _temporary(self.locate(path)).unlink(missing_ok=True)

    def remove_file(self, path: str) -> None:
        """Remove a file durably."""
        target = self.locate(path)
        self._inside(target.parent)
        target.unlink()
        flush_to_disk(target.parent)

    def append(self, path: str, text: str, *, durable: bool, private: bool = False) -> None:
        """Append to a file, in one write call; a missing file is created, readable by everybody.

        durable: flush the data and the file's name before this returns. private: make it readable by its owner alone.
        """
        target = self._inside(self.locate(path))
        is_new = not target.exists()
        descriptor = os.open(target, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644)
        try:
            if private:
                os.fchmod(descriptor, 0o600)
            data = text.encode()
            if os.write(descriptor, data) != len(data):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            if durable:
                os.fsync(descriptor)
        finally:
            os.close(descriptor)
        if durable and is_new:
            flush_to_disk(target.parent)

    def cut(self, path: str, size_bytes: int) -> None:
        """Truncate a file durably."""
        descriptor = os.open(self._inside(self.locate(path)), os.O_WRONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        try:
            os.ftruncate(descriptor, size_bytes)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def make_folder(self, path: str) -> None:
        """Create one folder durably; its parent must exist."""
        target = self._inside(self.locate(path))
        target.mkdir(mode=0o755)
        flush_to_disk(target.parent)

    def remove_folder_if_empty(self, path: str) -> None:
        """Remove a folder if it exists, is empty and is no mount point."""
        target = self.locate(path)
        try:
            target.rmdir()
        except OSError as error:
            if error.errno in (errno.ENOENT, errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR, errno.EBUSY):
                return
            raise
        flush_to_disk(target.parent)

    @contextmanager
    def lock_folder(self, path: str) -> Iterator[None]:
        """Lock a folder for the body.

        Commands inherit the lock: a swapoff may run for minutes after the process that started it was killed. Raises
        BlockingIOError when another process has the lock. The folder may be removed while it is locked.
        """
        descriptor = os.open(self.locate(path), os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        try:
            os.set_inheritable(descriptor, True)
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            here = self.locate(path)
            if not here.exists() or not os.path.samestat(os.fstat(descriptor), here.stat()):
                raise BlockingIOError(errno.EAGAIN, "the folder has just been removed")
            yield
        finally:
            os.close(descriptor)

    def _bytes_of(self, path: str, links: int = 0) -> bytes:
        """Read a file. A link to an absolute path is followed inside the tree, as on the original host."""
        name = str(self.locate(path))
        try:
            descriptor = os.open(name, _TO_READ | (os.O_NOFOLLOW if self._above else 0))
        except OSError as error:
            if error.errno != errno.ELOOP or not self._above or links == _MOST_LINKS:
                raise
            link = str(Path(name).readlink())
            if link.startswith("/"):
                return self._bytes_of(link, links + 1)
            descriptor = os.open(name, _TO_READ)
        try:
            if not _is_a_file(os.fstat(descriptor)):
                raise OSError(errno.EINVAL, "it is not a regular file")
            chunks = []
            while chunk := os.read(descriptor, _CHUNK_BYTES):
                chunks.append(chunk)
            return b"".join(chunks)
        finally:
            os.close(descriptor)

    def _write_whole(self, temporary: Path, text: str, mode: int, owner: tuple[int, int] | None) -> None:
        temporary.unlink(missing_ok=True)
        with temporary.open("x", encoding="utf-8", errors="surrogateescape", newline="") as file:
            if owner is not None:
                os.fchown(file.fileno(), *owner)
            os.fchmod(file.fileno(), mode)
            file.write(text)
            file.flush()
            os.fsync(file.fileno())

    def _put_in_place(self, temporary: Path, target: Path) -> None:
        temporary.replace(target)

    def _inside(self, target: Path) -> Path:
        """Return `target`. Raises OSError when a link in a captured tree leads out of it, to this machine's files."""
        if self.root != Path("/") and not target.resolve().is_relative_to(self.root.resolve()):
            raise OSError(errno.EXDEV, "a symbolic link leads out of the captured tree")
        return target


def readable(text: str) -> str:
    """A text of `read_verbatim` for people and for JSON: bytes that are no UTF-8 become U+FFFD."""
    return text.encode("utf-8", errors="surrogateescape").decode("utf-8", errors="replace")


def _is_a_file(found: os.stat_result) -> bool:
    """Not a pipe, nor a device except /dev/null, which masks a file. Reading a folder fails by itself."""
    return stat.S_ISREG(found.st_mode) or stat.S_ISDIR(found.st_mode) or found.st_rdev == _NULL_DEVICE


def _may_be_changed_by_others(found: os.stat_result) -> bool:
    """Whether a user who is neither root nor this process's may change a file, or what a folder's names stand for."""
    if found.st_uid not in (0, os.geteuid()):
        return True
    if stat.S_ISLNK(found.st_mode) or (stat.S_ISDIR(found.st_mode) and found.st_mode & stat.S_ISVTX):
        return False  # a link has no mode of its own; in a sticky folder, only owners replace their files
    shared = stat.S_IWOTH if found.st_gid in (0, os.getegid()) else stat.S_IWOTH | stat.S_IWGRP
    return bool(found.st_mode & shared)


def _temporary(target: Path) -> Path:
    return target.with_name(f".{target.name}.tmp")


def _copy_extended_attributes(source: Path, target: Path) -> None:
    """Give `target` the access list and the labels of `source`, if that exists and its file system has them."""
    with suppress(OSError):
        for name in os.listxattr(source):
            with suppress(OSError):
                os.setxattr(target, name, os.getxattr(source, name))
