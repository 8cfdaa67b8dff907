"""The `rebalance:` of a workload file: a consumer group, and what happens to its members."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Final, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from highwater.bench.workload.faults import QUIET_S, Fault
from highwater.bench.workload.sections import ConsumerProperties, Phases, Producers, Trials
from highwater.bench.workload.system import SystemUnderTest
from highwater.bench.workload.values import DurationS, KeyFaultError, Part, Scalar
from highwater.common import quantities
from highwater.results.rebalance import ChangeKind

Protocol = Literal["classic", "consumer"]
Assignor = Literal["range", "roundrobin", "cooperative-sticky", "uniform"]
_ASSIGNORS: Final[dict[Protocol, tuple[Assignor, ...]]] = {
    "classic": ("range", "roundrobin", "cooperative-sticky"),
    "consumer": ("uniform", "range"),
}
# With the consumer protocol librdkafka refuses each of these: the broker decides.
_OF_THE_BROKER: Final = {
    "session.timeout.ms": "group.consumer.session.timeout.ms",
    "heartbeat.interval.ms": "group.consumer.heartbeat.interval.ms",
    "group.protocol.type": None,
}
_OTHER_KEYS: Final = {
    "group.remote.assignor": "rebalance.assignor",
    "partition.assignment.strategy": "rebalance.assignor",
    "enable.auto.offset.store": None,
    "client.id": None,
    "group.instance.id": None,
}


def _free_to_set(client: dict[str, Scalar]) -> dict[str, Scalar]:
    for name in client:
        if name in _OTHER_KEYS:
            instead = _OTHER_KEYS[name]
            raise KeyFaultError(name, text=f"is what {instead} says" if instead else "is set for each member")
    return client


class PlannedChange(Part):
    """One change of the membership."""

    at_s: DurationS = Field(alias="at", description="time since the start of the measured phase")
    do: ChangeKind = Field(description="join: a new member; leave: a member says goodbye; kill: SIGKILL")
    member: int | None = Field(
        default=None, ge=1, description="which member leaves or is killed, from 1; those that join are numbered on"
    )

    @model_validator(mode="after")
    def _names_a_member(self) -> Self:
        if self.do == "join" and self.member is not None:
            raise KeyFaultError("member", text="is for leave and kill; a member that joins gets the next number")
        if self.do != "join" and self.member is None:
            raise KeyFaultError("member", text=f"is missing: which member is it to {self.do}?")
        return self


class Rebalance(Part):
    """One consumer group beside the consumers of the load: its members subscribe, commit and rebalance."""

    members: int = Field(default=3, ge=1, le=100, description="members before the first change")
    protocol: Protocol = Field(
        default="classic", description="classic: the members assign; consumer: the broker does (KIP-848)"
    )
    assignor: Assignor | None = Field(
        default=None, description="range for classic and uniform for consumer when absent"
    )
    client: Annotated[ConsumerProperties, AfterValidator(_free_to_set)] = Field(
        default={}, description="librdkafka properties of every member"
    )
    changes: list[PlannedChange] = Field(min_length=1, description="changes of the membership, in order of time")

    @model_validator(mode="after")
    def _fits_protocol(self) -> Self:
        known = _ASSIGNORS[self.protocol]
        if self.assignor is not None and self.assignor not in known:
            text = f"{self.assignor} is not an assignor of protocol: {self.protocol} ({', '.join(known)})"
            raise KeyFaultError("assignor", text=text)
        if self.protocol == "consumer":
            for name in self.client:
                if name in _OF_THE_BROKER:
                    setting = _OF_THE_BROKER[name]
                    instead = f"; the broker decides by {setting}, under system.config" if setting else ""
                    raise KeyFaultError("client", name, text=f"does not go with protocol: consumer{instead}")
        return self

    @model_validator(mode="after")
    def _changes_fit(self) -> Self:
        present, next_number, ready_s = set(range(1, self.members + 1)), self.members + 1, QUIET_S
        for number, change in enumerate(self.changes):
            if change.at_s < ready_s:
                earliest = quantities.format_duration_s(ready_s)
                raise KeyFaultError("changes", number, "at", text=f"must be {earliest} or later")
            ready_s = change.at_s + QUIET_S
            if change.member is None:
                present.add(next_number)
                next_number += 1
            elif change.member not in present:
                there = ", ".join(map(str, sorted(present)))
                text = f"{change.member} is not in the group at that time (members: {there})"
                raise KeyFaultError("changes", number, "member", text=text)
            else:
                present.discard(change.member)
            if not present:
                raise KeyFaultError("changes", number, text="would leave the group without a member")
        return self

    @property
    def properties(self) -> dict[str, Scalar]:
        """What of librdkafka's properties makes a member of this group, beside the name of the group."""
        assignor = self.assignor or _ASSIGNORS[self.protocol][0]
        name = "group.remote.assignor" if self.protocol == "consumer" else "partition.assignment.strategy"
        return {"group.protocol": self.protocol, name: assignor}


def check_rebalance(
    rebalance: Rebalance | None,
    phases: Phases,
    system: SystemUnderTest,
    producers: Producers,
    trials: Trials,
    faults: Sequence[Fault],
) -> None:
    """Raises KeyFaultError for a group that this run cannot watch."""
    if rebalance is None:
        return
    last = rebalance.changes[-1]
    if last.at_s > phases.measure_s - QUIET_S:
        measure = quantities.format_duration_s(phases.measure_s)
        text = f"leaves less than {QUIET_S} s of the measured phase ({measure})"
        raise KeyFaultError("rebalance", "changes", len(rebalance.changes) - 1, "at", text=text)
    if producers.native:
        text = f"needs the driver client or wire; {producers.driver} reports totals only"
        raise KeyFaultError("rebalance", text=text)
    if producers.transactions is not None:
        text = "cannot tell the ends of transactions from records that nobody read; remove producers.transactions"
        raise KeyFaultError("rebalance", text=text)
    if trials.at_once:
        raise KeyFaultError("rebalance", text="needs a processor for its members; remove trials.at_once")
    if faults:
        raise KeyFaultError("rebalance", text="measures changes of the members alone; remove faults")
    if system.kind == "bare-loop":
        raise KeyFaultError("rebalance", text="needs a broker, not bare-loop")
    if rebalance.protocol == "consumer":
        _check_served(system)


def _check_served(system: SystemUnderTest) -> None:
    if system.kind == "apache-kafka" and system.version == "3.9":
        text = "consumer needs Apache Kafka 4 (system.version), or Highwater's broker; 3.9 knows classic only"
        raise KeyFaultError("rebalance", "protocol", text=text)
