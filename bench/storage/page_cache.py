"""Evicts files from the page cache, loads them, and measures cached and dirty bytes.

The host's settings are left alone.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Final, Literal, NamedTuple

import numpy as np

from highwater.common.cachestat import cachestat
from highwater.common.errors import TrialError
from highwater.results.storage import CacheDrop

_libc = ctypes.CDLL(None, use_errno=True)
_DROP_CACHES: Final = Path("/proc/sys/vm/drop_caches")
_PAGE_CACHE_ONLY: Final = "1"
EVICTED_WITHIN_S: Final = 5.0
"""The kernel keeps pages that somebody uses at that moment: another processor that just read them, or write-back."""
_ASK_AGAIN_S: Final = 0.05


class CacheState(NamedTuple):
    """What the page cache holds of some files."""

    method: Literal["cachestat", "mincore"]
    resident_bytes: int
    unwritten_bytes: int | None
    """Bytes not on the disk yet; None without cachestat, since mincore has no such figure."""


def evict(paths: Iterable[Path]) -> None:
    """Write `paths` to disk and drop them from the page cache. Raises TrialError when much of them stays in it."""
    paths = list(paths)
    deadline_s = time.monotonic() + EVICTED_WITHIN_S
    while True:
        for path in paths:
            with path.open("rb") as file:
                os.fdatasync(file.fileno())
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        size_bytes = sum(path.stat().st_size for path in paths)
        if (left := resident_bytes(paths)) <= size_bytes // 100:
            return
        if time.monotonic() >= deadline_s:
            raise TrialError(f"{left} of {size_bytes} bytes stay in the page cache, so a read would not be cold")
        time.sleep(_ASK_AGAIN_S)


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
            del view  # a mapping with a view cannot be closed
            if failed:
                raise OSError(ctypes.get_errno(), "mincore", str(path))
            pages += int((states & 1).sum())
    return pages * mmap.PAGESIZE


def cache_state(paths: Iterable[Path]) -> CacheState:
    """The state by cachestat(2), or by mincore(2) on kernels without it. A deleted file counts as 0."""
    paths = list(paths)
    try:
        found = [state for path in paths if (state := cachestat(path)) is not None]
    except OSError:
        return CacheState("mincore", resident_bytes(path for path in paths if path.exists()), None)
    resident = sum(state.resident_bytes for state in found)
    return CacheState("cachestat", resident, sum(state.unwritten_bytes for state in found))


def drop_all(directory: Path) -> CacheDrop:
    """Write out the file system of `directory`, then drop all clean pages from the host's page cache."""
    try:
        descriptor = os.open(directory, os.O_RDONLY)
        try:
            _libc.syncfs(descriptor)
        finally:
            os.close(descriptor)
        _DROP_CACHES.write_text(_PAGE_CACHE_ONLY, encoding="ascii")
    except OSError:
        return "not_permitted"
    return "dropped"
