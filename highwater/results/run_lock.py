"""The lock of a result directory: one run at a time; the kernel drops it when its holder dies.

The file also names the process that has the lock, for error messages and people. On a file system without flock(2) the
run fails with an error instead of running without a lock.
"""

from __future__ import annotations

import fcntl
import os
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from highwater.common.errors import UsageError

LOCK_NAME: Final = "run.lock"
# The age from which a directory without a locked file counts as abandoned: a new run locks it within this time.
_SETTLED_S: Final = 5.0


class RunLock:
    """A lock on a directory, from `take` until `release` or the end of the process."""

    def __init__(self, path: Path, descriptor: int) -> None:
        self._path = path
        self._descriptor = descriptor

    @classmethod
    def take(cls, directory: Path) -> RunLock:
        """Lock a directory. Raises UsageError when another process holds it, OSError when it cannot be locked."""
        path = directory / LOCK_NAME
        while True:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                holder = os.pread(descriptor, 200, 0).decode("utf-8", "replace").strip() or "another process"
                os.close(descriptor)
                if isinstance(error, BlockingIOError):
                    raise UsageError(
                        f"{directory} is in use by {holder}; wait for it, or name another directory"
                    ) from None
                raise
            # The last holder may have deleted the file between the two calls: then the lock is on a deleted file.
            if path.exists() and os.fstat(descriptor).st_ino == path.stat().st_ino:
                break
            os.close(descriptor)
        started_utc = datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"process {os.getpid()}, started {started_utc}\n".encode(), 0)
        return cls(path, descriptor)

    def release(self) -> None:
        """Delete the file and unlock."""
        self._path.unlink(missing_ok=True)
        os.close(self._descriptor)


def is_locked(directory: Path) -> bool:
    """Whether a run works in this directory now."""
    try:
        descriptor = os.open(directory / LOCK_NAME, os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(descriptor)
    return False


def is_abandoned(directory: Path) -> bool:
    """Whether a run made and locked this directory, and ended without removing it."""
    path = directory / LOCK_NAME
    try:
        if time.time() - path.stat().st_mtime < _SETTLED_S:
            return False
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    finally:
        os.close(descriptor)
    return True
