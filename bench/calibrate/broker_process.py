"""Serves as a calibration broker in a process of its own: its CPU time is not that of the clients.

The process prints its address, serves until standard input ends, and then prints how many records it received.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Protocol


class CalibrationBroker(Protocol):
    """The broker that such a process runs."""

    address: tuple[str, int]

    @property
    def records(self) -> int: ...

    def serve(self, control: int) -> None:
        """Serve until `control` is readable."""


def serve(make: Callable[[dict[str, int]], CalibrationBroker]) -> None:
    """The main function of such a process."""
    broker = make(json.loads(sys.argv[1]))
    host, port = broker.address
    sys.stdout.write(f"{host}:{port}\n")
    sys.stdout.flush()
    broker.serve(sys.stdin.fileno())
    sys.stdout.write(f"{broker.records}\n")
