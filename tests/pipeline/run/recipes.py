"""The recipes of docs/cookbook.md as they stand there, and what runs one of them."""

from __future__ import annotations

import re
import shutil
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml
from pyspark.sql import SparkSession

from highwater.common.yaml_nodes import parse
from highwater.pipeline.run.display import Display, cell_text
from highwater.pipeline.run.model import Pipeline
from highwater.pipeline.run.parse import parse_pipeline
from highwater.pipeline.run.runner import Stop, plan_flow, run_flows
from highwater.pipeline.run.storage import Storage
from highwater.pipeline.run.trial import make_topic

ROOT: Final = Path(__file__).parents[3]
EXAMPLES: Final = ROOT / "examples"
_BLOCK: Final = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Recipe:
    """parts: run one after the other, each without the checkpoint of the one before. shown: the rows on the page.

    query: looks into what the recipe has written, where that is a database or files.
    """

    title: str
    parts: list[dict[str, Any]]
    python: str
    query: str
    shown: list[tuple[str, ...]]


def sections() -> dict[str, list[tuple[str, str]]]:
    """Of the page: title → blocks of code, each with its language."""
    text = (ROOT / "docs/cookbook.md").read_text("utf-8")
    found = re.split(r"^## ", text, flags=re.MULTILINE)[1:]
    return {section.partition("\n")[0]: _BLOCK.findall(section) for section in found}


def recipes() -> list[Recipe]:
    """Those that are parts of a file for `pipeline run`."""
    found = []
    for title, all_blocks in sections().items():
        blocks = dict(all_blocks)
        if "yaml" in blocks:
            parts = [yaml.safe_load(text) for language, text in all_blocks if language == "yaml"]
            shown = table_rows(blocks["text"])
            found.append(Recipe(title, parts, blocks.get("python", ""), blocks.get("sql", ""), shown))
    return found


def table_rows(text: str) -> list[tuple[str, ...]]:
    """The rows of tables as they are printed, without their heads."""
    rows = [line for line in text.splitlines() if line.startswith("│")]
    return [tuple(cell.strip() for cell in line.strip("│").split("│")) for line in rows]


class Tables(Display):
    def __init__(self) -> None:
        super().__init__()
        self.rows: list[tuple[str, ...]] = []
        self._lock = threading.Lock()

    def table(self, title: str, columns: list[str], rows: list[tuple[object, ...]]) -> None:
        super().table(title, columns, rows)
        with self._lock:
            self.rows += [tuple(map(cell_text, row)) for row in rows]


def pipeline_of(data: dict[str, Any], address: str | None, folder: Path) -> Pipeline:
    return parse_pipeline(parse(yaml, yaml.safe_dump(data), "recipe.yaml", "name: orders"), {}, folder, address)


def with_part(head: dict[str, Any], part: dict[str, Any]) -> dict[str, Any]:
    """The file with a recipe in it: new flows for those of the file, and additions to its other parts."""
    merged = {key: {**value} if isinstance(value, dict) else value for key, value in head.items()}
    for key, value in part.items():
        merged[key] = value if key == "flows" else {**merged.get(key, {}), **value}
    return merged


def shop() -> dict[str, Any]:
    """The file that recipes are parts of."""
    found: dict[str, Any] = yaml.safe_load((EXAMPLES / "shop.yaml").read_text("utf-8"))
    return found


def run_recipe(
    recipe: Recipe,
    spark: SparkSession,
    broker: str,
    folder: Path,
    change: Callable[[Pipeline], Pipeline] = lambda pipeline: pipeline,
) -> Tables:
    """Run its parts in an empty folder, with topics of `shop` that are there; returns what was shown.

    `change` gets each part before it is run.
    """
    head = shop()
    for name in ("orders.jsonl", "payments.jsonl", "customers.csv"):
        (folder / name).symlink_to(EXAMPLES / name)
    (folder / "steps.py").write_text(recipe.python)
    storage, display = Storage(folder / "storage"), Tables()
    for part in recipe.parts:
        shutil.rmtree(storage.folder, ignore_errors=True)
        pipeline = change(pipeline_of(with_part(head, part), broker, folder))
        for topic in pipeline.trial:
            if topic.name not in head["trial"]:
                make_topic(topic, broker)
        planned = [plan_flow(spark, pipeline, flow, storage) for flow in pipeline.flows.values()]
        assert run_flows(pipeline, planned, storage, display, Stop()) == 0
    return display
