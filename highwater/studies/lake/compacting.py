"""Merges the small files of a month, and takes runs out of a lake.

A file of a megabyte or more stays as it is: larger ones would not be read faster. So a month that is compacted again is
not written again, nor are the histograms of each second, of which a run has some megabytes.

New files are written first. Then a new manifest takes the place of the old one, which makes them count; at last the old
files are removed. A process that is killed in between leaves files that no line of the manifest has, and the next one
removes them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.compute
import pyarrow.parquet

from highwater.common.errors import UsageError
from highwater.studies.lake import storage
from highwater.studies.lake.manifest import Group, KeptFile, Manifest
from highwater.studies.lake.tables import SCHEMAS

# Opening a file costs some milliseconds, as reading this much of it does.
_SMALL_BYTES: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Compaction:
    """What `compact` did."""

    files_before: int
    files_after: int
    bytes_before: int
    bytes_after: int
    months: int


def compact(manifest: Manifest) -> Compaction:
    """Merge the small files of each environment and month that has several. Raises UsageError for a damaged file."""
    before = manifest.groups()
    groups_at = Counter(group.place for group in before)
    several = sorted(place for place, count in groups_at.items() if count > 1)
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
            kept = [file for group in old for file in group.files if without is None and file.bytes >= _SMALL_BYTES]
            merged = [
                _merged(manifest.directory, folder, table, _without_files(old, kept), without, staged)
                for table in SCHEMAS
            ]
            files = [*kept, *(file for file in merged if file is not None)]
            storage.put_in_place(manifest.directory, staged)
            made = [Group(*place, tuple(runs), tuple(files))]
        manifest.replace([*(group for group in groups if group.place != place), *made])


def _without_files(groups: Sequence[Group], files: Sequence[KeptFile]) -> list[Group]:
    others = set(files)
    return [replace(group, files=tuple(file for file in group.files if file not in others)) for group in groups]


def _merged(
    lake: Path, folder: Path, table: str, groups: Sequence[Group], without: str | None, staged: dict[str, Path]
) -> KeptFile | None:
    """Merge the files of a table, run by run in their order; None when no row is left."""
    path = folder / f"{table}.parquet"
    files = [file for group in sorted(groups, key=_first_run) for file in group.files if file.table == table]
    if not files:
        return None
    with storage.parquet_writer(path, table) as writer:
        rows = storage.write_in_row_groups(writer, _rows(lake, table, files, without))
    if not rows:
        return None
    kept = storage.kept_file(path, table, *groups[0].place)
    staged[kept.path] = path
    return kept


def _rows(lake: Path, table: str, files: Sequence[KeptFile], without: str | None) -> Iterator[pa.Table]:
    for file in files:
        # Nothing damaged may get the digest of a good file.
        if (what := storage.disagreement(lake, file)) is not None:
            raise UsageError(f"{what}; take it from a copy of the lake")
        opened = pyarrow.parquet.ParquetFile(lake / file.path)
        for number in range(opened.num_row_groups):
            found = _as_of_today(table, opened.read_row_group(number))
            yield found if without is None else found.filter(pyarrow.compute.not_equal(found["run"], without))


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
