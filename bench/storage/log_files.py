"""The log files of a trial after its load: size, share in memory, bytes not yet on disk.

Any broker that keeps Kafka's layout (`TOPIC-PARTITION/*.log`) can be looked at; of others nothing is said.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from highwater.bench.storage.page_cache import CacheState, cache_state
from highwater.common.topic_partition import parse_partition_name

# How long writing out the rest may take; a slow disk behind a large page cache would need minutes.
FLUSH_WITHIN_S: Final = 10.0
_STEP_BYTES: Final = 8 << 20
# SYNC_FILE_RANGE_WAIT_BEFORE | WRITE | WAIT_AFTER of sync_file_range(2).
_WRITE_AND_WAIT: Final = 1 | 2 | 4
# A file system with less free space counts as full.
_FULL_BYTES: Final = 4 << 20
_libc = ctypes.CDLL(None, use_errno=True)


@dataclass(frozen=True, slots=True)
class LogState:
    """Figures of the segments of all replicas on this host together."""

    log_bytes: int
    cache: CacheState
    flush_s: float | None
    """How long writing out the rest took, or the timeout; None when nothing had to be written."""
    flush_complete: bool | None
    free_bytes: int
    """Free space of the log's file system."""

    @property
    def disk_full(self) -> bool:
        return self.free_bytes < _FULL_BYTES


def segments(directories: Iterable[Path], topics: Sequence[str]) -> list[Path]:
    """The segment files of these topics below these directories."""
    # By os.walk, which passes over what a broker deletes meanwhile.
    return sorted(
        Path(folder, name)
        for directory in directories
        for folder, _, names in os.walk(directory)
        if _is_partition(Path(folder).name, topics)
        for name in names
        if name.endswith(".log")
    )


def _is_partition(folder: str, topics: Sequence[str]) -> bool:
    partition = parse_partition_name(folder)
    return partition is not None and partition[0] in topics


def log_state(directories: Iterable[Path], topics: Sequence[str], flush: bool) -> LogState | None:
    """Look, then write out what the disk does not have yet when `flush` is wanted. None when there are no segments."""
    paths = segments(directories, topics)
    if not paths:
        return None
    sizes = {path: size for path in paths if (size := _size_bytes(path))}
    cache = cache_state(sizes)
    flush_s = flush_complete = None
    if flush and cache.unwritten_bytes:
        started_s = time.monotonic()
        flush_complete = _write_out(sizes.items(), lambda: time.monotonic() - started_s < FLUSH_WITHIN_S)
        flush_s = time.monotonic() - started_s
    free_bytes = shutil.disk_usage(paths[0].parent).free
    return LogState(sum(sizes.values()), cache, flush_s, flush_complete, free_bytes)


def _write_out(sizes: Iterable[tuple[Path, int]], go_on: Callable[[], bool]) -> bool:
    """Hand dirty pages to the disk step by step, waiting for each; whether all were before `go_on` said no."""
    for descriptor, offset in _steps(sizes):
        if not go_on():
            return False
        if _libc.sync_file_range(descriptor, ctypes.c_int64(offset), ctypes.c_int64(_STEP_BYTES), _WRITE_AND_WAIT):
            raise OSError(ctypes.get_errno(), "sync_file_range")
    return True


def _steps(sizes: Iterable[tuple[Path, int]]) -> Iterator[tuple[int, int]]:
    for path, size_bytes in sizes:
        try:
            descriptor = os.open(path, os.O_RDONLY)
        except FileNotFoundError:  # retention has taken it
            continue
        try:
            for offset in range(0, size_bytes, _STEP_BYTES):
                yield descriptor, offset
        finally:
            os.close(descriptor)


def _size_bytes(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0
