"""A standalone Spark master and its worker as processes of their own, on loopback and free ports."""

from __future__ import annotations

import os
import re
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pyspark

from highwater.spark_loadgen.java import find_java

DEADLINE_S = 60


class StandaloneSpark:
    """A master without workers, until one is started."""

    def __init__(self, directory: Path, stack: ExitStack) -> None:
        self._directory = directory
        self._stack = stack
        self._home = Path(pyspark.__file__).parent
        self._java = find_java(os.environ, directory)
        self._run("master", "master.Master", "--host", "127.0.0.1", "--port", "0", "--webui-port", "0")
        self.url = self._wait_for_log("master", r"Starting Spark master at (spark://\S+)")

    def start_worker(self, cores: int) -> None:
        work = str(self._directory / "work")
        limits = ("--cores", str(cores), "--memory", "1g", "--work-dir", work)
        self._run("worker", "worker.Worker", "--host", "127.0.0.1", "--webui-port", "0", *limits, self.url)
        self._wait_for_log("worker", r"(Successfully registered) with master")

    def _run(self, name: str, entry: str, *arguments: str) -> None:
        environment = {**os.environ, "JAVA_HOME": str(self._java.home), "SPARK_LOCAL_IP": "127.0.0.1"}
        with (self._directory / name).open("wb") as log:
            process = subprocess.Popen(
                [self._home / "bin" / "spark-class", f"org.apache.spark.deploy.{entry}", *arguments],
                stdout=log,
                stderr=subprocess.STDOUT,
                env=environment,
                cwd=self._directory,
            )
        self._stack.callback(process.wait)
        self._stack.callback(process.kill)

    def _wait_for_log(self, name: str, pattern: str) -> str:
        deadline = time.monotonic() + DEADLINE_S
        while time.monotonic() < deadline:
            text = (self._directory / name).read_text(errors="replace")
            if match := re.search(pattern, text):
                return match[1]
            time.sleep(0.1)
        raise AssertionError(f"Spark's {name} does not come up:\n{text}")


@contextmanager
def standalone_spark(directory: Path) -> Iterator[StandaloneSpark]:
    directory.mkdir()
    with ExitStack() as stack:
        yield StandaloneSpark(directory, stack)
