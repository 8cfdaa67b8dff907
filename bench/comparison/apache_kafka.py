"""Apache Kafka's jars, through Maven: `python -m bench.comparison.apache_kafka POM` prints their folder."""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path

from bench.comparison.cache import cached, main_of, need, run_step


def jars(pom: Path) -> Path:
    """What `pom` depends on, fetched on first use. Raises UsageError when this host lacks what that takes."""
    need("java", "openjdk-17-jre-headless", "runs Apache Kafka")
    text = pom.read_bytes()

    def fetch(directory: Path) -> None:
        maven = need("mvn", "maven", "fetches Apache Kafka")
        goal = "dependency:copy-dependencies"
        run_step([maven, "-q", "-B", "-f", pom.absolute(), goal, f"-DoutputDirectory={directory}"], directory)

    return cached(f"apache-kafka-{hashlib.sha256(text).hexdigest()[:12]}", "Apache Kafka: about 60 MB of jars", fetch)


if __name__ == "__main__":
    main_of("apache_kafka", lambda: jars(Path(sys.argv[1])))
