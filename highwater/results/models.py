"""The models of a result directory: meaning and unit of each field, and which may be absent.

Field names end in their unit; MiB and ms appear only where a person reads. A field added later has a default, so that
older directories stay readable under the same schema.
"""

from __future__ import annotations

from typing import Any, Final, Literal

from pydantic import Field

from highwater.results.base import Model
from highwater.results.canary import BlockCanary
from highwater.results.cluster import ClusterHostUse
from highwater.results.host import HostUse
from highwater.results.lifetime import Restart, Start
from highwater.results.rebalance import Rebalances
from highwater.results.recovery import Recovery
from highwater.results.storage import CacheUse, StorageTarget, WritebackUse

MANIFEST_SCHEMA: Final = "bench.manifest/1"
ENVIRONMENT_SCHEMA: Final = "bench.environment/1"
SUMMARY_SCHEMA: Final = "bench.summary/1"

Metric = Literal["produce_response", "produce_service", "send_delay", "e2e_response", "txn_commit"]
LATENCY_METRICS: Final[tuple[Metric, ...]] = ("produce_response", "produce_service", "send_delay", "e2e_response")
"""The histogram logs that every trial has; `txn_commit` is there when the producers were transactional."""

Scalar = str | int | float | bool
TrialStatus = Literal["planned", "running", "done", "failed", "interrupted", "skipped"]
TrialRole = Literal["measure", "a_a"]
RunStatus = Literal["running", "done", "failed", "interrupted"]
VerdictState = Literal["valid", "invalid", "inconclusive"]


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

    `lost` = acknowledged, not received; `unread` = acknowledged, not received when the drain ended (counted in `lost`
    too); `failed` = the client reported an error; `in_log` = sum over partitions of log end offset − log start offset,
    as the broker reports it to a client outside of the load.
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
    duplicated_in_log: int = Field(default=0, description="records twice in the log; `duplicated` sums over groups")
    aborted: int = Field(default=0, description="records of aborted transactions")
    aborted_received: int = Field(default=0, description="aborted records that a read_committed consumer received")
    checked: bool | None = Field(
        default=None,
        description="received records were compared with sent ones; False: fates are unknown; None: older result",
    )


class LoadTask(Model):
    """One producer or consumer of the load generator, as evidence."""

    task: int = Field(description="number of the task, producers first")
    role: Literal["producer", "consumer"]
    host: str = Field(description="host that it ran on")
    pid: int
    cpu_count: int = Field(description="processors of that host available to it")
    cpu_ratio_max: float = Field(description="CPU seconds per second in its busiest second of the measured phase")
    sent: int
    acked: int
    failed: int
    received: int
    first_send_delay_ns: int | None
    backpressure: int = Field(description="times that the client's queue was full")


class TelemetryUse(Model):
    """What publishing to a control broker did and cost (bench run --telemetry)."""

    trial: str = Field(description="the name of this trial in the messages")
    messages: int = Field(description="messages that the control broker acknowledged")
    message_bytes: int
    skipped: int = Field(description="messages left out because earlier ones waited; later ones have their content")
    unsent: int = Field(description="messages not acknowledged soon after the load: missing in live figures")
    cpu_s: float = Field(description="of all load tasks; their other figures of CPU time include it")


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
    clock_error_ns: int = Field(default=0, description="error of latencies between hosts; 0 with one clock")
    clock_drift_ns: int = Field(default=0, description="largest change of a clock's offset until the end")
    ceiling_per_s: float | None = Field(
        default=None, description="highest rate of these producers without a broker (bench calibrate); None: unknown"
    )
    consumer_ceiling_per_s: float | None = Field(
        default=None, description="highest rate of these consumers, all groups together, when all records are written"
    )
    produce_sampled_one_in: int | None = Field(
        default=None, description="the latency of one in so many produced records is measured; None: older result"
    )
    tasks: list[LoadTask] = Field(default=[], description="every task; none in an older result")
    telemetry: TelemetryUse | None = Field(default=None, description="None: the tasks published nothing")

    def hosts(self) -> list[str]:
        """Return the hosts that tasks ran on."""
        return sorted({task.host for task in self.tasks})


class Reason(Model):
    """A validity check that failed."""

    check: str
    value: float | str
    limit: float | str
    text: str


