"""Asks cachestat(2), from Linux 6.5 on, what the page cache holds of a file."""

from __future__ import annotations

import ctypes
import mmap
import os
from pathlib import Path
from typing import Final, NamedTuple

_libc = ctypes.CDLL(None, use_errno=True)
_CACHESTAT: Final = 451  # the same number on every architecture but Alpha


class CachedBytes(NamedTuple):
    resident_bytes: int
    unwritten_bytes: int
    """Not on the disk yet: dirty, or on the way."""


class _Range(ctypes.Structure):
    _fields_ = (("offset", ctypes.c_uint64), ("length", ctypes.c_uint64))


class _CacheStat(ctypes.Structure):
    _fields_ = tuple((name, ctypes.c_uint64) for name in ("cache", "dirty", "writeback", "evicted", "recently_evicted"))


def cachestat(path: Path | str) -> CachedBytes | None:
    """None for a file that is gone. Raises OSError if the kernel has no cachestat or forbids it."""
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        return None
    try:
        whole, stat = _Range(0, 0), _CacheStat()  # length 0: to the end of the file
        if _libc.syscall(_CACHESTAT, descriptor, ctypes.byref(whole), ctypes.byref(stat), 0):
            refused = ctypes.get_errno()
            raise OSError(refused, f"cachestat: {os.strerror(refused)}", str(path))
    finally:
        os.close(descriptor)
    resident, unwritten = int(stat.cache), int(stat.dirty) + int(stat.writeback)
    return CachedBytes(resident * mmap.PAGESIZE, unwritten * mmap.PAGESIZE)
