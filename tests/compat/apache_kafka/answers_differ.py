"""Asks Apache Kafka 3.9 and our broker the same, and prints where the answers differ: - is Kafka's line, + ours.

.venv/bin/python -m tests.compat.apache_kafka.answers_differ
"""

from __future__ import annotations

import difflib
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Final

from tests.broker.running import running_broker
from tests.compat.apache_kafka.answers.script import PROPERTIES, Connection
from tests.compat.apache_kafka.answers.story import tell
from tests.compat.apache_kafka.server import running_kafka, running_zookeeper

_CHANGES: Final = ("create_", "delete_", "alter_", "incremental_", "elect_")
_SETTLE_S: Final = 0.05
"""Kafka tells a change to all its parts after it has answered."""


class PatientConnection(Connection):
    def ask(self, api: str, version: int, /, **fields: Any) -> Any:
        answer = super().ask(api, version, **fields)
        if api.startswith(_CHANGES):
            time.sleep(_SETTLE_S)
        return answer


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        (directory / "log").mkdir()
        with (
            running_zookeeper(directory) as zookeeper,
            running_kafka(directory / "log", zookeeper, PROPERTIES) as kafka,
        ):
            kafkas = tell(PatientConnection(kafka.port).ask)
        properties = [f"{key}={value}" for key, value in PROPERTIES.items()]
        with running_broker(directory / "ours", properties=properties) as broker:
            ours = tell(Connection(broker.port).ask)
    different = difflib.unified_diff(kafkas.splitlines(), ours.splitlines(), "kafka", "ours", lineterm="", n=0)
    sys.stdout.writelines(f"{line}\n" for line in different)


if __name__ == "__main__":
    main()
