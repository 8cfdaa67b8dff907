"""Each kind of database for the tests: SQLite at once, real servers in the slow ones."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.database_servers import Server, running_mariadb, running_postgresql
from tests.pipeline.database.tables import Database


@pytest.fixture(scope="session")
def postgresql(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with running_postgresql(tmp_path_factory.mktemp("postgresql")) as server:
        yield server


@pytest.fixture(scope="session")
def mariadb(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with running_mariadb(tmp_path_factory.mktemp("mariadb")) as server:
        yield server


SERVERS = [pytest.param(name, marks=pytest.mark.slow) for name in ("postgresql", "mariadb")]


@pytest.fixture(params=["sqlite", *SERVERS])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Database:
    """Empty: a file of its own, or a server without the tables of other tests."""
    if request.param == "sqlite":
        return Database(f"sqlite:{tmp_path / 'results.db'}")
    server: Server = request.getfixturevalue(request.param)
    database = Database(server.url, server)
    database.clear()
    return database
