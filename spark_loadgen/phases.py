"""The phases of one load in whole seconds since T0: warm-up, measured phase, end of the schedule.

When the warm-up ends as soon as the load is steady, the driver sends the first measured second while the load runs.
Until then the latest second that the plan allows is in force. So the end only moves to an earlier second, and a task
that loses the driver still ends by the plan.
"""

from __future__ import annotations

from typing import Final

from highwater.spark_loadgen.windows import SECOND_NS


class Phases:
    """Read by the loop of a load, set by the thread of its channel."""

    def __init__(self, warmup_max_s: int, measure_s: int) -> None:
        self._measure_s: Final = measure_s
        self.measure_start_s = warmup_max_s
        self.end_ns = (warmup_max_s + measure_s) * SECOND_NS
        """End of the schedule in ns since T0, as known now."""

    @property
    def end_s(self) -> int:
        return self.measure_start_s + self._measure_s

    def measure_from(self, second: int) -> None:
        """Start the measured phase at `second`; a second later than the present start changes nothing."""
        if second < self.measure_start_s:
            self.measure_start_s = second
            self.end_ns = (second + self._measure_s) * SECOND_NS
