"""The `faults:` of a workload file: faults that are injected into brokers during the measurement."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Final, Literal

from pydantic import BeforeValidator, Field, WithJsonSchema, model_validator

from highwater.bench.workload.sections import Phases
from highwater.bench.workload.system import SystemUnderTest
from highwater.bench.workload.values import DurationS, KeyFaultError, Part
from highwater.common import quantities

FaultKind = Literal["kill", "stop", "pause", "restart"]
NodeRole = Literal["leader", "controller", "not_controller", "any"]
# Seconds of the measured phase that recovery is compared with (before the first fault) and seen in (after each fault).
QUIET_S: Final = 3
_ROLES: Final = ("leader", "controller", "not_controller", "any")


def _node(value: object) -> object:
    if value in _ROLES or (isinstance(value, int) and not isinstance(value, bool) and value >= 1):
        return value
    raise ValueError(f"{value!r} is not a broker's number (from 1), leader, controller, not_controller or any")


FaultNode = Annotated[
    int | NodeRole,
    BeforeValidator(_node),
    WithJsonSchema({"anyOf": [{"type": "integer", "minimum": 1}, {"enum": list(_ROLES)}]}),
]


class Fault(Part):
    """One fault of one broker."""

    at_s: DurationS = Field(alias="at", description="time since the start of the measured phase")
    do: FaultKind = Field(description="kill: SIGKILL; stop: SIGTERM; pause: SIGSTOP; restart: SIGTERM and start again")
    node: FaultNode = Field(default="any", description="leader: the leader of the first topic's partition 0")
    for_s: DurationS | None = Field(
        default=None,
        ge=1,
        alias="for",
        description="time until the broker is started again or resumed; never when absent",
    )

    @model_validator(mode="before")
    @classmethod
    def _restart_takes_no_time(cls, data: Any) -> Any:
        if isinstance(data, dict) and data.get("do") == "restart" and data.get("for") is not None:
            raise KeyFaultError(
                "for", text="does not fit restart, which starts the broker again at once; write do: stop"
            )
        return data

    @property
    def for_good(self) -> bool:
        return self.for_s is None and self.do != "restart"

    def latest_s(self, measure_s: int) -> int:
        """The latest time at which its end can still be seen in a measured phase of this length."""
        return measure_s - QUIET_S - (self.for_s or 0)


def check_faults(faults: Sequence[Fault], system: SystemUnderTest, phases: Phases) -> None:
    """Raises KeyFaultError for faults that this run cannot inject, or whose end it could not see."""
    if not faults:
        return
    measure_s = phases.measure_s
    if system.kind == "external":
        raise KeyFaultError(
            "faults", text="need a system that this run starts; this run does not break an external one"
        )
    ready_s, gone = QUIET_S, set[int | str]()
    for number, fault in enumerate(faults):
        _check_node(system.nodes, number, fault, gone)
        if fault.at_s < ready_s:
            earliest = quantities.format_duration_s(ready_s)
            why = (
                "recovery is compared with the time before" if number == 0 else "one fault at a time, with its recovery"
            )
            raise KeyFaultError("faults", number, "at", text=f"must be {earliest} or later: {why}")
        ready_s = fault.at_s + (fault.for_s or 0) + QUIET_S
        if fault.at_s > fault.latest_s(measure_s):
            key = "for" if fault.for_s and fault.at_s + QUIET_S <= measure_s else "at"
            text = (
                f"leaves less than {QUIET_S} s of the measured phase ({quantities.format_duration_s(measure_s)}) for "
                "recovery"
            )
            raise KeyFaultError("faults", number, key, text=text)
        if fault.for_good:
            gone.add(fault.node if isinstance(fault.node, int) else f"{fault.node} {number}")
        if len(gone) >= system.nodes:
            raise KeyFaultError(
                "faults", number, "for", text="is missing: no broker would be left to report what its log contains"
            )


def _check_node(nodes: int, number: int, fault: Fault, gone: set[int | str]) -> None:
    if isinstance(fault.node, int) and fault.node > nodes:
        text = f"{fault.node} is more than system.nodes, {nodes}"
        raise KeyFaultError("faults", number, "node", text=text)
    if fault.node in gone:
        raise KeyFaultError("faults", number, "node", text=f"{fault.node} is down since an earlier fault")
