"""Opens the database of a history: its file or its address, its version, and a file that is damaged."""

from __future__ import annotations

import fcntl
import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from sqlalchemy import Engine, create_engine, event, func, insert, make_url, select, text
from sqlalchemy.engine import URL
from sqlalchemy.exc import ArgumentError, DBAPIError, SQLAlchemyError
from sqlalchemy.pool import QueuePool

from highwater.common.extras import how_to_install
from highwater.common.nearest import did_you_mean
from highwater.monitor.errors import HistoryError
from highwater.monitor.history.tables import ABOUT, METADATA, SCHEMA_VERSION

FILE_NAME: Final = "history.db"
_SCHEMES: Final = ("sqlite", "postgresql")
_PSYCOPG: Final = "postgresql+psycopg"
_BUSY_TIMEOUT_MS: Final = 2_000
_VERSION: Final = "schema_version"
CLUSTER_ID: Final = "cluster_id"


@dataclass(frozen=True, slots=True)
class Database:
    """Two engines on one database: the writer has one connection, and readers have their own."""

    writing: Engine
    reading: Engine
    shown: str
    """The file, or the address without its password."""
    file: Path | None
    """None on PostgreSQL."""
    set_aside: Path | None = None
    """The damaged file of before, under its new name."""
    lock: int | None = None
    cluster_id: str = ""
    """The id of the cluster that the history is of; empty until one has reported its id."""

    @property
    def size_bytes(self) -> int:
        """Space of the rows; a file keeps what is free again for the next rows. Raises SQLAlchemyError."""
        with self.reading.connect() as connection:
            if self.file is None:
                names = ", ".join(f"'{table.name}'" for table in METADATA.sorted_tables)
                each = "coalesce(pg_total_relation_size(to_regclass(quote_ident(name))), 0)"
                return int(connection.scalar(text(f"select sum({each}) from unnest(array[{names}]) name")) or 0)
            values = [connection.scalar(text(f"pragma {name}")) or 0 for name in ("page_count", "freelist_count")]
            return int(values[0] - values[1]) * int(connection.scalar(text("pragma page_size")) or 0)

    def close(self) -> None:
        self.writing.dispose()
        self.reading.dispose()
        if self.lock is not None:
            os.close(self.lock)


