"""The cases of Kafka's AuthorizerIntegrationTest that producers and consumers show, each told as what a client gets.

.venv/bin/python -m tests.compat.apache_kafka.authorizer_integration [--ours | --record] [CASE ...]

runs them on Apache Kafka 3.9 and on our broker (`--ours`: there alone), and compares both with
recorded/authorizer_integration.txt, which Kafka wrote (`--record`). Kafka's is the oracle: no case has an expectation
of its own. Kafka's class is kafka.api.AuthorizerIntegrationTest, in core/src/test of Apache Kafka. Those of its cases
that a single request shows are not here: `authorization_differs` compares all requests under each right.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tests.broker.running import running_broker
from tests.compat.apache_kafka.answers.authorization import PROPERTIES
from tests.compat.apache_kafka.authorizer_clients import CLIENT_CASES
from tests.compat.apache_kafka.authorizer_world import by_password
from tests.compat.apache_kafka.recorded_outcomes import TABLES, Outcomes, Suite, main_of, outcomes
from tests.compat.apache_kafka.server import running_kafka, running_zookeeper


def _on_kafka(directory: Path, names: Sequence[str]) -> Outcomes:
    (directory / "log").mkdir()
    with running_zookeeper(directory) as zookeeper, running_kafka(directory / "log", zookeeper, PROPERTIES) as kafka:
        return outcomes(by_password(kafka.port), CLIENT_CASES, names)


def _on_ours(directory: Path, names: Sequence[str]) -> Outcomes:
    properties = [f"{key}={value}" for key, value in PROPERTIES.items()]
    with running_broker(directory / "log", properties=properties) as broker:
        return outcomes(by_password(broker.port), CLIENT_CASES, names)


SUITE: Final = Suite(TABLES / "authorizer_integration.txt", tuple(CLIENT_CASES), _on_kafka, _on_ours)

if __name__ == "__main__":
    sys.exit(main_of(SUITE, sys.argv[1:]))
