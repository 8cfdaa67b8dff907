"""An archive of Spark's classes, with which a JVM starts in a third of the CPU time (CDS, JEP 350)."""

from __future__ import annotations

import fcntl
import hashlib
import importlib.metadata
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

from highwater.common.spark_java import Java

JVM_OPTIONS: Final = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xlog:cds=off -Xlog:cds+dynamic=off"
"""A driver lives for a few rounds: compiling its code for speed costs more than it brings."""
_DEADLINE_S: Final = 600.0
_TRAINING: Final = """
import sys, tempfile
from pathlib import Path
from pyspark.sql import SparkSession
with tempfile.TemporaryDirectory() as folder:
    session = SparkSession.builder.master("local[2]").config(map={settings}).getOrCreate()
    rows = session.readStream.format("rate-micro-batch").option("rowsPerBatch", 10).load()
    rows = rows.mapInArrow(lambda batches: batches, rows.schema)
    def write(frame, batch):
        frame.withColumn("more", frame.value + 1).collect()
    query = rows.writeStream.foreachBatch(write).option("checkpointLocation", folder).trigger(once=True).start()
    query.awaitTermination()
    gateway = session.sparkContext._gateway
    session.stop()
    gateway.shutdown()
    gateway.proc.stdin.close()
    gateway.proc.wait(120)
"""


def jvm_options(java: Java, settings: Mapping[str, str], tell: Callable[[str], None]) -> str:
    """Options for `spark.driver.extraJavaOptions`. The archive is made on first use, and kept in the user's cache.

    settings: of the session. A JVM that cannot use the archive starts without it.
    """
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "highwater"
    release = java.home / "release"
    version = release.read_text("utf-8") if release.exists() else java.source
    spark = importlib.metadata.distribution("pyspark")
    identity = f"{spark.version} {spark.locate_file('pyspark')} {version}"
    name = hashlib.sha256(identity.encode()).hexdigest()[:12]
    archive = cache / f"spark-classes-{name}.jsa"
    if not archive.exists():
        cache.mkdir(parents=True, exist_ok=True)
        with archive.with_name(f".{archive.name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not archive.exists():
                tell("an archive of Spark's classes is made, once: about a minute")
                _make(archive, java, settings)
    return f"{JVM_OPTIONS} -XX:SharedArchiveFile={archive}"


def _make(archive: Path, java: Java, settings: Mapping[str, str]) -> None:
    with tempfile.TemporaryDirectory(prefix="class-archive-", dir=archive.parent) as folder:
        made = Path(folder) / archive.name
        options = f"{JVM_OPTIONS} -XX:ArchiveClassesAtExit={made}"
        program = _TRAINING.replace("{settings}", repr({**settings, "spark.driver.extraJavaOptions": options}))
        with suppress(subprocess.TimeoutExpired):
            subprocess.run(
                [sys.executable, "-c", program],
                env={**os.environ, "JAVA_HOME": str(java.home), "PYSPARK_PYTHON": sys.executable},
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=_DEADLINE_S,
                check=False,
            )
        if made.exists():
            made.rename(archive)
