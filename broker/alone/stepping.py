"""Runs the long work of a lone broker: in slices, and in a thread where it waits for the disk."""

from __future__ import annotations

from highwater.broker.log.log_directories import LogDirectories
from highwater.broker.runtime import Runtime
from highwater.broker.slices import RunAside, Steps, in_slices


class Stepping:
    def __init__(self, runtime: Runtime, directories: LogDirectories, run_aside: RunAside | None) -> None:
        self._clock = runtime.clock
        self._scheduler = runtime.scheduler
        self._directories = directories
        self._run_aside = run_aside

    def run(self, steps: Steps[None]) -> None:
        """Begin at once; what is left when the broker stops is not done."""
        in_slices(
            steps,
            self._clock,
            self._scheduler,
            goes_on=lambda: not self._directories.is_closed,
            run_aside=self._run_aside,
        )
