"""Clusters on other hosts, as a workload file describes them: addresses and hosts.

A run can talk to such a cluster only through the Kafka protocol. What reports say about its disks, processors and
memory comes from this section. `highwater bench host describe` writes the entry of a host; playbooks/bench.yml writes
the whole file.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal

from pydantic import AfterValidator, Field

from highwater.bench.workload.values import Part, SizeBytes

COMMAND_CONFIG: Final = "file with the TLS and SASL properties of its clients, by librdkafka's names"
# A host's name is the name of a file in each trial's folder.
_HOST_NAME: Final = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,252}$"


def host_and_port(address: str) -> str:
    """The address; raises ValueError unless it is HOST:PORT."""
    host, _, port = address.rpartition(":")
    if not (host and port.isdecimal() and 0 < int(port) < 65536):
        raise ValueError(f"{address!r} is not HOST:PORT")
    return address


class ClusterStorage(Part):
    """The storage on which the brokers of one host keep their logs."""

    path: str = ""
    medium: Literal["ssd", "hdd", "nvme", "memory", "unknown"] = "unknown"
    emulated: bool = Field(default=False, description="the medium is emulated; reports say so")
    emulation: str | None = Field(default=None, description="how it is emulated, in words")
    device: str | None = Field(default=None, description="the kernel's names of the disks, joined by +")
    backing_device: str | None = Field(default=None, description="the disk below a loop device's file")
    model: str | None = None
    scheduler: str | None = None
    filesystem: str | None = None
    mount_options: list[str] = Field(default=[])


class Sampler(Part):
    """The sampler (`highwater bench host sample`) that reports the resource use of a host and of its services."""

    address: Annotated[str, AfterValidator(host_and_port)] = Field(description="HOST:PORT of the sampler")
    brokers: list[str] = Field(default=[], description="systemd units of the cluster's brokers on that host")
    attendants: list[str] = Field(default=[], description="units that the brokers need (ZooKeeper)")
    generator: list[str] = Field(default=[], description="units that generate load (Spark's worker)")


class ClusterHost(Part):
    """A host that runs brokers of the cluster."""

    cpus: int | None = Field(default=None, ge=1)
    cpu_model: str | None = None
    memory_bytes: SizeBytes | None = Field(default=None, alias="memory")
    kernel: str | None = None
    runs_in: str | None = Field(default=None, description="the container or virtual machine, if the host is one")
    tuning_fingerprint: str | None = Field(
        default=None, description="fingerprint of the host's settings that tuning knows"
    )
    durability_trades: list[str] = Field(default=[], description="settings that trade crash safety for speed")
    storage: ClusterStorage | None = None
    sampler: Sampler | None = None


class Cluster(Part):
    """One running cluster."""

    bootstrap_servers: str = Field(description="host:port[,host:port…]")
    command_config: str | None = Field(default=None, description=COMMAND_CONFIG)
    product: str | None = Field(
        default=None,
        description="product and version, such as apache-kafka 3.9.1: Kafka's protocol does not report them",
    )
    hosts: dict[Annotated[str, Field(pattern=_HOST_NAME)], ClusterHost] = Field(
        default={}, description="name -> description of a host that runs brokers of the cluster"
    )
