"""The wall time of a run by step: the evidence for the overhead of the harness."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from highwater.results.models import Overhead

LOAD = "load"


class StepClock:
    """Wall time by step; a step that is repeated adds to its time. `tell` is called when a step begins."""

    def __init__(self, tell: Callable[[str], None] | None = None, now_s: Callable[[], float] = time.monotonic) -> None:
        self.seconds: dict[str, float] = {}
        self._tell = tell
        self._now_s = now_s
        self._current: tuple[str, float] | None = None

    def begin(self, name: str, text: str | None = None) -> None:
        """End the step before and begin this one. `text`: what a person reads of it."""
        self.end()
        self._current = (name, self._now_s())
        if text is not None and self._tell is not None:
            self._tell(text)

    def end(self) -> float:
        """End the current step and give its seconds; 0 when there is none."""
        if self._current is None:
            return 0.0
        name, began_s = self._current
        self._current = None
        took_s = self._now_s() - began_s
        self.add(name, took_s)
        return took_s

    def add(self, name: str, seconds: float) -> None:
        self.seconds[name] = self.seconds.get(name, 0.0) + seconds

    def split(self, name: str, parts: Mapping[str, float]) -> None:
        """Say what a step that has ended consisted of; what the parts leave over stays under its own name."""
        for part, seconds in parts.items():
            self.add(part, seconds)
            self.seconds[name] -= seconds

    def rounded(self) -> dict[str, float]:
        return {name: round(seconds, 3) for name, seconds in self.seconds.items()}


def overhead_of(wall_s: float, steps: list[Mapping[str, float]]) -> Overhead:
    """steps: of each trial, and of the run outside its trials."""
    total: dict[str, float] = {}
    for row in steps:
        for name, seconds in row.items():
            total[name] = total.get(name, 0.0) + seconds
    load_s = total.get(LOAD, 0.0)
    return Overhead(
        wall_s=round(wall_s, 3),
        load_s=round(load_s, 3),
        ratio=round((wall_s - load_s) / wall_s, 4) if wall_s > 0 else 0.0,
        steps_s={name: round(seconds, 3) for name, seconds in total.items()},
    )
