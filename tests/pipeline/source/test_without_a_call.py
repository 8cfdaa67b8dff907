"""Spark finds the source by itself, in a session of its own process and over Spark Connect."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from tests.pipeline.source.topics import Topics
from tests.waiting import wait_until

ROOT: Final = Path(__file__).parents[3]
PROGRAM: Final = """\
import json, sys
from pathlib import Path
from pyspark.sql import SparkSession
from highwater.pipeline.source import register

way, address, topic, copied, folder = sys.argv[1:]
builder = SparkSession.builder
spark = (builder.remote("local[1]") if way == "connect" else builder.master("local[1]")).getOrCreate()
cluster = {"kafka.bootstrap.servers": address}

def read(name):
    return spark.read.format("highwater").options(**cluster, subscribe=name).load()

def copy(checkpoint, **more):
    stream = spark.readStream.format("highwater").options(
        **cluster, subscribe=topic, startingOffsets="earliest", **more
    ).load()
    writer = stream.select("key", "value").writeStream.format("highwater").options(**cluster, topic=copied)
    query = writer.option("checkpointLocation", str(Path(folder, checkpoint))).trigger(availableNow=True).start()
    assert query.awaitTermination(120)

found = {"batch": read(topic).count()}
spark.sql(f"create temporary view found using highwater options "
          f"(`kafka.bootstrap.servers`='{address}', subscribe='{topic}')")
found["sql"] = spark.sql("select count(*) from found").first()[0]
copy("one")
found["streamed"] = read(copied).count()
register(spark)
found["filtered"] = read(topic).where("offset >= 7").count()
copy("two", commitOffsets="copiers")
found["streamed again"] = read(copied).count()
print(json.dumps(found))
spark.stop()
"""


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.parametrize("way", ["classic", "connect"])
def test_a_session_that_was_not_prepared_reads_and_writes_topics(way: str, topics: Topics, tmp_path: Path) -> None:
    topic, copied = f"{way}-records", f"{way}-copied"
    topics.create(topic)
    topics.create(copied)
    topics.produce(topic, 10)
    site = tmp_path / "site"
    site.mkdir()
    # An installed wheel has the module; an editable install has it where Spark does not look.
    (site / "pyspark_highwater.py").symlink_to(ROOT / "pyspark_highwater.py")
    ran = subprocess.run(
        [sys.executable, "-c", PROGRAM, way, topics.address, topic, copied, str(tmp_path)],
        env={**os.environ, "PYSPARK_PYTHON": sys.executable, "PYTHONPATH": str(site)},
        capture_output=True,
        text=True,
        check=False,
        timeout=400,
    )
    assert ran.returncode == 0, ran.stderr[-4000:]
    found = json.loads(ran.stdout.splitlines()[-1])
    assert found == {"batch": 10, "sql": 10, "streamed": 10, "filtered": 3, "streamed again": 20}
    wait_until(lambda: topics.committed("copiers", topic) == 10, "the group's offset is committed")
