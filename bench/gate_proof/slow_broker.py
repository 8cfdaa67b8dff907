"""Our broker with a delay: whatever it does for a connection takes `--slower` per cent more of its own CPU time.

    python -m bench.gate_proof.slow_broker --slower 10 --port 9092 --property log.dirs=/tmp/log

All of a broker's produce and fetch path runs in two calls of the event loop: bytes have come (requests are handled and
answered), and answers that were waited for are due. Each is followed by spinning for its share, on the same thread and
by the thread's own clock, so that the delay costs what slower code would cost: CPU, and everybody's turn. What uvloop
does outside of these calls (receiving, polling) is not slowed down.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import wraps
from time import thread_time_ns
from typing import Any, Final

from broker.cli import app
from broker.server.connection import Connection

SLOWER_OPTION: Final = "--slower"
_SLOWED: Final = ("buffer_updated", "_flush_later")


def slow_down(percent: float) -> None:
    """Make every connection of this process slower from now on; 0 installs the same wrapper, which then waits for
    nothing, so that base and head differ in the delay alone."""
    for name in _SLOWED:
        setattr(Connection, name, slowed(getattr(Connection, name), percent / 100))


def slowed(method: Callable[..., None], share: float) -> Callable[..., None]:
    """`method`, and then as much spinning as `share` of the CPU time that it took."""

    @wraps(method)
    def spinning(*arguments: Any) -> None:
        started_ns = thread_time_ns()
        method(*arguments)
        ended_ns = thread_time_ns()
        until_ns = ended_ns + (ended_ns - started_ns) * share
        while thread_time_ns() < until_ns:
            pass

    return spinning


def main(arguments: list[str]) -> None:
    """`--slower PERCENT`, then the options of `highwater broker start`."""
    if len(arguments) < 2 or arguments[0] != SLOWER_OPTION:
        raise SystemExit(f"usage: python -m {__spec__.name} {SLOWER_OPTION} PERCENT [options of broker start]")
    slow_down(float(arguments[1]))
    app(["start", *arguments[2:]])


if __name__ == "__main__":
    main(sys.argv[1:])
