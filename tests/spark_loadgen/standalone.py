"""A standalone Spark master and its worker as processes of their own, on loopback and free ports."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

import pyspark

from highwater.common.java_properties import format_properties
from highwater.common.spark_java import find_spark_java
from tests.waiting import wait_until

DEADLINE_S = 180


class StandaloneSpark:
    """A master without workers, until one is started."""

    def __init__(self, directory: Path, settings: Mapping[str, str], path: str | None, stack: ExitStack) -> None:
        self._directory = directory
        self._path = path
        self._settings = directory / "settings.properties"
        # Spark's other way to submit applications has a fixed port, and does not ask for the secret.
        self._settings.write_text(format_properties({"spark.master.rest.enabled": "false", **settings}))
        self._stack = stack
        self._home = Path(pyspark.__file__).parent
        self._java = find_spark_java(os.environ, directory)
        self._run("master", "master.Master", "--host", "127.0.0.1", "--port", "0", "--webui-port", "0")
        self.url = self._wait_for_log("master", r"Starting Spark master at (spark://\S+)")

    def start_worker(self, cores: int) -> None:
        work = str(self._directory / "work")
        limits = ("--cores", str(cores), "--memory", "1g", "--work-dir", work)
        self._run("worker", "worker.Worker", "--host", "127.0.0.1", "--webui-port", "0", *limits, self.url)
        self._wait_for_log("worker", r"(Successfully registered) with master")

    def _run(self, name: str, entry: str, *arguments: str) -> None:
        environment = {
            **os.environ,
            "JAVA_HOME": str(self._java.home),
            "SPARK_LOCAL_IP": "127.0.0.1",
            # Else the JVMs reserve memory as if each had the machine for itself.
            "SPARK_DAEMON_MEMORY": "256m",
        }
        if self._path is not None:
            environment = {name: value for name, value in environment.items() if name != "PYTHONPATH"}
            environment["PATH"] = self._path
        with (self._directory / name).open("wb") as log:
            process = subprocess.Popen(
                [
                    self._home / "bin" / "spark-class",
                    f"org.apache.spark.deploy.{entry}",
                    *("--properties-file", self._settings),
                    *arguments,
                ],
                stdout=log,
                stderr=subprocess.STDOUT,
                env=environment,
                cwd=self._directory,
            )
        self._stack.callback(process.wait)
        self._stack.callback(process.kill)

    def _wait_for_log(self, name: str, pattern: str) -> str:
        log = partial((self._directory / name).read_text, errors="replace")
        wait_until(lambda: re.search(pattern, log()), lambda: f"Spark's {name}:\n{log()}", DEADLINE_S)
        return str(re.findall(pattern, log())[0])


@contextmanager
def standalone_spark(
    directory: Path, settings: Mapping[str, str] | None = None, path: str | None = None
) -> Iterator[StandaloneSpark]:
    """settings: of Spark, for master and workers. path: where executors look for Python; without PYTHONPATH then."""
    directory.mkdir()
    with ExitStack() as stack:
        yield StandaloneSpark(directory, settings or {}, path, stack)
