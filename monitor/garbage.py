"""Keeps snapshots out of garbage collection, which would stop every page for half a second."""

from __future__ import annotations

import ctypes
import gc
import time
from collections.abc import Callable
from typing import Final, Self

_PAUSE_SHARE: Final = 0.001
# Of glibc's malloc.h.
_M_MMAP_THRESHOLD: Final = -3
_M_ARENA_MAX: Final = -8
_LARGE_BYTES: Final = 128 * 1024


def hold_less_memory() -> None:
    """Let all threads of the process take memory from one arena, and large blocks from the kernel, from now on.

    By default glibc gives threads arenas of their own: one holds what a thread of the last tick freed, while a thread
    of this tick takes new memory. And it raises the size from which the kernel gets blocks back when they are freed:
    what small objects between large blocks keep is not used again. Another C library has nothing to set.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_ARENA_MAX, 1)
        mallopt(_M_MMAP_THRESHOLD, _LARGE_BYTES)


def let_go(parts: list[object]) -> None:
    """Free the parts of a snapshot one by one. To free all of them at once would stop every page meanwhile."""
    while parts:
        parts.pop()


class GarbageKeeper:
    """A context manager for the life of a monitor; `settle` is called at the end of each tick.

    A snapshot of 10,000 topics is a million objects without a cycle: their counts alone free them, and a collection
    that looks at all of them finds nothing. So there are no automatic collections, and what is there after a tick is
    frozen. Cycles, such as those of exceptions, are looked for so seldom that it takes a thousandth of the time.
    """

    def __init__(self, monotonic_s: Callable[[], float] = time.monotonic) -> None:
        self._monotonic_s = monotonic_s
        self._due_s = -float("inf")

    def __enter__(self) -> Self:
        gc.disable()
        return self

    def __exit__(self, *_: object) -> None:
        gc.unfreeze()
        gc.enable()

    def settle(self) -> None:
        began_s = self._monotonic_s()
        if began_s >= self._due_s:
            gc.unfreeze()
            gc.collect()
            ended_s = self._monotonic_s()
            self._due_s = ended_s + (ended_s - began_s) / _PAUSE_SHARE
        gc.freeze()
