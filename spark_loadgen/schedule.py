"""The open-loop schedule: when each record is meant to be sent, whatever has happened so far.

The intended time of a record is a pure function of (schedule, sequence, worker). Nothing that occurs during a run moves
it, so a stalled sender finds its lateness waiting for it (the error known as coordinated omission cannot creep in).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Schedule:
    """Uniform arrivals: record `sequence` of worker `w` is number `sequence * workers + w` of one common row.

    All times are ns since T0. Records are 1/rate apart in the common row, so the workers' records interleave evenly.
    """

    rate_per_s: float
    workers: int
    duration_ns: int

    def intended_ns(self, sequences: NDArray[np.int64], worker: int) -> NDArray[np.int64]:
        """Intended send times of `sequences` of one worker."""
        # A float64 holds the product exactly enough: to the ns for 104 days of running.
        positions = (sequences * self.workers + worker).astype(np.float64)
        return (positions * (1e9 / self.rate_per_s)).astype(np.int64)

    def count_before(self, instant_ns: int, worker: int) -> int:
        """How many records of `worker` are intended before `instant_ns`, the end of the schedule at the latest."""
        instant_ns = min(instant_ns, self.duration_ns)
        estimate = int((instant_ns * self.rate_per_s / 1e9 - worker) / self.workers)
        # The estimate suffers from rounding; intended_ns decides.
        candidates = np.arange(max(0, estimate - 2), max(0, estimate + 3), dtype=np.int64)
        before = self.intended_ns(candidates, worker) < instant_ns
        return int(candidates[0]) + int(np.count_nonzero(before))

    def total(self, worker: int) -> int:
        """How many records the whole schedule holds for `worker`."""
        return self.count_before(self.duration_ns, worker)

    def offered_in_second(self, second: int, worker: int) -> int:
        start_ns = second * 1_000_000_000
        return self.count_before(start_ns + 1_000_000_000, worker) - self.count_before(start_ns, worker)
