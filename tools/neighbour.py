"""A neighbour on the host: a process that keeps a share of one processor busy during a measurement.

`python -m tools.neighbour SHARE` is that process.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

import psutil

from highwater.bench.systems import tether

_TURN_S: Final = 0.01
"""Short beside a time slice of the scheduler, so that the share holds for every moment."""


class Neighbour:
    """The process, and what it took: on a busy host it comes to less than the share that it wants."""

    def __init__(self, process_id: int, wanted_share: float) -> None:
        self.wanted_share = wanted_share
        self._process = psutil.Process(process_id)

    def measure(self) -> Callable[[], float]:
        """Begin to measure. Returns a function that returns the share of a processor taken since."""
        began_s, cpu_s = time.monotonic(), self._cpu_s()
        return lambda: (self._cpu_s() - cpu_s) / (time.monotonic() - began_s)

    def _cpu_s(self) -> float:
        times = self._process.cpu_times()
        return times.user + times.system


@contextmanager
def busy_neighbour(share: float) -> Iterator[Neighbour | None]:
    """Keep `share` of a processor busy (0: nothing runs), until the block is left."""
    if share == 0:
        yield None
        return
    process = subprocess.Popen(tether.command([sys.executable, "-P", "-m", __name__, str(share)]))
    try:
        yield Neighbour(process.pid, share)
    finally:
        process.kill()
        process.wait()


def _burn(share: float) -> None:
    """Burn until the process is killed."""
    while True:
        until = time.process_time() + _TURN_S * share
        began = time.monotonic()
        while time.process_time() < until:
            pass
        time.sleep(max(0.0, _TURN_S - (time.monotonic() - began)))


if __name__ == "__main__":
    _burn(float(sys.argv[1]))
