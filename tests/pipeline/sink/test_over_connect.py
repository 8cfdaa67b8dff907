"""Sinks for foreachBatch over Spark Connect: exactly once over a restart and a replay, and errors of one line."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest
from deltalake import DeltaTable
from pyarrow import parquet
from pyiceberg.catalog import load_catalog

from tests.pipeline.source.topics import Topics

PROGRAM: Final = """\
import json, shutil, sys
from pathlib import Path
from pyspark.sql import SparkSession
from highwater.pipeline.database.sink import DatabaseSink
from highwater.pipeline.files.parquet import ParquetSink
from highwater.pipeline.sink.batch_transaction import TransactionalSink
from highwater.pipeline.source import register
from highwater.pipeline.tables.delta import DeltaSink
from highwater.pipeline.tables.iceberg import IcebergSink

address, name, folder = sys.argv[1:]
folder = Path(folder)
spark = SparkSession.builder.remote("local[2]").getOrCreate()
register(spark)
options = {"kafka.bootstrap.servers": address, "subscribe": name, "startingOffsets": "earliest"}
rows = spark.readStream.format("highwater").options(**options, maxOffsetsPerTrigger=6).load()
rows = rows.selectExpr("key", "value")

def run(write, checkpoint):
    query = rows.writeStream.foreachBatch(write).option("checkpointLocation", checkpoint)
    query = query.trigger(availableNow=True).start()
    try:
        query.awaitTermination(120)
    except Exception as error:
        return str(error)
    return ""

def sink(kind, checkpoint):
    if kind == "topic":
        return TransactionalSink(address, "copy-" + name, "copied", checkpoint=checkpoint)
    if kind == "table":
        return DatabaseSink(f"sqlite:{folder}/rows.db", "rows", create=True, checkpoint=checkpoint)
    if kind == "delta":
        return DeltaSink(folder / "delta-table", create=True, checkpoint=checkpoint)
    if kind == "iceberg":
        catalog = {"uri": f"sqlite:///{folder}/catalog.db", "warehouse": f"{folder}/warehouse"}
        return IcebergSink(catalog, "shop.rows", create=True, checkpoint=checkpoint)
    return ParquetSink(folder / "parquet", checkpoint=checkpoint)

errors = []
for kind in ("topic", "table", "delta", "iceberg", "files"):
    checkpoint = str(folder / kind)
    errors.append(run(sink(kind, checkpoint).write, checkpoint))
    last = max(int(path.name) for path in Path(checkpoint, "commits").glob("[0-9]*"))
    # As if the driver had died between the sink's commit and Spark's.
    for path in Path(checkpoint, "commits").glob(f"*{last}*"):
        path.unlink()
    errors.append(run(sink(kind, checkpoint).write, checkpoint))
wrong = [run(sink("files", "").write, str(folder / "none")), run(sink("files", checkpoint).write, str(folder / "new"))]
files = spark.read.parquet(str(folder / "parquet")).count()
print(json.dumps({"errors": errors, "wrong": wrong, "files": files}))
spark.stop()
"""


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.timeout(660)
def test_each_row_is_once_in_topic_table_and_files(topics: Topics, tmp_path: Path) -> None:
    topics.create("connect-orders", 2)
    topics.create("copied")
    topics.produce("connect-orders", 10)
    ran = subprocess.run(
        [sys.executable, "-c", PROGRAM, topics.address, "connect-orders", str(tmp_path)],
        env={**os.environ, "PYSPARK_PYTHON": sys.executable},
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert ran.returncode == 0, ran.stderr[-4000:]
    found = json.loads(ran.stdout.splitlines()[-1])
    assert [error[:500] for error in found["errors"]] == [""] * 10
    assert found["files"] == 10
    with sqlite3.connect(tmp_path / "rows.db") as table:
        assert table.execute("select count(*) from rows").fetchone() == (10,)
    files = DeltaTable(tmp_path / "delta-table").file_uris()
    assert sum(parquet.read_metadata(file).num_rows for file in files) == 10
    catalog = load_catalog("default", uri=f"sqlite:///{tmp_path}/catalog.db")
    assert catalog.load_table("shop.rows").scan().to_arrow().num_rows == 10
    assert len(topics.rows("copied", read_committed=True)) == 10
    without, other = found["wrong"]
    assert "give the sink checkpoint=" in without
    assert "is not the checkpoint of the query that runs batch 0" in other
