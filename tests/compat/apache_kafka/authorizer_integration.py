"""The cases of Kafka's AuthorizerIntegrationTest by their names, each told as what a client with few rights gets.

.venv/bin/python -m tests.compat.apache_kafka.authorizer_integration [CASE ...]

runs them on Apache Kafka 3.9 and on our broker, and prints the outcomes. Kafka's is the oracle: no case has an
expectation of its own. Kafka's class is kafka.api.AuthorizerIntegrationTest, in core/src/test of Apache Kafka.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from tests.broker.running import running_broker
from tests.compat.apache_kafka.answers.authorization import PROPERTIES
from tests.compat.apache_kafka.authorizer_admin import ADMIN_CASES
from tests.compat.apache_kafka.authorizer_clients import CLIENT_CASES
from tests.compat.apache_kafka.authorizer_world import Check, Outcome, Way, World, by_password
from tests.compat.apache_kafka.server import running_kafka, running_zookeeper

CASES: Final[Mapping[str, Check]] = CLIENT_CASES | ADMIN_CASES


def outcomes(way: Way, cases: Mapping[str, Check], names: Sequence[str]) -> Mapping[str, Outcome]:
    found: dict[str, Outcome] = {}
    for name in names:
        world = World(way, name)
        try:
            found[name] = cases[name](world)
        finally:
            world.close()
    return found


def compared(directory: Path, names: Sequence[str]) -> tuple[Mapping[str, Outcome], Mapping[str, Outcome]]:
    """What Kafka 3.9 did in each case, and what our broker did."""
    (directory / "log").mkdir()
    with running_zookeeper(directory) as zookeeper, running_kafka(directory / "log", zookeeper, PROPERTIES) as kafka:
        theirs = outcomes(by_password(kafka.port), CASES, names)
    properties = [f"{key}={value}" for key, value in PROPERTIES.items()]
    with running_broker(directory / "ours", properties=properties) as broker:
        return theirs, outcomes(by_password(broker.port), CASES, names)


def tell(theirs: Mapping[str, Outcome], ours: Mapping[str, Outcome]) -> int:
    """Print all outcomes; the exit status."""
    different = [each for each in theirs if theirs[each] != ours[each]]
    for each, outcome in theirs.items():
        told = [f"{each}: {outcome}"] + ([f"  DIFFERENT: {ours[each]}"] if each in different else [])
        sys.stdout.writelines(f"{line}\n" for line in told)
    sys.stdout.write(f"{len(theirs)} cases, {len(different)} differ: {', '.join(different) or 'none'}\n")
    return 1 if different else 0


def main() -> int:
    with tempfile.TemporaryDirectory() as name:
        return tell(*compared(Path(name), sys.argv[1:] or list(CASES)))


if __name__ == "__main__":
    sys.exit(main())
