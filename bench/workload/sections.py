"""Most sections of a workload file as models: topics, producers, consumers, load, trials, storage."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import AfterValidator, Field, field_validator, model_validator

from highwater.bench.workload.client_properties import PropertyError, Role, to_librdkafka
from highwater.bench.workload.traces import TraceLoad, TraceRecords
from highwater.bench.workload.values import (
    MOST_PROBE_FILES,
    TEMPORARY_TARGET,
    ConsumerStart,
    Count,
    DrainS,
    DurationNs,
    DurationS,
    Headers,
    KeyFaultError,
    Keys,
    Part,
    PercentRatio,
    Properties,
    RatePerS,
    Scalar,
    SizeBytes,
    Sizes,
    SteadyWarmup,
    Warmup,
)
from highwater.common.errors import UsageError
from highwater.results.metrics import metric


def _known_to_librdkafka(role: Role, client: dict[str, Scalar]) -> dict[str, Scalar]:
    try:
        to_librdkafka(role, client)
    except PropertyError as problem:
        raise KeyFaultError(*filter(None, [problem.name]), text=problem.text) from None
    return client


ProducerProperties = Annotated[Properties, AfterValidator(partial(_known_to_librdkafka, "producer"))]
ConsumerProperties = Annotated[Properties, AfterValidator(partial(_known_to_librdkafka, "consumer"))]


class Topics(Part):
    """The topics that each trial creates for itself."""

    count: int = Field(default=1, ge=1, le=1_000_000)
    partitions: int = Field(default=1, ge=1, le=10_000, description="partitions of each topic")
    replication: int = Field(default=1, ge=1, le=100, description="copies of each partition")
    config: Properties = Field(default={}, description="topic configuration, by Kafka's names")


class Transactions(Part):
    """Records are sent in transactions, each with a number of records or a duration."""

    records: int | None = Field(default=None, ge=1, le=10_000_000, description="records of each transaction")
    every_ns: DurationNs | None = Field(
        default=None, ge=1_000_000, alias="every", description="duration of each transaction"
    )
    abort_ratio: float = Field(default=0.0, ge=0, lt=1, description="share of transactions that end with an abort")

    @model_validator(mode="after")
    def _one_end(self) -> Transactions:
        if (self.records is None) == (self.every_ns is None):
            raise ValueError("needs either records: 100 or every: 100ms")
        return self


class Producers(Part):
    count: int = Field(default=1, ge=1, le=10_000)
    driver: Literal["client", "wire", "rdkafka_performance", "wire_load"] = Field(
        default="client",
        description="client: librdkafka, as applications use it; wire: prepared batches on a socket; "
        "rdkafka_performance, wire_load: native clients, which report totals",
    )
    client: ProducerProperties = Field(
        default={}, description="librdkafka properties; batch.size has a unit, the others are as in librdkafka"
    )
    transactions: Transactions | None = None

    @property
    def native(self) -> bool:
        """Whether a native client generates the load, instead of tasks of a launcher."""
        return self.driver in ("rdkafka_performance", "wire_load")


class Consumers(Part):
    """Every consumer group reads all records."""

    groups: int = Field(default=1, ge=0, le=1000, description="consumer groups; 0 for no consumers")
    per_group: int = Field(default=1, ge=0, le=10_000, description="consumers that share the partitions of a group")
    start: ConsumerStart = Field(default="with_load", description="when the consumers start")
    pairing: Literal["shared", "pairs"] = Field(
        default="shared", description="pairs: consumer i reads what producer i sent, and nothing else"
    )
    client: ConsumerProperties = Field(default={}, description="librdkafka properties")
    driver: Literal["rdkafka_performance", "wire_fetch"] | None = Field(
        default=None,
        description="the native client that reads the records of native producers; wire_fetch does not parse them",
    )
    cold: bool | None = Field(
        default=None, description="native clients only: the records to read are on the disk and not in the page cache"
    )

    @model_validator(mode="before")
    @classmethod
    def _count_is_per_group(cls, data: Any) -> Any:
        if isinstance(data, dict) and "count" in data:
            raise KeyFaultError("count", text=f"is written per_group: {data['count']} (consumers of each group)")
        return data

    @property
    def count(self) -> int:
        """Consumers of all groups."""
        return self.groups * self.per_group


class Records(Part):
    size: Sizes | None = Field(default=None, description="size of a value, including the 24 bytes of the stamp")
    compress_ratio: float | None = Field(
        default=None,
        ge=0,
        le=1,
        description="share of a generated value that is random text; the rest repeats. 0.5 when absent",
    )
    payload_file: str | None = Field(
        default=None, description="send the lines of this text file as values (relative to the workload file)"
    )
    trace: TraceRecords | None = Field(
        default=None, description="take sizes, keys and headers from this trace, which highwater capture made"
    )
    keys: Keys = Field(default="none", description="the keys of the records; none: records without a key")
    headers: Headers = Headers()

    @model_validator(mode="before")
    @classmethod
    def _default_compress_ratio(cls, data: Any) -> Any:
        if isinstance(data, dict) and "payload_file" not in data:
            return {"compress_ratio": 0.5} | data
        return data

    @model_validator(mode="after")
    def _complete(self) -> Records:
        if self.trace is not None:
            given = (("size", self.size), ("payload_file", self.payload_file), ("headers", self.headers.count or None))
            for key, value in (*given, ("keys", None if self.keys == "none" else self.keys)):
                if value is not None:
                    raise KeyFaultError(key, text="comes from records.trace; remove one of the two")
            return self
        if self.size is None and self.payload_file is None:
            raise ValueError("needs size (for generated values), payload_file (for lines of a real file) or trace")
        if self.payload_file is not None and self.compress_ratio is not None:
            raise KeyFaultError(
                "compress_ratio", text="is for generated values; payload_file sends its lines unchanged"
            )
        return self


class LoadStep(NamedTuple):
    """rate_per_s: of all producers together. duration_s: None until the measured phase ends."""

    rate_per_s: int
    duration_s: int | None


class _ScheduleStep(Part):
    rate_per_s: RatePerS = Field(alias="rate", ge=1)
    duration_s: DurationS = Field(alias="for", ge=1)


class Load(Part):
    """Open loop: records are due by the clock, whether or not the system keeps up. Closed loop: as fast as the
    system accepts them.

    The first step of a schedule begins with the measured phase; the warm-up runs at the rate of that step.
    """

    model: Literal["open", "closed"] = "open"
    arrival: Literal["uniform", "poisson"] = Field(default="uniform", description="arrival process of an open loop")
    rate_per_s: RatePerS | None = Field(default=None, alias="rate", ge=1, description="of all producers together")
    records: Count | None = Field(
        default=None, ge=1, description="number of records of a native client in a closed loop, however long they take"
    )
    schedule: list[_ScheduleStep] | None = Field(default=None, min_length=1, description="rates, in order")
    trace: TraceLoad | None = Field(
        default=None, description="the arrivals of a captured load, from the start of the measured phase on"
    )

    @model_validator(mode="after")
    def _one_load(self) -> Load:
        if self.model == "closed":
            for key, given in (("rate", self.rate_per_s), ("schedule", self.schedule), ("trace", self.trace)):
                if given is not None:
                    raise KeyFaultError(key, text="is for model: open; a closed loop sends as fast as it can")
            if self.arrival != "uniform":
                raise KeyFaultError("arrival", text="is for model: open; a closed loop has no arrivals")
        elif self.records is not None:
            raise KeyFaultError("records", text="is for model: closed; an open loop sends by rate and time")
        elif self.trace is not None:
            for key, rates in (("rate", self.rate_per_s), ("schedule", self.schedule)):
                if rates is not None:
                    raise KeyFaultError(key, text="comes from load.trace; use speed or share of the trace")
            if self.arrival != "uniform":
                raise KeyFaultError("arrival", text="comes from load.trace; remove it")
        elif self.rate_per_s is None and self.schedule is None:
            raise KeyFaultError("rate", text="is missing (or schedule:, trace:, or model: closed)")
        elif self.rate_per_s is not None and self.schedule is not None:
            raise KeyFaultError("schedule", text="has the rates; remove rate")
        return self

    @property
    def steps(self) -> tuple[LoadStep, ...]:
        """The rates in their order, of a trace the mean one; none for a closed loop."""
        if self.trace is not None:
            return (LoadStep(max(1, round(self.trace.rate_per_s)), None),)
        if self.schedule is not None:
            return tuple(LoadStep(step.rate_per_s, step.duration_s) for step in self.schedule)
        return () if self.rate_per_s is None else (LoadStep(self.rate_per_s, None),)

    @property
    def is_constant(self) -> bool:
        """Whether the rate is the same throughout the measured phase, as far as the load decides."""
        return self.trace is None and len(self.steps) <= 1


class Phases(Part):
    warmup: Warmup = Field(default=5, description="load that is not counted")
    measure_s: DurationS = Field(
        default=0, alias="measure", ge=1, description="by default the duration of the schedule, if there is one"
    )
    drain_max_s: DrainS = Field(
        default=30, alias="drain", ge=1, description="how long consumers may take to read the remaining records"
    )
    rest_s: DurationS | None = Field(
        default=None, alias="rest", ge=1, description="idle time between the creation of the topics and the load"
    )

    @property
    def warmup_max_s(self) -> int:
        """The longest that the warm-up can take."""
        return self.warmup.max_s if isinstance(self.warmup, SteadyWarmup) else self.warmup


class StopWhen(Part):
    """A cell stops when the confidence interval of a metric is narrow enough."""

    ci_halfwidth_ratio: PercentRatio = Field(
        alias="ci_halfwidth", gt=0, description="half the width of the 95 % confidence interval, relative to its middle"
    )
    of: str = Field(default="produce.p99", description="name of a metric")
    min: int = Field(default=3, ge=3, description="trials before any decision")

    @field_validator("of")
    @classmethod
    def _known_metric(cls, name: str) -> str:
        try:
            return metric(name).name
        except UsageError as error:
            raise ValueError(str(error)) from None


class Trials(Part):
    n: int = Field(default=3, ge=1, le=1000, description="trials of each cell, one per random block")
    seed: int | None = Field(
        default=None, ge=0, le=2**63 - 1, description="seed of order and payload; random when absent"
    )
    order: Literal["randomized-blocks"] = "randomized-blocks"
    a_a: bool = Field(
        default=True, description="run one cell of each block twice, another cell in each block, to measure the noise"
    )
    at_once: bool = Field(
        default=False,
        description="run the trials of a block at the same time on one shared processor: disturbances of the host then "
        "affect all of them alike",
    )
    stop_when: StopWhen | None = None


class Checks(Part):
    """Guarantees that are checked in every trial; a trial that violates one is invalid."""

    delivery: Literal["at_least_once", "exactly_once", "none"] = "at_least_once"
    order: Literal["per_partition", "none"] = "per_partition"


class Target(Part):
    path: str = Field(min_length=1, description="an existing directory on the storage to measure")


class Storage(Part):
    target: str = Field(default=TEMPORARY_TARGET, description="name of the target for the system's log")
    targets: dict[str, Target] = Field(default={}, description="'temporary' always exists: the temporary directory")
    probe: bool = Field(default=True, description="measure the target itself with fio, before and after the trials")
    probe_files: list[Annotated[int, Field(ge=2, le=MOST_PROBE_FILES)]] = Field(
        default=[], description="also measure appends to so many files in turn, for example [8, 64, 512]"
    )
    drop_caches: Literal["auto", "never"] = Field(
        default="auto", description="auto: empty the page cache before each trial when permitted"
    )
    cache_limit_bytes: SizeBytes | None = Field(
        default=None,
        alias="cache_limit",
        ge=4 << 20,
        description="memory for the page cache of the log and for allocations of the system after its start; "
        "a larger log must be read from the disk",
    )

    @model_validator(mode="after")
    def _known_target(self) -> Storage:
        if self.target != TEMPORARY_TARGET and self.target not in self.targets:
            known = ", ".join([TEMPORARY_TARGET, *self.targets])
            raise KeyFaultError("target", text=f"{self.target!r} is not one of the targets ({known})")
        return self


class Validity(Part):
    """Limits beyond which the figures of a trial are not trusted.

    A generator on hosts of its own keeps its schedule to 1 ms. The default allows for a broker and a JVM on the same
    cores; response latency counts from the schedule, so it contains the lateness in any case.
    """

    achieved_ratio_min: float = Field(default=0.995, gt=0, le=1, description="acknowledged rate over offered rate")
    send_delay_p99_ns: DurationNs = Field(
        default=5_000_000, alias="send_delay_p99", description="how late records are sent, against the schedule"
    )
    generator_cpu_ratio_max: float = Field(default=0.85, gt=0, le=1, description="CPU of the busiest task, of one core")
    host_cpu_ratio_max: float = Field(
        default=0.95, gt=0, le=1, description="CPU time of all CPUs of the host, when the system under test runs on it"
    )
    drift_ratio_max: float = Field(
        default=2.0, gt=1, description="median latency, last third over first third of the measured phase, or inverse"
    )
    generator_ceiling_ratio_max: float = Field(
        default=0.9,
        gt=0,
        le=1,
        description="achieved rate over the maximum of these producers or consumers (bench calibrate)",
    )
    canary_ratio_max: float = Field(
        default=2.0, gt=1, description="time of a canary at the start of a block over its median in earlier blocks"
    )
    steal_ratio_max: float = Field(
        default=0.05,
        gt=0,
        le=1,
        description="CPU time that the hypervisor gave to other guests, of all CPUs of the host",
    )
