"""The sink of Delta Lake tables, by delta-rs: a commit has rows, progress, an application transaction.

The transaction of Delta's protocol (`txn`: application id, version) counts the batches that a sink has committed. Of
two commits from the same state of a table with the same id, Delta refuses the later. What the batch was stands in the
commit's own information, which goes when the log is cleaned; the count stays.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import copy_context
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from highwater.common.extras import how_to_install
from highwater.pipeline.crash_points import CrashPoint, reach
from highwater.pipeline.errors import SettingsError
from highwater.pipeline.progress.batch import Progress, ProgressError, progress_from_json, progress_to_json
from highwater.pipeline.tables.model import DEFAULT_NAME, CommittedMeanwhileError, TableError, first_line
from highwater.pipeline.tables.sink import TableSink

try:
    from deltalake import CommitProperties, DeltaTable, Schema, Transaction, write_deltalake
    from deltalake.exceptions import CommitFailedError, TableNotFoundError
except ImportError:
    raise SettingsError(f"a Delta table needs the package deltalake: {how_to_install('delta')}") from None

_PROGRESS: Final = "highwater.progress"
_NAME: Final = "name"
_RECENT: Final = 100
"""How many commits are read first, in search of the sink's last one."""


class DeltaSink(TableSink):
    """Each micro-batch exactly once into a Delta table."""

    def __init__(
        self,
        path: str | Path,
        *,
        name: str = DEFAULT_NAME,
        create: bool = False,
        first_batch: int = 0,
        checkpoint: str = "",
    ) -> None:
        """Nothing is opened yet.

        path: the table's folder. name: under which the progress is stored; each sink of a table has its own.
        create: whether a missing table is created.
        first_batch: where a sink begins that is added to a running query.
        checkpoint: the query's checkpointLocation, which a sink over Spark Connect needs.
        """
        super().__init__(
            DeltaPlace(str(path)), name=name, create=create, first_batch=first_batch, checkpoint=checkpoint
        )


class DeltaPlace:
    """A folder with a Delta table, or for one."""

    def __init__(self, path: str) -> None:
        self._path = path
        self.shown = f"the Delta table {path}"

    def open(self, name: str, created_with: pa.Schema | None = None) -> _Table:
        with _in_one_line(f"{self._path} cannot be opened"):
            try:
                return _Table(DeltaTable(self._path), self._path, name)
            except TableNotFoundError:
                if "://" not in self._path and any(Path(self._path).glob("*")):
                    raise SettingsError(
                        f"{self._path} holds files and no Delta table: choose an empty folder"
                    ) from None
                if created_with is None:
                    raise SettingsError(
                        f"there is no Delta table {self._path}: create it, or let the sink do so (create)"
                    ) from None
            schema: Any = created_with  # delta-rs takes the schema of any library that speaks Arrow's C interface
            return _Table(DeltaTable.create(self._path, Schema.from_arrow(schema), mode="ignore"), self._path, name)


class _Table:
    def __init__(self, table: DeltaTable, path: str, name: str) -> None:
        self._table = table
        self._path = path
        self._name = name
        self._app_id = f"{_PROGRESS}/{name}"
        self.schema: pa.Schema = pa.schema(table.schema().to_arrow())
        self._batch_count = table.transaction_version(self._app_id) or 0

    def progress(self) -> Progress | None:
        if not self._batch_count:
            return None
        restore: dict[str, Any] = {}
        for commit in self._commits():
            stored = commit.get(_PROGRESS)
            undone = _how_undone(commit, restore)
            if commit.get("operation") == "RESTORE" and not undone:
                restore = commit["operationParameters"]
            elif isinstance(stored, dict) and stored.get(_NAME) == self._name:
                if undone:
                    raise ProgressError(
                        f"{self._path} was restored to {undone} batch {stored.get('batch')} of sink {self._name}: "
                        f"restore it to version {commit['version']}, or give the sink another name"
                    )
                return progress_from_json(stored)
        raise ProgressError(
            f"{self._path}: sink {self._name} has stored a batch, and its commit is no longer in the table's log "
            "(delta.logRetentionDuration): give the sink another name, with first_batch"
        )

    def _commits(self) -> Iterator[dict[str, Any]]:
        """Newest first. Reads all of them only if the recent ones are not enough."""
        recent = self._table.history(_RECENT)
        yield from recent
        if len(recent) == _RECENT:
            yield from self._table.history()[_RECENT:]

    def append(self, rows: pa.RecordBatchReader, progress: Progress) -> None:
        commit = CommitProperties(
            custom_metadata={_PROGRESS: {_NAME: self._name, **progress_to_json(progress)}},
            app_transactions=[Transaction(self._app_id, self._batch_count + 1)],
        )
        what = f"{self._path} did not take batch {progress.batch_id}"
        with _in_one_line(what):
            try:
                write_deltalake(self._table, _until_commit(rows), mode="append", commit_properties=commit)
            except CommitFailedError as error:
                raise CommittedMeanwhileError(f"{what}: {first_line(error)}") from None


def _how_undone(commit: dict[str, Any], restore: dict[str, Any]) -> str:
    """To which point before a commit the table was restored later, in words; empty if to none."""
    version, datetime = str(restore.get("version")), str(restore.get("datetime"))
    if version.isdecimal():
        return f"version {version}, from before" if commit["version"] > int(version) else ""
    if datetime.isdecimal():
        return "a time before" if commit["timestamp"] > int(datetime) else ""
    # Spark has the time in words, and in the time zone of a session.
    return f"{restore.get('timestamp')}, which may be before" if restore else ""


def _until_commit(rows: pa.RecordBatchReader) -> pa.RecordBatchReader:
    """delta-rs writes and commits in one call: the end of the rows is the last place before the commit."""
    context = copy_context()

    def pieces() -> Iterator[pa.RecordBatch]:
        yield from rows
        context.run(reach, CrashPoint.SINK_BEFORE_COMMIT)

    return pa.RecordBatchReader.from_batches(rows.schema, pieces())


@contextmanager
def _in_one_line(what: str) -> Iterator[None]:
    """delta-rs raises Exception itself for errors of Arrow."""
    try:
        yield
    except (SettingsError, TableError):
        raise
    except Exception as error:
        raise TableError(f"{what}: {first_line(error)}") from None
