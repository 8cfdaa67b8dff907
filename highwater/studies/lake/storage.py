"""The Parquet files of a lake: how they are written, named, read, verified and swept."""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute
import pyarrow.dataset
import pyarrow.parquet

from highwater.common.atomic_files import flush_to_disk
from highwater.common.errors import UsageError
from highwater.studies.lake.manifest import Group, KeptFile, Manifest
from highwater.studies.lake.tables import SCHEMAS, VERSIONS

_INCOMING: Final = "incoming"
_ALIVE: Final = "alive"
# Of the histograms of each second, level 3 makes smaller files than level 6, in less than half of its time.
_COMPRESSION_LEVEL: Final = 3
# As they are in memory: many rows of a plain table, some thousand histograms.
_ROW_GROUP_BYTES: Final = 64 << 20
_SMALL_ROW_GROUP_BYTES: Final = 1 << 20
_METRIC: Final = "metric"
# Rising bucket numbers are small steps.
_STEPS: Final = "buckets"


@contextmanager
def parquet_writer(path: Path, table: str) -> Iterator[Any]:
    """A writer of one file of `table`."""
    schema = SCHEMAS[table]
    about = {"highwater.lake.table": f"{table}/{VERSIONS[table]}"}
    with pyarrow.parquet.ParquetWriter(
        path,
        schema.with_metadata(about),
        compression="zstd",
        compression_level=_COMPRESSION_LEVEL,
        use_dictionary=[name for name in schema.names if name != _STEPS],
        column_encoding={f"{_STEPS}.list.element": "DELTA_BINARY_PACKED"} if _STEPS in schema.names else None,
    ) as writer:
        yield writer


def write_in_row_groups(writer: Any, tables: Iterable[pa.Table]) -> int:
    """Write tables, several of them at once if they are small. Returns the number of rows.

    Rows are sorted by metric, and each metric has row groups of its own unless they would be small: most questions are
    about one metric, and a reader leaves row groups of other metrics out.
    """
    waiting: list[pa.Table] = []
    waiting_bytes = rows = 0
    for table in tables:
        waiting.append(table)
        waiting_bytes += table.nbytes
        rows += table.num_rows
        if waiting_bytes >= _ROW_GROUP_BYTES:
            _write_by_metric(writer, pa.concat_tables(waiting))
            waiting, waiting_bytes = [], 0
    if waiting:
        _write_by_metric(writer, pa.concat_tables(waiting))
    return rows


def _write_by_metric(writer: Any, table: pa.Table) -> None:
    if _METRIC not in table.column_names:
        writer.write_table(table)
        return
    # Rows of one metric stay in their order.
    table = table.take(pyarrow.compute.sort_indices(table[_METRIC]))
    begin = end = 0
    for many in pyarrow.compute.value_counts(table[_METRIC]).field("counts").to_pylist():
        end += many
        if table.slice(begin, end - begin).nbytes >= _SMALL_ROW_GROUP_BYTES or end == table.num_rows:
            writer.write_table(table.slice(begin, end - begin))
            begin = end


def kept_file(path: Path, table: str, environment: str, month: str, name: str | None = None) -> KeptFile:
    """What the manifest says of a finished file, which will have this name, or one made of its digest.

    The file is on the disk afterwards. Folders are named as Hive and Spark name partitions.
    """
    flush_to_disk(path)
    digest = _digest(path)
    place = f"{table}/env={environment}/month={month}/{name or f'compacted-{digest[:16]}.parquet'}"
    rows = pyarrow.parquet.read_metadata(path).num_rows
    return KeptFile(table, place, digest, path.stat().st_size, rows, VERSIONS[table])


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def put_in_place(lake: Path, staged: dict[str, Path]) -> None:
    """Give finished files their names (relative to the lake), on the disk when it returns."""
    folders = set()
    for name, path in staged.items():
        target = lake / name
        target.parent.mkdir(parents=True, exist_ok=True)
        path.replace(target)
        folders.add(target.parent)
    for folder in folders:
        flush_to_disk(folder)


@contextmanager
def incoming(lake: Path) -> Iterator[Path]:
    """A folder for files that are being written; one that a killed process left behind is removed by the next."""
    parent = lake / _INCOMING
    folder, descriptor = _locked_folder(parent)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(descriptor)
        with suppress(OSError):
            parent.rmdir()


def _locked_folder(parent: Path) -> tuple[Path, int]:
    """A new folder, and the descriptor of the file in it that is locked for as long as its process lives.

    Another process may take the folder for a dead one until its file is locked, and may remove `parent` while it is
    empty: a folder that is gone by then is made anew.
    """
    while True:
        with suppress(FileExistsError):
            parent.mkdir()
        with suppress(FileNotFoundError):
            for other in parent.iterdir():
                _remove_if_dead(other)
            folder = parent / uuid.uuid4().hex
            folder.mkdir()
            descriptor = os.open(folder / _ALIVE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            if (folder / _ALIVE).exists():
                return folder, descriptor
            os.close(descriptor)


def _remove_if_dead(folder: Path) -> None:
    try:
        descriptor = os.open(folder / _ALIVE, os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        # Another process is about to lock it, or has just removed it.
        return
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(folder, ignore_errors=True)
    except BlockingIOError:
        pass
    finally:
        os.close(descriptor)


def sweep(manifest: Manifest, groups: Iterable[Group]) -> int:
    """Remove Parquet files that no group has: of a killed process, or compacted. The caller holds the lock."""
    known = {file.path for group in groups for file in group.files}
    removed = 0
    for table in SCHEMAS:
        for path in (manifest.directory / table).glob("env=*/month=*/*.parquet"):
            if path.relative_to(manifest.directory).as_posix() not in known:
                path.unlink(missing_ok=True)
                removed += 1
    return removed


def dataset_of(lake: Path, table: str, groups: Iterable[Group]) -> Any:
    """The rows of a table. A column that a file does not have is null. Raises UsageError for a file that is missing."""
    groups = list(groups)
    paths = [str(lake / file.path) for group in groups for file in group.files if file.table == table]
    if not paths:
        return pyarrow.dataset.dataset(SCHEMAS[table].empty_table())
    try:
        return pyarrow.dataset.dataset(paths, schema=SCHEMAS[table], format="parquet")
    except OSError as error:
        raise UsageError(damaged(lake, groups, error)) from None


def rows_of(lake: Path, table: str, group: Group, run: str | None = None, columns: list[str] | None = None) -> pa.Table:
    """The rows of a table of one group, of one run if it is named. Raises UsageError for a damaged file."""
    chosen = pyarrow.dataset.field("run") == run if run is not None else None
    try:
        return dataset_of(lake, table, [group]).to_table(columns=columns, filter=chosen)
    except (OSError, pa.ArrowException) as error:
        raise UsageError(damaged(lake, [group], error)) from None


def damaged(lake: Path, groups: Iterable[Group], error: Exception) -> str:
    """One line about a file that cannot be read: the first one that is not as the manifest says."""
    for group in groups:
        for file in group.files:
            if (what := disagreement(lake, file)) is not None:
                return f"{what}; take it from a copy of the lake, or make the lake anew from the result directories"
    return f"{lake}: cannot be read ({str(error).splitlines()[0]})"


def disagreement(lake: Path, file: KeptFile) -> str | None:
    """What is wrong with a file; None if it is as the manifest says."""
    path = lake / file.path
    try:
        digest = _digest(path)
    except OSError as error:
        return f"{path}: {'is missing' if isinstance(error, FileNotFoundError) else error.strerror}"
    return None if digest == file.sha256 else f"{path}: is damaged; its digest is not that of the manifest"
