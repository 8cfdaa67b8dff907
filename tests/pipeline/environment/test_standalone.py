"""Spark's own cluster with a secret and TLS; executors have nothing installed, and no network is needed."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pyspark
import pytest

from highwater.pipeline.environment.packing import pack
from tests.pipeline.environment.cluster import PASSWORD, RECORDS, SECRET, Cluster, secured_cluster

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1500)]

SUBMIT = Path(pyspark.__file__).parent / "bin/spark-submit"
SMALL = {"spark.executor.memory": "512m", "spark.driver.memory": "512m", "spark.sql.shuffle.partitions": "1"}
SECRETS = {"spark.authenticate.secret": "${SPARK_SECRET}"} | {
    f"spark.ssl.rpc.{name}": "${STORE_PASSWORD}" for name in ("keyStorePassword", "keyPassword", "trustStorePassword")
}
PIPELINE = """\
name: numbers
storage: state
kafka: {bootstrap.servers: '${BROKER}'}
sources:
  numbers:
    format: highwater
    options: {subscribe: numbers, startingOffsets: earliest}
flows:
  total: {sql: SELECT count(*) AS records FROM numbers, output_mode: complete, sink: {format: console}}
configuration:
"""
SCRIPT = """\
import sys
from pyspark.sql import SparkSession
from highwater.pipeline.source import register

def pythons(_):
    import sys, google.protobuf
    return [sys.executable]

spark = SparkSession.builder.getOrCreate()
register(spark, imports=["google.protobuf"])
numbers = spark.read.format("highwater").option("kafka.bootstrap.servers", sys.argv[1]).option("subscribe", "numbers")
print("records:", numbers.load().count())
print("python of tasks:", *spark.sparkContext.parallelize([0], 1).mapPartitions(pythons).collect())
"""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    scratch = tmp_path_factory.mktemp("cluster")
    with secured_cluster(scratch) as cluster:
        pack(cluster.folder / "environment")
        yield cluster
    shutil.rmtree(scratch / "user")


def run_pipeline(cluster: Cluster, secret: str) -> tuple[int, str, str]:
    settings = {**cluster.settings, **SECRETS, **SMALL, "spark.archives": "environment.tar.gz#environment"}
    lines = "".join(f"  {name}: '{value}'\n" for name, value in settings.items())
    (cluster.folder / "pipeline.yaml").write_text(PIPELINE + lines)
    command = (sys.executable, "-m", "highwater", "pipeline", "run", "pipeline.yaml", "--master", cluster.master)
    done = cluster.run(*command, BROKER=cluster.topics.address, SPARK_SECRET=secret, STORE_PASSWORD=PASSWORD)
    return done.returncode, done.stdout, done.stderr


def test_a_pipeline_runs_there(cluster: Cluster) -> None:
    code, out, err = run_pipeline(cluster, SECRET)
    assert code == 0, err
    assert f"{RECORDS} rows in, 1 rows out to the console" in out


def test_another_secret_is_refused_in_one_line(cluster: Cluster) -> None:
    code, out, err = run_pipeline(cluster, "another-secret")
    assert (code, out) == (2, "")
    assert err.splitlines()[1:] == [
        f"error: the Spark master {cluster.master} refuses spark.authenticate.secret: it has another one"
    ]


@pytest.mark.compat
def test_a_script_runs_there(cluster: Cluster) -> None:
    (cluster.folder / "script.py").write_text(SCRIPT)
    small = [word for name, value in SMALL.items() for word in ("--conf", f"{name}={value}")]
    options = ["--master", cluster.master, "--properties-file", "spark.properties", *small]
    shipped = ["--archives", "environment.tar.gz#environment"]
    done = cluster.run(SUBMIT, *options, *shipped, "script.py", cluster.topics.address)
    assert done.returncode == 0, done.stderr
    first, second = done.stdout.splitlines()
    assert first == f"records: {RECORDS}"
    # That of the cluster, in which nothing is installed.
    assert second == f"python of tasks: {cluster.folder.parent}/bare/bin/python3.{sys.version_info.minor}"
