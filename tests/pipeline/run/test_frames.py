"""Frames of flows in a session: mistakes that Spark finds are one line with their place."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from pyspark.sql import SparkSession

from highwater.common.yaml_nodes import parse
from highwater.pipeline.errors import PipelineError, SettingsError
from highwater.pipeline.run.model import Pipeline
from highwater.pipeline.run.parse import parse_pipeline
from highwater.pipeline.run.plan import check_topics
from highwater.pipeline.run.runner import plan_flow
from highwater.pipeline.run.storage import Storage
from tests.broker.running import running_broker
from tests.pipeline.source.topics import Topics

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

FILE = """\
name: test
storage: state
kafka: {bootstrap.servers: 'BROKER'}
sources:
  numbers:
    format: highwater
    options: {subscribe: TOPIC, startingOffsets: earliest}
views:
  first: {sql: SELECT * FROM second}
  second: {sql: SELECT * FROM first}
  halves: {python: 'steps.py:halves'}
flows:
  out:
    FLOW
    sink: {format: SINK}
"""
STEPS = """\
def halves(numbers): return numbers.where("offset % 2 = 0")
def fails(numbers): return 1 / 0
def wrong(number): return number
def nothing(numbers): return None
"""


@pytest.fixture(scope="module")
def topics(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Topics]:
    with running_broker(tmp_path_factory.mktemp("broker") / "log") as broker:
        found = Topics(broker.address)
        found.create("numbers")
        yield found


def pipeline_of(topics: Topics, folder: Path, flow: str, topic: str = "numbers", sink: str = "console") -> Pipeline:
    (folder / "steps.py").write_text(STEPS)
    text = FILE.replace("BROKER", topics.address).replace("TOPIC", topic).replace("FLOW", flow).replace("SINK", sink)
    return parse_pipeline(parse(yaml, text, "test.yaml", "name: orders"), {}, folder, None)


@pytest.mark.parametrize(
    ("flow", "message"),
    [
        ("sql: SELECT valeu FROM numbers", r"test\.yaml:13: flows\.out: \[UNRESOLVED_COLUMN.*`valeu`.*`value`"),
        (
            "sql: SELECT * FROM number",
            r"yaml:13: flows\.out: there is no source or view number; did you mean numbers",
        ),
        ("sql: SELECT * FORM numbers", r"test\.yaml:13: flows\.out: \[PARSE_SYNTAX_ERROR\]"),
        ("sql: SELECT 1 AS one", r"test\.yaml:13: flows\.out: reads no stream; set 'read: stream'"),
        ("from: first", r"test\.yaml:9: views\.first: views need each other: first -> second -> first"),
        ("python: steps.py:fails", r"test\.yaml:13: flows\.out: ZeroDivisionError: division by zero"),
        (
            "python: steps.py:wrong",
            r"out: wrong has a parameter number, and there is no .*; did you mean numbers",
        ),
        ("python: steps.py:nothing", r"flows\.out: nothing returned NoneType, and a step returns a DataFrame"),
        ("python: steps.py:none", r"flows\.out: .*steps\.py has no function none"),
    ],
)
def test_what_spark_finds_is_one_line(
    spark: SparkSession, topics: Topics, tmp_path: Path, flow: str, message: str
) -> None:
    pipeline = pipeline_of(topics, tmp_path, flow)
    with pytest.raises(SettingsError) as raised:
        plan_flow(spark, pipeline, pipeline.flows["out"], Storage(tmp_path / "state"))
    assert re.search(message, str(raised.value)), str(raised.value)
    assert "\n" not in str(raised.value)
    assert not (tmp_path / "state").exists()


def test_a_flow_has_the_views_that_it_needs_and_no_others(spark: SparkSession, topics: Topics, tmp_path: Path) -> None:
    pipeline = pipeline_of(topics, tmp_path, "sql: SELECT offset FROM halves")
    planned = plan_flow(spark, pipeline, pipeline.flows["out"], Storage(tmp_path / "state"))
    assert planned.used == ("numbers", "halves")
    assert planned.frame.columns == ["offset"]


@pytest.mark.parametrize(
    ("topic", "sink", "message"),
    [
        ("none", "console", "test.yaml:5: sources.numbers: topic none does not exist"),
        ("numbers", "highwater, options: {topic: none}", "flows.out.sink: topic none does not exist; create it first"),
    ],
)
def test_a_topic_that_is_missing_is_named_with_its_line(
    spark: SparkSession, topics: Topics, tmp_path: Path, topic: str, sink: str, message: str
) -> None:
    pipeline = pipeline_of(topics, tmp_path, "from: numbers", topic, sink)
    with pytest.raises(PipelineError, match=re.escape(message)):
        check_topics(pipeline, pipeline.flows["out"], ("numbers",))
