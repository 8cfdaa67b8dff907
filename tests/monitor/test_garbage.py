"""Snapshots stay out of garbage collection, and cycles do not stay in memory for ever."""

from __future__ import annotations

import gc
import re
import subprocess
import sys
import weakref
from collections.abc import Iterator

import pytest

from highwater.monitor.garbage import GarbageKeeper, let_go


class Thing:
    other: Thing


def test_what_is_there_when_a_tick_ends_is_not_looked_at_again() -> None:
    with GarbageKeeper() as keeper:
        snapshot = [Thing() for _ in range(1000)]
        keeper.settle()
        assert not gc.isenabled()
        assert gc.get_freeze_count() >= len(snapshot)
    assert gc.isenabled()
    assert gc.get_freeze_count() == 0


def test_a_snapshot_is_freed_when_another_takes_its_place() -> None:
    thing = Thing()
    seen = weakref.ref(thing)
    with GarbageKeeper() as keeper:
        keeper.settle()
        del thing
        assert seen() is None


def test_parts_are_let_go_one_by_one() -> None:
    parts: list[object] = [Thing() for _ in range(3)]
    seen = [weakref.ref(part) for part in parts]
    kept = parts[1]
    let_go(parts)
    assert [each() for each in seen] == [None, kept, None]


def test_a_cycle_is_freed_when_the_next_collection_is_due() -> None:
    def clock() -> Iterator[float]:
        # The first collection takes 2 s, so that the next one is due after 2,000 s.
        yield from (0.0, 2.0, 2001.0, 2002.0, 2002.5)

    times = clock()
    with GarbageKeeper(lambda: next(times)) as keeper:
        keeper.settle()
        one = Thing()
        one.other = one
        seen = weakref.ref(one)
        del one
        keeper.settle()
        assert seen() is not None
        keeper.settle()
        assert seen() is None


COUNT_ARENAS = """
import ctypes, sys, threading
from highwater.monitor.garbage import hold_less_memory
if sys.argv[1] == "one":
    hold_less_memory()
held = threading.Barrier(5)
def use():
    ctypes.CDLL(None).malloc(1000)
    held.wait(); held.wait()
threads = [threading.Thread(target=use) for _ in range(4)]
for thread in threads: thread.start()
held.wait()
libc = ctypes.CDLL(None)
libc.fdopen.restype = ctypes.c_void_p
told = ctypes.c_void_p(libc.fdopen(1, b"w"))
libc.malloc_info(0, told)
libc.fflush(told)
held.wait()
"""


TELL_MAPPED = """
import ctypes, sys
from highwater.monitor.garbage import hold_less_memory
if sys.argv[1] == "little":
    hold_less_memory()
libc = ctypes.CDLL(None)
libc.malloc.restype = libc.fdopen.restype = ctypes.c_void_p
for _ in range(3):
    block = ctypes.c_void_p(libc.malloc(1 << 20))
    libc.free(block)
block = libc.malloc(1 << 20)
told = ctypes.c_void_p(libc.fdopen(1, b"w"))
libc.malloc_info(0, told)
libc.fflush(told)
"""


@pytest.mark.parametrize("wanted", ["little", "many"])
def test_large_blocks_go_back_to_the_kernel(wanted: str) -> None:
    """glibc tells what it has from the kernel block by block; once one is freed, it keeps such blocks for itself."""
    told = subprocess.run([sys.executable, "-c", TELL_MAPPED, wanted], capture_output=True, text=True, check=True)
    mapped = re.search(r'<total type="mmap" count="\d+" size="(\d+)"', told.stdout)
    assert mapped is not None, told.stdout
    assert (int(mapped[1]) >= 1 << 20) == (wanted == "little"), told.stdout


@pytest.mark.parametrize("wanted", ["one", "many"])
def test_threads_take_their_memory_from_one_arena(wanted: str) -> None:
    """glibc tells its arenas; without the setting these threads have their own."""
    told = subprocess.run([sys.executable, "-c", COUNT_ARENAS, wanted], capture_output=True, text=True, check=True)
    assert (told.stdout.count("<heap nr=") == 1) == (wanted == "one"), told.stdout
