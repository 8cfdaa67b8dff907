"""How fast whole batches are written to a topic: encoder and sender alone, and through Spark."""

from __future__ import annotations

import os
import random
import signal
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession

from highwater.pipeline.kafka.client import Client
from highwater.pipeline.sink.batch_transaction import TransactionalSink
from tools.pipeline_speed.passes import Pass, in_turns
from tools.pipeline_speed.records import create, encode_all, produce, rows_of, write_all

VALUE_BYTES: Final = 100
ENCODE, WRITE, LIBRDKAFKA = "encode", "encode and send", "librdkafka"
WHOLE_BATCH, HIGHWATER, JAVA = "highwater, one transaction", "highwater, at least once", "java"


def measure_alone(
    client: Client, address: str, records: int, rounds: int, chooser: random.Random
) -> dict[str, list[Pass]]:
    """Writer → a pass for each round, from Arrow in memory until the broker has acknowledged the last batch."""
    create(client, "alone")
    batches = rows_of(VALUE_BYTES, records)
    return in_turns(
        {
            ENCODE: partial(encode_all, batches),
            WRITE: partial(write_all, client, "alone", batches),
            LIBRDKAFKA: partial(produce, address, "alone", batches),
        },
        rounds,
        chooser,
    )


def measure_in_spark(
    spark: SparkSession, client: Client, address: str, records: int, rounds: int, chooser: random.Random
) -> dict[str, list[Pass]]:
    """Writer → a pass for each round, from a DataFrame of one partition that Spark has in memory."""
    create(client, "spark")
    frame = _values(spark, records).persist(StorageLevel.MEMORY_ONLY)
    assert frame.count() == records
    sink = TransactionalSink(address, "pipeline-speed", "spark")
    try:
        writers: dict[str, Callable[[], object]] = {
            WHOLE_BATCH: lambda: sink.append(frame),
            HIGHWATER: lambda: _save(frame, "highwater", address),
            JAVA: lambda: _save(frame, "kafka", address),
        }
        return in_turns(writers, rounds, chooser)
    finally:
        sink.close()
        frame.unpersist()


def measure_kills(spark: SparkSession, client: Client, address: str, records: int, rounds: int) -> list[float]:
    """Seconds from SIGKILL to a Python worker, behind its last row, to the commit of the same batch tried again."""
    create(client, "killed")
    spark.sparkContext.setLogLevel("OFF")  # what is killed on purpose is no news
    sink = TransactionalSink(address, "pipeline-speed-killed", "killed")
    found = []
    try:
        for _ in range(rounds):
            with tempfile.TemporaryDirectory() as folder:
                moment = Path(folder) / "moment"
                sink.append(_values(spark, records).mapInArrow(_KillOnce(str(moment)), "value binary"))
                found.append(time.time() - float(moment.read_text("ascii")))
    finally:
        sink.close()
    return found


@dataclass(frozen=True)
class _KillOnce:
    """Ends its process after the rows, unless the file says that this has happened."""

    moment: str

    def __call__(self, batches: Iterator[Any]) -> Iterator[Any]:
        yield from batches
        if not (path := Path(self.moment)).exists():
            path.write_text(str(time.time()), "ascii")
            os.kill(os.getpid(), signal.SIGKILL)


def _values(spark: SparkSession, records: int) -> DataFrame:
    text = f"lpad(string(id), {VALUE_BYTES}, 'v')"
    return spark.range(0, records, numPartitions=1).selectExpr(f"cast({text} as binary) as value")


def _save(frame: DataFrame, form: str, address: str) -> None:
    options = {"kafka.bootstrap.servers": address, "topic": "spark"}
    frame.write.format(form).options(**options).mode("append").save()
