"""Measures sources and sinks of pipelines beside what others use, and writes one page.

    python -m tools.pipeline_speed [--page docs/results/pipeline-speed.md] [--only databases]

Both formats are in one session of Spark, on one processor; the broker of this checkout runs on the other. Readers and
writers take turns in a new order in each round, so that what drifts on the host is not charged to one of them.
"""

from __future__ import annotations

import os
import random
import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Final

import typer

from highwater.pipeline.kafka.client import Client
from highwater.pipeline.kafka.settings import settings_of
from tools.pipeline_speed import databases, latency, micro_batches, page, reading, topics
from tools.pipeline_speed.records import create, fill, pinned_broker
from tools.pipeline_speed.session import session

_COMMAND: Final = "python -m tools.pipeline_speed"
_SHARE_OF_WRITES: Final = 0.25
"""Of the number of records that was asked for: writers are slower."""
_SHARE_OF_KILLS: Final = 0.05


class Part(StrEnum):
    """What can be measured alone."""

    READING = "reading"
    MICRO_BATCHES = "micro_batches"
    LATENCY = "latency"
    DATABASES = "databases"
    TOPICS = "topics"


def main(
    records: Annotated[
        int, typer.Option(min=10_000, help="Records of a topic; of the large ones a fifth, to write a quarter.")
    ] = 2_000_000,
    rounds: Annotated[int, typer.Option(min=5, help="Counted passes of each reader and writer.")] = 7,
    seconds: Annotated[int, typer.Option(min=5, help="How long a stream runs in each round.")] = 20,
    only: Annotated[list[Part] | None, typer.Option(help="Measure this part; more than once for several.")] = None,
    page_file: Annotated[
        Path | None, typer.Option("--page", metavar="FILE", help="Write the page to this file.")
    ] = None,
) -> None:
    """Measure reads, micro-batches, latency, databases and topics; takes about half an hour."""
    parts = list(Part) if not only else [each for each in Part if each in only]
    options = [
        *([] if records == 2_000_000 else ["--records", str(records)]),
        *([] if rounds == 7 else ["--rounds", str(rounds)]),
        *([] if seconds == 20 else ["--seconds", str(seconds)]),
        *(["--only", *" --only ".join(parts).split()] if only else []),
        *(["--page", str(page_file)] if page_file else []),
    ]
    conditions = page.conditions(os.getloadavg()[0], rounds, " ".join([_COMMAND, *options]))
    chooser = random.Random(1)
    measures = {
        Part.READING: lambda: _reading(records, rounds, chooser),
        Part.MICRO_BATCHES: lambda: _micro_batches(rounds, seconds, chooser),
        Part.LATENCY: lambda: _latency(rounds, seconds, chooser),
        Part.DATABASES: lambda: _databases(int(records * _SHARE_OF_WRITES), rounds, chooser),
        Part.TOPICS: lambda: _topics(records, rounds, chooser),
    }
    sections: list[page.Section] = []
    for part in parts:
        sections.append(measures[part]())
        sys.stdout.write("\n".join(sections[-1].lines) + "\n")
        sys.stdout.flush()
        if page_file is not None:
            page_file.write_text("\n".join(page.whole(sections, conditions)) + "\n", "utf-8")
    sys.stdout.write("\n".join([*conditions, "", *(each for section in sections for each in section.answers)]) + "\n")


def _reading(records: int, rounds: int, chooser: random.Random) -> page.Section:
    with pinned_broker() as address, Client(settings_of({"bootstrap.servers": address})) as client:
        filled = [
            fill(client, f"t{number}", shape, int(records * shape.record_share))
            for number, shape in enumerate(reading.TOPICS)
        ]
        with session(1, _first_processor()) as spark:
            passes = reading.measure(spark, address, filled, rounds, chooser)
    return page.reading(
        [(topic, shape.name, passes[topic.name]) for topic, shape in zip(filled, reading.TOPICS, strict=True)]
    )


def _micro_batches(rounds: int, seconds: int, chooser: random.Random) -> page.Section:
    with pinned_broker() as address, Client(settings_of({"bootstrap.servers": address})) as client:
        create(client, "steady")
        with session(2, set(range(os.cpu_count() or 1))) as spark:
            streams = micro_batches.measure(spark, address, "steady", rounds, seconds, chooser)
    return page.micro_batch_table(streams, seconds)


def _latency(rounds: int, seconds: int, chooser: random.Random) -> page.Section:
    with (
        pinned_broker() as address,
        Client(settings_of({"bootstrap.servers": address})) as client,
        session(2, set(range(os.cpu_count() or 1))) as spark,
    ):
        found = latency.measure(spark, client, address, rounds, seconds, chooser)
    return page.latency_table(found, seconds)


def _databases(rows: int, rounds: int, chooser: random.Random) -> page.Section:
    return page.database_tables(databases.measure(rows, rounds, chooser), rows)


def _topics(records: int, rounds: int, chooser: random.Random) -> page.Section:
    written = int(records * _SHARE_OF_WRITES)
    with pinned_broker() as address, Client(settings_of({"bootstrap.servers": address})) as client:
        alone = topics.measure_alone(client, address, written, rounds, chooser)
        with session(1, _first_processor()) as spark:
            in_spark = topics.measure_in_spark(spark, client, address, written, rounds, chooser)
            kills_s = topics.measure_kills(spark, client, address, int(records * _SHARE_OF_KILLS), rounds)
    return page.topic_tables(alone, in_spark, kills_s, written)


def _first_processor() -> set[int]:
    return {min(os.sched_getaffinity(0))}


if __name__ == "__main__":
    typer.run(main)
