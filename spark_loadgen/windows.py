"""Counts per second since T0, and CPU time per second of the generator's own process."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass, field, fields
from itertools import zip_longest
from typing import Final, Literal

Count = Literal["offered", "sent", "acked", "acked_bytes", "failed", "aborted", "received", "received_bytes"]
SECOND_NS: Final = 1_000_000_000
TENTH_NS: Final = SECOND_NS // 10


@dataclass
class Windows:
    """One list per count; index = second since T0 (or tenth of a second, where the field is called `tenths`).

    A list ends with the last second in which its count changed.
    """

    offered: list[int] = field(default_factory=list)
    sent: list[int] = field(default_factory=list)
    acked: list[int] = field(default_factory=list)
    acked_bytes: list[int] = field(default_factory=list)
    failed: list[int] = field(default_factory=list)
    aborted: list[int] = field(default_factory=list)
    received: list[int] = field(default_factory=list)
    received_bytes: list[int] = field(default_factory=list)

    def add(self, count: Count, second: int, amount: int) -> None:
        row: list[int] = getattr(self, count)
        if second >= len(row):
            row.extend([0] * (second + 1 - len(row)))
        row[second] += amount

    def at(self, count: Count, second: int) -> int:
        row: list[int] = getattr(self, count)
        return row[second] if 0 <= second < len(row) else 0

    @property
    def seconds(self) -> int:
        """Length of the longest list."""
        return max(len(getattr(self, item.name)) for item in fields(self))

    def lengthen(self, seconds: int) -> None:
        """Extend every list to at least this length."""
        for item in fields(self):
            row: list[int] = getattr(self, item.name)
            row.extend([0] * (seconds - len(row)))


def sum_rows(rows: Iterable[list[int]]) -> list[int]:
    return [sum(column) for column in zip_longest(*rows, fillvalue=0)]


def sum_windows(windows: Iterable[Windows]) -> Windows:
    """The sum, list by list; each list is as long as the longest of its inputs."""
    added = list(windows)
    return Windows(**{item.name: sum_rows(getattr(one, item.name) for one in added) for item in fields(Windows)})


def max_rows(rows: Iterable[list[float]]) -> list[float]:
    return [max(column) for column in zip_longest(*rows, fillvalue=0.0)]


class SecondMeter:
    """Detects the end of each second and measures the CPU time that the process used in it.

    The CPU time is that of the whole process: the threads of Python and of librdkafka.
    """

    def __init__(self) -> None:
        self.second = 0
        self.cpu_ns: list[int] = []
        self.cpu_ratio: list[float] = []
        self._wall_ns = time.monotonic_ns()
        self._process_ns = time.process_time_ns()

    def start(self) -> None:
        """Begin second 0 now."""
        self._wall_ns = time.monotonic_ns()
        self._process_ns = time.process_time_ns()

    def advance(self, elapsed_ns: int) -> bool:
        """True in the first call after a second has ended. If several have ended, they share the CPU time equally."""
        second = elapsed_ns // SECOND_NS
        if second <= self.second:
            return False
        wall_ns, process_ns = time.monotonic_ns(), time.process_time_ns()
        seconds = second - self.second
        used_ns = process_ns - self._process_ns
        ratio = used_ns / max(1, wall_ns - self._wall_ns)
        self.cpu_ns.extend([used_ns // seconds] * seconds)
        self.cpu_ratio.extend([round(ratio, 4)] * seconds)
        self.second, self._wall_ns, self._process_ns = second, wall_ns, process_ns
        return True

    def finish(self) -> None:
        """Add the CPU time of the last second, which the work did not fill."""
        self.advance((self.second + 1) * SECOND_NS)
