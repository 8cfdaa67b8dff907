"""Where the phases of one load lie, in whole seconds since T0: warm-up, measured phase, end of the schedule.

With a warm-up that ends when the load is steady, the driver names the second from which on is measured while the load
runs. Until it does, the latest that the plan allows holds. So the end only ever moves to an earlier second, and a task
that hears nothing more ends by the plan.
"""

from __future__ import annotations

from typing import Final

from highwater.spark_loadgen.windows import SECOND_NS


class Phases:
    """Read by the loop of a load, told by the thread of its channel."""

    def __init__(self, warmup_max_s: int, measure_s: int) -> None:
        self._measure_s: Final = measure_s
        self.measure_start_s = warmup_max_s
        self.end_ns = (warmup_max_s + measure_s) * SECOND_NS
        """End of the schedule in ns since T0, as known now."""

    @property
    def end_s(self) -> int:
        return self.measure_start_s + self._measure_s

    def measure_from(self, second: int) -> None:
        """The driver's word. A second later than the plan's latest changes nothing."""
        if second < self.measure_start_s:
            self.measure_start_s = second
            self.end_ns = (second + self._measure_s) * SECOND_NS
