"""The options of sinks, and the columns that they take."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql.types import BinaryType, DataType, IntegerType, MapType, StringType, StructField, StructType

from highwater.common.package_archive import write_archive
from highwater.kafka.records.batch import Codec
from highwater.pipeline.errors import DataLossError, SettingsError
from highwater.pipeline.sink.batch_transaction import TransactionalSink
from highwater.pipeline.sink.columns import written_columns
from highwater.pipeline.sink.errors import SinkError, of_job
from highwater.pipeline.sink.options import read_sink_options
from highwater.pipeline.source.session import FOLDERS

SERVERS = {"kafka.bootstrap.servers": "127.0.0.1:9092"}
ONCE = {"delivery": "exactly_once", "transactionalIdPrefix": "p", "topic": "t", "tasks": "2"}


def test_what_is_given_is_read() -> None:
    given = {**SERVERS, **ONCE, "kafka.compression.type": "zstd", "KAFKA.batch.size": "1000", "kafka.acks": "all"}
    found = read_sink_options({**given, "checkpointLocation": "/c", "kafka.transaction.timeout.ms": "5000"})
    assert found.settings.bootstrap_servers == (("127.0.0.1", 9092),)
    assert (found.topic, found.codec, found.batch_bytes, found.transaction_timeout_ms) == ("t", Codec.ZSTD, 1000, 5000)
    assert (found.delivery, found.transactional_id_prefix, found.tasks) == ("exactly_once", "p", 2)


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"topics": "t"}, "option topics is unknown; did you mean topic?"),
        (
            {"kafka.compresion.type": "lz4"},
            "option kafka.compresion.type is unknown; did you mean kafka.compression.type?",
        ),
        ({"kafka.compression.type": "lz5"}, "kafka.compression.type=lz5 is none of none, gzip, snappy, lz4, zstd"),
        ({"kafka.acks": "1"}, "kafka.acks=1 is not supported: an idempotent producer needs all"),
        ({"kafka.batch.size": "0"}, "kafka.batch.size=0 is not a whole number from 1 to 67108864"),
        ({"subscribe": "t"}, "subscribe is not supported: it is of a source; a sink has topic"),
        ({"delivery": "twice"}, "delivery=twice is none of at_least_once, exactly_once"),
        ({"tasks": "2"}, "tasks has no meaning without delivery=exactly_once"),
        (
            {"delivery": "exactly_once"},
            "delivery=exactly_once needs transactionalIdPrefix=NAME, a name that no other sink has",
        ),
        (
            {"delivery": "exactly_once", "transactionalIdPrefix": "p"},
            "delivery=exactly_once needs the option topic, with which the markers are kept",
        ),
        (
            {**ONCE, "tasks": "none"},
            "tasks=none is not a whole number from 1 to 100000",
        ),
    ],
)
def test_wrong_options_are_one_line(given: dict[str, str], text: str) -> None:
    with pytest.raises(SettingsError) as refused:
        read_sink_options({**SERVERS, **given})
    assert str(refused.value) == text


def test_servers_are_needed() -> None:
    with pytest.raises(SettingsError, match=r"^kafka\.bootstrap\.servers is missing"):
        read_sink_options({"topic": "t"})


def test_tasks_are_needed_for_exactly_once() -> None:
    given = {name: value for name, value in ONCE.items() if name != "tasks"}
    with pytest.raises(SettingsError, match=r"^delivery=exactly_once needs tasks=N, with how many tasks"):
        read_sink_options({**SERVERS, **given})


def test_the_sink_of_batches_needs_a_name_and_a_topic_for_its_marker() -> None:
    with pytest.raises(SettingsError, match=r"^transactional_id is empty"):
        TransactionalSink("127.0.0.1:9092", "", "t")
    with pytest.raises(SettingsError, match=r"^without topic, marker_topic has to name a topic of the cluster"):
        TransactionalSink("127.0.0.1:9092", "id")
    with pytest.raises(SettingsError, match=r"this sink is always exactly once$"):
        TransactionalSink({**SERVERS, **ONCE}, "id", "t")


TEXT, NUMBER, BYTES = StringType(), IntegerType(), BinaryType()


def schema_of(**columns: DataType) -> StructType:
    return StructType([StructField(name, kind) for name, kind in columns.items()])


def test_columns_in_one_order() -> None:
    schema = schema_of(partition=NUMBER, value=TEXT, extra=NUMBER, topic=TEXT, key=BYTES)
    assert written_columns(schema, "") == ("key", "value", "topic", "partition")
    assert written_columns(schema, "t") == ("key", "value", "partition")


@pytest.mark.parametrize(
    ("schema", "topic", "text"),
    [
        (schema_of(key=TEXT), "t", "the rows have no column value"),
        (schema_of(value=TEXT, topic=NUMBER), "", "the column topic is int; cast it to string"),
        (
            schema_of(value=TEXT, headers=MapType(TEXT, BYTES)),
            "t",
            "the column headers is map<string,binary>; cast it to array<struct<key:string,value:binary>>",
        ),
        (schema_of(value=TEXT), "", "no topic is named; set the option topic, or give the rows a column topic"),
    ],
)
def test_columns_that_cannot_be_written(schema: StructType, topic: str, text: str) -> None:
    with pytest.raises(SettingsError) as refused:
        written_columns(schema, topic)
    assert str(refused.value) == text


def test_executors_get_what_the_sinks_import(tmp_path: Path) -> None:
    archive = write_archive(tmp_path, "pipeline", FOLDERS)
    modules = ("batch_tasks", "batch_transaction", "partition_transaction")
    code = f"import sys; sys.path.insert(0, {str(archive)!r})\n" + "".join(
        f"import highwater.pipeline.sink.{name} as found; assert {archive.name!r} in found.__file__\n"
        for name in modules
    )
    subprocess.run([sys.executable, "-P", "-c", code], check=True, cwd=tmp_path, env={"PATH": ""}, timeout=60)


@pytest.mark.parametrize("raised", [DataLossError("orders-0: the log begins at 7"), SinkError("orders does not exist")])
def test_what_the_source_has_lost_is_no_failure_of_the_sink(raised: Exception) -> None:
    """The source reads in the tasks of the sink's job; `highwater pipeline run` has an exit code of its own for it."""
    kind = type(raised)
    line = f"{kind.__module__}.{kind.__name__}: {raised}"
    found = of_job(RuntimeError(f"Job aborted due to stage failure:\n  File worker.py, line 1\n{line}\n\n\tat x.Y"))
    assert (type(found), str(found)) == (kind, str(raised))
