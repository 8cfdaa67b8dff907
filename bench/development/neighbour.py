"""A neighbour on the host: a process that keeps a share of one processor busy during a measurement.

`python -m highwater.bench.development.neighbour SHARE` is that process.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from highwater.bench.systems import tether

_TURN_S: Final = 0.01
"""Short beside a time slice of the scheduler, so that the share holds for every moment."""


@contextmanager
def busy_neighbour(share: float) -> Iterator[None]:
    """Keep `share` of a processor busy (0: nothing runs), until the block is left."""
    if share == 0:
        yield
        return
    process = subprocess.Popen(tether.command([sys.executable, "-P", "-m", __name__, str(share)]))
    try:
        yield
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
