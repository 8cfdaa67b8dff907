"""Runs the cases; `make compat SUITES=yarn` runs it. Exit status 1 if a case of `cases.allow` fails."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

import pyspark

from highwater.pipeline.environment.packing import pack
from tests.broker.running import running_broker
from tests.compat.suite import run_cases
from tests.compat.yarn.cluster import SPARK_JARS, yarn_cluster
from tests.pipeline.source.topics import Topics

RECORDS: Final = 300
_STACK: Final = ExitStack()
_TIMEOUT_S: Final = 600
_SMALL: Final = {
    "spark.archives": "environment.tar.gz#environment",
    "spark.driver.memory": "600m",
    "spark.executor.instances": "1",
    "spark.executor.memory": "512m",
    "spark.sql.shuffle.partitions": "1",
    "spark.ui.enabled": "false",
    # Containers start with PySpark's jars where they are: to copy them takes a minute.
    "spark.yarn.jars": f"local:{SPARK_JARS}/*",
}
_DRIVER_HERE: Final = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
_PIPELINE: Final = """\
name: copies
storage: state
kafka: {bootstrap.servers: '${BROKER}'}
sources:
  numbers:
    format: highwater
    options: {subscribe: numbers, startingOffsets: earliest}
views:
  written: {python: 'where.py:with_place'}
flows:
  copy: {from: written, sink: {format: highwater, options: {topic: copied-by-run}}}
"""
_WHERE: Final = """\
from pyspark.sql.functions import udf

@udf("string")
def place(_):
    import numpy
    return numpy.__file__

def with_place(numbers):
    return numbers.select(place("value").alias("key"), "value")
"""
_SCRIPT: Final = """\
import sys
from pyspark.sql import SparkSession
from pyspark.sql.functions import udf
from highwater.pipeline.sink.batch_transaction import Sink
from highwater.pipeline.source import register

bootstrap, topic, checkpoint = sys.argv[1:]
spark = SparkSession.builder.getOrCreate()
register(spark)

@udf("string")
def place(_):
    import numpy
    return numpy.__file__

cluster = {"kafka.bootstrap.servers": bootstrap}
numbers = spark.readStream.format("highwater").options(**cluster, subscribe="numbers", startingOffsets="earliest")
rows = numbers.load().select(place("value").alias("key"), "value")
query = rows.writeStream.foreachBatch(Sink(cluster, transactional_id=topic, topic=topic).write)
query = query.option("checkpointLocation", checkpoint).trigger(availableNow=True).start()
query.awaitTermination()
"""


@dataclass(frozen=True, slots=True)
class Host:
    """folder: where the user works. containers: below it, containers work."""

    folder: Path
    configuration: Path
    containers: Path
    topics: Topics

    def run(self, *command: str | Path, **environment: str) -> None:
        done = subprocess.run(
            list(map(str, command)),
            cwd=self.folder,
            env={
                **{name: value for name, value in os.environ.items() if name != "PYTHONPATH"},
                "BROKER": self.topics.address,
                "HADOOP_CONF_DIR": str(self.configuration),
                "PYSPARK_PYTHON": "./environment/bin/python",
                "PYTHONPATH": str(Path(__file__).parents[3]),
                **environment,
            },
            capture_output=True,
            text=True,
            check=False,
            timeout=_TIMEOUT_S,
        )
        (self.folder / "output.log").write_text(done.stdout + done.stderr)
        errors = [
            line.strip() for line in done.stderr.splitlines() if re.match(r"(\S+\.)?\w*(Error|Exception)\b", line)
        ]
        assert done.returncode == 0, f"exit status {done.returncode}: {errors[-2:]}"

    def check(self, topic: str) -> None:
        """All records are there once, and tasks in containers wrote them, with the packages of the archive."""
        sent, found = (self.topics.rows(name, 2, read_committed=True) for name in ("numbers", topic))
        assert len(sent) == RECORDS
        assert sorted(row["value"] or b"" for row in found) == sorted(row["value"] or b"" for row in sent)
        elsewhere = {row["key"].decode() for row in found if str(self.containers).encode() not in row["key"]}
        assert not elsewhere, f"written with {elsewhere}"


def _settings(more: dict[str, str], flag: str) -> list[str]:
    return [word for name, value in {**_SMALL, **more}.items() for word in (flag, f"{name}={value}")]


def _pipeline_run(host: Host) -> None:
    (host.folder / "pipeline.yaml").write_text(_PIPELINE)
    (host.folder / "where.py").write_text(_WHERE)
    command = (sys.executable, "-m", "highwater", "pipeline", "run", "pipeline.yaml", "--available-now")
    host.run(*command, "--master", "yarn", *_settings(_DRIVER_HERE, "--spark-conf"))
    host.check("copied-by-run")


def _submit(host: Host, mode: str) -> None:
    topic = f"copied-{mode}"
    (host.folder / "script.py").write_text(_SCRIPT)
    submit = (Path(pyspark.__file__).parent / "bin/spark-submit", "--master", "yarn", "--deploy-mode", mode)
    is_here = mode == "client"
    settings = _settings(_DRIVER_HERE if is_here else {}, "--conf")
    driver = {"PYSPARK_DRIVER_PYTHON": sys.executable} if is_here else {}
    checkpoint = host.folder / f"checkpoint-{mode}"
    host.run(*submit, *settings, "script.py", host.topics.address, topic, checkpoint, **driver)
    host.check(topic)


@cache
def _host() -> Host:
    """It starts with the first case."""
    scratch = Path(_STACK.enter_context(tempfile.TemporaryDirectory(prefix="highwater-yarn-")))
    folder = scratch / "user"
    folder.mkdir()
    # The driver in the cluster needs pandas, which Spark asks for.
    pack(folder / "environment", ["pandas"])
    topics = Topics(_STACK.enter_context(running_broker(scratch / "log")).address)
    configuration = _STACK.enter_context(yarn_cluster(scratch / "yarn"))
    for name in ("numbers", "copied-by-run", "copied-client", "copied-cluster"):
        topics.create(name, 2)
    for partition in range(2):
        topics.produce("numbers", RECORDS // 2, partition=partition)
    return Host(folder, configuration, scratch / "yarn", topics)


CASES: Final[dict[str, Callable[[], None]]] = {
    "pipeline-run": lambda: _pipeline_run(_host()),
    "script-with-the-driver-here": lambda: _submit(_host(), "client"),
    "script-with-the-driver-in-the-cluster": lambda: _submit(_host(), "cluster"),
}

if __name__ == "__main__":
    with _STACK:
        sys.exit(run_cases(Path(__file__).parent, CASES, sys.argv[1:]))
