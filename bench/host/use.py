"""The use of a host over the measured phase, from a trial's samples."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from highwater.results.host import HostSample, HostUse


def host_use(samples: Sequence[HostSample], start_s: float, end_s: float) -> HostUse:
    """Means over [start_s, end_s) of the known values; fields named max or min are extremes."""
    measured = [sample for sample in samples if start_s <= sample.second < end_s]

    def known(name: str) -> list[float]:
        return [value for sample in measured if (value := getattr(sample, name)) is not None]

    def mean(name: str) -> float | None:
        values = known(name)
        return sum(values) / len(values) if values else None

    rss_bytes = mean("system_rss_bytes")
    return HostUse(
        cpu_ratio=mean("cpu_ratio") or 0.0,
        system_cpu_ratio=mean("system_cpu_ratio"),
        system_rss_bytes=None if rss_bytes is None else round(rss_bytes),
        disk_write_bytes_per_s=mean("disk_write_bytes"),
        disk_read_bytes_per_s=mean("disk_read_bytes"),
        dirty_bytes_max=_whole(max(known("dirty_bytes"), default=None)),
        steal_ratio=mean("steal_ratio"),
        attendants_cpu_ratio=mean("attendants_cpu_ratio"),
        generator_cpu_ratio=mean("generator_cpu_ratio"),
        other_cpu_ratio=mean("other_cpu_ratio"),
        disk_util_ratio=mean("disk_util_ratio"),
        disk_read_latency_ns=_weighted_mean(measured, "disk_read_latency_ns", "disk_read_operations"),
        disk_write_latency_ns=_weighted_mean(measured, "disk_write_latency_ns", "disk_write_operations"),
        net_received_bytes_per_s=mean("net_received_bytes"),
        net_sent_bytes_per_s=mean("net_sent_bytes"),
        loopback_bytes_per_s=mean("loopback_bytes"),
        memory_available_bytes_min=_whole(min(known("memory_available_bytes"), default=None)),
        cpu_pressure_some_ratio=mean("cpu_pressure_some_ratio"),
        io_pressure_some_ratio=mean("io_pressure_some_ratio"),
        io_pressure_full_ratio=mean("io_pressure_full_ratio"),
        memory_pressure_some_ratio=mean("memory_pressure_some_ratio"),
        sampler_cpu_ratio=mean("sampler_cpu_ratio"),
    )


def _weighted_mean(samples: Iterable[HostSample], name: str, weight: str) -> float | None:
    """The mean weighted by operations, so that a second with one slow operation has little weight."""
    pairs = [
        (value, count)
        for sample in samples
        if (value := getattr(sample, name)) is not None and (count := getattr(sample, weight))
    ]
    total = sum(count for _, count in pairs)
    return sum(value * count for value, count in pairs) / total if total else None


def _whole(value: float | None) -> int | None:
    return None if value is None else round(value)
