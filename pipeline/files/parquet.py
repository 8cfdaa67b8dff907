"""The sink for foreachBatch that makes a folder of Parquet files of each micro-batch, exactly once.

A batch is written below `_writing/`, flushed to the disk, and renamed to `query=<id>/batch=<id>` as a whole: readers
see all of it or nothing. Its `_SUCCESS` holds the progress. Readers pass over names that begin with an underscore.
"""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final
from uuid import uuid4

import pyarrow as pa
from pyarrow import parquet
from pyspark import TaskContext
from pyspark.sql import DataFrame

from highwater.common.atomic_files import flush_to_disk
from highwater.pipeline.crash_points import CrashPoint, reach
from highwater.pipeline.errors import PipelineError
from highwater.pipeline.files.batches import (
    DEFAULT_CODEC,
    SUCCESS,
    batch_folder,
    check_codec,
    check_folder,
    last_stored,
    success_text,
)
from highwater.pipeline.progress.batch import BatchOf, Progress
from highwater.pipeline.progress.in_hand import OncePerBatch, batch_in_hand
from highwater.pipeline.progress.rule import Decision, decide

_WRITING: Final = "_writing"
_LOCK: Final = "_lock"
_LOCK_WAIT_S: Final = 60
_POLL_S: Final = 0.05
_ONCE: Final = OncePerBatch()


class FilesError(PipelineError):
    """A folder cannot be written. Nothing of the batch is visible."""


class ParquetSink:
    """Each micro-batch exactly once as `query=<id>/batch=<id>/*.parquet` in a folder that all executors share."""

    def __init__(
        self, directory: str | Path, *, compression: str = DEFAULT_CODEC, first_batch: int = 0, checkpoint: str = ""
    ) -> None:
        """Raises SettingsError.

        compression: a codec of Parquet, such as zstd, snappy, gzip or none.
        first_batch: where a sink begins that is added to a running query.
        checkpoint: the query's checkpointLocation, which a sink over Spark Connect needs.
        """
        self.row_count = 0
        """How many rows this object has written."""
        self.directory = check_folder(directory)
        check_codec(compression)
        self._compression = compression
        self._first_batch = first_batch
        self._checkpoint = checkpoint

    def __repr__(self) -> str:
        return f"ParquetSink({self.directory})"

    def write(self, frame: DataFrame, batch_id: int) -> None:
        """Write a micro-batch, or nothing if it is stored already: for `writeStream.foreachBatch(sink.write)`.

        Raises PipelineError, with nothing of the batch to be seen. Spark then ends the query, and a restart runs the
        batch again.
        """
        batch = batch_in_hand(frame, batch_id, self._checkpoint)
        _ONCE.check(str(self.directory), batch)
        row_count = 0
        with _plainly(self.directory), _locked(self.directory):
            stored = last_stored(self.directory)
            decision = decide(str(self.directory), stored, batch, first_batch=self._first_batch)
            if decision is Decision.SKIP:
                reach(CrashPoint.SINK_SKIPPED)
            else:
                reach(CrashPoint.SINK_BEGINS)
                row_count = self._write(frame, batch)
        _ONCE.done(str(self.directory), batch)
        self.row_count += row_count

    def _write(self, frame: DataFrame, batch: BatchOf) -> int:
        unfinished = self.directory / _WRITING
        shutil.rmtree(unfinished, ignore_errors=True)  # of a driver that was killed
        # A task of that driver that still runs finds its folder gone, and not this one.
        written, writing = unfinished / uuid4().hex, unfinished / uuid4().hex
        written.mkdir(parents=True)
        reach(CrashPoint.SINK_BEGUN)
        row_counts = self._write_files(frame, written)
        writing.mkdir()
        _take(row_counts, written, writing)
        reach(CrashPoint.SINK_WRITTEN)
        _write_flushed(writing / SUCCESS, success_text(self.directory, Progress.after(batch)))
        flush_to_disk(writing)
        reach(CrashPoint.SINK_BEFORE_COMMIT)
        finished = batch_folder(self.directory, batch.query_id, batch.batch_id)
        if not finished.parent.is_dir():
            finished.parent.mkdir()
            flush_to_disk(self.directory)
        if finished.is_dir():  # without _SUCCESS, so not of this sink, or of a copy that was broken off
            shutil.rmtree(finished)
        writing.rename(finished)
        flush_to_disk(finished.parent)
        reach(CrashPoint.SINK_COMMITTED)
        return sum(row_counts.values())

    def _write_files(self, frame: DataFrame, written: Path) -> dict[str, int]:
        """Tasks write and flush. Returns the files of their answers, and how many rows each has."""
        task = _task(str(written), self._compression)
        answers = frame.mapInArrow(task, "name string, bytes long, rows long").collect()
        sizes = {row["name"]: row["bytes"] for row in answers}
        there = {path.name: path.stat().st_size for path in written.iterdir()}
        if missing := [name for name, size in sizes.items() if there.get(name) != size]:
            raise FilesError(
                f"{self.directory}: {len(missing)} of {len(sizes)} files that tasks wrote are not to be seen here: "
                "driver and executors have to share the folder"
            )
        return {row["name"]: row["rows"] for row in answers}


