"""Each test of this folder that asks for a table runs with one of Delta and one of Iceberg."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.pipeline.tables.lake_tables import Delta, Iceberg


@pytest.fixture(params=[Delta, Iceberg])
def table(request: pytest.FixtureRequest, tmp_path: Path) -> Delta | Iceberg:
    kind: type[Delta | Iceberg] = request.param
    return kind(tmp_path / "table")
