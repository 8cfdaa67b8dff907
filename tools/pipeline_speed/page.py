"""What was measured, as a page: what was found first, then tables, then how it was measured."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib import metadata
from statistics import median
from typing import Final

from highwater.common.units import duration_ns_text, plural, rate_text, ratio_text, significant, size_text
from highwater.results.analysis.statistics import paired_ratio_ci
from highwater.tuning.facts import collect
from tools.pipeline_speed import databases, latency, micro_batches, topics
from tools.pipeline_speed.passes import Pass
from tools.pipeline_speed.reading import JAVA, JAVA_TUNED, OURS, OURS_HEADERS, Reads
from tools.pipeline_speed.records import Topic

_NS_PER_MS: Final = 1_000_000
_NS_PER_S: Final = 1_000_000_000
_BUSY: Final = """
Other programs kept the host busy: wall times and micro-batches say little here, and the columns by CPU count.
"""


@dataclass(frozen=True)
class Section:
    """answers: what was found, a sentence each. lines: the tables, in Markdown."""

    answers: Sequence[str]
    lines: Sequence[str]


def whole(sections: Sequence[Section], conditions: Sequence[str]) -> list[str]:
    answers = [f"- {answer}" for section in sections for answer in section.answers]
    return ["# Speed of pipelines", "", *answers, *(line for each in sections for line in each.lines), *conditions]


def conditions(load_average: float, rounds: int, command: str) -> list[str]:
    facts = collect()
    return f"""
## How it was measured

On {datetime.now(UTC):%Y-%m-%d}, {facts.cpu_model}, {plural(os.cpu_count() or 1, "processor")}, load average
{load_average:.1f} before the first pass; PySpark {metadata.version("pyspark")}, connector 4.2.0. Medians of
{plural(rounds, "round")}; readers and writers take turns in a random order. All of it again:

```
{command}
```

A ratio is Highwater's speed divided by that of the other one, with its 95 % interval. CPU is that of all processes that
take part, except for the broker, which has a processor of its own.
{_BUSY if load_average > (os.cpu_count() or 1) else ""}""".splitlines()


def reading(topics_read: Sequence[tuple[Topic, str, Mapping[str, Reads]]]) -> Section:
    """topics_read: each topic, its name in the page, and its passes by reader."""
    lines = """
## Batch reads on one processor

`java` is Spark's Kafka connector; `java, tuned` has `kafka.max.poll.records=20000` and
`kafka.max.partition.fetch.bytes=4194304`. What a read costs before its first record, and each record more, follow from
the difference to a read of a tenth of the topic.
""".splitlines()
    answers = []
    for topic, shape, reads in topics_read:
        lines += _reading_table(topic, shape, reads)
        java, tuned, ours = (reads[name].whole for name in (JAVA, JAVA_TUNED, OURS))
        answers.append(
            f"Records of {shape} are read at {rate_text(topic.count / median(each.wall_s for each in ours))} on one "
            f"processor: {_by_wall(tuned, ours)} times the speed of Spark's Kafka connector when that is tuned, "
            f"{_by_wall(java, ours)} times with its defaults, and {_by_cpu(tuned, ours)} times the tuned one by CPU."
        )
    return Section(answers, lines)


def _reading_table(topic: Topic, shape: str, reads: Mapping[str, Reads]) -> list[str]:
    titles = ["reader", "records/s", "values", "records per CPU second", "ratio to java", "to java, tuned"]
    titles += ["to that, by CPU", "CPU before the first record", "CPU of a record more", "ratio to java, tuned"]
    lines = [
        "",
        f"### {shape}: {topic.count:,} records",
        "",
        f"| {' | '.join(titles)} |",
        "|---" * len(titles) + "|",
    ]
    passes = {name: each.whole for name, each in reads.items()}
    tuned_ns = reads[JAVA_TUNED].cpu_ns_per_record(topic.count)
    for name, taken in passes.items():
        before_s, more_ns = reads[name].cpu_s_before(topic.count), reads[name].cpu_ns_per_record(topic.count)
        wall_s = median(each.wall_s for each in taken)
        cpu_s = median(each.cpu_s for each in taken)
        ratios = ["", "", ""]
        if name in (OURS, OURS_HEADERS):
            ratios = [_by_wall(passes[java], taken) for java in (JAVA, JAVA_TUNED)]
            ratios.append(_by_cpu(passes[JAVA_TUNED], taken))
        values = f"{size_text(topic.value_bytes / wall_s)}/s" if name != OURS_HEADERS else "not read"
        cells = [
            name,
            rate_text(topic.count / wall_s),
            values,
            rate_text(topic.count / cpu_s).removesuffix("/s"),
            *ratios,
            f"{before_s:.2f} s",
            f"{more_ns:.0f} ns",
            ratio_text(tuned_ns / more_ns) if name in (OURS, OURS_HEADERS) else "",
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def micro_batch_table(streams: Mapping[str, micro_batches.Streams], seconds: int) -> Section:
    lines = f"""
