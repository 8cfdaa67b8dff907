"""The databases of tests/pipeline/database, and a broker."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.broker.running import running_broker
from tests.pipeline.database.conftest import database, mariadb, postgresql
from tests.pipeline.source.topics import Topics

__all__ = ["database", "mariadb", "postgresql"]


@pytest.fixture(scope="module")
def topics(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Topics]:
    with running_broker(tmp_path_factory.mktemp("broker") / "log") as broker:
        yield Topics(broker.address)