def _take(names: Iterable[str], written: Path, writing: Path) -> None:
    """Move these files to where no task writes: one that was forgotten may still begin a file beside them."""
    for name in names:
        (written / name).rename(writing / name)
    shutil.rmtree(written, ignore_errors=True)


def _task(folder: str, compression: str) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def write(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        assert context is not None
        # Unique among the attempts of all tasks, also of a partition that is computed twice.
        name = f"part-{context.partitionId():05d}-{context.taskAttemptId()}.parquet"
        path = Path(folder, name)
        if row_count := _write_file(path, batches, compression):
            yield pa.RecordBatch.from_pydict({"name": [name], "bytes": [path.stat().st_size], "rows": [row_count]})

    return write


def _write_file(path: Path, batches: Iterator[pa.RecordBatch], compression: str) -> int:
    """Returns how many rows it has; without a row there is no file."""
    row_count = 0
    writer: parquet.ParquetWriter | None = None
    with _file_on_demand(path) as open_file:
        for batch in batches:
            if batch.num_rows == 0:
                continue
            if writer is None:
                writer = parquet.ParquetWriter(open_file(), batch.schema, compression=compression)
            writer.write_batch(batch)
            row_count += batch.num_rows
            reach(CrashPoint.SINK_WRITING)
        if writer is not None:
            writer.close()
    return row_count


@contextmanager
def _file_on_demand(path: Path) -> Iterator[Callable[[], object]]:
    """A file that is created when it is asked for, and is on the disk at the end."""
    files = []

    def open_file() -> object:
        files.append(path.open("xb"))
        return files[0]

    try:
        yield open_file
        for file in files:
            file.flush()
            os.fsync(file.fileno())
    finally:
        for file in files:
            file.close()


@contextmanager
def _locked(directory: Path) -> Iterator[None]:
    """One driver writes at a time. The lock goes with its process."""
    directory.mkdir(parents=True, exist_ok=True)
    with (directory / _LOCK).open("a") as file:
        deadline_s = time.monotonic() + _LOCK_WAIT_S
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except OSError as error:
                if error.errno not in (errno.EAGAIN, errno.EACCES):
                    raise
            if time.monotonic() > deadline_s:
                raise FilesError(f"{directory}: another driver has been writing for {_LOCK_WAIT_S} s; stop one of them")
            time.sleep(_POLL_S)
        yield


@contextmanager
def _plainly(directory: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise FilesError(f"{error.filename or directory} cannot be written: {error.strerror}") from None


def _write_flushed(path: Path, text: str) -> None:
    with path.open("x", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
