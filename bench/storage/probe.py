"""What a storage target can do by itself, asked of fio: the ceiling that results are drawn under.

Four jobs on one file, a few seconds in all: append in order, small appends each made durable, read in order, read at
random. Reads and the large appends go past the page cache where the file system lets them. If asked to, a probe also
appends to many files in turn, as a broker with many partitions does.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, Literal

from highwater.bench.storage import fio
from highwater.bench.storage.areas import StorageAreas
from highwater.bench.storage.targets import describe_target
from highwater.common.units import size_text
from highwater.results.storage import FioProbe, StorageTarget, TargetProbe
from highwater.tuning.facts.model import Facts

RUNTIME_S: Final = 1.0
# For runs with for_measurement: false.
QUICK_RUNTIME_S: Final = 0.25
FILE_BYTES: Final = 1 << 30
_LEAST_FILE_BYTES: Final = 16 << 20
_SYNC_FILE_BYTES: Final = 64 << 20
_SMALL_BLOCK_BYTES: Final = 4096
_LARGE_BLOCK_BYTES: Final = 1 << 20
# Deep enough that the disk always has a next operation, as under write-back.
_QUEUE_DEPTH: Final = 8
# The largest share of the free space, so that a probe never fills a disk.
_FREE_SPACE_DIVISOR: Final = 4


def probe_target(
    target: StorageTarget,
    directory: Path,
    moment: Literal["before", "after", "alone"],
    *,
    runtime_s: float = RUNTIME_S,
    file_bytes: int = FILE_BYTES,
    file_counts: Sequence[int] = (),
) -> TargetProbe:
    """Probe the file system of `directory`. Errors are in the result: a probe does not stop a run.

    file_counts: also append to so many files in turn, one block each.
    """
    taken_utc = datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    jobs: list[FioProbe] = []
    fio_version = problem = None
    try:
        fio_version = fio.version()
        _probe(directory, runtime_s, file_bytes, file_counts, jobs)
    except (fio.FioError, OSError) as error:
        problem = str(error)
    return TargetProbe(
        target=target, moment=moment, taken_utc=taken_utc, fio_version=fio_version, jobs=jobs, problem=problem
    )


def _probe(
    directory: Path, runtime_s: float, file_bytes: int, file_counts: Sequence[int], jobs: list[FioProbe]
) -> None:
    size_bytes = min(file_bytes, shutil.disk_usage(directory).free // _FREE_SPACE_DIVISOR)
    size_bytes -= size_bytes % _LARGE_BLOCK_BYTES
    if size_bytes < _LEAST_FILE_BYTES:
        raise fio.FioError(
            f"too little space in {directory} for a probe, which needs {size_text(4 * _LEAST_FILE_BYTES)}"
        )
    scratch = Path(tempfile.mkdtemp(prefix="highwater-probe-", dir=directory))
    try:
        direct = _takes_direct_io(scratch / "direct")
        file = scratch / "file"
        append = fio.run(
            fio.Job("sequential_append", "write", _LARGE_BLOCK_BYTES, size_bytes, runtime_s, direct, _QUEUE_DEPTH),
            file,
        )
        jobs.append(append)
        sync_bytes = min(_SYNC_FILE_BYTES, size_bytes)
        jobs.append(
            fio.run(
                fio.Job("fsync", "write", _SMALL_BLOCK_BYTES, sync_bytes, runtime_s, False, sync=True),
                scratch / "synced",
            )
        )
        # Write the file first: blocks that are allocated but not written are not read from the disk.
        written_bytes = append.moved_bytes
        jobs.append(
            fio.run(
                fio.Job("sequential_read", "read", _LARGE_BLOCK_BYTES, written_bytes, runtime_s, direct, _QUEUE_DEPTH),
                file,
            )
        )
        jobs.append(
            fio.run(
                fio.Job("random_read", "randread", _SMALL_BLOCK_BYTES, written_bytes, runtime_s, direct, repeat=True),
                file,
            )
        )
        file.unlink()
        for files in file_counts:
            # Each file takes a block at least.
            own_bytes = max(size_bytes, files * _LARGE_BLOCK_BYTES)
            if own_bytes > shutil.disk_usage(directory).free // 2:
                raise fio.FioError(
                    f"too little space in {directory} for {files} files of {size_text(_LARGE_BLOCK_BYTES)}"
                )
            job = fio.Job(
                "parallel_append", "write", _LARGE_BLOCK_BYTES, own_bytes, runtime_s, direct, _QUEUE_DEPTH, files=files
            )
            many = scratch / f"{files}-files"
            many.mkdir()
            jobs.append(fio.run(job, many / "file"))
            shutil.rmtree(many)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _takes_direct_io(path: Path) -> bool:
    """Whether files can be opened with O_DIRECT; some memory and network file systems refuse it."""
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_DIRECT, 0o600))
    except OSError:
        return False
    return True


def probe_targets(
    areas: StorageAreas,
    facts: Facts,
    moment: Literal["before", "after"],
    runtime_s: float,
    tell: Callable[[str], None],
    file_counts: Sequence[int] = (),
) -> list[TargetProbe]:
    """Probe every target that a run has a folder on. `tell` is called before each probe."""
    probes = []
    for name, directory in areas.directories.items():
        tell(f"probing storage target {name} with fio")
        target = describe_target(name, directory, facts)
        probes.append(probe_target(target, directory, moment, runtime_s=runtime_s, file_counts=file_counts))
    return probes
