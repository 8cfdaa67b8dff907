"""A process of a group for the tests: writes (partition, offset) of each record until it is killed or told to stop.

Run as `python -m tests.pipeline.consumer.member BOOTSTRAP TOPIC URL STOP_FILE`.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from confluent_kafka import Message

from highwater.pipeline.consumer import Consumer
from highwater.pipeline.database.address import read_address
from highwater.pipeline.database.dialects import dialect_of
from highwater.pipeline.errors import DatabaseError

SESSION_MS = 6000


def main(bootstrap: str, topic: str, url: str, stop_file: str) -> None:
    mark = dialect_of(read_address(url)).mark

    def write(cursor: Any, records: Sequence[Message]) -> None:
        rows = [(each.partition(), each.offset()) for each in records]
        cursor.executemany(f"insert into seen values ({mark}, {mark})", rows)

    settings = {
        "bootstrap.servers": bootstrap,
        "session.timeout.ms": SESSION_MS,
        "heartbeat.interval.ms": 500,
        "log_level": 0,
    }
    while not Path(stop_file).exists():
        try:
            consumer = Consumer(settings, [topic], url, name="seen", records_max=50)
        except DatabaseError as error:  # a server that was killed comes back
            sys.stderr.write(f"{error}\n")
            time.sleep(0.2)
            continue
        with consumer:
            while not Path(stop_file).exists():
                try:
                    consumer.once(write, wait_s=0.2)
                except DatabaseError as error:
                    sys.stderr.write(f"{error}\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
