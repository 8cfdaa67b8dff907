"""Spark's Kafka connector: its jars, from Maven Central."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from highwater.bench.maven import jars

_POM: Final = Path(__file__).parent / "spark-kafka-connector.xml"
_WHAT: Final = "Spark's Kafka connector"


def connector_jars() -> list[Path]:
    """What a session needs for `format("kafka")`, fetched on first use. Raises UsageError without Maven."""
    return sorted(jars(_POM, "spark-kafka-connector", f"{_WHAT}: 10 MB", f"fetches {_WHAT}").glob("*.jar"))
