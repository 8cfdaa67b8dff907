"""Reads the same topics with Spark's connector and with our source in one session, and tells every difference."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from highwater.kafka.requests.broker_error import BrokerError
from highwater.pipeline.kafka.client import Client
from highwater.pipeline.kafka.model import CommittedOffset
from highwater.pipeline.kafka.settings import settings_of
from highwater.pipeline.source import register
from tests.compat.spark_connector.jars import connector_class_path
from tests.compat.spark_connector.parity_topics import KINDS, OPEN, STEP_MS, TIME_MS, made
from tests.pipeline.kafka.brokers import bootstrap_of
from tests.pipeline.source.topics import Topics, by_offset
from tests.pipeline.spark_session import spark_session

Row = dict[str, Any]
Options = dict[str, str]

FORMATS: Final = ("kafka", "highwater")
_TIMEOUT_S: Final = 300
_EVERY_KIND: Final = {"subscribe": ",".join([*KINDS, OPEN])}
_COMMITTED: Final = {"kafka.isolation.level": "read_committed"}


def _offsets(topic: str, **by_partition: int) -> str:
    return json.dumps({topic: {name.removeprefix("p"): offset for name, offset in by_partition.items()}})


BATCHES: Final[tuple[Options, ...]] = (
    _EVERY_KIND,
    {**_EVERY_KIND, **_COMMITTED, "includeHeaders": "true"},
    {**_EVERY_KIND, "includeHeaders": "true", "minPartitions": "60"},
    {**_EVERY_KIND, "maxRecordsPerPartition": "97", **_COMMITTED},
    {"subscribePattern": "(plain|times|codecs)", "minPartitions": "11", "maxRecordsPerPartition": "40"},
    {"subscribePattern": "no such topic.*"},
    {"assign": '{"plain":[0,2],"times":[1]}'},
    {"subscribe": "plain", "startingOffsets": "earliest", "endingOffsets": "latest"},
    {"subscribe": "plain", "startingOffsets": _offsets("plain", p0=7, p1=-2, p2=299)},
    {"subscribe": "plain", "endingOffsets": _offsets("plain", p0=0, p1=-1, p2=31)},
    {
        "subscribe": "plain",
        "startingOffsets": _offsets("plain", p0=5, p1=6, p2=7),
        "endingOffsets": _offsets("plain", p0=5, p1=60, p2=70),
    },
    {
        "subscribe": "compacted",
        "startingOffsets": _offsets("compacted", p0=3),
        "endingOffsets": _offsets("compacted", p0=39_990),
    },
    {"subscribe": "transactions", **_COMMITTED, "startingOffsets": _offsets("transactions", p0=9, p1=30)},
    {"subscribe": "times", "startingTimestamp": str(TIME_MS + 60 * STEP_MS)},
    {"subscribe": "times", "startingTimestamp": str(TIME_MS + 60 * STEP_MS + 1)},
    {"subscribe": "times", "endingTimestamp": str(TIME_MS + 100 * STEP_MS)},
    {"subscribe": "times", "endingTimestamp": str(TIME_MS + 10_000 * STEP_MS)},
    {
        "subscribe": "times",
        "startingTimestamp": str(TIME_MS + 70 * STEP_MS),
        "endingTimestamp": str(TIME_MS + 120 * STEP_MS),
    },
    {
        "subscribe": "times",
        "startingOffsetsByTimestamp": _offsets("times", p0=TIME_MS + 5 * STEP_MS, p1=TIME_MS + 90 * STEP_MS),
        "endingOffsetsByTimestamp": _offsets("times", p0=TIME_MS + 15 * STEP_MS, p1=TIME_MS + 99 * STEP_MS),
    },
    {
        "subscribe": "times",
        "startingTimestamp": str(TIME_MS + 240 * STEP_MS),
        "startingOffsetsByTimestampStrategy": "latest",
    },
    # Of these, the first one counts.
    {
        "subscribe": "times",
        "startingTimestamp": str(TIME_MS),
        "startingOffsetsByTimestamp": _offsets("times", p0=TIME_MS + 90 * STEP_MS, p1=TIME_MS + 90 * STEP_MS),
        "startingOffsets": _offsets("times", p0=100, p1=100),
    },
    {
        "subscribe": "deleted-records",
        "failOnDataLoss": "false",
        "startingOffsets": _offsets("deleted-records", p0=10, p1=10),
    },
    {
        "subscribe": "plain",
        "kafkaConsumer.pollTimeoutMs": "60000",
        "fetchOffset.numRetries": "5",
        "fetchOffset.retryIntervalMs": "10",
    },
    {
        "subscribe": "plain",
        "kafka.max.poll.records": "7",
        "kafka.fetch.max.bytes": "4096",
        "kafka.max.partition.fetch.bytes": "2048",
    },
    {"subscribe": "plain", "groupIdPrefix": "parity", "kafka.session.timeout.ms": "10000", "kafka.client.id": "parity"},
    {"subscribe": "plain", "kafka.group.id": "parity", "kafka.check.crcs": "true", "kafka.metadata.max.age.ms": "1000"},
)
REFUSED: Final[tuple[Options, ...]] = (
    {},
    {"subscribe": " "},
    {"subscribe": "plain", "assign": '{"plain":[0]}'},
    {"subscribePattern": " "},
    {"assign": "plain"},
    {"subscribe": "plain", "startingOffsets": "latest"},
    {"subscribe": "plain", "endingOffsets": "earliest"},
    {"subscribe": "plain", "startingOffsets": _offsets("plain", p0=-1, p1=0, p2=0)},
    {"subscribe": "plain", "endingOffsets": _offsets("plain", p0=-2, p1=0, p2=0)},
    {"subscribe": "plain", "startingOffsets": _offsets("plain", p0=1)},
    {"subscribe": "plain", "startingOffsets": "{"},
    {"subscribe": "times", "startingTimestamp": "today"},
    {"subscribe": "times", "startingTimestamp": str(TIME_MS + 10_000 * STEP_MS)},
    {"subscribe": "plain", "minPartitions": "0"},
    {"subscribe": "plain", "maxRecordsPerPartition": "0"},
    {"subscribe": "plain", "kafka.auto.offset.reset": "latest"},
    {"subscribe": "plain", "kafka.key.deserializer": "x"},
    {"subscribe": "plain", "kafka.value.deserializer": "x"},
    {"subscribe": "plain", "kafka.enable.auto.commit": "true"},
    {"subscribe": "plain", "kafka.interceptor.classes": "x"},
    {"subscribe": "deleted-records", "startingOffsets": _offsets("deleted-records", p0=10, p1=10)},
    {
        "subscribe": "plain",
        "startingOffsets": _offsets("plain", p0=9, p1=9, p2=9),
        "endingOffsets": _offsets("plain", p0=5, p1=5, p2=5),
    },
)
_EARLIEST: Final = {"startingOffsets": "earliest"}
STREAMS: Final[tuple[Options, ...]] = (
    {**_EVERY_KIND, **_EARLIEST, "includeHeaders": "true"},
    {**_EVERY_KIND, **_EARLIEST, **_COMMITTED, "minPartitions": "60"},
    {**_EVERY_KIND, **_EARLIEST, **_COMMITTED, "maxOffsetsPerTrigger": "20000"},
    {"subscribePattern": "(plain|times)", **_EARLIEST, "maxOffsetsPerTrigger": "200", "minOffsetsPerTrigger": "50"},
    {"assign": '{"plain":[1,2]}', "startingOffsets": _offsets("plain", p1=11, p2=-2), "maxRecordsPerPartition": "90"},
    {"subscribe": "times", "startingTimestamp": str(TIME_MS + 60 * STEP_MS), "maxOffsetsPerTrigger": "100"},
    {
        "subscribe": "times",
        "startingOffsetsByTimestamp": _offsets("times", p0=TIME_MS + 5 * STEP_MS, p1=TIME_MS + 90 * STEP_MS),
    },
    {"subscribe": "plain", "startingOffsets": "latest"},
)
STREAMS_REFUSED: Final[tuple[Options, ...]] = (
    {"subscribe": "plain", **_EARLIEST, "endingOffsets": "latest"},
    {"subscribe": "plain", **_EARLIEST, "endingOffsetsByTimestamp": _offsets("plain", p0=1)},
    {"subscribe": "plain", **_EARLIEST, "minOffsetsPerTrigger": "9", "maxOffsetsPerTrigger": "8"},
)


class Parity:
    """The comparisons on one broker: how many there were, and what differed."""

    def __init__(self, spark: SparkSession, topics: Topics, scratch: Path) -> None:
        self._spark = spark
        self._topics = topics
        self._scratch = scratch
        self.comparisons = 0
        self.rows = 0
        self.differences: list[str] = []

    def run(self) -> None:
        for options in BATCHES:
            self._compare("a batch", options, *(self._read(each, options) for each in FORMATS))
        for options in REFUSED:
            self._expect_refusals(options, *(self._is_refused(self._batch, each, options) for each in FORMATS))
        for number, options in enumerate(STREAMS):
            group = f"parity-{number}"
            ours_alone = {"commitOffsets": group}
            java, ours = (
                _Stream(self._spark, self._topics, self._scratch / f"{each}-{number}", each, given)
                for each, given in zip(FORMATS, (options, {**options, **ours_alone}), strict=True)
            )
            for round_ in range(2):
                self._compare(f"a stream, run {round_ + 1}", options, java.run(), ours.run())
                self._check_group(group, ours.end())
                self._topics.produce("plain", 9, partition=1)
        for options in STREAMS_REFUSED:
            self._expect_refusals(options, *(self._is_refused(self._stream, each, options) for each in FORMATS))

    def _compare(self, what: str, options: Options, java: list[Any], ours: list[Any]) -> None:
        self.comparisons += 1
        self.rows += len(java)
        if java == ours:
            return
        first = next((pair for pair in zip(java, ours, strict=False) if pair[0] != pair[1]), None)
        self.differences.append(
            f"{what} with {options}: {len(java)} by the connector, {len(ours)} by ours; the first: {first!s:.600}"
        )

    def _check_group(self, group: str, end: dict[str, Any]) -> None:
        """At the end of a run, the group of our source has no lag."""
        self.comparisons += 1
        found: dict[str, dict[str, int]] = {}
        with Client(settings_of({"bootstrap.servers": self._topics.address})) as client:
            committed = client.committed_offsets(group)
        assert not isinstance(committed, BrokerError), committed
        for (topic, partition), each in sorted(committed.items()):
            assert isinstance(each, CommittedOffset), each
            found.setdefault(topic, {})[str(partition)] = each.offset
        if found != end:
            self.differences.append(f"group {group} has {found}, and its stream ended at {end}")

    def _expect_refusals(self, options: Options, java: bool, ours: bool) -> None:
        self.comparisons += 1
        if java != ours or not java:
            self.differences.append(f"{options}: refused by the connector: {java}, by ours: {ours}")

    def _batch(self, name: str, options: Options) -> DataFrame:
        return self._spark.read.format(name).options(**_with_broker(self._topics, options)).load()

    def _read(self, name: str, options: Options) -> list[Any]:
        """The types of the columns, and then the rows; the error if there is one."""
        try:
            frame = self._batch(name, options)
            return [frame.schema.simpleString(), *by_offset(frame.toArrow().to_pylist())]
        except (PySparkException, Py4JJavaError) as error:
            return [f"{name} fails: {str(error)[-600:]}"]

    def _stream(self, name: str, options: Options) -> DataFrame:
        frame = self._spark.readStream.format(name).options(**_with_broker(self._topics, options)).load()
        query = frame.writeStream.format("noop").trigger(availableNow=True)
        folder = self._scratch / f"refused-{name}-{self.comparisons}"
        query.option("checkpointLocation", str(folder)).start().awaitTermination(_TIMEOUT_S)
        return frame

    def _is_refused(self, make: Any, name: str, options: Options) -> bool:
        try:
            make(name, options).isStreaming or make(name, options).toArrow()
        except (PySparkException, Py4JJavaError, ValueError):
            return True
        return False


class _Stream:
    """A query with a checkpoint that outlives its runs."""

    def __init__(self, spark: SparkSession, topics: Topics, folder: Path, name: str, options: Options) -> None:
        self._spark = spark
        self._folder = folder
        self._name = name
        self._options = _with_broker(topics, options)
        self._batches: list[tuple[int, list[Row]]] = []

    def run(self) -> list[Any]:
        """The batches with rows, each with its number, its end and its count, and then the rows; or the error.

        Of a limited stream the end of the last batch, and all rows.
        """
        self._batches.clear()
        try:
            self._read_what_is_there()
        except (PySparkException, Py4JJavaError) as error:
            return [f"{self._name} fails: {str(error)[:600]}"]
        if "maxOffsetsPerTrigger" in self._options:
            # The connector divides a limit by offsets, and our source by time: the batches differ, not the rows.
            return [self.end(), *by_offset(row for _, rows in self._batches for row in rows)]
        return [
            [(number, self._end(number), len(rows)) for number, rows in self._batches],
            *(row for _, rows in self._batches for row in rows),
        ]

    def _read_what_is_there(self) -> None:
        frame = self._spark.readStream.format(self._name).options(**self._options).load()
        writer = frame.writeStream.foreachBatch(self._take).option("checkpointLocation", str(self._folder))
        query = writer.trigger(availableNow=True).start()
        try:
            assert query.awaitTermination(_TIMEOUT_S), f"{self._name} with {self._options} does not end"
        finally:
            query.stop()

    def _take(self, frame: DataFrame, number: int) -> None:
        if rows := by_offset(frame.toArrow().to_pylist()):
            self._batches.append((number, rows))

    def end(self) -> dict[str, Any]:
        """Of the last batch, with or without rows; empty before the first one."""
        batches = [int(path.name) for path in self._folder.glob("commits/*") if path.name.isdecimal()]
        return self._end(max(batches)) if batches else {}

    def _end(self, batch: int) -> dict[str, Any]:
        """From the checkpoint; ours has the ids of topics as well."""
        offsets = json.loads((self._folder / "offsets" / str(batch)).read_text().splitlines()[2])
        return {topic: each for topic, each in offsets.items() if not topic.startswith("#")}


def _with_broker(topics: Topics, options: Mapping[str, str]) -> Options:
    return {"kafka.bootstrap.servers": topics.address, **options}


def compare_on(system: str, scratch: Path) -> str:
    """Compare on one kind of broker. Prints how much was compared; returns the differences, empty for none."""
    jars = ",".join(map(str, connector_class_path()))
    for folder in ("broker", "spark"):
        (scratch / folder).mkdir()
    with (
        bootstrap_of(system, scratch / "broker") as bootstrap,
        spark_session(scratch / "spark", spark__jars=jars, spark__ui__showConsoleProgress="false") as spark,
    ):
        register(spark)
        topics = Topics(bootstrap)
        with made(topics):
            parity = Parity(spark, topics, scratch)
            parity.run()
    counts = f"{parity.comparisons} comparisons with {parity.rows} rows, {len(parity.differences)} differences"
    sys.stdout.write(f"parity on {system}: {len(KINDS) + 1} kinds of topic, {counts}\n")
    return "\n".join(parity.differences)
