"""The model of a probe of the network between two hosts: a file of `bench network`, for plans."""

from __future__ import annotations

from ipaddress import ip_address
from typing import Final, Literal

from pydantic import Field

from highwater.results.base import Model

NETWORK_SCHEMA: Final = "bench.network/1"


class NetworkTrial(Model):
    """One run of iperf3, which sends both ways at once, as brokers do; its own figures."""

    sent_bytes_per_s: float = Field(gt=0, description="that arrived at the other host")
    received_bytes_per_s: float = Field(gt=0)
    retransmits: int = Field(ge=0, description="segments that either host sent again")
    cpu_ratio: float = Field(ge=0, description="of a core, that iperf3 used on the busier host")

    @property
    def bytes_per_s(self) -> float:
        """The slower way."""
        return min(self.sent_bytes_per_s, self.received_bytes_per_s)


class NetworkProbe(Model):
    schema_: Literal["bench.network/1"] = Field(default=NETWORK_SCHEMA, alias="schema")
    taken_utc: str
    local_address: str
    remote_address: str
    iperf3_version: str
    streams: int = Field(ge=1, description="TCP connections each way")
    trial_s: int = Field(ge=1)
    trials: tuple[NetworkTrial, ...] = Field(min_length=1)

    @property
    def leaves_host(self) -> bool:
        """Whether the bytes crossed a network: a host reaches its own addresses without one."""
        return self.local_address != self.remote_address and not ip_address(self.remote_address).is_loopback