class Verdict(Model):
    """Whether the figures can be trusted. `notes` are remarks about them, without effect on the state."""

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
    clock: Literal["same_host_monotonic", "measured_offset", "wall_clock"]
    negative_samples: int


class SteadyState(Model):
    """Whether the load reached a steady state before the measured phase, and when."""

    attained: bool
    at_s: float = Field(description="seconds since T0 at which the measured phase began: the time to steady state")
    slope_ratio: float | None = Field(description="change over the window ÷ its mean; None when none was long enough")
    scatter_ratio: float | None = Field(default=None, description="standard deviation over the window ÷ its mean")
    window_s: int
    because: str = Field(default="", description="why it was not steady; empty when it was")


class Backlog(Model):
    """Records written before the consumers started, and how the consumers caught up. Seconds count from T0."""

    bytes: int
    records: int = 0
    built_at_s: float | None = Field(description="None when the load ended before it was built")
    caught_up_at_s: float | None = Field(description="None when the consumers never caught up")
    drain_records_per_s: float | None = None
    drain_bytes_per_s: float | None


def fastest_read_per_s(consumed_per_s: float, backlog: Backlog | None) -> float:
    """Return the highest rate of the consumers: in the measured phase or, with a backlog, while they caught up."""
    return max(consumed_per_s, (backlog.drain_records_per_s or 0.0) if backlog is not None else 0.0)


class Transactions(Model):
    committed: int
    aborted: int
    failed: int = 0
    commit_ns: Latency | None = Field(description="of the measured phase; None when none was committed in it")


class SloResult(Model):
    """One service level objective of the workload and its measured value, without effect on the verdict."""

    metric: str
    bound: str = Field(description="as in the workload file, such as <20ms")
    value: float | None = Field(description="in the metric's unit; None when the trial has no such figure")
    met: bool


class HostProfileUse(Model):
    """A tuning profile that was in force while the trial ran, with what it changed."""

    name: str
    applied: dict[str, str] = Field(description="setting to the value applied")
    before: dict[str, str] = Field(default={}, description="setting to its value before, which is restored")
    verified: bool = Field(description="every setting still had its value when the load had ended")
    rolled_back: bool


class SystemFacts(Model):
    """The system under test as it really ran."""

    kind: str
    version: str
    command: list[str] = Field(description="command line of it or its first broker; empty if the run did not start it")
    commands: list[list[str]] = Field(default=[], description="command line of each of its brokers")
    effective_config: dict[str, str]
    effective_topic_config: dict[str, str] = Field(default={}, description="configuration of a trial's first topic")
    connection: dict[str, str] = Field(
        default={}, description="TLS and SASL settings of clients, without secrets; empty without both"
    )
    copies: int = Field(default=1, description="replicas of each partition")


class AtOnce(Model):
    """What a trial shared a processor with: its figures compare with those of these trials, and with no others."""

    processor: int
    trials: list[str] = Field(description="ids of the other trials")


class TrialSummary(Model):
    schema_: Literal["bench.summary/1"] = Field(default=SUMMARY_SCHEMA, alias="schema")
    trial_id: str
    cell: str
    factors: dict[str, Scalar]
    trial: int
    block: int
    order_in_block: int
    role: TrialRole = Field(default="measure", description="a_a: the twin of a trial, for the noise floor only")
    launcher: str | None = None
    driver: Literal["client", "wire", "rdkafka_performance", "wire_load"] = "client"
    started_utc: str
    phases: list[Phase]
    steady: SteadyState | None = Field(default=None, description="None when the warm-up was of a fixed length")
    offered_per_s: float | None = Field(description="None in a closed loop, which has no rate")
    achieved_per_s: float = Field(description="records acknowledged per second of the measured phase, by ack time")
    achieved_bytes_per_s: float = Field(description="value bytes of those records")
    consumed_per_s: float
    consumed_bytes_per_s: float
    produce: Produce
    e2e: EndToEnd | None = Field(description="None when the workload has no consumers")
    delivery: Delivery
    lag_max: int | None = Field(default=None, description="records acknowledged and not yet received, all groups")
    partition_skew_ratio: float | None = Field(default=None, description="busiest partition's acked ÷ their mean")
    backlog: Backlog | None = None
    transactions: Transactions | None = None
    recovery: Recovery | None = Field(default=None, description="None without an injected fault")
    rebalances: Rebalances | None = Field(default=None, description="None without a group under measurement")
    generator: Generator
    host: HostUse = Field(description="use of the host that the run was started on")
    cluster_hosts: list[ClusterHostUse] = Field(default=[], description="hosts that carry an external cluster")
    cache: CacheUse | None = None
    writeback: WritebackUse | None = None
    host_profile: HostProfileUse | None = None
    tuning_fingerprint: str | None = Field(default=None, description="SHA-256 of the host's settings that tuning knows")
    durability_trades: list[str] = Field(
        default=[], description="settings in force that trade crash safety for speed, each with what it may cost"
    )
    storage: StorageTarget
    system: SystemFacts
    at_once: AtOnce | None = Field(default=None, description="the trials that ran at the same time; None without any")
    start: Start | None = Field(default=None, description="how the system started; None in an older result")
    restart: Restart | None = Field(default=None, description="None if the workload has no restart")
    cold_read_bytes_per_s: float | None = Field(
        default=None, description="rate of reading the log's files from the disk, without a broker; of value bytes"
    )
    slo: list[SloResult] = Field(default=[])
    verdict: Verdict


