"""Spark's Kafka connector: its jars, from Maven Central."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Final

from highwater.bench.user_cache import cached, need, run_step

_POM: Final = Path(__file__).parent / "spark-kafka-connector.xml"


def connector_jars() -> list[Path]:
    """What a session needs for `format("kafka")`, fetched on first use. Raises UsageError without Maven."""

    def fetch(directory: Path) -> None:
        maven = need("mvn", "maven", "fetches Spark's Kafka connector")
        goal = "dependency:copy-dependencies"
        run_step([maven, "-q", "-B", "-f", _POM.absolute(), goal, f"-DoutputDirectory={directory}"], directory)

    digest = hashlib.sha256(_POM.read_bytes()).hexdigest()[:12]
    return sorted(cached(f"spark-kafka-connector-{digest}", "Spark's Kafka connector: 10 MB", fetch).glob("*.jar"))
