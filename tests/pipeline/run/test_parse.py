"""Files of pipelines: what they may say, and that each mistake is one line with its place and the way out."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from highwater.common.errors import UsageError
from highwater.common.yaml_nodes import parse
from highwater.pipeline.run.model import Named, Pipeline, PythonFunction, SampleTopic, Sql
from highwater.pipeline.run.parse import parse_pipeline
from highwater.pipeline.run.sink_formats import FORMATS, target_of

WHOLE = """\
name: orders
storage: state
configuration:
  spark.sql.shuffle.partitions: 3
kafka:
  bootstrap.servers: ${BROKER}
  security.protocol: SASL_PLAINTEXT
  sasl.mechanism: PLAIN
  sasl.jaas.config: org.apache.kafka.common.security.plain.PlainLoginModule required username="u" password="${SECRET}";
sources:
  orders:
    format: highwater
    options: {subscribe: orders, startingOffsets: earliest, includeHeaders: true}
  customers:
    format: csv
    path: customers.csv
    schema: id INT, name STRING
views:
  big:
    sql: SELECT * FROM orders WHERE length(value) > 10
  scored:
    python: steps.py:score
flows:
  keep:
    from: scored
    output_mode: update
    trigger: 10 seconds
    sink: {format: console, options: {numRows: 5}}
  drop:
    sql: SELECT 1 FROM big
    sink: {format: noop}
"""
ENVIRONMENT = {"BROKER": "127.0.0.1:9092", "SECRET": "s3cret"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "steps.py").write_text("def score(big): return big\n")
    (tmp_path / "orders.txt").write_text("one\n")
    return tmp_path


def parsed(text: str, folder: Path, environment: dict[str, str] = ENVIRONMENT, trial: str | None = None) -> Pipeline:
    return parse_pipeline(parse(yaml, text, "orders.yaml", "name: orders"), environment, folder, trial)


def test_a_file_with_everything(folder: Path) -> None:
    found = parsed(WHOLE, folder)
    assert (found.name, found.storage, found.trial) == ("orders", folder / "state", ())
    assert found.configuration == {"spark.sql.shuffle.partitions": "3"}
    orders, customers = found.sources.values()
    assert orders.is_stream
    assert orders.options["kafka.bootstrap.servers"] == "127.0.0.1:9092"
    assert orders.options["kafka.sasl.jaas.config"].endswith('password="s3cret";')
    assert orders.options["includeHeaders"] == "true"
    assert (customers.is_stream, customers.path) == (False, str(folder / "customers.csv"))
    assert found.views["big"].query == Sql("SELECT * FROM orders WHERE length(value) > 10")
    assert found.views["scored"].query == PythonFunction(folder / "steps.py", "score")
    keep, drop = found.flows.values()
    assert (keep.query, keep.output_mode, keep.trigger) == (Named("scored"), "update", "10 seconds")
    in_our_units = parsed(WHOLE.replace("10 seconds", "1.5min"), folder)
    assert in_our_units.flows["keep"].trigger == "90000 milliseconds"
    assert (drop.output_mode, drop.trigger, drop.sink.format) == ("append", "availableNow", "noop")
    assert drop.origin == "orders.yaml:29"


TRIAL = """\
name: orders
trial:
  orders: {partitions: 2, records: orders.txt}
sources:
  orders: {format: highwater, options: {subscribe: orders}}
flows:
  keep: {from: orders, sink: {format: noop}}
