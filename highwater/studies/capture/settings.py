"""How a capture reads: what it keeps, the salt of its key counts, how fast it may be."""

from __future__ import annotations

from dataclasses import dataclass, field

from highwater.studies.capture.keys import KeyCounts
from highwater.studies.capture.pacing import ReadLimit
from highwater.studies.capture.statistics import Level, Statistics


@dataclass(frozen=True, slots=True)
class CaptureSettings:
    """salt: one for all tasks of a capture, so that their counts of keys can be added; a secret of the capture.

    bytes_per_s: of all tasks together; None: no limit.
    """

    level: Level
    salt: bytes = field(repr=False)
    bytes_per_s: float | None

    def statistics(self) -> Statistics:
        return Statistics(self.level, KeyCounts(self.salt))

    def limit_of_one(self, tasks: int) -> ReadLimit:
        return ReadLimit(None if self.bytes_per_s is None else self.bytes_per_s / tasks)