class ReplacedTrial(Model):
    """A trial before `run --resume --retry-invalid` measured it again. No figure uses it."""

    kept_in: str = Field(description="its folder in the result directory")
    replaced_utc: str
    state: Literal["valid", "inconclusive", "invalid", "failed"] = Field(
        description="failed: it has no figures; valid, inconclusive: a trial at the same time was disturbed"
    )
    reasons: list[str]
    system_at_fault: bool = Field(
        description="the system failed, or lost or damaged records; the exit status of the run still reports it"
    )


class TrialPlan(Model):
    trial_id: str
    cell: str
    factors: dict[str, Scalar]
    trial: int
    block: int
    order_in_block: int
    role: TrialRole = "measure"
    status: TrialStatus
    error: str | None = Field(default=None, description="why it failed, or why it was skipped")
    generator_failed: bool = Field(
        default=False, description="it failed because the instrument broke: its load generator or its own files"
    )
    steps_s: dict[str, float] = Field(default={}, description="wall time by step; `load` is warm-up and measured phase")
    replaced: list[ReplacedTrial] = Field(default=[], description="its earlier measurements, the oldest first")


class Overhead(Model):
    """The time of a run outside of its load: warm-up and measured phases are load, everything else is overhead."""

    wall_s: float
    load_s: float
    ratio: float = Field(description="(wall − load) ÷ wall")
    steps_s: dict[str, float] = Field(description="wall time by step, over all trials and the run's own start and end")


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
    launcher: str | None = Field(default=None, description="what started the load: spark MASTER, or process")
    launcher_settings: dict[str, str] = Field(default={}, description="settings of the launcher, secrets hidden")
    overhead: Overhead | None = None
    canaries: list[BlockCanary] = Field(default=[], description="speed of the host before each block")
    resumed_utc: list[str] = Field(default=[], description="when the run was resumed after an interruption")
    kept_data: dict[str, str] = Field(default={}, description="storage target to the folder kept by --keep-data")
    live_page_cpu_s: float | None = Field(
        default=None,
        description="CPU that serving the page of --watch took on this host, at the lowest priority; absent: no page",
    )


class Environment(Model):
    """A tree without a fixed schema: facts differ by host, so readers must expect any key to be missing."""

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
    lag: int | None = Field(default=None, description="records acknowledged and not yet received at its end")


class PartitionLine(Model):
    """One partition over the whole trial; latencies of the measured phase, where they were taken by partition."""

    topic: str
    partition: int
    acked: int | None = Field(description="None if the log contains anything but the acknowledged records")
    acked_bytes: int | None = Field(description="None also if values differ in size")
    received: int = Field(description="summed over groups")
    e2e_p50_ns: int | None
    e2e_p99_ns: int | None
    e2e_max_ns: int | None


class EventLine(Model):
    """Something that happened while the trial ran: a phase, a rebalance, a fault, a canary."""

    at_s: float = Field(description="seconds since T0; negative before it")
    kind: str
    text: str