"""


def test_a_trial_has_a_broker_of_its_own_and_keeps_nothing(folder: Path) -> None:
    found = parsed(TRIAL, folder, {}, "127.0.0.1:4711")
    assert found.trial == (SampleTopic("orders", 2, folder / "orders.txt"),)
    assert found.storage is None
    assert found.sources["orders"].options["kafka.bootstrap.servers"] == "127.0.0.1:4711"


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ("sources:", "source:", "orders.yaml:10: source: unknown key; did you mean sources?"),
        (
            "    format: csv",
            "    fromat: csv",
            "orders.yaml:15: sources.customers.fromat: unknown key; did you mean format?",
        ),
        (
            "subscribe: orders, ",
            "subscribe: orders, startingOffset: earliest, ",
            "orders.yaml:13: sources.orders.options: option startingoffset is unknown; did you mean startingOffsets?",
        ),
        (
            "format: csv",
            "format: cvs",
            "sources.customers.format: 'cvs' is not a format of a source; did you mean csv?",
        ),
        (
            "{format: noop}",
            "{format: delta, path: table, create: true}",
            "flows.drop.sink.create: unknown key; known here: format, path, options; what else a sink takes stands",
        ),
        (
            "format: noop",
            "format: kafka",
            "flows.drop.sink.format: 'kafka' is not a format of a sink; known are console,",
        ),
        ("numRows: 5", "numrows: 5", "flows.keep.sink: option numrows of console is unknown; did you mean numRows?"),
        ("numRows: 5", "numRows: few", "flows.keep.sink: numRows=few is not a positive whole number"),
        (
            "from: scored",
            "from: score",
            "orders.yaml:25: flows.keep.from: there is no source or view score; did you mean",
        ),
        ("from: scored", "sql: SELECT 1\n    from: scored", "flows.keep: needs one of from, sql, python, and has 2"),
        ("steps.py:score", "step.py:score", "views.scored.python: there is no file "),
        ("steps.py:score", "steps.py", "views.scored.python: 'steps.py' is not written as FILE.py:FUNCTION"),
        (
            "10 seconds",
            "10",
            "flows.keep.trigger: '10' is neither availableNow nor an interval such as 10s or '10 seconds'",
        ),
        ("storage: state\n", "", "orders.yaml: storage: is missing; it is the folder for checkpoints"),
        ("name: orders", "name: a/b", "orders.yaml:1: name: 'a/b' names folders"),
        ("  big:", "  spark:", "views.spark: a name is used in SQL and in Python"),
        ("  big:", "  orders:", "views.orders: a source has this name already"),
        (
            "${SECRET}",
            "s3cret",
            "orders.yaml:9: kafka.sasl.jaas.config: a secret does not belong into a file: write ${NAME}",
        ),
        ("    path: customers.csv\n", "", "sources.customers.path: is missing"),
    ],
)
def test_a_mistake_is_one_line_with_its_place(folder: Path, before: str, after: str, message: str) -> None:
    assert before in WHOLE
    with pytest.raises(UsageError, match=re.escape(message)) as raised:
        parsed(WHOLE.replace(before, after), folder)
    assert str(raised.value).startswith("orders.yaml")
    assert "\n" not in str(raised.value)
    assert "s3cret" not in str(raised.value)


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ("name: orders", "name: orders\nstorage: state", "storage: a trial keeps nothing"),
        ("name: orders", "name: orders\nkafka: {bootstrap.servers: 'h:1'}", "kafka: a trial has a broker of its own"),
        ("orders.txt", "order.txt", "trial.orders.records: there is no file "),
    ],
)
def test_a_mistake_in_a_trial(folder: Path, before: str, after: str, message: str) -> None:
    with pytest.raises(UsageError, match=re.escape(message)):
        parsed(TRIAL.replace(before, after), folder)


def with_sink(sink: str, folder: Path) -> Pipeline:
    return parsed(WHOLE.replace("{format: noop}", sink), folder)


def promise(sink: str, folder: Path) -> str:
    found = with_sink(sink, folder).flows["drop"].sink
    return FORMATS[found.format].delivery(found.options)


def test_a_sink_of_files_has_a_path_beside_the_pipeline_file(folder: Path) -> None:
    sink = with_sink("{format: parquet, path: out, options: {compression: snappy}}", folder).flows["drop"].sink
    assert sink.options == {"path": str(folder / "out"), "compression": "snappy"}
    assert target_of(sink.format, sink.options) == f"files in {folder / 'out'}"


def test_tables_and_catalogs_are_beside_the_pipeline_file(folder: Path) -> None:
    delta = with_sink("{format: delta, path: out, options: {create: true}}", folder).flows["drop"].sink
    assert delta.options == {"path": str(folder / "out"), "create": "true"}
    assert target_of(delta.format, delta.options) == f"Delta table {folder / 'out'}"
    options = "{table: shop.orders, catalog.uri: 'sqlite:///c.db', catalog.warehouse: w, catalog.name: lake}"
    iceberg = with_sink(f"{{format: iceberg, options: {options}}}", folder).flows["drop"].sink
    assert iceberg.options["catalog.uri"] == f"sqlite:///{folder / 'c.db'}"
    assert iceberg.options["catalog.warehouse"] == str(folder / "w")
    assert target_of(iceberg.format, iceberg.options) == "Iceberg table shop.orders"


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ("topic: t", "exactly once: a batch is one transaction"),
        ("topic: t, delivery: at_least_once", "at least once: after a crash"),
        ("topic: t, Delivery: exactly_once, tasks: 4", "exactly once if the query is deterministic: a task's part"),
        ("topic: t, delivery: exactly_once, tasks: 4, transactionalIdPrefix: mine", "exactly once if"),
    ],
)
def test_what_a_topic_promises_is_as_its_delivery(folder: Path, options: str, text: str) -> None:
    assert promise(f"{{format: highwater, options: {{{options}}}}}", folder).startswith(text)


def test_transactions_of_tasks_are_named_after_the_flow(folder: Path) -> None:
    options = with_sink("{format: highwater, options: {topic: t, delivery: exactly_once, tasks: 4}}", folder)
    assert options.flows["drop"].sink.options["transactionalIdPrefix"] == "orders.drop"


@pytest.mark.parametrize(
    ("sink", "message"),
    [
        ("{format: parquet}", "flows.drop.sink: parquet needs path"),
        ("{format: parquet, options: {path: out}}", "sink.options: path is not one of them; it stands beside format"),
        ("{format: parquet, path: 's3a://bucket/out'}", "s3a://bucket/out: the sink renames folders, which object"),
        (
            "{format: parquet, path: out, options: {compression: snapy}}",
            "compression=snapy is not known; did you mean snappy",
        ),
        ("{format: parquet, path: out, options: {codec: zstd}}", "option codec of parquet is unknown; known are path"),
        ("{format: delta}", "flows.drop.sink: delta needs path"),
        ("{format: delta, path: out, options: {create: maybe}}", "create=maybe is neither true nor false"),
        ("{format: iceberg, options: {table: orders}}", "table=orders is not written as NAMESPACE.TABLE"),
        ("{format: iceberg, options: {table: a.b, uri: 'http://h'}}", "option uri of iceberg is unknown; known are"),
        ("{format: highwater, path: out, options: {topic: t}}", "a topic has no path; set the option topic"),
        ("{format: highwater, options: {topic: t, delivery: twice}}", "delivery=twice is none of at_least_once"),
        (
            "{format: highwater, options: {topic: t, delivery: exactly_once}}",
            "delivery=exactly_once needs tasks=N",
        ),
        (
            "{format: highwater, options: {topic: t, tasks: 4}}",
            "tasks has no meaning without delivery=exactly_once",
        ),
    ],
)
def test_a_mistake_in_a_sink(folder: Path, sink: str, message: str) -> None:
    with pytest.raises(UsageError, match=re.escape(message)) as raised:
        with_sink(sink, folder)
    assert str(raised.value).startswith("orders.yaml:31: flows.drop.sink")


def test_two_flows_do_not_write_files_to_one_folder(folder: Path) -> None:
    text = WHOLE.replace("{format: console, options: {numRows: 5}}", "{format: parquet, path: ./out}")
    with pytest.raises(UsageError, match=r"flows\.drop: flow keep writes files to \S+/out too: give each flow"):
        parsed(text.replace("{format: noop}", "{format: parquet, path: out}"), folder)


@pytest.mark.parametrize(
    ("given", "read"),
    [
        ("group:orders.keep", "group:orders.keep"),
        ("parquet:out", "parquet:FOLDER/out"),
        ("parquet:/srv/out", "parquet:/srv/out"),
        ("delta:out#orders.keep", "delta:FOLDER/out#orders.keep"),
        ("sqlite:shop.db#orders.keep", "sqlite:FOLDER/shop.db#orders.keep"),
        ("postgresql://me@host/shop#orders.keep", "postgresql://me@host/shop#orders.keep"),
    ],
)
def test_where_a_stream_goes_on_is_beside_the_pipeline_file_too(folder: Path, given: str, read: str) -> None:
    found = parsed(WHOLE.replace("startingOffsets: earliest", f"resumeFrom: '{given}'"), folder)
    assert found.sources["orders"].options["resumeFrom"] == read.replace("FOLDER", str(folder))
