"""The databases of tests/pipeline/database."""

from __future__ import annotations

from tests.pipeline.database.conftest import database, mariadb, postgresql

__all__ = ["database", "mariadb", "postgresql"]
