"""The models of storage: targets, fio's probes (probes.json), the share of the page cache."""

from __future__ import annotations

from typing import Final, Literal

from pydantic import Field

from highwater.results.base import Model

PROBES_SCHEMA: Final = "bench.probes/1"

ProbeName = Literal["sequential_append", "fsync", "sequential_read", "random_read", "parallel_append"]
CacheDrop = Literal["dropped", "kept", "not_permitted"]


class StorageTarget(Model):
    """The storage of the log of the system under test."""

    name: str
    path: str
    device: str | None
    medium: Literal["ssd", "hdd", "nvme", "memory", "unknown"]
    emulated: bool
    model: str | None
    scheduler: str | None
    filesystem: str | None
    mount_options: list[str]
    backing_device: str | None = Field(default=None, description="the disk below a loop device's file")
    emulation: str | None = Field(default=None, description="the limits of an emulated disk, in words")


class FioProbe(Model):
    """One job of fio, in fio's own figures."""

    name: ProbeName
    files: int = Field(default=1, description="written in turn, one block each")
    block_bytes: int
    direct: bool = Field(description="past the page cache (O_DIRECT)")
    moved_bytes: int
    runtime_ns: int
    bytes_per_s: float
    operations_per_s: float
    latency_p50_ns: int | None = Field(description="completion of an operation; of fdatasync for fsync")
    latency_p99_ns: int | None
    latency_p999_ns: int | None
    latency_max_ns: int | None


class TargetProbe(Model):
    """What fio measured on one target at one moment; `problem` instead of jobs when it could not."""

    target: StorageTarget
    moment: Literal["before", "after", "alone"]
    taken_utc: str
    fio_version: str | None
    jobs: list[FioProbe]
    problem: str | None = None
    host: str | None = Field(default=None, description="which host of an external cluster; None for this one")

    def job(self, name: ProbeName) -> FioProbe | None:
        return next((job for job in self.jobs if job.name == name), None)


class StorageProbes(Model):
    """probes.json: the targets of a run, before its first trial and after its last."""

    schema_: Literal["bench.probes/1"] = Field(default=PROBES_SCHEMA, alias="schema")
    probes: list[TargetProbe]
    skipped: str | None = Field(default=None, description="why nothing was probed")

    def append_ceiling_bytes_per_s(self, target: str) -> float | None:
        """What the target takes in order, past the page cache: the better of before and after. None when unknown.

        Of a cluster on other hosts, all of them together. A trial shorter than the page cache's patience can lie above
        it: its writes were not on the disk yet.
        """
        best: dict[str | None, float] = {}
        for probe in self.probes:
            if probe.target.name == target and (job := probe.job("sequential_append")) is not None:
                best[probe.host] = max(best.get(probe.host, 0.0), job.bytes_per_s)
        return sum(best.values()) if best else None


class CacheUse(Model):
    """The share of the fetched bytes that came from memory, from `start_s` to `end_s` since T0.

    `served_ratio` = 1 − read bytes / fetched bytes, limited to 0 to 1. `system_reads` counts what the kernel read for
    the system's processes (/proc/PID/io); `device_reads` all reads of the target's devices.
    """

    served_ratio: float | None = Field(description="None when nothing was fetched or no reads could be counted")
    method: Literal["system_reads", "device_reads"] | None
    start_s: float
    end_s: float
    fetched_bytes: int = Field(description="as stored in the log: compressed where the log is")
    system_read_bytes: int | None
    device_read_bytes: int | None
    log_bytes: int | None = Field(default=None, description="segments of the log at the end of the load")
    resident_bytes: int | None = Field(default=None, description="bytes of these segments in the page cache")
    resident_method: Literal["cachestat", "mincore"] | None = None
    limit_bytes: int | None = Field(default=None, description="storage.cache_limit of the system's control group")
    drop: CacheDrop = Field(default="kept", description="whether the host's page cache was emptied before the trial")


class WritebackUse(Model):
    """Acknowledged bytes that were not on the disk yet, from T0 to the end of the load."""

    dirty_max_bytes: int | None = Field(description="of the whole host")
    writeback_max_bytes: int | None = Field(description="of the whole host, at one time")
    written_bytes: int | None = Field(description="by the target's devices, for all processes")
    appended_bytes: int | None = Field(description="segments of the log at the end of the load")
    unwritten_bytes: int | None = Field(default=None, description="appended bytes not on the disk yet (cachestat)")
    flush_s: float | None = Field(default=None, description="time to write them to the disk after the load")
    flush_complete: bool | None = Field(default=None, description="False: not finished after flush_s")
