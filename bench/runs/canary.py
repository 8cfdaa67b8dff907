"""Canaries: small fixed pieces of work, timed at the start of each block of trials.

On a host that has become slower (a neighbour, a throttled CPU, a disk busy with something else) every system looks
worse. The readings of a block are compared with those of the run's earlier blocks; a reading beyond its limit makes the
block's trials inconclusive. All probes together take 0.1 to 0.3 s.
"""

from __future__ import annotations

import hashlib
import os
import socket
import statistics
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from highwater.bench.workload.sections import Validity
from highwater.common.units import duration_ns_text, significant
from highwater.results.canary import BlockCanary, CanaryReading
from highwater.results.models import Reason

_CPU_BYTES: Final = 1 << 20
_MEMORY_BYTES: Final = 32 << 20
_DISK_BYTES: Final = 4096
_LOOPBACK_BYTES: Final = 4096
_CPU_REPEATS: Final = 51
_MEMORY_REPEATS: Final = 15
_ROUND_TRIPS: Final = 400
# A hard disk takes about 10 ms for each; three are enough.
_DISK_REPEATS_MIN: Final = 3
_DISK_REPEATS_MAX: Final = 51
_DISK_BUDGET_NS: Final = 80_000_000

_WORK: Final = {
    "cpu": "hashing 1 MiB",
    "memory": "copying 32 MiB of memory",
    "disk": "4 KiB with fdatasync",
    "loopback": "4 KiB to and fro over loopback",
}


def take(directory: Path | None) -> CanaryReading:
    """Run every probe once; the disk probe in `directory`, or not if that is None. Raises OSError."""
    return CanaryReading(
        cpu_ns=_cpu_ns(),
        memory_ns=_memory_ns(),
        disk_ns=None if directory is None else _disk_ns(directory),
        loopback_ns=_loopback_ns(),
    )


def reasons(readings: Sequence[CanaryReading], ratio_max: float) -> list[Reason]:
    """Reasons why the last reading is too slow, compared with the median of all earlier ones; none for the first."""
    return [] if len(readings) < 2 else _slower(readings[-1], readings[:-1], ratio_max)


def slow_blocks(canaries: Sequence[BlockCanary], workload: Mapping[str, Any]) -> list[str]:
    """A line for each probe of a block that is beyond the limit, compared with all other blocks of the run.

    After the run this finds a slow first block, too, which had no earlier block to compare with. Needs three blocks.
    workload: the manifest's, for its limit.
    """
    if len(canaries) < 3:
        return []
    ratio_max = Validity.model_validate(workload.get("validity", {})).canary_ratio_max
    readings = [canary.reading for canary in canaries]
    return [
        f"block {canary.block}: {reason.text}"
        for at, canary in enumerate(canaries)
        for reason in _slower(canary.reading, [*readings[:at], *readings[at + 1 :]], ratio_max)
    ]


def _slower(reading: CanaryReading, others: Sequence[CanaryReading], ratio_max: float) -> list[Reason]:
    found = []
    for name, work in _WORK.items():
        now_ns = getattr(reading, f"{name}_ns")
        usual = [value for other in others if (value := getattr(other, f"{name}_ns")) is not None]
        if now_ns is None or not usual:
            continue
        ratio = now_ns / statistics.median(usual)
        if ratio > ratio_max:
            found.append(
                Reason(
                    check=f"canary.{name}",
                    value=round(ratio, 2),
                    limit=ratio_max,
                    text=f"the host was slower than in the run's other blocks: {work} took {duration_ns_text(now_ns)}, "
                    f"{significant(ratio)} times the usual {duration_ns_text(statistics.median(usual))} "
                    f"(limit {significant(ratio_max)}); "
                    "find out what else was running on the host, and run again",
                )
            )
    return found


def _median_ns(work: Callable[[], object], repeats: int) -> int:
    return round(statistics.median(_timed_ns(work) for _ in range(repeats)))


def _timed_ns(work: Callable[[], object]) -> int:
    started_ns = time.perf_counter_ns()
    work()
    return time.perf_counter_ns() - started_ns


def _cpu_ns() -> int:
    data = bytes(_CPU_BYTES)
    return _median_ns(lambda: hashlib.sha256(data).digest(), _CPU_REPEATS)


def _memory_ns() -> int:
    source = np.ones(_MEMORY_BYTES, dtype=np.uint8)
    target = np.ones(_MEMORY_BYTES, dtype=np.uint8)  # written once, so that no page is missing when time counts
    return _median_ns(lambda: np.copyto(target, source), _MEMORY_REPEATS)


def _disk_ns(directory: Path) -> int:
    data = os.urandom(_DISK_BYTES)
    with tempfile.TemporaryFile(dir=directory, buffering=0) as file:

        def append() -> None:
            file.write(data)
            os.fdatasync(file.fileno())

        append()  # the first one also makes the file
        return round(statistics.median(_within(_DISK_BUDGET_NS, append)))


def _within(budget_ns: int, work: Callable[[], object]) -> Iterable[int]:
    spent_ns: list[int] = []
    while len(spent_ns) < _DISK_REPEATS_MIN or (len(spent_ns) < _DISK_REPEATS_MAX and sum(spent_ns) < budget_ns):
        spent_ns.append(_timed_ns(work))
    return spent_ns


def _loopback_ns() -> int:
    """A round trip with one thread at both ends: the cost of the kernel without waking another thread."""
    data = bytes(_LOOPBACK_BYTES)
    with socket.create_server(("127.0.0.1", 0)) as listener, socket.create_connection(listener.getsockname()) as near:
        far, _ = listener.accept()
        with far:
            for end in (near, far):
                end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

            def round_trip() -> None:
                for sender, receiver in ((near, far), (far, near)):
                    sender.sendall(data)
                    receiver.recv(_LOOPBACK_BYTES, socket.MSG_WAITALL)

            return _median_ns(round_trip, _ROUND_TRIPS)
