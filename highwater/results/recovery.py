"""The models of faults under load, and of the recovery from them.

Figures are read off the trial's whole seconds, so times are known to about a second; `longest_wait_s` is exact.
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from highwater.results.base import Model


class FaultRecovery(Model):
    """One fault, judged from its second until the next fault or the end of the measured phase."""

    do: Literal["kill", "stop", "pause", "restart"]
    node: int = Field(description="number of the broker, from 1")
    role: str = Field(description="what it was chosen as: node, leader, controller or any")
    at_s: float = Field(description="seconds since T0")
    back_s: float | None = Field(description="when it served again, or went on; None: never")
    ended_after_s: float | None = Field(
        default=None, description="of stop: until the process had ended, to a tenth of a second"
    )
    judged_until_s: int = Field(description="seconds since T0")
    disturbed_until_s: int = Field(description="from the fault to here guards of the load do not judge")
    reference_per_s: float | None = Field(
        description="of a closed loop: acknowledged before the first fault; else None: what is offered counts"
    )
    no_ack_s: int = Field(description="seconds without one acknowledgement")
    to_half_s: float | None = Field(description="until 50 % of the offered rate, and no less for 3 s; None: never")
    to_ninety_s: float | None = Field(description="the same of 90 %")
    longest_wait_s: float | None = Field(description="longest time from due to acknowledged, of records sampled")
    p99_extra_s2: float | None = Field(description="sum over seconds of what p99 exceeds its median before, s·s")
    consumer_gap_s: int | None = Field(description="longest run of seconds in which consumers got nothing; None: none")


class Recovery(Model):
    """Every fault of a trial. Counts are of the whole trial."""

    faults: list[FaultRecovery]
    lost: int
    duplicated: int
    reordered: int
