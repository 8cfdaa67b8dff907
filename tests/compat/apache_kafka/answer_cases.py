"""Whether Kafka 3.9 and our broker answer a thousand requests as it is recorded."""

from __future__ import annotations

from pathlib import Path

from tests.compat.apache_kafka.answers_differ import changes_of_kafka, news, of_kafka, of_ours
from tests.compat.apache_kafka.cluster_cases import cluster_case


@cluster_case
def answers_are_kafkas(directory: Path) -> None:
    found = [*changes_of_kafka(of_kafka(directory)), *news(of_ours(directory))]
    assert not found, "\n\n".join(found)[:4000]
