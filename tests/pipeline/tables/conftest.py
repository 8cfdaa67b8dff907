"""Each test of this folder that asks for a table runs with one of Delta and one of Iceberg."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.pipeline.tables.lake_tables import Delta, Iceberg

# A sink that waits holds a thread of the Delta library, which has one alone where it may use one processor.
os.environ.setdefault("TOKIO_WORKER_THREADS", "2")


@pytest.fixture(params=[Delta, Iceberg])
def table(request: pytest.FixtureRequest, tmp_path: Path) -> Delta | Iceberg:
    kind: type[Delta | Iceberg] = request.param
    return kind(tmp_path / "table")
