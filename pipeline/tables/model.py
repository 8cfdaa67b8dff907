"""What a sink needs of a table of any format: its progress, and commits of rows and progress."""

from __future__ import annotations

from typing import Final, Protocol

import pyarrow as pa

from highwater.pipeline.errors import PipelineError
from highwater.pipeline.progress.batch import Progress

DEFAULT_NAME: Final = "highwater"
"""Under which a sink keeps its progress in a table, unless it is given a name."""


class TableError(PipelineError):
    """A table did not take a batch. Nothing of the batch is to be seen."""


class CommittedMeanwhileError(TableError):
    """Another writer has committed since the table was opened: what was read of it is old."""


class Table(Protocol):
    """A table as it was when it was opened. schema: its columns, in their order."""

    @property
    def schema(self) -> pa.Schema: ...

    def progress(self) -> Progress | None:
        """What the sink of this name has stored; None if nothing. Raises ProgressError."""

    def append(self, rows: pa.RecordBatchReader, progress: Progress) -> None:
        """Commit rows and progress at once.

        Raises CommittedMeanwhileError if a sink of this name has committed since the table was opened, and TableError.
        """


class TablePlace(Protocol):
    """Where a table is. shown: in words without secrets."""

    @property
    def shown(self) -> str: ...

    def open(self, name: str, created_with: pa.Schema | None = None) -> Table:
        """The table as it is now, for the sink `name`.

        created_with: the columns of a table that is created if it is missing; None if it must be there. Raises
        SettingsError if there is no such table, and TableError.
        """


def first_line(error: BaseException) -> str:
    """The text of a library's error for a message of one line."""
    return next(iter(str(error).splitlines()), "") or type(error).__name__
