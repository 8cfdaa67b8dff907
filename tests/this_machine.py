"""The settings of this machine's kernel, to be changed by one test at a time: pytest runs a process for each core."""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

_LOCK: Final = Path("/proc/sys/vm/dirty_writeback_centisecs")


@contextmanager
def settings_alone() -> Iterator[None]:
    """Two tests at once would take each other's values for the machine's own, also those of another checkout."""
    with _LOCK.open() as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


@contextmanager
def settings_as_they_are() -> Iterator[None]:
    """No test changes them meanwhile: a benchmark does not begin beside one that holds a host profile."""
    with _LOCK.open() as file:
        fcntl.flock(file, fcntl.LOCK_SH)
        yield
