"""Runs every recipe of docs/cookbook.md as it stands there, and compares what it shows with the page."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import duckdb
import pytest
from pyspark.sql import SparkSession

from highwater.pipeline.run.display import cell_text
from highwater.pipeline.run.trial import trial_broker
from highwater.pipeline.source import register
from tests.pipeline.run.recipes import EXAMPLES, Recipe, pipeline_of, recipes, run_recipe, shop
from tests.pipeline.spark_session import spark_session

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    settings = {"spark__sql__streaming__stateStore__providerClass": ROCKSDB}
    with spark_session(tmp_path_factory.mktemp("spark"), **settings) as session:
        register(session)
        yield session


@pytest.fixture(scope="module")
def broker() -> Iterator[str]:
    with trial_broker(pipeline_of(shop(), None, EXAMPLES).trial) as address:
        yield address


@pytest.mark.parametrize("recipe", recipes(), ids=lambda recipe: recipe.title.replace(" ", "-"))
def test_a_recipe_shows_what_the_page_says(recipe: Recipe, spark: SparkSession, broker: str, tmp_path: Path) -> None:
    rows = run_recipe(recipe, spark, broker, tmp_path).rows
    if recipe.query:
        rows += answer(recipe.query, tmp_path)
    assert recipe.shown
    assert [row for row in recipe.shown if row not in rows] == []


def answer(query: str, folder: Path) -> list[tuple[str, ...]]:
    """What another program finds: DuckDB in files, SQLite in shop.db."""
    found: list[tuple[object, ...]]
    if "read_parquet" in query:
        with duckdb.connect(config={"file_search_path": str(folder)}) as reader:
            found = reader.sql(query).fetchall()
    else:
        with closing(sqlite3.connect(folder / "shop.db")) as database:
            found = database.execute(query).fetchall()
    return [tuple(map(cell_text, row)) for row in found]
