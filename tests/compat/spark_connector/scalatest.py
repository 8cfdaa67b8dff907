"""Runs one suite of the connector's in a JVM of its own, and reads what ScalaTest reports of each test."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from xml.etree import ElementTree

from highwater.bench.systems.java import java_for
from tests.compat.spark_connector.jars import PACKAGE, Suites

TIMEOUT_S: Final = 3600.0
_OPENED: Final = (
    *(f"java.base/java.{name}" for name in ("io", "lang", "lang.invoke", "lang.reflect", "net", "nio", "util")),
    *(f"java.base/java.util.{name}" for name in ("concurrent", "concurrent.atomic")),
    *(f"java.base/sun.{name}" for name in ("nio.ch", "nio.cs", "security.action", "util.calendar")),
    "java.base/jdk.internal.ref",
    "java.security.jgss/sun.security.krb5",
)
"""Packages of the JDK that Spark reaches into."""
_LOGGING: Final = """\
rootLogger.level = warn
rootLogger.appenderRef.file.ref = file
appender.file.type = File
appender.file.name = file
appender.file.fileName = spark.log
appender.file.layout.type = PatternLayout
appender.file.layout.pattern = %d{HH:mm:ss.SSS} %t %p %c{1}: %m%n%ex
"""


@dataclass(frozen=True)
class TestOutcome:
    name: str
    seconds: float
    failure: str
    """One line; empty if the test passed."""


def run_suite(suite: str, found: Suites, folder: Path) -> list[TestOutcome]:
    """The outcome of each test that the suite has run, in its order. Everything it writes is in `folder`.

    Raises AssertionError if the suite was aborted, and TimeoutExpired.
    """
    reports = folder / "reports"
    reports.mkdir()
    (folder / "log4j2.properties").write_text(_LOGGING)
    # A home of Spark, for the suite that starts executors of its own.
    (folder / "jars").symlink_to(found.jars)
    (folder / "RELEASE").touch()
    properties = {
        "spark.testing": "true",
        "spark.test.home": folder,
        "spark.ui.enabled": "false",
        "java.io.tmpdir": folder,
        "log4j2.configurationFile": folder / "log4j2.properties",
        "highwater.python": sys.executable,
    }
    command = [
        *(java_for("Spark"), "-Xmx1500m", "-XX:+UseSerialGC", "-XX:+EnableDynamicAgentLoading"),
        *(f"--add-opens={name}=ALL-UNNAMED" for name in _OPENED),
        *(f"-D{name}={value}" for name, value in properties.items()),
        *("-cp", found.class_path, "org.scalatest.tools.Runner", "-R", str(found.classes)),
        *("-s", f"{PACKAGE}.{suite}", "-oWDF", "-u", str(reports)),
    ]
    output = folder / "output.log"
    with output.open("wb") as log:
        # A group of its own: a suite that hangs is killed together with its brokers.
        process = subprocess.Popen(
            command,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            env={**os.environ, "SPARK_LOCAL_IP": "127.0.0.1", "SPARK_DIST_CLASSPATH": found.own_classes},
        )
        try:
            process.wait(TIMEOUT_S)
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
    outcomes = [outcome for path in sorted(reports.glob("*.xml")) for outcome in _outcomes(path)]
    said = output.read_text("utf-8", "replace")
    assert outcomes, f"no test was run: {said[-1500:]}"
    assert "Suites: completed 1, aborted 0" in said, f"the suite was aborted: {said[-1500:]}"
    return outcomes


def _outcomes(path: Path) -> list[TestOutcome]:
    found = []
    for case in ElementTree.parse(path).getroot().iter("testcase"):  # noqa: S314 - of a program we have started
        problem = next((each for each in case if each.tag in ("failure", "error")), None)
        if case.find("skipped") is not None:
            continue
        message = (
            "" if problem is None else " ".join((problem.get("message") or problem.get("type") or "failed").split())
        )
        found.append(TestOutcome(case.attrib["name"], float(case.attrib.get("time", 0)), message))
    return found
