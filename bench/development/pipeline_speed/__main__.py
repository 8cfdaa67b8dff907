"""Measures the source through Spark beside Spark's Kafka connector in Java, and writes one page.

    python -m highwater.bench.development.pipeline_speed [--page docs/results/pipeline-speed.md]

Both formats are in one session of Spark, on one processor; the broker of this checkout runs on the other. Readers take
turns in a new order in each round, so that what drifts on the host is not charged to one of them.
"""

from __future__ import annotations

import os
import random
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from statistics import median
from typing import Annotated, Final

import typer

from highwater.bench.analysis.statistics import paired_ratio_ci
from highwater.bench.development.pipeline_reading import Topic, create, fill, pinned_broker
from highwater.bench.development.pipeline_speed import micro_batches, reading
from highwater.bench.development.pipeline_speed.reading import JAVA, JAVA_TUNED, OURS, OURS_HEADERS, Pass
from highwater.bench.development.pipeline_speed.session import session
from highwater.common.units import duration_ns_text, plural, rate_text, size_text
from highwater.pipeline.kafka.client import Client
from highwater.pipeline.kafka.settings import settings_of
from highwater.tuning.facts import collect

_NS_PER_MS: Final = 1_000_000
_COMMAND: Final = "python -m highwater.bench.development.pipeline_speed --page docs/results/pipeline-speed.md"


def main(
    records: Annotated[
        int, typer.Option(min=10_000, help="Records of a topic; of the large ones a fifth.")
    ] = 2_000_000,
    rounds: Annotated[int, typer.Option(min=5, help="Counted passes of each reader.")] = 7,
    seconds: Annotated[int, typer.Option(min=5, help="How long a stream runs in each round.")] = 20,
    page: Annotated[Path | None, typer.Option(metavar="FILE", help="Write the page to this file.")] = None,
) -> None:
    """Measure batch reads and micro-batches; takes about fifteen minutes."""
    load_average = os.getloadavg()[0]
    chooser = random.Random(1)
    spark_place = {min(os.sched_getaffinity(0))}
    with pinned_broker() as address, Client(settings_of({"bootstrap.servers": address})) as client:
        topics = [
            fill(client, f"t{number}", shape, int(records * shape.record_share))
            for number, shape in enumerate(reading.TOPICS)
        ]
        with session(1, spark_place) as spark:
            passes = reading.measure(spark, address, topics, rounds, chooser)
        create(client, "steady")
        with session(2, set(range(os.cpu_count() or 1))) as spark:
            durations = micro_batches.measure(spark, address, "steady", rounds, seconds, chooser)
    shapes = {
        topic.name: shape.name.partition(", batches")[0] for topic, shape in zip(topics, reading.TOPICS, strict=True)
    }
    lines = [*_head(load_average, rounds)]
    for topic in topics:
        lines += _reading_table(topic, shapes[topic.name], passes[topic.name])
    lines += _micro_batch_table(durations, seconds)
    text = "\n".join(lines) + "\n"
    sys.stdout.write(text)
    if page is not None:
        page.write_text(text, "utf-8")


def _head(load_average: float, rounds: int) -> list[str]:
    facts = collect()
    return f"""\
# Topics through Spark, beside Spark's Kafka connector

Measured on {datetime.now(UTC):%Y-%m-%d}, {facts.cpu_model}, {plural(os.cpu_count() or 1, "processor")}, load average
{load_average:.1f} before the first pass; PySpark {metadata.version("pyspark")}, connector 4.2.0. Medians of
{plural(rounds, "round")}; readers take turns in a random order. All of it again:

```
{_COMMAND}
```

`java, tuned` has `kafka.max.poll.records=20000` and `kafka.max.partition.fetch.bytes=4194304`. CPU is that of Spark's
JVM and its Python workers. A ratio is Highwater's speed divided by the connector's, with its 95 % interval.

## Batch reads on one processor
""".splitlines()


def _reading_table(topic: Topic, shape: str, passes: Mapping[str, Sequence[Pass]]) -> list[str]:
    lines = [
        f"### {shape}: {topic.count:,} records",
        "",
        "| reader | records/s | values | records per CPU second | ratio to java | to java, tuned | to that, by CPU |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, taken in passes.items():
        wall_s = median(each.wall_s for each in taken)
        cpu_s = median(each.cpu_s for each in taken)
        ratios = ["", "", ""]
        if name in (OURS, OURS_HEADERS):
            by_wall = [
                _ratio([each.wall_s for each in passes[java]], [each.wall_s for each in taken])
                for java in (JAVA, JAVA_TUNED)
            ]
            by_cpu = _ratio([each.cpu_s for each in passes[JAVA_TUNED]], [each.cpu_s for each in taken])
            ratios = [*by_wall, f"{by_cpu} (tuned)"]
        values = f"{size_text(topic.value_bytes / wall_s)}/s" if name != OURS_HEADERS else "not read"
        cells = [
            name,
            rate_text(topic.count / wall_s),
            values,
            rate_text(topic.count / cpu_s).removesuffix("/s"),
            *ratios,
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return [*lines, ""]


def _micro_batch_table(durations_ms: Mapping[str, Sequence[int]], seconds: int) -> list[str]:
    lines = f"""\
## Micro-batches

{micro_batches.RATE_PER_S} records of 100 B per second into the sink `noop`, local[2], default trigger, the checkpoint
on the same disk, {seconds} s in each round.

| format | p50 | p95 | micro-batches |
|---|---|---|---|
""".splitlines()
    for name, found in durations_ms.items():
        p50, p95 = (duration_ns_text(_percentile(found, share) * _NS_PER_MS) for share in (0.5, 0.95))
        lines.append(f"| {name} | {p50} | {p95} | {len(found)} |")
    kafka, ours = (_percentile(durations_ms[name], 0.5) for name in micro_batches.FORMATS)
    return [*lines, "", f"The difference of the two p50 is {ours - kafka:+d} ms."]


def _percentile(values: Sequence[int], share: float) -> int:
    return sorted(values)[min(int(len(values) * share), len(values) - 1)]


def _ratio(base: Sequence[float], head: Sequence[float]) -> str:
    """Of speeds: how many times as fast `head` is, which is the ratio of the times turned around."""
    found = paired_ratio_ci(head, base)
    assert found is not None, "every pass takes time"
    low, high = found.interval or (found.ratio, found.ratio)
    return f"{found.ratio:.2f} ({low:.2f} to {high:.2f})"


if __name__ == "__main__":
    typer.run(main)
