"""Two drivers with one checkpoint: one ends with a line that says so, and each row is there once."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from highwater.common.spark_java import find_spark_java
from highwater.pipeline.crash_points import DIRECTORY_VARIABLE, CrashPoint
from highwater.pipeline.drill import kinds
from highwater.pipeline.drill.cluster import DrillCluster
from highwater.pipeline.drill.driver_process import DriverProcess
from highwater.pipeline.drill.lake_tables_output import LakeTableOutput
from highwater.pipeline.drill.ledger import Ledger
from highwater.pipeline.drill.model import Launch, QuerySpec
from highwater.pipeline.drill.outputs import Output, TopicOutput
from highwater.pipeline.drill.parquet_output import ParquetOutput
from highwater.pipeline.drill.stops import Stops
from highwater.pipeline.drill.table_output import TableOutput
from tests.broker.running import running_broker
from tests.waiting import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.spark, pytest.mark.clients, pytest.mark.timeout(900)]

PARTITIONS = 2
RECORDS = 60
DEADLINE_S = 180.0
KINDS = (kinds.SQLITE, kinds.PARQUET, kinds.DELTA, kinds.ICEBERG, kinds.TOPIC_BATCH, kinds.TOPIC_PARTITION)


class Pair:
    """Two drivers, and what they read from."""

    def __init__(self, folder: Path, address: str, stack: ExitStack) -> None:
        self.folder = folder
        self.address = address
        self.cluster = DrillCluster({"bootstrap.servers": address})
        self.stops = Stops(folder / "stops")
        settings = {
            "spark.driver.memory": "700m",
            "spark.ui.enabled": "false",
            "spark.sql.shuffle.partitions": "2",
            "spark.local.dir": str(folder),
            "spark.sql.streaming.pollingDelay": "100ms",
        }
        environment = {
            "JAVA_HOME": str(find_spark_java(os.environ, folder).home),
            "PYSPARK_PYTHON": sys.executable,
            "SPARK_LOCAL_IP": "127.0.0.1",
            DIRECTORY_VARIABLE: str(folder / "stops"),
        }
        self.drivers = []
        for number in (1, 2):
            driver = DriverProcess(Launch("local[2]", settings), environment, folder / f"driver-{number}.log")
            stack.callback(driver.end)
            self.drivers.append(driver)
        for driver in self.drivers:
            driver.ready()

    def output(self, kind: str) -> Output:
        if kind == kinds.SQLITE:
            return TableOutput(kind, f"sqlite:{self.folder / 'out.db'}", "out")
        if kind == kinds.PARQUET:
            return ParquetOutput(kind, self.folder / "out")
        if kind in (kinds.DELTA, kinds.ICEBERG):
            return LakeTableOutput(kind, self.folder / kind)
        return TopicOutput(kind, f"out-{kind}", PARTITIONS, self.cluster)


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    folder = tmp_path_factory.mktemp("pair")
    with (
        running_broker(folder / "log", properties=["group.initial.rebalance.delay.ms=0"]) as broker,
        ExitStack() as stack,
    ):
        yield Pair(folder, broker.address, stack)


@pytest.mark.parametrize("kind", KINDS)
def test_one_checkpoint(pair: Pair, kind: str) -> None:
    topic, ledger = f"in-{kind}", Ledger()
    pair.cluster.create_topic(topic, PARTITIONS)
    output = pair.output(kind)
    source = {
        "kafka.bootstrap.servers": pair.address,
        "subscribe": topic,
        "startingOffsets": "earliest",
        "maxOffsetsPerTrigger": "20",
    }
    query = QuerySpec(source, str(pair.folder / f"checkpoint-{kind}"), output.spec)

    def produce() -> None:
        keys = [f"{kind}-{len(ledger.produced) + number}" for number in range(RECORDS)]
        pair.cluster.produce(topic, PARTITIONS, keys)
        ledger.produced.update(keys)

    produce()
    first, second = pair.drivers
    pair.stops.arm(CrashPoint.SINK_WRITTEN)
    first.start_query(query)
    wait_until(lambda: pair.stops.who_waits(CrashPoint.SINK_WRITTEN) is not None, "the first driver", DEADLINE_S)
    before = len(pair.stops.journal())
    second.start_query(query)
    wait_until(lambda: len(pair.stops.journal()) > before, "the second driver", DEADLINE_S)
    produce()
    pair.stops.release()

    texts: list[str] = []
    running = {first, second}

    def one_is_left() -> bool:
        for driver in list(running):
            if (event := driver.next_event()) is not None:
                texts.append(event["error"])
                running.remove(driver)
        if not running:
            # The second fenced the first, and was too late for Spark's log: whoever restarts a driver goes on.
            first.start_query(query)
            running.add(first)
        return bool(texts) and not ledger.account(output.rows()).lost

    wait_until(one_is_left, "one driver ends, and another writes all", DEADLINE_S)
    produce()
    wait_until(one_is_left, "the one that is left goes on", DEADLINE_S)
    assert ledger.account(output.rows()).balances
    for text in texts:
        # Spark has two lines, for its two kinds of log.
        assert re.search("Multiple streaming (jobs|queries)|another query or driver writes with the", text), text
