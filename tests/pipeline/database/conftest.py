"""Each kind of database for the tests: SQLite at once, real servers in the slow ones."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.database_servers import Server, running_mariadb, running_mysql, running_postgresql
from tests.pipeline.database.tables import Database


@pytest.fixture(scope="session")
def postgresql(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with running_postgresql(tmp_path_factory.mktemp("postgresql"), "fsync=off") as server:
        yield server


@pytest.fixture(scope="session")
def mariadb(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with running_mariadb(tmp_path_factory.mktemp("mariadb"), "--innodb-flush-method=nosync") as server:
        yield server


@pytest.fixture(scope="session")
def mysql(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with running_mysql(tmp_path_factory.mktemp("mysql")) as server:
        yield server


SERVERS = [pytest.param(name, marks=pytest.mark.slow) for name in ("postgresql", "mariadb")]


@contextmanager
def empty_database(request: pytest.FixtureRequest) -> Iterator[Database]:
    """A file of its own, or a server without the tables of other tests."""
    if request.param == "sqlite":
        # In memory, where a flush costs nothing: the tests end processes, and not the host.
        with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
            yield Database(f"sqlite:{folder}/results.db")
        return
    server: Server = request.getfixturevalue(request.param)
    database = Database(server.url, server)
    database.clear()
    yield database


@pytest.fixture(params=["sqlite", *SERVERS])
def database(request: pytest.FixtureRequest) -> Iterator[Database]:
    with empty_database(request) as found:
        yield found


@pytest.fixture(params=["sqlite", *SERVERS, pytest.param("mysql", marks=pytest.mark.compat)])
def any_database(request: pytest.FixtureRequest) -> Iterator[Database]:
    """MySQL too, which has to be loaded from another release of Debian."""
    with empty_database(request) as found:
        yield found
