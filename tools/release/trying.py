"""Run in an environment in which a file of the release alone was installed: a broker starts, takes and gives a record.

Prints one line: which modules run compiled, and the seconds to the first answer. Imports nothing of a clone.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import IO

from confluent_kafka import Consumer, KafkaError, Producer
from confluent_kafka.admin import AdminClient

DEADLINE_S = 120.0


def main() -> None:
    command = str(Path(sys.executable).with_name("highwater"))
    version = subprocess.run([command, "--version"], capture_output=True, text=True, check=True).stdout.split()[1]
    with tempfile.TemporaryDirectory() as name, Path(name, "output").open("w+") as output:
        start = [command, "broker", "start", "--log-dir", f"{name}/log", "--port", "0"]
        started_s = time.monotonic()
        broker = subprocess.Popen(start, stdout=output, stderr=subprocess.STDOUT)
        try:
            address = listening(broker, output)
            AdminClient({"bootstrap.servers": address}).list_topics(timeout=DEADLINE_S)
            answered_s = time.monotonic() - started_s
            exchange(address)
        finally:
            broker.terminate()
            status = broker.wait(DEADLINE_S)
        output.seek(0)
        said = output.read()
    if status != 0:
        sys.exit(f"the broker ended with {status}: {said}")
    which = next(line for line in said.splitlines() if "hot modules run" in line)
    print(f"{version}; {which[which.index('the ') :]}; first answer after {answered_s:.1f} s")  # noqa: T201


def listening(broker: subprocess.Popen[bytes], output: IO[str]) -> str:
    ready = "ready: listening on "
    until = time.monotonic() + DEADLINE_S
    while time.monotonic() < until:
        output.seek(0)
        for line in output.read().splitlines():
            if ready in line:
                return line.partition(ready)[2].split()[0].rstrip(",")
        if broker.poll() is not None:
            break
        time.sleep(0.02)
    output.seek(0)
    sys.exit(f"no broker is ready: {output.read()}")


def exchange(address: str) -> None:
    """Produce a record and fetch it."""
    faults: list[KafkaError] = []
    producer = Producer({"bootstrap.servers": address})
    producer.produce("tried", b"value", b"key", on_delivery=lambda fault, _: faults.append(fault) if fault else None)
    if producer.flush(DEADLINE_S) or faults:
        sys.exit(f"the record was not taken: {faults}")
    fetch(address)


def fetch(address: str, group: str = "tried") -> None:
    consumer = Consumer({"bootstrap.servers": address, "group.id": group, "auto.offset.reset": "earliest"})
    consumer.subscribe(["tried"])
    until = time.monotonic() + DEADLINE_S
    found = None
    while found is None and time.monotonic() < until:
        found = consumer.poll(1.0)
    consumer.close()
    if found is None or found.error() or (found.key(), found.value()) != (b"key", b"value"):
        sys.exit(f"the record was not given back: {found and found.error()}")


if __name__ == "__main__":
    main()
