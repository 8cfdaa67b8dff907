"""The load generator's interface: the caller's plan, and the progress and the result that come back."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from highwater.results.histogram import Histogram
from highwater.spark_loadgen.delivery import Delivery
from highwater.spark_loadgen.errors import LoadSetupError
from highwater.spark_loadgen.records import NO_HEADERS, FilePayload, GeneratedPayload, Keys, RecordHeaders, Sizes
from highwater.spark_loadgen.schedule import OpenSchedule, Schedule
from highwater.spark_loadgen.traces import TracedArrivals
from highwater.spark_loadgen.windows import SECOND_NS
from highwater.spark_loadgen.wire_settings import WireSettings, check_wire

Phase = Literal["start", "warmup", "measure", "drain"]
Role = Literal["producer", "consumer"]
Driver = Literal["client", "wire"]
EndToEndClock = Literal["same_host_monotonic", "measured_offset"]


@dataclass(frozen=True, slots=True)
class SteadyWarmup:
    """Warm up until throughput and latency are steady, but at most for `max_s`.

    Steady: over the last `window_s`, the least-squares line through the rate changes by less than `slope_ratio` of the
    mean (steady.py defines it in full).
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
    """Every producer commits after `records` records or after `every_ns`: exactly one of the two is set.

    abort_ratio: the share of transactions that the producer aborts instead, after all their records are acknowledged.
    """

    records: int | None = None
    every_ns: int | None = None
    abort_ratio: float = 0.0

    def __post_init__(self) -> None:
        if (self.records is None) == (self.every_ns is None):
            raise LoadSetupError("a transaction ends after a number of records or after a time: name one of the two")
        if (self.records or self.every_ns or 0) < 1:
            raise LoadSetupError("a transaction must contain at least 1 record or last at least 1 ns")
        if not 0 <= self.abort_ratio <= 1:
            raise LoadSetupError(f"an abort ratio of {self.abort_ratio:g} is not between 0 and 1")


@dataclass(frozen=True, slots=True)
class TelemetryTarget:
    """Where tasks publish their figures once a second: a topic of a control broker, never of the system under test.

    trial: how the messages name this load; no other load on the topic may have the same name.
    connection: TLS and SASL properties; the plan's repr leaves them out.
    """

    bootstrap_servers: str
    topic: str
    trial: str
    connection: Mapping[str, str] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True)
