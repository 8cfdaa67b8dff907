"""Makes tests/golden/kafka-3.9-transactions.txt: the story of tests/broker/txn/answers.py, as Apache Kafka 3.9 answers.

.venv/bin/python -m tests.compat.apache_kafka.transaction_answers
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Final

from tests.broker.storytelling import node_at
from tests.broker.txn.answers import PROPERTIES, tell
from tests.compat.apache_kafka.server import running_kafka, running_zookeeper

GOLDEN: Final = Path(__file__).parents[2] / "golden" / "kafka-3.9-transactions.txt"


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        (directory / "log").mkdir()
        with (
            running_zookeeper(directory) as zookeeper,
            running_kafka(directory / "log", zookeeper, PROPERTIES) as kafka,
        ):
            GOLDEN.write_text(tell(node_at(kafka.port).ask), "utf-8")


if __name__ == "__main__":
    main()