## Micro-batches

{micro_batches.RATE_PER_S} records of 100 B per second into the sink `noop`, local[2], default trigger, the checkpoint
on the same disk, {seconds} s in each round after the first batches. CPU is that of the JVM and its workers for a
micro-batch; phases are medians of Spark's own. The start is from the query's start() to the end of its first batch,
with the processes that it needs.

| format | p50 | p95 | micro-batches | CPU | {" | ".join(micro_batches.PHASES)} | start |
|---|---|---|---|---|{"---|" * len(micro_batches.PHASES)}---|
""".splitlines()
    for name, each in streams.items():
        found, start = each.durations_ms, duration_ns_text(median(each.starts_s) * _NS_PER_S)
        p50, p95 = (duration_ns_text(_percentile(found, share) * _NS_PER_MS) for share in (0.5, 0.95))
        phases = " | ".join(duration_ns_text(median(each.phases_ms[phase]) * _NS_PER_MS) for phase in each.phases_ms)
        cpu = duration_ns_text(median(each.cpu_ms) * _NS_PER_MS)
        lines.append(f"| {name} | {p50} | {p95} | {len(found)} | {cpu} | {phases} | {start} |")
    kafka, ours = (_percentile(streams[name].durations_ms, 0.5) for name in micro_batches.FORMATS)
    answer = f"A micro-batch takes {ours} ms at the median, {ours - kafka:+d} ms beside Spark's Kafka connector."
    return Section([answer], lines)


def latency_table(found_ns: Mapping[str, Sequence[int]], seconds: int) -> Section:
    lines = f"""
## From topic to topic

{latency.RATE_PER_S} records per second from one topic to another, local[2], {seconds} s in each round: from the
producer to a consumer of the second topic. The sinks are at least once; micro-batches have the default trigger.

| way | p50 | p99 | records |
|---|---|---|---|
""".splitlines()
    for name, found in found_ns.items():
        p50, p99 = (duration_ns_text(_percentile(found, share)) for share in (0.5, 0.99))
        lines.append(f"| {name} | {p50} | {p99} | {len(found)} |")
    quick, java, ours = (_percentile(found_ns[way], 0.5) for way in (latency.REAL_TIME, latency.JAVA, latency.OURS))
    sentence = (
        f"At the p50, real time takes {ratio_text(quick / ours)} the time of micro-batches of highwater, and "
        f"{ratio_text(quick / java)} that of kafka's."
    )
    return Section([sentence], lines)


def database_tables(found: Mapping[str, Mapping[str, Sequence[Pass]]], rows: int) -> Section:
    lines = f"""
## Databases

