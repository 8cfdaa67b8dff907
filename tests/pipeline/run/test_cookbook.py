"""Runs every recipe of docs/cookbook.md as it stands there, and compares what it shows with the page."""

from __future__ import annotations

import re
import shutil
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from pyspark.sql import SparkSession

from highwater.pipeline.run.display import Display, cell_text
from highwater.pipeline.run.document import parse_document
from highwater.pipeline.run.model import Pipeline
from highwater.pipeline.run.parse import parse_pipeline
from highwater.pipeline.run.runner import Stop, plan_flow, run_flows
from highwater.pipeline.run.storage import Storage
from highwater.pipeline.run.trial import make_topic, trial_broker
from highwater.pipeline.source import register
from tests.pipeline.spark_session import spark_session

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

ROOT = Path(__file__).parents[3]
EXAMPLES = ROOT / "examples"
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"


@dataclass(frozen=True)
class Recipe:
    """parts: run one after the other, each without the checkpoint of the one before. shown: the rows on the page.

    query: looks into shop.db, for a recipe that writes there.
    """

    title: str
    parts: list[dict[str, Any]]
    python: str
    query: str
    shown: list[tuple[str, ...]]


def recipes() -> list[Recipe]:
    found = []
    for section in re.split(r"^## ", (ROOT / "docs/cookbook.md").read_text("utf-8"), flags=re.MULTILINE)[1:]:
        blocks = dict(BLOCK.findall(section))
        if "yaml" in blocks:
            rows = [line for line in blocks["text"].splitlines() if line.startswith("│")]
            cells = [tuple(cell.strip() for cell in line.strip("│").split("│")) for line in rows]
            found.append(
                Recipe(
                    section.partition("\n")[0],
                    [yaml.safe_load(text) for language, text in BLOCK.findall(section) if language == "yaml"],
                    blocks.get("python", ""),
                    blocks.get("sql", ""),
                    cells,
                )
            )
    return found


class Tables(Display):
    def __init__(self) -> None:
        super().__init__()
        self.rows: list[tuple[str, ...]] = []
        self._lock = threading.Lock()

    def table(self, title: str, columns: list[str], rows: list[tuple[object, ...]]) -> None:
        super().table(title, columns, rows)
        with self._lock:
            self.rows += [tuple(map(cell_text, row)) for row in rows]


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    settings = {"spark__sql__streaming__stateStore__providerClass": ROCKSDB}
    with spark_session(tmp_path_factory.mktemp("spark"), **settings) as session:
        register(session)
        yield session


@pytest.fixture(scope="module")
def head() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((EXAMPLES / "shop.yaml").read_text("utf-8"))
    return found


@pytest.fixture(scope="module")
def broker(head: dict[str, Any]) -> Iterator[str]:
    with ExitStack() as cleanup:
        yield cleanup.enter_context(trial_broker(pipeline_of(head, None, EXAMPLES).trial))


def pipeline_of(data: dict[str, Any], address: str | None, folder: Path) -> Pipeline:
    return parse_pipeline(parse_document(yaml.safe_dump(data), "recipe.yaml"), {}, folder, address)


def with_part(head: dict[str, Any], part: dict[str, Any]) -> dict[str, Any]:
    """The file with a recipe in it: new flows for those of the file, and additions to its other parts."""
    merged = {key: {**value} if isinstance(value, dict) else value for key, value in head.items()}
    for key, value in part.items():
        merged[key] = value if key == "flows" else {**merged.get(key, {}), **value}
    return merged


@pytest.mark.parametrize("recipe", recipes(), ids=lambda recipe: recipe.title.replace(" ", "-"))
def test_a_recipe_shows_what_the_page_says(
    recipe: Recipe, spark: SparkSession, head: dict[str, Any], broker: str, tmp_path: Path
) -> None:
    for name in ("orders.jsonl", "payments.jsonl", "customers.csv"):
        (tmp_path / name).symlink_to(EXAMPLES / name)
    (tmp_path / "steps.py").write_text(recipe.python)
    storage, display = Storage(tmp_path / "storage"), Tables()
    for part in recipe.parts:
        shutil.rmtree(storage.folder, ignore_errors=True)
        pipeline = pipeline_of(with_part(head, part), broker, tmp_path)
        for topic in pipeline.trial:
            if topic.name not in head["trial"]:
                make_topic(topic, broker)
        planned = [plan_flow(spark, pipeline, flow, storage) for flow in pipeline.flows.values()]
        assert run_flows(pipeline, planned, storage, display, Stop()) == 0
    if recipe.query:
        with closing(sqlite3.connect(tmp_path / "shop.db")) as database:
            display.table("", [], rows=database.execute(recipe.query).fetchall())
    assert recipe.shown
    assert [row for row in recipe.shown if row not in display.rows] == []