def open_history(address: str, folder: Path) -> Database:
    """Open the history that the monitor writes, and make its tables.

    address: `sqlite` for a file in `folder`, or a URL of PostgreSQL. A damaged file gets another name, and a new one is
    begun. Raises HistoryError if it cannot be opened, belongs to a newer version, or another monitor writes it.
    """
    url = _url(address, folder)
    if url.drivername == _PSYCOPG:
        return _prepared(_postgresql(url))
    assert url.database
    file = Path(url.database)
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        lock = os.open(file.with_name(file.name + ".lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise HistoryError(f"{file.parent}: cannot keep the history there: {error.strerror}") from None
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(lock)
        raise HistoryError(f"{file}: another monitor writes this history; give each one its --data folder") from None
    try:
        set_aside = _set_aside_if_damaged(file)
        _make_private(file)
        return _prepared(_sqlite(file, set_aside=set_aside, lock=lock))
    except BaseException:
        os.close(lock)
        raise


def open_to_read(address: str, folder: Path) -> Database:
    """Open a history that is there already, for reading alone. Raises HistoryError."""
    url = _url(address, folder)
    if url.drivername == _PSYCOPG:
        return _checked(_postgresql(url))
    assert url.database
    file = Path(url.database)
    if not file.is_file():
        raise HistoryError(f"{file}: there is no history; `highwater monitor serve` writes one")
    return _checked(_sqlite(file))


def _url(address: str, folder: Path) -> URL:
    if address == "sqlite":
        return URL.create("sqlite", database=str(folder / FILE_NAME))
    try:
        url = make_url(address)
    except (ArgumentError, ValueError):
        raise HistoryError(
            "the history's address is not a URL; write sqlite, or postgresql://USER:PASSWORD@HOST/DATABASE"
        ) from None
    scheme = url.drivername.partition("+")[0]
    if scheme == "postgresql":
        return url.set(drivername=_PSYCOPG)
    if scheme != "sqlite":
        hint = did_you_mean(scheme, _SCHEMES) or "; use sqlite or postgresql"
        raise HistoryError(f"the history cannot be kept in {scheme}{hint}")
    if not url.database or url.database == ":memory:":
        raise HistoryError("the history's address names no file: write sqlite:///PATH")
    return url


def _make_private(file: Path) -> None:
    """Let nobody else read the file; SQLite gives those beside it the same mode. Raises HistoryError."""
    try:
        os.close(os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
        file.chmod(0o600)
    except OSError as error:
        raise HistoryError(f"{file}: cannot keep the history there: {error.strerror}") from None


# -- SQLite ------------------------------------------------------------------------------------------------------------


def _sqlite(file: Path, *, set_aside: Path | None = None, lock: int | None = None) -> Database:
    return Database(
        writing=_sqlite_engine(file, is_writer=True),
        reading=_sqlite_engine(file, is_writer=False),
        shown=str(file),
        file=file,
        set_aside=set_aside,
        lock=lock,
    )


def _sqlite_engine(file: Path, *, is_writer: bool) -> Engine:
    url = URL.create("sqlite", database=str(file))
    # One connection writes; it belongs to no thread, because the one who opens is not the one who writes.
    arguments: dict[str, Any] = {"timeout": _BUSY_TIMEOUT_MS / 1000, "check_same_thread": False}
    size = 1 if is_writer else 8
    engine = create_engine(url, poolclass=QueuePool, pool_size=size, max_overflow=0, connect_args=arguments)

    @event.listens_for(engine, "connect")
    def _connected(connection: Any, _record: Any) -> None:
        # The driver would begin a transaction when it sees fit; `_begun` begins it.
        connection.isolation_level = None
        cursor = connection.cursor()
        # Only a file without tables takes this; before WAL, which writes the first page.
        if is_writer:
            cursor.execute("pragma auto_vacuum = incremental")
            cursor.execute("pragma journal_mode = wal")
            cursor.execute("pragma synchronous = normal")
            cursor.execute(f"pragma journal_size_limit = {64 << 20}")
        else:
            cursor.execute("pragma query_only = on")
        cursor.close()

    @event.listens_for(engine, "begin")
    def _begun(connection: Any) -> None:
        connection.exec_driver_sql("begin immediate" if is_writer else "begin")

    return engine


def _set_aside_if_damaged(file: Path) -> Path | None:
    """Raises HistoryError if it cannot be read for another reason than damage."""
    if not file.exists():
        return None
    try:
        with closing(sqlite3.connect(file, timeout=_BUSY_TIMEOUT_MS / 1000)) as connection:
            answers = [row[0] for row in connection.execute("pragma quick_check(1)")]
        if answers == ["ok"]:
            return None
    except sqlite3.OperationalError as error:
        raise HistoryError(f"{file}: cannot read the history: {error}") from None
    except sqlite3.DatabaseError:
        pass
    stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
    aside = file.with_name(f"{file.name}.damaged-{stamp}")
    for ending in ("", "-wal", "-shm"):
        part = file.with_name(file.name + ending)
        if part.exists():
            part.rename(aside.with_name(aside.name + ending))
    return aside


# -- PostgreSQL --------------------------------------------------------------------------------------------------------


def _postgresql(url: URL) -> Database:
    try:
        writing, reading = (
            create_engine(url, pool_size=size, max_overflow=0, pool_pre_ping=True, connect_args={"connect_timeout": 10})
            for size in (1, 8)
        )
    except ModuleNotFoundError as error:
        raise HistoryError(f"a history in PostgreSQL needs {error.name}: {how_to_install('database')}") from None
    return Database(writing, reading, shown=url.set(query={}).render_as_string(hide_password=True), file=None)


# -- Both --------------------------------------------------------------------------------------------------------------


def _prepared(database: Database) -> Database:
    """Make the tables, unless a newer version has made them."""
    with _closing_on_error(database), database.writing.begin() as connection:
        if database.writing.dialect.has_table(connection, ABOUT.name):
            _check_version(database, connection.scalar(_version_query()))
        METADATA.create_all(connection)
        if connection.scalar(select(func.count()).select_from(ABOUT)) == 0:
            connection.execute(insert(ABOUT).values(name=_VERSION, value=str(SCHEMA_VERSION)))
        cluster_id = connection.scalar(select(ABOUT.c.value).where(ABOUT.c.name == CLUSTER_ID))
    return replace(database, cluster_id=cluster_id or "")


def _checked(database: Database) -> Database:
    with _closing_on_error(database), database.reading.connect() as connection:
        if not database.reading.dialect.has_table(connection, ABOUT.name):
            raise HistoryError(f"{database.shown}: it holds no history")
        _check_version(database, connection.scalar(_version_query()))
    return database


def _version_query() -> Any:
    return select(ABOUT.c.value).where(ABOUT.c.name == _VERSION)


def _check_version(database: Database, version: str | None) -> None:
    if version is None or not version.isdecimal():
        raise HistoryError(f"{database.shown}: it holds tables of another program; give the history a place of its own")
    if int(version) > SCHEMA_VERSION:
        raise HistoryError(
            f"{database.shown}: a newer Highwater wrote this history (schema {version}, and this one knows "
            f"{SCHEMA_VERSION}); use that version, or another --data folder"
        )


@contextmanager
def _closing_on_error(database: Database) -> Iterator[None]:
    try:
        yield
    except BaseException as error:
        database.writing.dispose()
        database.reading.dispose()
        if isinstance(error, SQLAlchemyError):
            raise HistoryError(f"{database.shown}: cannot open the history: {reason_of(error)}") from None
        raise


def reason_of(error: SQLAlchemyError) -> str:
    """What the database says, in one line without statements, values or addresses of the driver."""
    cause = error.orig if isinstance(error, DBAPIError) else error
    lines = str(cause).strip().splitlines()
    return lines[0] if lines else type(cause).__name__
