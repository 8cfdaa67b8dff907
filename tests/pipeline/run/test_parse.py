"""Files of pipelines: what they may say, and that each mistake is one line with its place and the way out."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from highwater.pipeline.errors import SettingsError
from highwater.pipeline.run.document import parse_document
from highwater.pipeline.run.model import Named, Pipeline, PythonFunction, SampleTopic, Sql
from highwater.pipeline.run.parse import parse_pipeline

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
    return parse_pipeline(parse_document(text, "orders.yaml"), environment, folder, trial)


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
        ("format: csv", "format: cvs", "sources.customers.format: 'cvs' is no format of a source; did you mean csv?"),
        ("format: noop", "format: kafka", "flows.drop.sink.format: 'kafka' is no format of a sink; known are console,"),
        ("numRows: 5", "numrows: 5", "flows.keep.sink: option numrows of console is unknown; did you mean numRows?"),
        ("numRows: 5", "numRows: few", "flows.keep.sink: numRows=few is no positive whole number"),
        (
            "from: scored",
            "from: score",
            "orders.yaml:25: flows.keep.from: there is no source or view score; did you mean",
        ),
        ("from: scored", "sql: SELECT 1\n    from: scored", "flows.keep: needs one of from, sql, python, and has 2"),
        ("steps.py:score", "step.py:score", "views.scored.python: there is no file "),
        ("steps.py:score", "steps.py", "views.scored.python: 'steps.py' is not written as FILE.py:FUNCTION"),
        ("10 seconds", "10", "flows.keep.trigger: '10' is neither availableNow nor an interval such as '10 seconds'"),
        ("output_mode: update", "output_mode: upsert", "'upsert' is none of append, update, complete"),
        ("storage: state\n", "", "orders.yaml: storage: is missing; it is the folder for checkpoints"),
        ("name: orders", "name: a/b", "orders.yaml:1: name: 'a/b' names folders"),
        ("  big:", "  spark:", "views.spark: a name is used in SQL and in Python"),
        ("  big:", "  orders:", "views.orders: a source has this name already"),
        (
            "${BROKER}",
            "${BROKERS}",
            "orders.yaml:6: kafka.bootstrap.servers: the environment variable BROKERS is not set",
        ),
        (
            "${SECRET}",
            "s3cret",
            "orders.yaml:9: kafka.sasl.jaas.config: a secret does not belong into a file: write ${NAME}",
        ),
        ("SELECT 1 FROM big", "", "flows.drop.sql: has no value"),
        ("    path: customers.csv\n", "", "sources.customers.path: is missing"),
    ],
)
def test_a_mistake_is_one_line_with_its_place(folder: Path, before: str, after: str, message: str) -> None:
    assert before in WHOLE
    with pytest.raises(SettingsError, match=re.escape(message)) as raised:
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
        ("partitions: 2", "partitions: two", "trial.orders.partitions: 'two' is no positive whole number"),
    ],
)
def test_a_mistake_in_a_trial(folder: Path, before: str, after: str, message: str) -> None:
    with pytest.raises(SettingsError, match=re.escape(message)):
        parsed(TRIAL.replace(before, after), folder)


def test_a_url_with_a_password_is_a_secret_too(folder: Path) -> None:
    text = WHOLE.replace("options: {numRows: 5}", "options: {url: 'postgresql://me:pass@host/db'}")
    with pytest.raises(SettingsError, match=r"flows\.keep\.sink\.options\.url: a secret does not belong"):
        parsed(text, folder)


def test_a_dollar_that_is_doubled_stands_for_itself(folder: Path) -> None:
    found = parsed(WHOLE.replace("customers.csv", "$${SECRET}.csv"), folder)
    assert found.sources["customers"].path == str(folder / "${SECRET}.csv")