class LoadPlan:
    """The load of one trial. All tasks agree on a start time T0; warm-up and measured phase run from T0.

    topics: record s of worker w goes to topics[(s + w) % len(topics)]; every topic has `partitions` partitions.
    groups × consumers_per_group consumers: each group reads everything. Tasks are numbered: the producers first, then
    the consumers group by group.
    schedule: None = closed loop, which sends as fast as the client accepts records. Warm-up runs at the first step's
    rate; the steps start with the measured phase. Arrivals of a trace do too; their warm-up runs at the mean rate.
    warmup: seconds, or until steady (the schedule then has one step).
    sizes: None (with FilePayload only) = each record carries one line of the file after its stamp.
    keys: None = records without keys. producer_config, consumer_config: librdkafka's property names.
    connection: properties that every client needs to connect (TLS, SASL); the plan's repr leaves them out.
    pairs: producer w sends to partitions that only consumer w reads.
    check_delivery: False = consumers only count records; the number of lost records is then unknown.
    telemetry: None = tasks report to the driver alone.
    """

    bootstrap_servers: str
    topics: tuple[str, ...]
    partitions: int
    producers: int
    groups: int
    consumers_per_group: int
    schedule: OpenSchedule | TracedArrivals | None
    warmup: int | SteadyWarmup
    measure_s: int
    drain_max_s: int
    sizes: Sizes | None
    payload: GeneratedPayload | FilePayload
    seed: int
    keys: Keys | None = None
    headers: RecordHeaders = NO_HEADERS
    producer_config: Mapping[str, str] = field(default_factory=dict)
    consumer_config: Mapping[str, str] = field(default_factory=dict)
    connection: Mapping[str, str] = field(default_factory=dict, repr=False)
    driver: Driver = "client"
    transactions: TransactionPlan | None = None
    start_after_backlog_bytes: int | None = None
    start_after_load: bool = False
    pairs: bool = False
    check_delivery: bool = True
    telemetry: TelemetryTarget | None = None

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
            raise LoadSetupError(f"the topics {list(self.topics)} must be at least one, each named once")
        if self.sizes is None and isinstance(self.payload, GeneratedPayload):
            raise LoadSetupError("a generated payload needs sizes; only a payload file works without them")
        if self.consumers_per_group > self.partitions * len(self.topics):
            raise LoadSetupError(
                f"{self.consumers_per_group} consumers cannot share {self.partitions * len(self.topics)} partitions: "
                "use at most as many consumers in a group as partitions"
            )
        if self.schedule is not None:
            self._check_schedule(self.schedule)
        if self.driver == "wire":
            check_wire(self.sizes, self.keys, transactional=self.transactions is not None)
            WireSettings.of({**self.producer_config, **self.connection})
        if self.pairs:
            self._check_pairs()
        if self.start_after_load and self.start_after_backlog_bytes is not None:
            raise LoadSetupError("consumers start after a backlog or after the load: name one of the two")

    def _check_pairs(self) -> None:
        if self.groups != 1 or self.consumers_per_group != self.producers:
            raise LoadSetupError(
                f"a pair is a producer and its consumer: {self.producers} producers need one group of as many "
                f"consumers, not {self.groups} of {self.consumers_per_group}"
            )

    def _check_schedule(self, schedule: OpenSchedule | TracedArrivals) -> None:
        if isinstance(schedule, TracedArrivals):
            if isinstance(self.warmup, SteadyWarmup):
                raise LoadSetupError("a warm-up until steady needs one rate, and a trace has many; give it a duration")
            if math.ceil(schedule.duration_s) < self.measure_s:
                raise LoadSetupError(
                    f"the trace lasts {schedule.duration_s:g} s, the measured phase {self.measure_s} s"
                )
            return
        if isinstance(self.warmup, SteadyWarmup) and len(schedule.steps) > 1:
            raise LoadSetupError("a warm-up until steady needs a schedule of one step, so that the rate stays the same")
        if (steps_s := schedule.duration_s) is not None and steps_s != self.measure_s:
            raise LoadSetupError(f"the schedule's steps take {steps_s:g} s, the measured phase {self.measure_s} s")

    @property
    def consumers_wait(self) -> bool:
        return self.start_after_load or self.start_after_backlog_bytes is not None

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
        """Warm-up plus measured phase; with a warm-up until steady, at most."""
        return self.warmup_max_s + self.measure_s

    @property
    def arrivals(self) -> Schedule | None:
        """The intended send time of each record up to schedule_s; None for a closed loop."""
        if self.schedule is None:
            return None
        return self.schedule.arrivals(
            self.producers, self.warmup_max_s * SECOND_NS, self.schedule_s * SECOND_NS, self.seed
        )


@dataclass(frozen=True, slots=True)
class Second:
    """One whole second that every running task has reported. A percentile is the largest one of any task.

    timed, service_sum_ns, service_max_ns: of the timed records that were acknowledged in this second.
    """

    sent: int
    acked: int
    acked_bytes: int
    received: int
    cpu_ratio_max: float | None
    produce_p50_ns: int | None
    produce_p99_ns: int | None
    e2e_p99_ns: int | None
    timed: int
    service_sum_ns: int
    service_max_ns: int


