"""The models of what changes of a consumer group's membership cost its readers."""

from __future__ import annotations

from typing import Final, Literal, get_args

from pydantic import Field

from highwater.results.base import Model

ChangeKind = Literal["join", "leave", "kill"]
KINDS: Final[tuple[ChangeKind, ...]] = get_args(ChangeKind)


class MembershipChange(Model):
    """One change, judged until the next one or the end of the measured phase."""

    do: ChangeKind
    member: int = Field(description="number of the member, from 1")
    at_s: float = Field(description="seconds since T0")
    judged_until_s: float = Field(description="seconds since T0")
    all_read_s: float | None = Field(
        description="until every partition was read by the member that kept it; None: some were not read again"
    )
    longest_pause_s: float = Field(description="longest time without a new record of any one partition")
    behind_records: int = Field(
        description="the most records acknowledged and not yet received, at the end of a second"
    )
    lowest_ratio: float = Field(description="received over acknowledged, in the lowest whole second")
    duplicated: int = Field(description="records that the group had read before")
    assigned: int = Field(description="partitions that were given to a member, also those given back to the same")


class Rebalances(Model):
    """Every change of a trial."""

    protocol: Literal["classic", "consumer"]
    assignor: str
    changes: list[MembershipChange]
    received: int = Field(description="records that members received, duplicates included")
    skipped: int = Field(description="records that no member received, between records that were received")
