"""Fetches the connector, its compiled suites and what they need, and compiles what stands in for their broker."""

from __future__ import annotations

import hashlib
import zipfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

from highwater.bench import maven
from highwater.bench.systems.java import java_for
from highwater.bench.user_cache import cached, run_step

HERE: Final = Path(__file__).parent
PACKAGE: Final = "org.apache.spark.sql.kafka010"
_POM: Final = HERE / "pom.xml"
_STAND_IN: Final = HERE / "stand_in"
_WHAT: Final = "Spark's Kafka connector"


@dataclass(frozen=True)
class Suites:
    """What a JVM needs to run them."""

    jars: Path
    classes: Path
    """Their classes and resources, as files: some tests open a resource by its path."""
    stand_in: Path

    @property
    def own_classes(self) -> str:
        return f"{self.stand_in}:{self.classes}"

    @property
    def class_path(self) -> str:
        return f"{self.own_classes}:{self.jars}/*"


@cache
def connector_jars() -> Path:
    """The folder with all jars. Raises UsageError if this host lacks what it takes to fetch them."""
    java_for(_WHAT)
    return maven.jars(_POM, "spark-connector", f"{_WHAT}: about 380 MB of jars", f"fetches {_WHAT}")


def connector_class_path() -> list[Path]:
    """What a session of PySpark needs to read topics with the connector."""
    names = ("spark-sql-kafka-0-10", "spark-token-provider-kafka-0-10", "kafka-clients", "commons-pool2")
    jars = sorted(connector_jars().glob("*.jar"))
    return [jar for jar in jars if jar.name.startswith(names) and not jar.stem.endswith("-tests")]


@cache
def suites() -> Suites:
    """Raises UsageError if this host lacks what it takes to fetch or to compile them."""
    jars = connector_jars()
    sources = sorted(_STAND_IN.glob("*.scala"))

    def make(directory: Path) -> None:
        classes, stand_in = directory / "suites", directory / "stand_in"
        (tests,) = jars.glob("spark-sql-kafka-0-10_*-tests.jar")
        with zipfile.ZipFile(tests) as archive:
            archive.extractall(classes)
        # Of a class that is there twice, the first on the class path counts: nothing of theirs is left by accident.
        for theirs in classes.rglob("KafkaTestUtils*.class"):
            theirs.unlink()
        stand_in.mkdir()
        compiler = [java_for(_WHAT), "-Xmx1g", "-cp", f"{jars}/*", "scala.tools.nsc.Main", "-usejavacp", "-nowarn"]
        run_step([*compiler, "-d", stand_in, *sources], directory)

    folder = cached(f"spark-connector-suites-{_digest(maven.table_of(_POM), *sources)}", f"{_WHAT}: its suites", make)
    return Suites(jars, folder / "suites", folder / "stand_in")


def _digest(*files: Path) -> str:
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()[:12]
