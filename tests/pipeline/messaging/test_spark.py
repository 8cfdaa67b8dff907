"""Retries and dead letters from Spark: one transaction for each micro-batch."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from highwater.common.package_archive import write_archive
from highwater.pipeline.errors import SettingsError
from highwater.pipeline.messaging import headers
from highwater.pipeline.messaging.delivery import Delivery
from highwater.pipeline.messaging.levels import ROCKETMQ_LEVELS_MS, GroupTopics
from highwater.pipeline.messaging.policy import Backoff, Reject
from highwater.pipeline.messaging.retrying import Retrying
from highwater.pipeline.messaging.spark import RetryingSink, Split, make_topics, split_record
from highwater.pipeline.source.session import FOLDERS
from tests.pipeline.messaging.test_consumer import header, produce
from tests.pipeline.messaging.test_mover import moving
from tests.pipeline.messaging.test_retrying import NOW_MS, record
from tests.pipeline.source.topics import Topics
from tests.waiting import wait_until

BACKOFF = "300ms 600ms"


def handle(delivery: Delivery) -> None:
    value = delivery.value or b""
    if value.startswith(b"bad"):
        raise Reject("no such customer")
    if value.startswith(b"once") and delivery.attempt == 0:
        raise ConnectionError("away")
    delivery.send("bills", value, delivery.key)


def test_a_record_is_split() -> None:
    state = Retrying(
        GroupTopics("orders", "billing"), Backoff.parse(BACKOFF), ROCKETMQ_LEVELS_MS, by_key=False, partition=0
    )
    topics = [
        [each.topic for each in split_record(record(0, b"k", value), handle, state, NOW_MS)]
        for value in (b"fine", b"bad", b"once")
    ]
    assert topics == [["bills"], ["dlq.orders.billing"], ["orders.billing.retry.300ms"]]


def test_a_time_beyond_the_years_of_python_ends_no_query() -> None:
    """A producer that counts microseconds or nanoseconds."""
    split = Split(GroupTopics("orders", "billing"), handle, Backoff.parse(BACKOFF), ROCKETMQ_LEVELS_MS)
    times_us = [None, NOW_MS * 1000, NOW_MS * 1_000_000, 2**63 - 1, -(2**63)]
    rows = pa.RecordBatch.from_pydict(
        {
            "topic": ["orders"] * 5,
            "partition": pa.array([0] * 5, pa.int32()),
            "offset": list(range(5)),
            "timestamp": pa.array(times_us, pa.int64()).cast(pa.timestamp("us", "UTC")),
            "key": [b"k"] * 5,
            "value": [b"fine"] * 5,
            "headers": pa.nulls(5, pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))),
        }
    )
    assert sum(found.num_rows for found in split([rows])) == 5


def test_executors_need_no_kafka_client(tmp_path: Path) -> None:
    archive = write_archive(tmp_path, "archive", FOLDERS)
    code = (
        f"import sys; sys.path.insert(0, {str(archive)!r}); sys.modules['confluent_kafka'] = None; "
        "sys.modules['lark'] = None; import highwater.pipeline.messaging.spark as found; print(found.__file__)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=tmp_path, env={}
    )
    assert str(archive) in done.stdout


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.timeout(300)
def test_micro_batches(spark: SparkSession, topics: Topics, tmp_path: Path) -> None:
    topics.create("orders", 2)
    topics.create("bills", 2)
    make_topics({"bootstrap.servers": topics.address}, "orders", "billing", BACKOFF)
    cluster = {"kafka.bootstrap.servers": topics.address}
    sink = RetryingSink(cluster, "billing-1", "orders", "billing", handle, backoff=BACKOFF)

    def run() -> None:
        options = {**cluster, "subscribe": sink.topics, "startingOffsets": "earliest", "includeHeaders": "true"}
        stream = spark.readStream.format("highwater").options(**options).load()
        query = stream.writeStream.foreachBatch(sink.write).option("checkpointLocation", str(tmp_path / "checkpoint"))
        query.trigger(availableNow=True).start().awaitTermination()

    produce(topics, "orders", *(f"{kind}{number}" for number in range(20) for kind in ("fine", "bad", "once")))
    run()
    assert len(topics.rows("bills", 2, read_committed=True)) == 20
    with moving(topics):
        wait_until(lambda: len(topics.rows("orders.billing.retry", 2, read_committed=True)) == 20, "what is due again")
    run()
    done = sorted(row["value"] for row in topics.rows("bills", 2, read_committed=True))
    assert done == sorted(f"{kind}{number}".encode() for number in range(20) for kind in ("fine", "once"))
    dead = topics.rows("dlq.orders.billing", 2, read_committed=True)
    assert {header(row, headers.DISPOSITION) for row in dead} == {"rejected"}
    assert len(dead) == 20
    with pytest.raises(SettingsError, match="no column headers"):
        sink.write(
            spark.createDataFrame([(b"v",)], "value binary").selectExpr(
                *("'t' topic", "0 partition", "0L offset", "current_timestamp() timestamp", "value key", "value")
            ),
            0,
        )
    sink.close()
