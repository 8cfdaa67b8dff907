"""Recipes of the cookbook with the connector: equal rows by both formats, and the recipe in real time."""

from __future__ import annotations

import dataclasses
import json
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name that PySpark's documentation uses

from highwater.common.spark_java import find_spark_java
from highwater.pipeline.run.model import TOPIC_FORMAT, Pipeline
from highwater.pipeline.run.trial import trial_broker
from highwater.pipeline.source import register
from tests.compat.spark_connector.jars import connector_class_path
from tests.pipeline.run.recipes import EXAMPLES, pipeline_of, recipes, run_recipe, sections, shop, table_rows
from tests.pipeline.source.topics import Topics
from tests.pipeline.spark_session import spark_session
from tests.waiting import wait_until

EQUAL: Final = ("Tumbling windows", "Two streams joined", "Messages sent twice", "The biggest")
_REAL_TIME: Final = "In real time"
_JAVA: Final = "kafka"
_DEADLINE_S: Final = 240
_REFUSAL: Final = re.compile(r"STREAMING_REAL_TIME_MODE\.(\w+)")


def compare_recipes(scratch: Path) -> str:
    """Run each recipe of EQUAL with both sources in one session; returns what differs, empty for nothing."""
    wrong = []
    with _session(scratch) as spark, trial_broker(pipeline_of(shop(), None, EXAMPLES).trial) as broker:
        register(spark)
        for recipe in recipes():
            if recipe.title not in EQUAL:
                continue
            rows = {}
            for name, change in ((TOPIC_FORMAT, _as_it_is), (_JAVA, _by_the_connector)):
                folder = scratch / f"{recipe.title} {name}"
                folder.mkdir()
                rows[name] = Counter(run_recipe(recipe, spark, broker, folder, change).rows)
            sys.stdout.write(f"{recipe.title}: {rows[_JAVA].total()} rows by the connector\n")
            if rows[_JAVA] != rows[TOPIC_FORMAT] or not set(recipe.shown) <= rows[_JAVA].keys():
                wrong.append(
                    f"{recipe.title}: {dict(rows[_JAVA])} by the connector, {dict(rows[TOPIC_FORMAT])} by ours"
                )
    return "; ".join(wrong)


def _session(scratch: Path) -> Any:
    jars = ",".join(map(str, connector_class_path()))
    folder = scratch / "spark"
    folder.mkdir()
    return spark_session(folder, spark__jars=jars, spark__ui__showConsoleProgress="false")


def _as_it_is(pipeline: Pipeline) -> Pipeline:
    return pipeline


def _by_the_connector(pipeline: Pipeline) -> Pipeline:
    """Changing the format's name is all: options and columns are the same."""
    sources = {
        name: dataclasses.replace(each, format=_JAVA) if each.format == TOPIC_FORMAT else each
        for name, each in pipeline.sources.items()
    }
    return dataclasses.replace(pipeline, sources=sources)


def run_in_real_time(scratch: Path) -> str:
    """Run the command of the page, and compare what the second topic has with the page; see what the mode refuses."""
    blocks = dict(sections()[_REAL_TIME])
    shown = set(table_rows(blocks["text"]))
    found: list[tuple[str, ...]] = []
    with trial_broker(pipeline_of(shop(), None, EXAMPLES).trial) as broker:
        topics = Topics(broker)
        topics.create("big-orders")
        (scratch / "real_time.py").write_text(blocks["python"])
        with (scratch / "log").open("w") as log:
            command = _with_jars(blocks["sh"].replace("127.0.0.1:9092", broker).split())
            query = subprocess.Popen(command, cwd=scratch, env=_environment(scratch), stdout=log, stderr=log)
            try:

                def has_all() -> bool:
                    assert query.poll() is None, (scratch / "log").read_text()[-2000:]
                    found[:] = [_order(row["value"]) for row in topics.rows("big-orders")]
                    return len(found) >= len(shown)

                wait_until(has_all, "all big orders", within_s=_DEADLINE_S)
            finally:
                query.terminate()
                query.wait(60)
        if set(found) != shown or not shown:
            return f"big-orders has {found}"
        with _session(scratch) as spark:
            register(spark)
            return "; ".join(_what_is_taken(spark, broker, scratch))


def _order(value: bytes) -> tuple[str, ...]:
    order = json.loads(value, parse_float=Decimal)
    return str(order["id"]), order["customer"], f"{order['amount']:.2f}"


def _with_jars(command: list[str]) -> list[str]:
    """The same jars from the cache instead of the network."""
    program, option, coordinates, *rest = command
    _, artifact, version = coordinates.split(":")
    jars = connector_class_path()
    assert option == "--packages", command
    assert f"{artifact}-{version}.jar" in [jar.name for jar in jars], f"{coordinates} is not what the suites run with"
    return [str(Path(sys.executable).parent / program), "--jars", ",".join(map(str, jars)), *rest]


def _environment(scratch: Path) -> dict[str, str]:
    home = str(find_spark_java(os.environ, scratch).home)
    return {**os.environ, "JAVA_HOME": home, "SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable}


def _what_is_taken(spark: SparkSession, broker: str, scratch: Path) -> list[str]:
    """What the page says that real-time mode refuses, and it does not."""
    cluster = {"kafka.bootstrap.servers": broker, "subscribe": "orders", "startingOffsets": "earliest"}

    def read(name: str) -> DataFrame:
        return spark.readStream.format(name).options(**cluster).load()

    same = F.udf(lambda value: value, "binary")

    def to_topic(frame: DataFrame, mode: str) -> Any:
        return frame.writeStream.format(_JAVA).outputMode(mode)

    tries: dict[str, Callable[[], Any]] = {
        "a source in Python": lambda: to_topic(
            spark.readStream.format(TOPIC_FORMAT)
            .options(**cluster, initialOffsetsLocation=str(scratch / "first"))
            .load()
            .select("value"),
            "update",
        ),
        "udf": lambda: to_topic(read(_JAVA).select(same("value").alias("value")), "update"),
        "mapInArrow": lambda: to_topic(
            read(_JAVA).select("value").mapInArrow(lambda batches: batches, "value binary"), "update"
        ),
        "foreachBatch": lambda: read(_JAVA).writeStream.outputMode("update").foreachBatch(lambda frame, number: None),
        "append": lambda: to_topic(read(_JAVA).select("value"), "append"),
        "complete": lambda: to_topic(read(_JAVA).groupBy("value").count().select("value"), "complete"),
    }
    taken = []
    for number, (name, make) in enumerate(tries.items()):
        options = {"kafka.bootstrap.servers": broker, "topic": "big-orders"}
        try:
            writer = make().options(**options, checkpointLocation=str(scratch / f"refused-{number}"))
            query = writer.trigger(realTime="5 seconds").start()
            ended = query.awaitTermination(30)
            query.stop()
            taken.append(f"{name} is taken{' and ended' if ended else ''}")
        except PySparkException as error:
            found = _REFUSAL.search(str(error))
            sys.stdout.write(f"real-time mode refuses {name}: {found[1] if found else error}\n")
            if found is None:
                taken.append(f"{name}: {str(error)[:300]}")
    return taken
