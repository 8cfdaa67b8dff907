"""One connection to a database whose failures are one line each, without the password."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress

from highwater.pipeline.database.dialect import Connection, Dialect
from highwater.pipeline.errors import DatabaseError


@contextmanager
def connected(dialect: Dialect) -> Iterator[Connection]:
    """Rolls back what is not committed. Raises DatabaseError for each error of the driver."""
    with plainly(dialect, "cannot be reached"):
        connection = dialect.connect()
    try:
        yield connection
    finally:
        with suppress(*dialect.errors):
            connection.rollback()
        with suppress(*dialect.errors):
            connection.close()


@contextmanager
def plainly(dialect: Dialect, what: str) -> Iterator[None]:
    """Turns errors of the driver into DatabaseError: which database, what failed, and the driver's first line."""
    try:
        yield
    except dialect.errors as error:
        address = dialect.address
        # MySQL's drivers give a number and then the text.
        said = error.args[1] if len(error.args) == 2 and isinstance(error.args[0], int) else error
        raise DatabaseError(f"{address.shown} {what}: {address.hide(said)}") from None