@dataclass(frozen=True, slots=True)
class Progress:
    """The state of a running load, about once a second.

    offered, sent, acked, acked_bytes, received: in the latest whole second that every task has reported. failed: since
    T0. A percentile is the largest one of any task, over records intended in that second. lag: records acknowledged and
    not yet received at the end of that second, summed over groups. outstanding: records sent, but neither acknowledged
    nor failed yet. measured: the whole seconds of the measured phase so far. t0_ns: on this host's CLOCK_MONOTONIC;
    None before it is set. measure_start_s: of the measured phase, as known now.
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
    produce_p50_ns: int | None = None
    lag: int = 0
    outstanding: int = 0
    measured: Sequence[Second] = ()
    t0_ns: int | None = None
    measure_start_s: int = 0
    acked_bytes: int = 0


@dataclass(frozen=True, slots=True)
class TaskReport:
    """The figures of one task."""

    task: int
    role: Role
    host: str
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
class GeneratorReport:
    """What shows whether the load generator itself was healthy.

    start_skew_ns: latest minus earliest send delay of the producers' first records.
    clock_spread_ns: largest difference between the hosts' wall clocks; no other figure depends on it.
    clock_error_ns: largest error of the offset between two hosts' monotonic clocks at the start, and so of end-to-end
    latencies between those hosts; 0 when all tasks share one clock.
    clock_drift_ns: largest change of such an offset until the end.
    """

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
    tasks: list[TaskReport]
    clock_error_ns: int = 0
    clock_drift_ns: int = 0


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened `at_s` seconds after T0."""

    at_s: float
    kind: str
    text: str


@dataclass(frozen=True, slots=True)
class SteadyReport:
    """How a warm-up ended that lasts until the load is steady.

    attained: the load became steady. at_s: start of the measured phase in seconds since T0.
    slope_ratio, scatter_ratio: change of the rate over the last judged window, and its standard deviation, both divided
    by the mean; None when no window was complete. because: one line that says why the load was not steady, else "".
    """

    attained: bool
    at_s: float
    slope_ratio: float | None
    scatter_ratio: float | None
    window_s: int
    because: str


@dataclass(frozen=True, slots=True)
class BacklogReport:
    """The backlog that waiting consumers found, and how they caught up. Instants are seconds since T0.

    bytes, records: acknowledged when the consumers started. built_at_s: when they started; None when the producers
    finished before the planned backlog was built (the consumers start then, too). caught_up_at_s: end of the first
    tenth of a second in which the consumers were less than 0.1 s of load behind; with start_after_load, when the last
    record arrived; None = never. drain rates: from the first poll to caught_up_at_s.
    """

    bytes: int
    records: int
    built_at_s: float | None
    caught_up_at_s: float | None
    drain_records_per_s: float | None
    drain_bytes_per_s: float | None


@dataclass(frozen=True, slots=True)
class PartitionCounts:
    """One partition over the whole load, as consumers see it: the client chooses partitions and reports none of them.

    received: summed over groups. e2e: end-to-end latencies, a sample of the measured phase over all groups.
    """

    topic: str
    partition: int
    received: int
    e2e: Histogram


@dataclass(frozen=True, slots=True)
class TransactionReport:
    """How many transactions of all producers ended in which way. Commit times are in the histogram txn_commit."""

    committed: int
    aborted: int
    failed: int


@dataclass(frozen=True, slots=True)
class TelemetryReport:
    """What publishing to a control broker did and cost: of one task, or of all.

    skipped: messages left out because earlier ones waited; later messages had their content. unsent: messages that the
    control broker has not acknowledged a few seconds after the load; their content is missing there. cpu_ns: of all
    threads that take, encode and send, which the load's own figures of CPU time contain too.
    """

    messages: int
    message_bytes: int
    skipped: int
    unsent: int
    cpu_ns: int


@dataclass(frozen=True, slots=True)
class LoadResult:
    """The result of one load. A row is a list with one value per second since T0; all rows have the same length.

    offered: records due; in a closed loop, where no record is due, records sent.
    histograms: metric (produce_response, produce_service, send_delay, e2e_response, txn_commit) -> second of the
    *intended* send time (of the send in a closed loop, of the commit for txn_commit) -> histogram. In a closed loop
    produce_response equals produce_service and there is no send_delay.
    Counts belong to the second in which the counted thing happened.
    measure_start_s: start of the measured phase. lag: records acknowledged (and not aborted) but not yet received at
    the end of each second, summed over groups.
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
    generator: GeneratorReport
    interrupted: bool
    errors: dict[str, int]
    measure_start_s: float = 0.0
    closed_loop: bool = False
    transactions: TransactionReport | None = None
    steady: SteadyReport | None = None
    backlog: BacklogReport | None = None
    lag: list[int] = field(default_factory=list)
    partitions: list[PartitionCounts] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    telemetry: TelemetryReport | None = None
