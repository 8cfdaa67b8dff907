"""Runs a calibration broker in its own process, so that its CPU time is not counted as the clients'.

The process prints its address, serves until standard input ends, and then prints how many records it received.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol


class Serving(Protocol):
    """The broker that such a process runs."""

    address: tuple[str, int]

    @property
    def records(self) -> int: ...

    def serve(self, control: int) -> None:
        """Serve until `control` is readable."""


class BrokerProcess:
    """The process as its parent sees it. `records` is set when the process has ended."""

    def __init__(self, process: subprocess.Popen[str], address: str) -> None:
        self.process_id = process.pid
        self.address = address
        self.records = 0


@contextmanager
def broker_process(module: str, topics: dict[str, int]) -> Iterator[BrokerProcess]:
    """Start `module` as a script, which calls `serve`. topics: name -> number of partitions."""
    command = [sys.executable, "-m", module, json.dumps(topics)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        running = BrokerProcess(process, process.stdout.readline().strip())
        try:
            yield running
        finally:
            rest, _ = process.communicate()
            running.records = int(rest or 0)


def serve(make: Callable[[dict[str, int]], Serving]) -> None:
    """The main function of such a process."""
    broker = make(json.loads(sys.argv[1]))
    host, port = broker.address
    sys.stdout.write(f"{host}:{port}\n")
    sys.stdout.flush()
    broker.serve(sys.stdin.fileno())
    sys.stdout.write(f"{broker.records}\n")
