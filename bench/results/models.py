"""The models of a result directory's files: what each field means, in which unit, and what may be missing.

Field names end in their unit; MiB and ms appear only where a person reads. A field added later has a default, so that
older directories stay readable under the same schema.
"""

from __future__ import annotations

from typing import Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field

MANIFEST_SCHEMA: Final = "bench.manifest/1"
ENVIRONMENT_SCHEMA: Final = "bench.environment/1"
SUMMARY_SCHEMA: Final = "bench.summary/1"

Metric = Literal["produce_response", "produce_service", "send_delay", "e2e_response"]
METRICS: Final[tuple[Metric, ...]] = ("produce_response", "produce_service", "send_delay", "e2e_response")

Scalar = str | int | float | bool
TrialStatus = Literal["planned", "running", "done", "failed", "interrupted"]
RunStatus = Literal["running", "done", "failed", "interrupted"]
VerdictState = Literal["valid", "invalid", "inconclusive"]


class Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)


class Latency(Model):
    """Percentiles of one metric over the measured phase, in ns, recomputable from the named histogram log."""

    p50: int
    p90: int
    p99: int
    p999: int
    p9999: int
    max: int
    mean: float
    count: int
    hist: str = Field(description="path of the .hlog, relative to the trial's folder")


class Delivery(Model):
    """Fate of every record of the trial, warm-up included.

    `lost` = acknowledged, not received; `unread` = still lay before the consumers when their time was up (and count as
    lost too); `failed` = the client reported an error; `in_log` = sum over partitions of log end offset − log start
    offset, asked from the broker by a client that took no part in the load.
    """

    sent: int
    acked: int
    failed: int
    received: int
    lost: int
    duplicated: int
    reordered: int
    corrupt: int
    in_log: int
    unread: int = 0


class Generator(Model):
    """Evidence that the load generator was healthy."""

    launcher: str
    producers: int
    consumers: int
    slots: int
    oversubscribed: bool
    cpu_ratio_max: float = Field(description="busiest worker process: CPU seconds per second, measured phase")
    producer_cpu_ns_per_record: float
    consumer_cpu_ns_per_record: float
    start_skew_ns: int = Field(description="latest minus earliest first send, relative to the agreed T0")
    clock_spread_ns: int = Field(description="largest difference between the tasks' clocks when T0 was agreed")


class HostUse(Model):
    """Means over the measured phase; None where the host does not tell."""

    cpu_ratio: float
    system_cpu_ratio: float | None = Field(description="the system under test, in CPU seconds per second")
    system_rss_bytes: int | None
    disk_write_bytes_per_s: float | None
    disk_read_bytes_per_s: float | None
    dirty_bytes_max: int | None


class Reason(Model):
    """One check of validity that did not hold."""

    check: str
    value: float | str
    limit: float | str
    text: str


class Verdict(Model):
    """Whether the figures may be believed. `notes` say what to know about them; they change nothing of the state."""

    state: VerdictState
    reasons: list[Reason]
    notes: list[str] = Field(default=[])


class Phase(Model):
    name: Literal["warmup", "measure", "drain"]
    start_s: float = Field(description="seconds since T0")
    end_s: float


class Produce(Model):
    response_ns: Latency
    service_ns: Latency
    send_delay_ns: Latency


class EndToEnd(Model):
    response_ns: Latency
    clock: Literal["same_host_monotonic", "wall_clock"]
    negative_samples: int


class TrialSummary(Model):
    schema_: Literal["bench.summary/1"] = Field(default=SUMMARY_SCHEMA, alias="schema")
    trial_id: str
    cell: str
    factors: dict[str, Scalar]
    trial: int
    block: int
    order_in_block: int
    started_utc: str
    phases: list[Phase]
    offered_per_s: float
    achieved_per_s: float = Field(description="records acknowledged per second of the measured phase, by ack time")
    achieved_bytes_per_s: float = Field(description="value bytes of those records")
    consumed_per_s: float
    consumed_bytes_per_s: float
    produce: Produce
    e2e: EndToEnd | None = Field(description="None when the workload has no consumers")
    delivery: Delivery
    generator: Generator
    host: HostUse
    storage: StorageTarget
    system: SystemFacts
    verdict: Verdict


class StorageTarget(Model):
    """Where the system under test kept its log."""

    name: str
    path: str
    device: str | None
    medium: Literal["ssd", "hdd", "nvme", "memory", "unknown"]
    emulated: bool
    model: str | None
    scheduler: str | None
    filesystem: str | None
    mount_options: list[str]


class SystemFacts(Model):
    """The system under test as it really ran."""

    kind: str
    version: str
    command: list[str]
    effective_config: dict[str, str]


class TrialPlan(Model):
    trial_id: str
    cell: str
    factors: dict[str, Scalar]
    trial: int
    block: int
    order_in_block: int
    status: TrialStatus
    error: str | None = None


class GitState(Model):
    commit: str
    dirty: bool


class Manifest(Model):
    schema_: Literal["bench.manifest/1"] = Field(default=MANIFEST_SCHEMA, alias="schema")
    name: str
    purpose: str
    for_measurement: bool = Field(description="False for smoke profiles: their figures are not to be quoted")
    created_utc: str
    finished_utc: str | None
    status: RunStatus
    exit_code: int | None
    workload: dict[str, Any]
    workload_sha256: str
    workload_file: str
    argv: list[str]
    cwd: str
    git: GitState | None
    seed: int
    axes: dict[str, list[Scalar]] = Field(description="the matrix: factor name to its values, in file order")
    trials: list[TrialPlan]
    versions: dict[str, str]


class Environment(Model):
    """One open tree: what can be known differs by host, so readers must expect any key to be missing."""

    schema_: Literal["bench.environment/1"] = Field(default=ENVIRONMENT_SCHEMA, alias="schema")
    facts: dict[str, Any]
    tuning: list[dict[str, Any]]


class Window(Model):
    """One second since T0. Latencies are of the records intended in this second; counts by when they happened."""

    second: int
    phase: Literal["warmup", "measure", "drain"]
    offered: int
    sent: int
    acked: int
    acked_bytes: int
    failed: int
    received: int
    received_bytes: int
    produce_p50_ns: int | None
    produce_p99_ns: int | None
    produce_max_ns: int | None
    e2e_p50_ns: int | None
    e2e_p99_ns: int | None
    e2e_max_ns: int | None
    generator_cpu_ratio_max: float | None


class HostSample(Model):
    second: int
    cpu_ratio: float
    system_cpu_ratio: float | None
    system_rss_bytes: int | None
    disk_write_bytes: int | None
    disk_read_bytes: int | None
    dirty_bytes: int | None
    writeback_bytes: int | None


TrialSummary.model_rebuild()
