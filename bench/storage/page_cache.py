"""Files out of the page cache and into it, and how much of them it holds. The host's settings are left alone."""

from __future__ import annotations

import ctypes
import mmap
import os
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from bench.errors import TrialError

_libc = ctypes.CDLL(None, use_errno=True)


def evict(paths: Iterable[Path]) -> None:
    """Write `paths` to disk and drop them from the page cache. Raises TrialError when much of them stays."""
    paths = list(paths)
    for path in paths:
        with path.open("rb") as file:
            os.fdatasync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    size_bytes = sum(path.stat().st_size for path in paths)
    if (left := resident_bytes(paths)) > size_bytes // 100:
        raise TrialError(f"{left} of {size_bytes} bytes stay in the page cache, so a read would not be cold")


def warm(paths: Iterable[Path]) -> None:
    """Read `paths` into the page cache."""
    buffer = bytearray(1 << 20)
    for path in paths:
        with path.open("rb", buffering=0) as file:
            while file.readinto(buffer):
                pass


def resident_bytes(paths: Iterable[Path]) -> int:
    """How much of `paths` the page cache holds (mincore(2))."""
    pages = 0
    for path in paths:
        size_bytes = path.stat().st_size
        if size_bytes == 0:
            continue
        with path.open("rb") as file, mmap.mmap(file.fileno(), size_bytes, access=mmap.ACCESS_READ) as mapped:
            view = np.frombuffer(mapped, np.uint8)
            states = np.zeros(-(-size_bytes // mmap.PAGESIZE), np.uint8)
            address, length = ctypes.c_void_p(view.ctypes.data), ctypes.c_size_t(size_bytes)
            failed = _libc.mincore(address, length, ctypes.c_void_p(states.ctypes.data))
            del view  # a mapping that somebody points into cannot be closed
            if failed:
                raise OSError(ctypes.get_errno(), "mincore", str(path))
            pages += int((states & 1).sum())
    return pages * mmap.PAGESIZE
