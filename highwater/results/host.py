"""The models of what the host did during a trial: host.jsonl, and its means in the summary.

`cpu_ratio` and `steal_ratio` are shares of all CPUs of the host. CPU of a group of processes is in CPU seconds per
second, so 1.5 is one and a half cores. None stands for what this host does not report.
"""

from __future__ import annotations

from pydantic import Field

from highwater.results.base import Model


class HostSample(Model):
    """One second since T0. Rates are per second; the sizes of caches and memory are as they stood at its end."""

    second: int
    cpu_ratio: float
    system_cpu_ratio: float | None = Field(description="the system under test with its children")
    system_rss_bytes: int | None
    disk_write_bytes: int | None = Field(description="of the target's devices, as the other disk fields")
    disk_read_bytes: int | None
    dirty_bytes: int | None
    writeback_bytes: int | None
    steal_ratio: float | None = None
    attendants_cpu_ratio: float | None = Field(default=None, description="what the system needs beside it (ZooKeeper)")
    generator_cpu_ratio: float | None = Field(default=None, description="this harness and its load tasks on this host")
    other_cpu_ratio: float | None = Field(default=None, description="everything else that ran on this host")
    system_read_bytes: int | None = Field(default=None, description="fetched from storage on the system's behalf")
    system_write_bytes: int | None = Field(default=None, description="made dirty by the system, for storage to write")
    disk_read_operations: float | None = None
    disk_write_operations: float | None = None
    disk_util_ratio: float | None = Field(default=None, description="share of the second with an operation under way")
    disk_read_latency_ns: float | None = Field(default=None, description="mean of the operations that ended")
    disk_write_latency_ns: float | None = None
    net_received_bytes: int | None = Field(default=None, description="all interfaces but loopback")
    net_sent_bytes: int | None = None
    loopback_bytes: int | None = None
    memory_available_bytes: int | None = None
    cpu_pressure_some_ratio: float | None = Field(default=None, description="share of the second (PSI)")
    cpu_pressure_full_ratio: float | None = None
    io_pressure_some_ratio: float | None = None
    io_pressure_full_ratio: float | None = None
    memory_pressure_some_ratio: float | None = None
    memory_pressure_full_ratio: float | None = None
    sampler_cpu_ratio: float | None = Field(default=None, description="what taking these samples cost itself")


class HostUse(Model):
    """Means over the measured phase, unless the name says max or min."""

    cpu_ratio: float
    system_cpu_ratio: float | None = Field(description="the system under test, in CPU seconds per second")
    system_rss_bytes: int | None
    disk_write_bytes_per_s: float | None
    disk_read_bytes_per_s: float | None
    dirty_bytes_max: int | None
    steal_ratio: float | None = None
    attendants_cpu_ratio: float | None = None
    generator_cpu_ratio: float | None = None
    other_cpu_ratio: float | None = None
    disk_util_ratio: float | None = None
    disk_read_latency_ns: float | None = None
    disk_write_latency_ns: float | None = None
    net_received_bytes_per_s: float | None = None
    net_sent_bytes_per_s: float | None = None
    loopback_bytes_per_s: float | None = None
    memory_available_bytes_min: int | None = None
    cpu_pressure_some_ratio: float | None = None
    io_pressure_some_ratio: float | None = None
    io_pressure_full_ratio: float | None = None
    memory_pressure_some_ratio: float | None = None
    sampler_cpu_ratio: float | None = None
    system_cpu_s_per_gib: float | None = Field(
        default=None,
        description="CPU seconds of the system per GiB of values in and out, over the whole load and its drain",
    )
