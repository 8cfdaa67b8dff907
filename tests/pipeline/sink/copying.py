"""A driver that copies a topic with one of the sinks; tests start it as a process, and kill it.

    python -m tests.pipeline.sink.copying FORM SERVERS SOURCE TARGET CHECKPOINT

The header `batch` of each record that it writes names its micro-batch.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name that PySpark's documentation uses

from highwater.pipeline.sink.batch_transaction import TransactionalSink
from highwater.pipeline.source import register

FORMS: Final = ("batch", "tasks")
TASKS: Final = 2


def main(form: str, servers: str, source: str, target: str, checkpoint: str) -> None:
    builder = SparkSession.builder.master("local[2,2]").config("spark.ui.enabled", "false")
    builder = builder.config("spark.driver.memory", "1g").config("spark.driver.host", "127.0.0.1")
    builder = builder.config("spark.local.dir", str(Path(checkpoint).parent / "spark"))
    spark = builder.config("spark.driver.bindAddress", "127.0.0.1").getOrCreate()
    register(spark)
    cluster = {"kafka.bootstrap.servers": servers}
    reader = spark.readStream.format("highwater").options(**cluster, subscribe=source, startingOffsets="earliest")
    rows = reader.option("maxOffsetsPerTrigger", "100").load().select("key", "value")
    if form == "batch":
        sink = TransactionalSink(cluster, f"{target}-sink", target)

        def write(frame: DataFrame, batch_id: int) -> None:
            sink.write(frame.withColumn("headers", _batch_header(batch_id)), batch_id)

        writer = rows.writeStream.foreachBatch(write)
    else:
        once = {"delivery": "exactly_once", "transactionalIdPrefix": target, "tasks": str(TASKS), "topic": target}
        writer = rows.repartition(TASKS).writeStream.format("highwater").options(**cluster, **once)
    query = writer.option("checkpointLocation", checkpoint).trigger(availableNow=True).start()
    query.awaitTermination()


def _batch_header(batch_id: int) -> Column:
    header = F.struct(F.lit("batch").alias("key"), F.lit(str(batch_id)).cast("binary").alias("value"))
    return F.array(header)


if __name__ == "__main__":
    main(*sys.argv[1:])
