"""Compacts logs and looks at records for retention in a process of its own, beside the event loop.

One JSON line in for each job, and for each group of segments that was put in place; one JSON line out for each group
that is ready, and for the end of a pass. A look is one line in and one out. It writes nothing but files whose names
carry its process id, and ends when its broker does: at the end of its input, or by the kernel's hand.
"""

from __future__ import annotations

import json
import os
import select
import signal
import sys
import time
from typing import Any, Final

from highwater.broker.log.compaction import compact
from highwater.broker.log.compaction_job import CleanedGroup, Job
from highwater.broker.log.errors import CorruptIndex
from highwater.broker.log.files import RealFiles
from highwater.broker.log.looking import Look, look
from highwater.broker.log.segment_names import CLEANED_SUFFIX
from highwater.common.child_process import ends_with_parent
from highwater.kafka.records.batch import CorruptBatch

_NICENESS: Final = 10
_LOOK_AROUND_BYTES: Final = 1 << 20


class CleanerThrottle:
    """Keeps reads and writes together below a rate, and notices when nobody waits for them any more."""

    def __init__(self, max_bytes_per_s: float) -> None:
        self._max_bytes_per_s = max_bytes_per_s
        self._bytes = 0
        self._looked_at = 0
        self._started_ns = time.monotonic_ns()

    def moved(self, size_bytes: int) -> None:
        self._bytes += size_bytes
        if self._bytes - self._looked_at < min(_LOOK_AROUND_BYTES, self._max_bytes_per_s / 10):
            return
        self._looked_at = self._bytes
        # The broker says nothing while a group is made, so anything there is the end of the input.
        if select.select([sys.stdin.fileno()], [], [], 0)[0]:
            os._exit(0)
        ahead_s = self._bytes / self._max_bytes_per_s - (time.monotonic_ns() - self._started_ns) / 1e9
        if ahead_s > 0:
            time.sleep(ahead_s)


def main() -> None:
    ends_with_parent(signal.SIGKILL)()
    os.nice(_NICENESS)
    files = RealFiles()
    for line in iter(sys.stdin.readline, ""):
        order = json.loads(line)
        throttle = CleanerThrottle(order["max_bytes_per_s"])
        try:
            if "look" in order:
                _say(largest_ms=look(files, Look(**order["look"]), throttle.moved))
                continue
            job = Job(**order["job"])._replace(aside=f".{os.getpid()}{CLEANED_SUFFIX}")
            for step in compact(files, job, throttle.moved):
                if not isinstance(step, CleanedGroup):
                    _say(finished=step._asdict())
                    break
                _say(cleaned=step._asdict())
                if not sys.stdin.readline():
                    return
        except (CorruptBatch, CorruptIndex) as error:
            _say(damage=str(error))
        except OSError as error:
            _say(errno=error.errno, strerror=error.strerror, filename=str(error.filename))


def _say(**message: Any) -> None:
    try:
        sys.stdout.write(json.dumps(message) + "\n")
        sys.stdout.flush()
    except BrokenPipeError:
        # The kernel closes a killed broker's pipes before it ends this process.
        os._exit(0)


if __name__ == "__main__":
    main()
