"""Makes tests/golden/kafka-4.4-mixed-groups.txt: the stories of tests/broker/group/mixed_answers.py on Kafka 4.4.

.venv/bin/python -m tests.compat.apache_kafka.mixed_group_answers
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Final

from tests.broker.group.mixed_answers import PROPERTIES, tell
from tests.broker.storytelling import node_at
from tests.compat.apache_kafka.system_cases import start_kafka

GOLDEN: Final = Path(__file__).parents[2] / "golden" / "kafka-4.4-mixed-groups.txt"
_OF_KAFKA_ALONE: Final = {
    "group.consumer.min.assignment.interval.ms": 0,
    "group.consumer.assignor.offload.enable": False,
}


def main() -> None:
    properties = {name: str(value).lower() for name, value in (PROPERTIES | _OF_KAFKA_ALONE).items()}
    with tempfile.TemporaryDirectory() as name, start_kafka(Path(name) / "kafka", "4", 1, properties) as kafka:
        port = int(kafka.bootstrap_servers.rpartition(":")[2])
        GOLDEN.write_text(tell(node_at(port).ask), "utf-8")


if __name__ == "__main__":
    main()
