"""Applications in Java, started beside a broker: single source files with the jars of a POM of this folder."""

from __future__ import annotations

import re
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from highwater.bench import maven
from highwater.bench.systems.java import java_for

HERE: Final = Path(__file__).parent
STOP_DEADLINE_S: Final = 60.0
# Flink looks into classes of the JDK.
_JAVA: Final = (
    "java",
    "-Xmx512m",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    *(f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in ("java.lang", "java.util", "java.util.concurrent")),
)


def jars(framework: str) -> Path:
    """Of `kafka`, `connect` or `flink`, fetched on first use. Raises UsageError when that cannot be done here."""
    java_for("frameworks")
    pom = HERE / f"{framework}.xml"
    return maven.jars(pom, f"frameworks-{framework}", f"{framework}: about 100 MB of jars", "fetches frameworks")


class Application:
    """A running JVM and the lines that it has written so far."""

    def __init__(self, framework: str, what: str, *arguments: str) -> None:
        """what: the name of a class, or of a source file here (`.java`)."""
        started = str(HERE / what) if what.endswith(".java") else what
        self.process = subprocess.Popen(
            [*_JAVA, "-cp", f"{jars(framework)}/*", started, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
        )
        self.lines: list[str] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.append(line.rstrip("\n"))

    def said(self, pattern: str) -> list[str]:
        """The first group of each line that the pattern matches, or the line."""
        found = (re.search(pattern, line) for line in list(self.lines))
        return [match[match.re.groups and 1] for match in found if match]

    def last_words(self) -> str:
        return " | ".join(self.lines[-12:])

    def stop(self) -> None:
        """End it by SIGTERM, as an operator would. Raises AssertionError with its last lines when it does not end."""
        self.process.terminate()
        try:
            self.process.wait(STOP_DEADLINE_S)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"it did not stop: {self.last_words()}") from None
        self._reader.join(STOP_DEADLINE_S)


@contextmanager
def running(framework: str, what: str, *arguments: str) -> Iterator[Application]:
    application = Application(framework, what, *arguments)
    try:
        yield application
    finally:
        application.process.kill()
        application.process.wait()
