"""Replaces a file as a whole, so that no reader and no crash finds half of it."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


@contextmanager
def replaced_whole(path: Path) -> Iterator[Path]:
    """Yield the path to write to: a temporary file beside `path`, renamed over it after the body.

    A link is followed. A device or a pipe is yielded itself, because a rename would put a file in its place. After an
    exception the old file is there as before, and no other. Raises OSError.
    """
    target = None if _is_special(path) else path.resolve()
    written = path if target is None else target.with_name(target.name + ".tmp")
    try:
        if target is not None:
            written.unlink(missing_ok=True)  # an older one may have another mode
        yield written
        if target is not None:
            written.replace(target)
    except BaseException as error:
        if target is not None:
            with suppress(OSError):
                written.unlink(missing_ok=True)
        if isinstance(error, OSError) and error.filename in (None, str(written)):
            error.filename = str(path)  # a write that fails names no file
        raise


def write_atomically(path: Path, text: str, *, mode: int = 0o666) -> None:
    """Write a file in UTF-8, on the disk before it has its name; `mode` is reduced by the umask. Raises OSError."""
    with replaced_whole(path) as written:
        is_special = written is path
        create = 0 if is_special else os.O_CREAT | os.O_EXCL
        descriptor = os.open(written, os.O_WRONLY | create, mode)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            if not is_special:
                os.fsync(descriptor)


def flush_to_disk(path: Path) -> None:
    """Return when what a file holds, or which names a folder has, is on the disk. Raises OSError."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _is_special(path: Path) -> bool:
    # The kernel follows the links here, so its guards (fs.protected_symlinks) hold for what is written, too.
    try:
        return not stat.S_ISREG(path.stat().st_mode)
    except FileNotFoundError:
        return False
