"""What a caller asks of the load generator and what it gets back: plan, progress, result, errors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from spark_loadgen.delivery import Delivery
from spark_loadgen.errors import LoadFailed, LoadSetupError
from spark_loadgen.histogram import Histogram
from spark_loadgen.records import NO_HEADERS, FilePayload, GeneratedPayload, Headers, Keys, Sizes
from spark_loadgen.schedule import OpenSchedule, Schedule
from spark_loadgen.windows import SECOND_NS

__all__ = [
    "Driver",
    "EndToEndClock",
    "FilePayload",
    "GeneratedPayload",
    "Generator",
    "LoadFailed",
    "LoadPlan",
    "LoadResult",
    "LoadSetupError",
    "Phase",
    "Progress",
    "Role",
    "SteadyWarmup",
    "TaskDetails",
    "TransactionPlan",
    "TransactionReport",
]

Phase = Literal["start", "warmup", "measure", "drain"]
Role = Literal["producer", "consumer"]
Driver = Literal["client", "wire"]
EndToEndClock = Literal["same_host_monotonic", "wall_clock"]


@dataclass(frozen=True, slots=True)
class SteadyWarmup:
    """Warm up until throughput and latency are steady, at the longest `max_s`.

    Steady: over the last `window_s` the least-squares slope, as a share of the mean per second, and the coefficient of
    variation are below `slope_ratio`.
    """

    slope_ratio: float
    window_s: int
    max_s: int

    def __post_init__(self) -> None:
        if not 0 < self.slope_ratio < 1:
            raise LoadSetupError(f"a steady slope of {self.slope_ratio:g} is not between 0 and 1")
        if not 2 <= self.window_s <= self.max_s:
            raise LoadSetupError(
                f"a steady window of {self.window_s} s must be at least 2 s and at most the {self.max_s} s of warm-up"
            )


@dataclass(frozen=True, slots=True)
class TransactionPlan:
    """Every producer commits after `records` records or `every_ns`, whichever is given.

    abort_ratio: the share of transactions that are aborted instead, once all their records are acknowledged.
    """

    records: int | None = None
    every_ns: int | None = None
    abort_ratio: float = 0.0

    def __post_init__(self) -> None:
        if (self.records is None) == (self.every_ns is None):
            raise LoadSetupError("transactions end after a number of records or after a time: name one of the two")
        if (self.records or self.every_ns or 0) < 1:
            raise LoadSetupError("a transaction must hold at least 1 record or last at least 1 ns")
        if not 0 <= self.abort_ratio <= 1:
            raise LoadSetupError(f"an abort ratio of {self.abort_ratio:g} is not between 0 and 1")


@dataclass(frozen=True, slots=True)
class LoadPlan:
    """One trial's load. All tasks agree on a T0; the schedule runs for warm-up and measured phase from there.

    topics: each record of worker w with sequence s goes to topics[(s + w) % len(topics)]; every topic has `partitions`.
    groups × consumers_per_group consumers: each group reads everything. Tasks are the producers, then the consumers
    group by group.
    schedule: None is the closed loop: as fast as the client takes it. Warm-up runs at the first step's rate; the steps
    then follow over the measured phase.
    warmup: seconds, or until steady (then with one step only).
    sizes: None (with FilePayload only) = one line per record as it is, after the stamp.
    keys: None = without key. Client configurations use librdkafka's property names.
    pairs: producer w sends to partitions that consumer w alone reads.
    check_delivery: False spares consumers the check of every record; loss is then not known.
    """

    bootstrap_servers: str
    topics: tuple[str, ...]
    partitions: int
    producers: int
    groups: int
    consumers_per_group: int
    schedule: OpenSchedule | None
    warmup: int | SteadyWarmup
    measure_s: int
    drain_max_s: int
    sizes: Sizes | None
    payload: GeneratedPayload | FilePayload
    seed: int
    keys: Keys | None = None
    headers: Headers = NO_HEADERS
    producer_config: Mapping[str, str] = field(default_factory=dict)
    consumer_config: Mapping[str, str] = field(default_factory=dict)
    driver: Driver = "client"
    transactions: TransactionPlan | None = None
    start_after_backlog_bytes: int | None = None
    start_after_load: bool = False
    pairs: bool = False
    check_delivery: bool = True

    def __post_init__(self) -> None:
        for name, least in (
            ("partitions", 1),
            ("producers", 1),
            ("groups", 0),
            ("consumers_per_group", 0),
            ("warmup_max_s", 0),
            ("measure_s", 1),
            ("drain_max_s", 1),
        ):
            if getattr(self, name) < least:
                raise LoadSetupError(f"{name} is {getattr(self, name)}; it must be at least {least}")
        if not self.topics or len(set(self.topics)) < len(self.topics):
            raise LoadSetupError(f"the topics {list(self.topics)} are not one or several different ones")
        if self.sizes is None and isinstance(self.payload, GeneratedPayload):
            raise LoadSetupError("a generated payload needs sizes; only a payload file can do without")
        if self.consumers_per_group > self.partitions * len(self.topics):
            raise LoadSetupError(
                f"{self.consumers_per_group} consumers cannot share {self.partitions * len(self.topics)} partitions: "
                "use at most as many consumers in a group as partitions"
            )
        if self.schedule is not None:
            self._check_schedule(self.schedule)
        if self.driver == "wire" and self.transactions is not None:
            raise LoadSetupError("the wire driver sends no transactions; use the client driver")

    def _check_schedule(self, schedule: OpenSchedule) -> None:
        if isinstance(self.warmup, SteadyWarmup) and len(schedule.steps) > 1:
            raise LoadSetupError("a warm-up until steady needs a schedule of one step, whose rate it keeps")
        if (steps_s := schedule.duration_s) is not None and steps_s != self.measure_s:
            raise LoadSetupError(f"the schedule's steps take {steps_s:g} s, the measured phase {self.measure_s} s")

    @property
    def consumers(self) -> int:
        return self.groups * self.consumers_per_group

    @property
    def tasks(self) -> int:
        return self.producers + self.consumers

    @property
    def warmup_max_s(self) -> int:
        return self.warmup.max_s if isinstance(self.warmup, SteadyWarmup) else self.warmup

    @property
    def schedule_s(self) -> int:
        """Warm-up and measured phase; with a warm-up until steady the longest they may take."""
        return self.warmup_max_s + self.measure_s

    @property
    def arrivals(self) -> Schedule | None:
        """When each record is meant to be sent, up to schedule_s; None for a closed loop."""
        if self.schedule is None:
            return None
        return self.schedule.arrivals(
            self.producers, self.warmup_max_s * SECOND_NS, self.schedule_s * SECOND_NS, self.seed
        )


@dataclass(frozen=True, slots=True)
class Progress:
    """Where a running load stands, about once a second.

    offered, sent, acked, received: in the latest whole second that every task has reported. failed: since T0.
    The percentiles are the largest of any task's, for records intended in that second.
    """

    phase: Phase
    elapsed_s: float
    left_s: float
    offered: int
    sent: int
    acked: int
    received: int
    failed: int
    generator_cpu_ratio_max: float | None
    produce_p99_ns: int | None
    e2e_p99_ns: int | None


@dataclass(frozen=True, slots=True)
class TaskDetails:
    """One task of the barrier stage, as evidence."""

    task: int
    role: Role
    executor_host: str
    pid: int
    cpu_count: int
    cpu_ratio_max: float
    sent: int
    acked: int
    failed: int
    received: int
    first_send_delay_ns: int | None
    backpressure: int


@dataclass(frozen=True, slots=True)
class Generator:
    """Evidence that the load generator was, or was not, healthy. Figures in ns unless named otherwise."""

    producers: int
    consumers: int
    slots: int
    oversubscribed: bool
    cpu_ratio_max: float
    producer_cpu_ns_per_record: float
    consumer_cpu_ns_per_record: float
    start_skew_ns: int
    clock_spread_ns: int
    produce_sampled_one_in: int
    tasks: list[TaskDetails]


@dataclass(frozen=True, slots=True)
class TransactionReport:
    """What became of the transactions of all producers, in number. How long commits took is histogram txn_commit."""

    committed: int
    aborted: int
    failed: int


@dataclass(frozen=True, slots=True)
class LoadResult:
    """What came back. Rows are per second since T0 (index = second), all of one length.

    offered: what was due; in a closed loop, where nothing is due, what was sent.
    histograms: metric (produce_response, produce_service, send_delay, e2e_response, txn_commit) -> second of the
    *intended* send time (of the send in a closed loop, of the commit for txn_commit) -> histogram. In a closed loop
    produce_response is produce_service and there is no send_delay. Counts are filed under the second in which the thing
    happened.
    """

    t0_unix_ns: int
    offered: list[int]
    sent: list[int]
    acked: list[int]
    acked_bytes: list[int]
    failed: list[int]
    received: list[int]
    received_bytes: list[int]
    generator_cpu_ratio_max: list[float]
    histograms: dict[str, dict[int, Histogram]]
    delivery: Delivery
    e2e_clock: EndToEndClock
    negative_samples: int
    generator: Generator
    interrupted: bool
    errors: dict[str, int]
    measure_start_s: float = 0.0
    closed_loop: bool = False
    transactions: TransactionReport | None = None
