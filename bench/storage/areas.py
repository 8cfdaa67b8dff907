"""The run's folders on the storage targets: made before the first trial, removed after the last."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path
from typing import Final

from highwater.bench.errors import UsageError
from highwater.bench.results.run_lock import RunLock, is_abandoned
from highwater.common.units import size_text

# A run leaves this much space free: a full file system harms more than the benchmark.
SPARE_BYTES: Final = 256 << 20
_PREFIX: Final = "highwater-"


class StorageAreas:
    """The run's folders on the storage targets. Context manager that removes them."""

    def __init__(self, keep_data: bool = False) -> None:
        self.keep_data = keep_data
        self.directories: dict[str, Path] = {}
        self._locks: list[RunLock] = []

    def __enter__(self) -> StorageAreas:
        return self

    def __exit__(self, *_: object) -> None:
        if not self.keep_data:
            for directory in self.directories.values():
                shutil.rmtree(directory, ignore_errors=True)
        for lock in self._locks:
            lock.release()

    def add(self, name: str, target: Path, needed_bytes: int) -> None:
        """Create the run's folder on a target, and remove folders of killed runs.

        Raises UsageError when the target has no room for `needed_bytes`.
        """
        if not target.is_dir():
            problem = "is not a directory" if target.exists() else "does not exist"
            raise UsageError(f"storage target {name}: {target} {problem}; make it first, or name another path")
        for abandoned in filter(is_abandoned, target.glob(f"{_PREFIX}*")):
            # An interrupted result directory has the same lock and may have such a name.
            if not (abandoned / "manifest.json").exists():
                shutil.rmtree(abandoned, ignore_errors=True)
        free_bytes = shutil.disk_usage(target).free
        if free_bytes < needed_bytes + SPARE_BYTES:
            raise UsageError(
                f"storage target {name}: {target} has {size_text(free_bytes)} free and the run may write "
                f"{size_text(needed_bytes)}, beside which {size_text(SPARE_BYTES)} stay free; free some space, or "
                "lower load.rate or phases.measure"
            )
        try:
            directory = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=target))
            self.directories[name] = directory
            # A killed run leaves its data; its lock is then free, by which the next run recognises the data.
            self._locks.append(RunLock.take(directory))
            _probe(directory / "probe")
        except OSError as error:
            raise UsageError(f"storage target {name}: cannot write to {target}: {error.strerror or error}") from None

    def trial_directory(self, name: str, trial_id: str) -> Path:
        """A new directory for one trial, named by number only: a comma separates directories in Kafka's log.dirs."""
        directory = self.directories[name] / trial_id.partition("-")[0]
        directory.mkdir()
        return directory

    def release(self, directory: Path) -> None:
        """Delete the data of one trial."""
        if not self.keep_data:
            shutil.rmtree(directory, ignore_errors=True)


def _probe(path: Path) -> None:
    """Write and sync a file: permissions alone do not show a read-only mount or a quota."""
    with path.open("wb") as file:
        file.write(bytes(4096))
        os.fsync(file.fileno())
    path.unlink()
