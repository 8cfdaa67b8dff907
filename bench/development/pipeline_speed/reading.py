"""How fast a batch read is: both formats over three topics, in turns."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any, Final

from pyspark.sql import SparkSession

from highwater.bench.development.pipeline_reading import SHAPES, Shape, Topic
from highwater.bench.development.pipeline_speed.passes import Pass, timed

JAVA, JAVA_TUNED, OURS, OURS_HEADERS = "java", "java, tuned", "highwater", "highwater, headers only"

TOPICS: Final[tuple[Shape, ...]] = tuple(shape for shape in SHAPES if shape.name.endswith("512 KiB"))
_TUNED: Final = {"kafka.max.poll.records": "20000", "kafka.max.partition.fetch.bytes": str(4 << 20)}
READERS: Final[Mapping[str, tuple[str, Mapping[str, str]]]] = {
    JAVA: ("kafka", {}),
    JAVA_TUNED: ("kafka", _TUNED),
    OURS: ("highwater", {}),
    OURS_HEADERS: ("highwater", {"columns": "offset,batchBytes"}),
}


def measure(
    spark: SparkSession, address: str, topics: Sequence[Topic], rounds: int, chooser: random.Random
) -> dict[str, dict[str, list[Pass]]]:
    """Topic → reader → a pass for each round. The first pass of each reader over each topic is not counted."""
    found: dict[str, dict[str, list[Pass]]] = {}
    for topic in topics:
        passes = found[topic.name] = {name: [] for name in READERS}
        for number in range(rounds + 1):
            for name in chooser.sample(list(READERS), len(READERS)):
                taken = _read(spark, address, topic, name)
                if number:
                    passes[name].append(taken)
    return found


def _read(spark: SparkSession, address: str, topic: Topic, name: str) -> Pass:
    form, options = READERS[name]
    frame = (
        spark.read.format(form)
        .options(**{"kafka.bootstrap.servers": address, "subscribe": topic.name, **options})
        .load()
    )
    has_values = "value" in frame.columns
    wanted = ["count(*)", "max(offset)", "sum(length(value))" if has_values else "count(batchBytes)"]
    (row,), taken = timed(frame.selectExpr(*wanted).collect)
    expected: list[Any] = [topic.count, topic.count - 1, topic.value_bytes if has_values else topic.count]
    assert list(row) == expected, f"{name} read {list(row)} of {topic.name}, which has {expected}"
    return taken
