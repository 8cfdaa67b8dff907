"""Reads the progress that a sink has stored in a database, without changing anything there."""

from __future__ import annotations

from pathlib import Path

from highwater.pipeline.database.address import SQLITE, read_address
from highwater.pipeline.database.dialects import dialect_of
from highwater.pipeline.database.session import connected, plainly
from highwater.pipeline.errors import SettingsError
from highwater.pipeline.progress.batch import Progress


def stored_progress(url: str, name: str) -> Progress | None:
    """The progress of the sink `name`; None if it has none. Raises SettingsError, DatabaseError, ProgressError."""
    address = read_address(url)
    if address.kind == SQLITE and not Path(address.path).is_file():
        raise SettingsError(f"{address.shown}: there is no such file")
    dialect = dialect_of(address)
    with connected(dialect) as connection, plainly(dialect, "holds no progress of a sink"):
        return dialect.progress(connection.cursor(), name)
