"""Merges the files of a month, and takes runs out of a lake.

New files are written first. Then a new manifest takes the place of the old one, which makes them count; at last the old
files are removed. A process that is killed in between leaves files that no line of the manifest has, and the next one
removes them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.compute
import pyarrow.parquet

from highwater.bench.errors import UsageError
from highwater.bench.lake import storage
from highwater.bench.lake.manifest import Group, KeptFile, Manifest
from highwater.bench.lake.tables import SCHEMAS

# As they are in memory: many rows of a plain table, some thousand histograms.
_ROW_GROUP_BYTES: Final = 64 << 20


@dataclass(frozen=True, slots=True)
class Compaction:
    """What `compact` did."""

    files_before: int
    files_after: int
    bytes_before: int
    bytes_after: int
    months: int


def compact(manifest: Manifest) -> Compaction:
    """Merge the files of each environment and month that has several. Raises UsageError for a damaged file."""
    before = manifest.groups()
    several = sorted({group.place for group in before if sum(other.place == group.place for other in before) > 1})
    for place in several:
        _rewrite(manifest, place)
    with manifest.locked():
        after = manifest.groups()
        storage.sweep(manifest, after)
    files = [[file for group in groups for file in group.files] for groups in (before, after)]
    sizes = [sum(file.bytes for file in found) for found in files]
    return Compaction(len(files[0]), len(files[1]), sizes[0], sizes[1], len(several))


def remove(manifest: Manifest, run: str) -> None:
    """Take a run out of the lake. Raises UsageError when it is not there, or a file is damaged."""
    _, group = manifest.named(run)
    _rewrite(manifest, group.place, without=run)
    with manifest.locked():
        storage.sweep(manifest, manifest.groups())


def _rewrite(manifest: Manifest, place: tuple[str, str], without: str | None = None) -> None:
    """Put one group in the place of all groups of an environment and month.

    The lock is held throughout: a run that is added meanwhile waits, and is in a group of its own.
    """
    with storage.incoming(manifest.directory) as folder, manifest.locked():
        groups = manifest.groups()
        old = [group for group in groups if group.place == place]
        runs = sorted((run for group in old for run in group.runs if run.run != without), key=lambda run: run.run)
        made: list[Group] = []
        if runs:
            staged: dict[str, Path] = {}
            files = [
                file
                for table in SCHEMAS
                if (file := _merged(manifest.directory, folder, table, old, without, staged)) is not None
            ]
            storage.put_in_place(manifest.directory, staged)
            made = [Group(*place, tuple(runs), tuple(files))]
        manifest.replace([*(group for group in groups if group.place != place), *made])


def _merged(
    lake: Path, folder: Path, table: str, groups: Sequence[Group], without: str | None, staged: dict[str, Path]
) -> KeptFile | None:
    """Merge the files of a table, run by run in their order; None when no row is left."""
    path = folder / f"{table}.parquet"
    files = [file for group in sorted(groups, key=_first_run) for file in group.files if file.table == table]
    waiting: list[pa.Table] = []
    rows = 0
    with storage.parquet_writer(path, table) as writer:
        for file in files:
            # Nothing damaged may get the digest of a good file.
            if (what := storage.disagreement(lake, file)) is not None:
                raise UsageError(f"{what}; take it from a copy of the lake")
            opened = pyarrow.parquet.ParquetFile(lake / file.path)
            for number in range(opened.num_row_groups):
                found = _as_of_today(table, opened.read_row_group(number))
                if without is not None:
                    found = found.filter(pyarrow.compute.not_equal(found["run"], without))
                waiting.append(found)
                rows += found.num_rows
                if sum(part.nbytes for part in waiting) >= _ROW_GROUP_BYTES:
                    writer.write_table(pa.concat_tables(waiting))
                    waiting = []
        if waiting:
            writer.write_table(pa.concat_tables(waiting))
    if not rows:
        return None
    kept = storage.kept_file(path, table, *groups[0].place)
    staged[kept.path] = path
    return kept


def _first_run(group: Group) -> str:
    return group.runs[0].run


def _as_of_today(table: str, found: pa.Table) -> pa.Table:
    """The rows with the columns of this version: one that the file does not have is null."""
    schema = SCHEMAS[table]
    columns = [
        found[field.name].cast(field.type) if field.name in found.column_names else pa.nulls(found.num_rows, field.type)
        for field in schema
    ]
    return pa.table(columns, schema=schema)
