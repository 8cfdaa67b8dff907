"""The run's folders on the storage targets: made before the first trial, removed after the last."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path
from typing import Final

from highwater.common.errors import UsageError
from highwater.common.units import size_text
from highwater.results.run_lock import RunLock, is_abandoned

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

        Raises UsageError as `check_target` does.
        """
        for abandoned in _abandoned(target):
            shutil.rmtree(abandoned, ignore_errors=True)
        check_target(name, target, needed_bytes)
        try:
            directory = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=target))
            self.directories[name] = directory
            # A killed run leaves its data; its lock is then free, by which the next run recognises the data.
            self._locks.append(RunLock.take(directory))
        except OSError as error:
            raise _unwritable(name, target, error) from None

    def trial_directory(self, name: str, trial_id: str) -> Path:
        """A new directory for one trial, named by number only: a comma separates directories in Kafka's log.dirs."""
        directory = self.directories[name] / trial_id.partition("-")[0]
        directory.mkdir()
        return directory

    def release(self, directory: Path) -> None:
        """Delete the data of one trial."""
        if not self.keep_data:
            shutil.rmtree(directory, ignore_errors=True)


def check_target(name: str, target: Path, needed_bytes: int) -> None:
    """Check that a run can use a target, and leave it as it was.

    Raises UsageError when the target is no directory, cannot be written, or has no room for `needed_bytes`.
    """
    if not target.is_dir():
        problem = "is not a directory" if target.exists() else "does not exist"
        raise UsageError(f"storage target {name}: {target} {problem}; make it first, or name another path")
    # A run removes first what killed runs left.
    free_bytes = shutil.disk_usage(target).free + sum(map(_bytes_in, _abandoned(target)))
    if free_bytes < needed_bytes + SPARE_BYTES:
        raise UsageError(
            f"storage target {name}: {target} has {size_text(free_bytes)} free and the run may write "
            f"{size_text(needed_bytes)}, beside which {size_text(SPARE_BYTES)} stay free; free some space, or "
            "lower load.rate or phases.measure"
        )
    try:
        with tempfile.TemporaryFile(dir=target, prefix=_PREFIX) as file:
            # Permissions alone do not show a read-only mount or a quota.
            file.write(bytes(4096))
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise _unwritable(name, target, error) from None


def _unwritable(name: str, target: Path, error: OSError) -> UsageError:
    return UsageError(f"storage target {name}: cannot write to {target}: {error.strerror or error}")


def _abandoned(target: Path) -> list[Path]:
    """The folders of killed runs. An interrupted result directory has the same lock and may have such a name."""
    return [path for path in filter(is_abandoned, target.glob(f"{_PREFIX}*")) if not (path / "manifest.json").exists()]


def _bytes_in(directory: Path) -> int:
    return sum(path.stat().st_blocks * 512 for path in directory.rglob("*") if path.is_file())
