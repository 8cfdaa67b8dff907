"""The Parquet sink in a query of Spark: whole batches, replays, a new checkpoint, other readers, wrong uses."""

from __future__ import annotations

import shutil
from pathlib import Path

import duckdb
import pytest
from pyarrow import dataset
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from highwater.pipeline.errors import SettingsError
from highwater.pipeline.files.batches import finished_files, last_stored
from highwater.pipeline.files.parquet import ParquetSink
from highwater.pipeline.kafka.client import Client
from highwater.pipeline.kafka.settings import settings_of
from highwater.pipeline.progress.batch import ProgressError
from highwater.pipeline.resume import resume_offsets
from tests.pipeline.queries import forget_last_commit, orders, run
from tests.pipeline.source.topics import Topics


@pytest.mark.spark
def test_every_record_once(spark: SparkSession, topics: Topics, tmp_path: Path) -> None:
    topics.create("once", 2)
    topics.produce("once", 60)
    topics.produce("once", 40, partition=1)
    folder, checkpoint = tmp_path / "out", tmp_path / "checkpoint"
    run(orders(spark, topics, "once"), checkpoint, ParquetSink(folder).write)
    before = finished_files(folder)
    forget_last_commit(checkpoint)
    (folder / "_writing").mkdir(exist_ok=True)
    (folder / "_writing/part-left-by-a-kill.parquet").touch()
    topics.produce("once", 5)
    run(orders(spark, topics, "once"), checkpoint, ParquetSink(folder).write)
    assert finished_files(folder)[: len(before)] == before, "the replay was written again"

    # The checkpoint is gone: a new query begins where the folder ends, and nowhere else.
    shutil.rmtree(checkpoint)
    topics.produce("once", 7)
    with pytest.raises(StreamingQueryException, match="begin there with resumeFrom at the source"):
        run(orders(spark, topics, "once"), tmp_path / "wrong", ParquetSink(folder).write)
    with Client(settings_of({"kafka.bootstrap.servers": topics.address})) as client:
        offsets = resume_offsets(f"parquet:{folder}", client)
    run(orders(spark, topics, "once", offsets), checkpoint, ParquetSink(folder).write)

    files = finished_files(folder)
    expected = sorted([(0, offset) for offset in range(72)] + [(1, offset) for offset in range(40)])
    table = dataset.dataset(files).to_table(["partition", "offset"])
    assert sorted(zip(*table.to_pydict().values(), strict=True)) == expected
    assert duckdb.read_parquet(files).aggregate("count(*)").fetchall() == [(112,)]
    assert duckdb.read_parquet(f"{folder}/query=*/batch=*/*.parquet").aggregate("count(*)").fetchall() == [(112,)]
    assert sorted(map(tuple, spark.read.parquet(*files).select("partition", "offset").collect())) == expected
    whole = spark.read.parquet(str(folder))
    assert whole.count() == 112
    assert {"query", "batch"} <= set(whole.columns)
    assert not list((folder / "_writing").iterdir())


@pytest.mark.spark
def test_a_batch_that_fails(spark: SparkSession, topics: Topics, tmp_path: Path) -> None:
    topics.create("failing")
    topics.produce("failing", 10)
    frame = orders(spark, topics, "failing").selectExpr("if(offset = 7, raise_error('bad'), offset) as offset")
    with pytest.raises(StreamingQueryException, match="bad"):
        run(frame, tmp_path / "checkpoint", ParquetSink(tmp_path / "out").write)
    assert finished_files(tmp_path / "out") == []
    assert last_stored(tmp_path / "out") is None


def test_wrong_folders(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"s3a://bucket/x: the sink renames folders"):
        ParquetSink("s3a://bucket/x")
    with pytest.raises(SettingsError, match="compression=zst is not known"):
        ParquetSink(tmp_path, compression="zst")
    with pytest.raises(SettingsError, match="there is no such folder"):
        finished_files(tmp_path / "none")
    folder = tmp_path / "query=a/batch=0"
    folder.mkdir(parents=True)
    assert last_stored(tmp_path) is None
    (folder / "_SUCCESS").touch()
    with pytest.raises(ProgressError, match="_SUCCESS is damaged"):
        last_stored(tmp_path)
