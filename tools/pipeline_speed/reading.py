"""How fast a batch read is: both formats over three topics in turns, each whole and in part."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any, Final

from pyspark.sql import SparkSession

from tools.pipeline_speed.passes import Pass, timed
from tools.pipeline_speed.records import Shape, Topic

JAVA, JAVA_TUNED, OURS, OURS_HEADERS = "java", "java, tuned", "highwater", "highwater, headers only"

TOPICS: Final = (
    Shape("100 B", (100, 100)),
    Shape("50-150 B, key 8 B", (50, 150), key_bytes=8),
    Shape("1 KiB", (1024, 1024), record_share=0.2),
)
_TUNED: Final = {"kafka.max.poll.records": "20000", "kafka.max.partition.fetch.bytes": str(4 << 20)}
_PART: Final = 0.1
"""Of a topic, in a read that shows what a read costs before its first record."""
READERS: Final[Mapping[str, tuple[str, Mapping[str, str]]]] = {
    JAVA: ("kafka", {}),
    JAVA_TUNED: ("kafka", _TUNED),
    OURS: ("highwater", {}),
    OURS_HEADERS: ("highwater", {"columns": "offset,batchBytes"}),
}


@dataclass(frozen=True)
class Reads:
    """A pass for each round."""

    whole: list[Pass] = field(default_factory=list)
    part: list[Pass] = field(default_factory=list)
    """The first records of the topic alone."""

    def cpu_ns_per_record(self, count: int) -> float:
        """Of one record more, so without what each read costs; `count` are those of the topic."""
        more_s = median(each.cpu_s for each in self.whole) - median(each.cpu_s for each in self.part)
        return more_s / (count - _part_of(count)) * 1e9

    def cpu_s_before(self, count: int) -> float:
        """What a read costs without its records."""
        return median(each.cpu_s for each in self.whole) - self.cpu_ns_per_record(count) / 1e9 * count


def measure(
    spark: SparkSession, address: str, topics: Sequence[Topic], rounds: int, chooser: random.Random
) -> dict[str, dict[str, Reads]]:
    """Topic → reader → its passes. The first ones of each reader over each topic are not counted."""
    found: dict[str, dict[str, Reads]] = {}
    for topic in topics:
        of_topic = found[topic.name] = {name: Reads() for name in READERS}
        for number in range(rounds + 1):
            for name in chooser.sample(list(READERS), len(READERS)):
                whole = _read(spark, address, topic, name, topic.count)
                part = _read(spark, address, topic, name, _part_of(topic.count))
                if number:
                    of_topic[name].whole.append(whole)
                    of_topic[name].part.append(part)
    return found


def _part_of(count: int) -> int:
    return int(count * _PART)


def _read(spark: SparkSession, address: str, topic: Topic, name: str, count: int) -> Pass:
    form, options = READERS[name]
    ends = json.dumps({topic.name: {"0": count}})
    frame = (
        spark.read.format(form)
        .options(**{"kafka.bootstrap.servers": address, "subscribe": topic.name, "endingOffsets": ends, **options})
        .load()
    )
    has_values = "value" in frame.columns
    wanted = ["count(*)", "max(offset)", "sum(length(value))" if has_values else "count(batchBytes)"]
    (row,), taken = timed(frame.selectExpr(*wanted).collect)
    expected: list[Any] = [count, count - 1]
    if not has_values:
        expected.append(count)
    elif count == topic.count:
        expected.append(topic.value_bytes)
    assert list(row)[: len(expected)] == expected, f"{name} read {list(row)} of {topic.name}, which has {expected}"
    return taken
