"""Our broker with a delay: its event loop takes `--slower` per cent more CPU time than it would.

    python -m tools.gate_proof.slow_broker --slower 10 --port 9092 --property log.dirs=/tmp/log

All of a broker's produce and fetch path runs on one thread, in two calls of its event loop: bytes have come (requests
are handled and answered), and answers that were waited for are due. Each is followed by spinning for a share of what
the thread has used since the last spin, by the thread's own clock: receiving and polling, which go on in the event loop
around these calls, are in it. The delay so costs what slower code would cost: CPU, and everybody's turn.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import wraps
from time import thread_time_ns
from typing import Any, Final

from highwater.broker.cli import app
from highwater.broker.server.connection import Connection

SLOWER_OPTION: Final = "--slower"
_SLOWED: Final = ("buffer_updated", "_flush_later")


def slow_down(percent: float) -> None:
    """Make every connection of this process slower from now on; 0 installs the same wrapper, which then waits for
    nothing, so that base and head differ in the delay alone."""
    spin = Spin(percent / 100)
    for name in _SLOWED:
        setattr(Connection, name, spin.after(getattr(Connection, name)))


class Spin:
    """Spins for `share` of the CPU time that its thread has used since it last spun."""

    def __init__(self, share: float) -> None:
        self._share = share
        self._since_ns: int | None = None

    def after(self, method: Callable[..., None]) -> Callable[..., None]:
        """`method`, and a spin when it has returned. What the thread did before the first call counts for nothing."""

        @wraps(method)
        def spinning(*arguments: Any) -> None:
            since_ns = thread_time_ns() if self._since_ns is None else self._since_ns
            method(*arguments)
            ended_ns = thread_time_ns()
            until_ns = ended_ns + (ended_ns - since_ns) * self._share
            while (now_ns := thread_time_ns()) < until_ns:
                pass
            self._since_ns = now_ns

        return spinning


def main(arguments: list[str]) -> None:
    """`--slower PERCENT`, then the options of `highwater broker start`."""
    if len(arguments) < 2 or arguments[0] != SLOWER_OPTION:
        raise SystemExit(f"usage: python -m {__spec__.name} {SLOWER_OPTION} PERCENT [options of broker start]")
    slow_down(float(arguments[1]))
    app(["start", *arguments[2:]])


if __name__ == "__main__":
    main(sys.argv[1:])
