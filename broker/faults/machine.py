"""The disk and the clock of a broker that a script can make fail."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from highwater.broker.clock import SystemClock
from highwater.broker.faults.effects import Disk
from highwater.broker.log.files import RealFiles
from highwater.kafka.records.batch import ReadableBuffer

_LOG: Final = ".log"


class FaultyFiles(RealFiles):
    """Files of Linux, of which those of records fail on command."""

    __slots__ = ("_logs", "_of_flushes", "_of_writes")

    def __init__(self) -> None:
        super().__init__()
        self._logs: set[int] = set()
        self._of_writes: list[Disk] = []
        self._of_flushes: list[Disk] = []

    @contextmanager
    def failing(self, faults: list[Disk]) -> Iterator[None]:
        """Faults of writes end with the block, those of flushes hit one flush each."""
        self._of_writes = [fault for fault in faults if not fault.is_flush]
        self._of_flushes += [fault for fault in faults if fault.is_flush]
        try:
            yield
        finally:
            self._of_writes = []

    def open(self, path: Path, *, create: bool = False, empty: bool = False, is_private: bool = False) -> int:
        descriptor = super().open(path, create=create, empty=empty, is_private=is_private)
        (self._logs.add if path.suffix == _LOG else self._logs.discard)(descriptor)
        return descriptor

    def pwrite(self, descriptor: int, data: ReadableBuffer, position: int) -> None:
        if self._of_writes and descriptor in self._logs:
            _suffer(self._of_writes[0])
        super().pwrite(descriptor, data, position)

    def pwritev(self, descriptor: int, pieces: Sequence[ReadableBuffer], position: int) -> None:
        self.pwrite(descriptor, b"".join(pieces), position)

    def sync(self, descriptor: int) -> None:
        if self._of_flushes and descriptor in self._logs:
            _suffer(self._of_flushes.pop(0))
        super().sync(descriptor)


def _suffer(fault: Disk) -> None:
    time.sleep(fault.delay_ms / 1000)
    if fault.error_number:
        raise OSError(fault.error_number, os.strerror(fault.error_number))


class FaultyClock(SystemClock):
    """The machine's time, and how far a script has moved it."""

    __slots__ = ("moved_ms",)

    def __init__(self) -> None:
        self.moved_ms = 0

    def now_ms(self) -> int:
        return super().now_ms() + self.moved_ms