A batch of {rows:,} rows of an int, a bigint, a double and a text of {databases.TEXT_BYTES} bytes, from Arrow in memory
to the end of the commit, over one connection. The sink stores its progress in the same transaction;
`{databases.SINK_WITH_KEY}` replaces rows by the bigint, and all of its rows are new here. The others are the driver
alone, without a progress.
""".splitlines()
    answers = []
    for database, passes in found.items():
        others = [name for name in passes if name not in (databases.SINK, databases.SINK_WITH_KEY)]
        lines += ["", f"### {database}", "", *_writers_table(passes, rows, "rows", others)]
        sink = passes[databases.SINK]
        beside = " and ".join(f"{_by_wall(passes[other], sink)} times the speed of {other}" for other in others)
        speed = rate_text(rows / median(each.wall_s for each in sink)).removesuffix("/s")
        answers.append(f"{database} takes {speed} rows a second: {beside}.")
    return Section(answers, lines)


def topic_tables(
    alone: Mapping[str, Sequence[Pass]], in_spark: Mapping[str, Sequence[Pass]], kills_s: Sequence[float], records: int
) -> Section:
    middle, longest = (duration_ns_text(each * _NS_PER_S) for each in (median(kills_s), max(kills_s)))
    lines = [
        *f"""
## Topics

{records:,} records of {topics.VALUE_BYTES} B into one partition on one processor, from Arrow in memory to the last
acknowledgement. librdkafka makes Python's values out of Arrow's, and calls produce() for each.

""".splitlines(),
        *_writers_table(alone, records, "records", [topics.LIBRDKAFKA]),
        *f"""
Through Spark, from a DataFrame in Spark's memory; `{topics.JAVA}` is Spark's Kafka connector, at least once.

""".splitlines(),
        *_writers_table(in_spark, records, "records", [topics.JAVA]),
        "",
        "A Python worker of the whole-batch sink is killed behind its last row. From SIGKILL to the commit of the same",
        f"batch: {middle} (longest {longest}).",
    ]
    ours = alone[topics.WRITE]
    speed = rate_text(records / median(each.wall_s for each in ours))
    beside = _by_wall(alone[topics.LIBRDKAFKA], ours)
    written = f"Records of {topics.VALUE_BYTES} B go into a topic at {speed} on one processor"
    answers = [
        f"{written}, {beside} times the speed of librdkafka from Python.",
        f"After a killed worker, its batch is committed {middle} later (longest {longest}).",
    ]
    return Section(answers, lines)


def _writers_table(passes: Mapping[str, Sequence[Pass]], count: int, what: str, others: Sequence[str]) -> list[str]:
    """Each writer, and its ratios to these others."""
    titles = ["writer", f"{what}/s", f"{what} per CPU second"]
    titles += [title for other in others for title in (f"ratio to {other}", "to that, by CPU")]
    lines = [f"| {' | '.join(titles)} |", "|---" * len(titles) + "|"]
    for name, taken in passes.items():
        cells = [
            name,
            rate_text(count / median(each.wall_s for each in taken)),
            significant(count / median(each.cpu_s for each in taken)),
        ]
        for other in others:
            base = passes[other]
            cells += ["", ""] if name in others else [_by_wall(base, taken), _by_cpu(base, taken)]
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def _percentile(values: Sequence[int], share: float) -> int:
    return sorted(values)[min(int(len(values) * share), len(values) - 1)]


def _by_wall(base: Sequence[Pass], head: Sequence[Pass]) -> str:
    return _ratio([each.wall_s for each in base], [each.wall_s for each in head])


def _by_cpu(base: Sequence[Pass], head: Sequence[Pass]) -> str:
    return _ratio([each.cpu_s for each in base], [each.cpu_s for each in head])


def _ratio(base: Sequence[float], head: Sequence[float]) -> str:
    """Of speeds: how many times as fast `head` is, which is the ratio of the times turned around."""
    found = paired_ratio_ci(head, base)
    assert found is not None, "every pass takes time"
    low, high = found.interval or (found.ratio, found.ratio)
    return f"{found.ratio:.2f} ({low:.2f} to {high:.2f})"
