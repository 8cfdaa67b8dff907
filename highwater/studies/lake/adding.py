"""Adds result directories to a lake: several processes read, one puts runs into the manifest.

A run is in the lake when its line is in the manifest, and its files are on the disk before. Several adders may work at
once, and one that is killed leaves a lake without its last run, never with half of it.
"""

from __future__ import annotations

import hashlib
import multiprocessing
import multiprocessing.connection
import os
import threading
from collections.abc import Iterable, Iterator
from concurrent.futures import Executor, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Final, Literal

from highwater.common.errors import UsageError
from highwater.results import checksums
from highwater.results.files import ResultDirectoryError
from highwater.results.reader import RunResult
from highwater.results.run_lock import is_locked
from highwater.studies.lake import storage
from highwater.studies.lake.manifest import Group, KeptRun, Manifest
from highwater.studies.lake.rows import run_id, tables_of
from highwater.studies.lake.tables import SECONDS

Outcome = Literal["added", "there already", "left out"]
MOST_PROCESSES: Final = 2


@dataclass(frozen=True, slots=True)
class Addition:
    """What became of one directory. `text`: the run's id, or why it was left out."""

    directory: Path
    outcome: Outcome
    text: str
    trials: int = 0
    bytes: int = 0
    bytes_of_seconds: int = 0


@dataclass(frozen=True, slots=True)
class _Prepared:
    """A run whose files are written and have temporary names; `staged`: name in the lake to where it is now."""

    group: Group
    staged: dict[str, Path]


def add(
    manifest: Manifest, directories: Iterable[Path], *, seconds: bool = True, processes: int = MOST_PROCESSES
) -> Iterator[Addition]:
    """Add runs in the order in which they are ready. Raises UsageError when the lake is none, or cannot be written.

    seconds: with the histograms of each second, which are larger than all other tables together.
    """
    manifest.create()
    directories = list(dict.fromkeys(path.absolute() for path in directories))
    processes = min(processes, len(directories))
    with storage.incoming(manifest.directory) as folder, _pool(processes) as pool:
        prepare = partial(_prepare, lake=manifest.directory, folder=folder, seconds=seconds)
        try:
            results = pool.map(prepare, directories) if pool is not None else map(prepare, directories)
            for directory, prepared in zip(directories, results, strict=True):
                yield _commit(manifest, directory, prepared) if isinstance(prepared, _Prepared) else prepared
        except BrokenProcessPool:
            raise UsageError("a process that read result directories was killed; add the rest again") from None


def _commit(manifest: Manifest, directory: Path, prepared: _Prepared) -> Addition:
    """Make the run part of the lake, unless another adder was faster."""
    group = prepared.group
    (run,) = group.runs
    with manifest.locked():
        if (kept := manifest.run(run.run)) is not None:
            return _already(directory, kept, run.content)
        storage.put_in_place(manifest.directory, prepared.staged)
        manifest.append(group)
    sizes = {file.table: file.bytes for file in group.files}
    of_seconds = sizes.get(SECONDS, 0)
    return Addition(directory, "added", run.run, run.trials, sum(sizes.values()), of_seconds)


def _already(directory: Path, kept: KeptRun, content: str) -> Addition:
    if kept.content == content:
        return Addition(directory, "there already", kept.run)
    return Addition(
        directory,
        "left out",
        f"{kept.run} is in the lake with other content (it was resumed or changed afterwards); take it out first: "
        f"highwater bench lake remove {kept.run}",
    )


@cache
def _known(lake: Path, folder: Path) -> Manifest:
    """The lake as this process found it when it began to work for the adder with `folder`: a first look."""
    return Manifest(lake)


def _prepare(directory: Path, *, lake: Path, folder: Path, seconds: bool) -> _Prepared | Addition:
    """Read a result directory and write its files into `folder`."""
    try:
        if is_locked(directory):
            return Addition(directory, "left out", "its run goes on; add it when it has ended")
        result = RunResult(directory)
        run, content = run_id(result.manifest), _content(result)
        if (kept := _known(lake, folder).run(run)) is not None:
            return _already(directory, kept, content)
        if not result.trials:
            return Addition(directory, "left out", "none of its trials has finished")
        changed = next(checksums.disagreements(directory, ended=result.manifest.status == "done"), None)
        if changed is not None:
            return Addition(directory, "left out", f"{changed}; see highwater bench verify")
        tables = tables_of(result, seconds=seconds)
    except (ResultDirectoryError, OSError) as error:
        return Addition(directory, "left out", str(error).removeprefix(f"{directory}: "))
    environment = tables["runs"]["environment"][0].as_py()
    month = result.manifest.created_utc[:7]
    files, staged = [], {}
    for name, table in tables.items():
        path = folder / f"{run}.{name}.parquet"
        with storage.parquet_writer(path, name) as writer:
            storage.write_in_row_groups(writer, [table])
        files.append(storage.kept_file(path, name, environment, month, f"{run}.parquet"))
        staged[files[-1].path] = path
    this = KeptRun(run, result.manifest.name, result.manifest.created_utc, content, str(directory), len(result.trials))
    return _Prepared(Group(environment, month, (this,), tuple(files)), staged)


def _content(result: RunResult) -> str:
    """A digest of what a run concluded: its manifest and summaries, which hold or name all else."""
    digest = hashlib.sha256(result.manifest.model_dump_json().encode())
    for trial in result.trials:
        digest.update(trial.summary.model_dump_json().encode())
    return digest.hexdigest()


def _pool(processes: int) -> AbstractContextManager[Executor | None]:
    if processes < 2:
        return nullcontext()
    return ProcessPoolExecutor(
        processes, mp_context=multiprocessing.get_context("spawn"), initializer=_end_with_the_parent
    )


def _end_with_the_parent() -> None:
    """A pool's process would wait for ever for work of a parent that was killed."""
    parent = multiprocessing.parent_process()
    if parent is None:
        return

    def wait() -> None:
        multiprocessing.connection.wait([parent.sentinel])
        os._exit(1)

    threading.Thread(target=wait, daemon=True).start()
