"""The workload file: what is asked of the system under test, as models that refuse everything they do not know.

The values that keys take are in `bench.workload.values`; reading a file into these models, with its includes, variants
and matrix, is `highwater.bench.workload.specification`. Dumping a `Workload` gives a document that loads again.
"""

from __future__ import annotations

import re
from functools import partial
from typing import Annotated, Any, Final, Literal, NamedTuple

from pydantic import AfterValidator, Field, ValidationInfo, field_validator, model_validator

from highwater.bench import units
from highwater.bench.errors import UsageError
from highwater.bench.metrics import metric
from highwater.bench.workload.client_properties import PropertyError, Role, to_librdkafka
from highwater.bench.workload.clusters import COMMAND_CONFIG, Cluster
from highwater.bench.workload.faults import Fault, check_faults
from highwater.bench.workload.host import Host
from highwater.bench.workload.rules import (
    check_at_once,
    check_consumers,
    check_external,
    check_figures,
    check_producers,
)
from highwater.bench.workload.slo import Bound
from highwater.bench.workload.values import (
    NO_PROFILE,
    TEMPORARY_TARGET,
    AfterBacklog,
    AfterLoad,
    ConsumerStart,
    DrainS,
    DurationNs,
    DurationS,
    FixedSize,
    Headers,
    KeyFaultError,
    Keys,
    NoKeys,
    Part,
    PercentRatio,
    Properties,
    RandomKeys,
    RatePerS,
    RoundRobinKeys,
    Scalar,
    SizeBytes,
    Sizes,
    SloBound,
    SteadyWarmup,
    UniformSizes,
    Warmup,
    WeightedSizes,
    WithLoad,
    ZipfKeys,
)

__all__ = [
    "NO_PROFILE",
    "TEMPORARY_TARGET",
    "WORKLOAD_SCHEMA",
    "AfterBacklog",
    "AfterLoad",
    "FixedSize",
    "Headers",
    "KeyFaultError",
    "LoadStep",
    "NoKeys",
    "RandomKeys",
    "RoundRobinKeys",
    "Scalar",
    "SteadyWarmup",
    "SystemUnderTest",
    "Transactions",
    "UniformSizes",
    "WeightedSizes",
    "WithLoad",
    "Workload",
    "ZipfKeys",
]

WORKLOAD_SCHEMA: Final = "bench.workload/1"
COMMAND_PLACES: Final = ("{port}", "{data_directory}")
# Which broker this is, where it listens and where it writes. (storage.target names the directory.)
_SET_BY_THE_RUN: Final = (
    "advertised.listeners", "broker.id", "controller.listener.names", "controller.quorum.voters", "listeners",
    "log.dir", "log.dirs", "node.id", "process.roles", "zookeeper.connect",
)  # fmt: skip


def _known_to_librdkafka(role: Role, client: dict[str, Scalar]) -> dict[str, Scalar]:
    try:
        to_librdkafka(role, client)
    except PropertyError as problem:
        raise KeyFaultError(*filter(None, [problem.name]), text=problem.text) from None
    return client


ProducerProperties = Annotated[Properties, AfterValidator(partial(_known_to_librdkafka, "producer"))]
ConsumerProperties = Annotated[Properties, AfterValidator(partial(_known_to_librdkafka, "consumer"))]


class Topics(Part):
    """The topics that each trial makes for itself."""

    count: int = Field(default=1, ge=1, le=1_000_000)
    partitions: int = Field(default=1, ge=1, le=10_000, description="of each topic")
    replication: int = Field(default=1, ge=1, le=100, description="copies of each partition")
    config: Properties = Field(default={}, description="topic configuration, by Kafka's names")


class Transactions(Part):
    """Records are sent in transactions, which end after so many records or so much time."""

    records: int | None = Field(default=None, ge=1, le=10_000_000, description="records of each transaction")
    every_ns: DurationNs | None = Field(default=None, ge=1_000_000, alias="every", description="time between two ends")
    abort_ratio: float = Field(default=0.0, ge=0, lt=1, description="share of transactions that end with an abort")

    @model_validator(mode="after")
    def _one_end(self) -> Transactions:
        if (self.records is None) == (self.every_ns is None):
            raise ValueError("needs either records: 100 or every: 100ms")
        return self


class Producers(Part):
    count: int = Field(default=1, ge=1, le=10_000)
    driver: Literal["client", "wire"] = Field(
        default="client", description="client: librdkafka, as applications use it; wire: prepared batches on a socket"
    )
    client: ProducerProperties = Field(
        default={}, description="librdkafka properties; batch.size takes a unit, the others what librdkafka takes"
    )
    transactions: Transactions | None = None


class Consumers(Part):
    """Every group reads everything."""

    groups: int = Field(default=1, ge=0, le=1000, description="consumer groups; 0 for no consumers")
    per_group: int = Field(default=1, ge=0, le=10_000, description="consumers that share the partitions of a group")
    start: ConsumerStart = Field(default="with_load", description="when the consumers begin to read")
    pairing: Literal["shared", "pairs"] = Field(
        default="shared", description="pairs: consumer i reads what producer i sent, and nothing else"
    )
    client: ConsumerProperties = Field(default={}, description="librdkafka properties")

    @model_validator(mode="before")
    @classmethod
    def _count_went(cls, data: Any) -> Any:
        if isinstance(data, dict) and "count" in data:
            raise KeyFaultError("count", text=f"is written per_group: {data['count']} (consumers of each group)")
        return data

    @property
    def count(self) -> int:
        """Consumers of all groups."""
        return self.groups * self.per_group


class Records(Part):
    size: Sizes | None = Field(default=None, description="of a value, the 24 bytes of the stamp included")
    compress_ratio: float | None = Field(
        default=None,
        ge=0,
        le=1,
        description="share of a generated value that is random text; the rest repeats itself. 0.5 when absent",
    )
    payload_file: str | None = Field(
        default=None, description="take the values from the lines of this text file (relative to the workload file)"
    )
    keys: Keys = Field(default="none", description="which keys the records carry; none: no key at all")
    headers: Headers = Headers()

    @model_validator(mode="before")
    @classmethod
    def _default_compress_ratio(cls, data: Any) -> Any:
        if isinstance(data, dict) and "payload_file" not in data:
            return {"compress_ratio": 0.5} | data
        return data

    @model_validator(mode="after")
    def _complete(self) -> Records:
        if self.size is None and self.payload_file is None:
            raise ValueError("needs size (for generated values) or payload_file (for the lines of a real file)")
        if self.payload_file is not None and self.compress_ratio is not None:
            raise KeyFaultError(
                "compress_ratio", text="is for generated values; payload_file sends its lines as they are"
            )
        return self


class LoadStep(NamedTuple):
    """A rate of all producers together; None: until the measured phase ends."""

    rate_per_s: int
    duration_s: int | None


class _ScheduleStep(Part):
    rate_per_s: RatePerS = Field(alias="rate", ge=1)
    duration_s: DurationS = Field(alias="for", ge=1)


class Load(Part):
    """Open loop: records are due by the clock, whether or not the system keeps up. Closed: as fast as it takes them.

    The steps of a schedule begin with the measured phase; the warm-up runs at the rate of the first.
    """

    model: Literal["open", "closed"] = "open"
    arrival: Literal["uniform", "poisson"] = Field(default="uniform", description="of open-loop records within a rate")
    rate_per_s: RatePerS | None = Field(default=None, alias="rate", ge=1, description="of all producers together")
    schedule: list[_ScheduleStep] | None = Field(default=None, min_length=1, description="rates one after the other")

    @model_validator(mode="after")
    def _one_load(self) -> Load:
        if self.model == "closed":
            for key, given in (("rate", self.rate_per_s), ("schedule", self.schedule)):
                if given is not None:
                    raise KeyFaultError(key, text="is for model: open; a closed loop sends as fast as it can")
            if self.arrival != "uniform":
                raise KeyFaultError("arrival", text="is for model: open; a closed loop has no arrivals")
        elif self.rate_per_s is None and self.schedule is None:
            raise KeyFaultError("rate", text="is missing (or schedule:, or model: closed)")
        elif self.rate_per_s is not None and self.schedule is not None:
            raise KeyFaultError("schedule", text="says the rates; leave rate out")
        return self

    @property
    def steps(self) -> tuple[LoadStep, ...]:
        """The rates in their order; none for a closed loop."""
        if self.schedule is not None:
            return tuple(LoadStep(step.rate_per_s, step.duration_s) for step in self.schedule)
        return () if self.rate_per_s is None else (LoadStep(self.rate_per_s, None),)


class Phases(Part):
    warmup: Warmup = Field(default=5, description="load that is not counted")
    measure_s: DurationS = Field(
        default=0, alias="measure", ge=1, description="may be left out with a schedule, whose duration it then is"
    )
    drain_max_s: DrainS = Field(
        default=30, alias="drain", ge=1, description="how long consumers may take to read what is left"
    )

    @property
    def warmup_max_s(self) -> int:
        """The longest that the warm-up can take."""
        return self.warmup.max_s if isinstance(self.warmup, SteadyWarmup) else self.warmup


class StopWhen(Part):
    """A cell that is decided gets no more trials."""

    ci_halfwidth_ratio: PercentRatio = Field(alias="ci_halfwidth", gt=0, description="of the 95 % interval's middle")
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
    seed: int | None = Field(default=None, ge=0, le=2**63 - 1, description="of order and payload; drawn when absent")
    order: Literal["randomized-blocks"] = "randomized-blocks"
    a_a: bool = Field(
        default=True, description="run one cell of each block twice, the cells in turn, to know the noise"
    )
    at_once: bool = Field(
        default=False,
        description="run the trials of a block at the same time, sharing one processor: what neighbours do to the host "
        "then falls on all of them",
    )
    stop_when: StopWhen | None = None


class Checks(Part):
    """Promises that are checked in every trial; a trial that breaks one is void."""

    delivery: Literal["at_least_once", "exactly_once", "none"] = "at_least_once"
    order: Literal["per_partition", "none"] = "per_partition"


class SystemUnderTest(Part):
    kind: Literal["highwater", "apache-kafka", "external", "command"] = "highwater"
    nodes: int = Field(default=1, ge=1, le=9, description="brokers, on this host")
    version: Literal["default", "3.9", "4"] = Field(
        default="default", description="of apache-kafka: 3.9 (with ZooKeeper) or 4 (KRaft, the default)"
    )
    source: str | None = Field(default=None, description="highwater only: run the broker of this checkout")
    command: str | None = Field(
        default=None, description="of kind command: a command line with {port} and {data_directory}"
    )
    bootstrap_servers: str | None = Field(default=None, description="of an external cluster, host:port[,host:port…]")
    command_config: str | None = Field(default=None, description=f"of an external cluster: {COMMAND_CONFIG}")
    cluster: str | None = Field(default=None, description="of kind external: the one of clusters that is measured")
    clusters: dict[str, Cluster] = Field(default={}, description="clusters that are there, by name")
    config: Properties = Field(default={}, description="broker configuration, by Kafka's names")

    @model_validator(mode="after")
    def _fits_kind(self) -> SystemUnderTest:
        if self.kind == "external" and not (self.bootstrap_servers or self.cluster):
            raise KeyFaultError("kind", text="external needs bootstrap_servers (or --bootstrap-servers HOST:PORT)")
        if self.cluster is not None:
            self._check_cluster(self.cluster)
        if self.kind == "command" and not self.command:
            raise KeyFaultError("kind", text="command needs command: 'prog --port {port} --data {data_directory}'")
        if self.kind != "external" and self.bootstrap_servers is not None:
            raise KeyFaultError("bootstrap_servers", text="is for kind: external; this run starts its own broker")
        if self.kind != "external" and self.command_config is not None:
            raise KeyFaultError("command_config", text="is for kind: external; this run starts its own broker")
        if self.kind != "command" and self.command is not None:
            raise KeyFaultError("command", text="is for kind: command")
        if self.kind != "apache-kafka" and self.version != "default":
            raise KeyFaultError("version", text=f"is for kind: apache-kafka; {self.kind} runs as it is")
        if self.kind != "highwater" and self.source is not None:
            raise KeyFaultError("source", text="is for kind: highwater")
        for name in self.config:
            if name in _SET_BY_THE_RUN:
                raise KeyFaultError("config", name, text="cannot be set here: the run sets it")
        if self.kind == "external" and self.config:
            raise KeyFaultError("config", text="cannot be applied to an external cluster; leave it out")
        if self.kind == "command" and self.config:
            raise KeyFaultError("config", text="is unknown to kind: command; put settings into the command line")
        if self.kind in ("external", "command") and self.nodes != 1:
            raise KeyFaultError(
                "nodes", text=f"is for brokers that this run starts by itself, not for kind: {self.kind}"
            )
        if self.command is not None:
            places = re.findall(r"\{\w*\}", self.command)
            if "{port}" not in places:
                raise KeyFaultError("command", text="has no {port}, where the port to listen on is put in")
            if unknown := [place for place in places if place not in COMMAND_PLACES]:
                raise KeyFaultError("command", text=f"{unknown[0]} is not one of {', '.join(COMMAND_PLACES)}")
        return self

    def _check_cluster(self, name: str) -> None:
        if self.kind != "external":
            raise KeyFaultError("cluster", text="is for kind: external; this run starts its own broker")
        if self.bootstrap_servers is not None:
            raise KeyFaultError("cluster", text="has bootstrap_servers of its own; give one of the two")
        if self.command_config is not None:
            raise KeyFaultError("command_config", text=f"belongs to one cluster: clusters.{name}.command_config")
        if name not in self.clusters:
            known = ", ".join(self.clusters) or "none there"
            raise KeyFaultError("cluster", text=f"{name!r} is not one of the clusters ({known})")

    @property
    def external(self) -> Cluster | None:
        """The cluster that somebody else runs; None for a system that this run starts."""
        if self.kind != "external":
            return None
        if self.cluster is not None:
            return self.clusters[self.cluster]
        return Cluster(bootstrap_servers=self.bootstrap_servers or "", command_config=self.command_config)


class Target(Part):
    path: str = Field(min_length=1, description="an existing directory on the storage to measure")


class Storage(Part):
    target: str = Field(default=TEMPORARY_TARGET, description="name of the target that the system's log goes to")
    targets: dict[str, Target] = Field(default={}, description="'temporary' is always there: the temporary directory")
    probe: bool = Field(default=True, description="measure the target itself with fio, before and after the trials")
    drop_caches: Literal["auto", "never"] = Field(
        default="auto", description="auto: empty the page cache before each trial when permitted"
    )
    cache_limit_bytes: SizeBytes | None = Field(
        default=None,
        alias="cache_limit",
        ge=4 << 20,
        description="memory for the page cache of the log, and for what the system allocates after its start; "
        "a log larger than that has to be read from the disk",
    )

    @model_validator(mode="after")
    def _known_target(self) -> Storage:
        if self.target != TEMPORARY_TARGET and self.target not in self.targets:
            known = ", ".join([TEMPORARY_TARGET, *self.targets])
            raise KeyFaultError("target", text=f"{self.target!r} is not one of the targets ({known})")
        return self


class Validity(Part):
    """Limits beyond which a trial's figures are not to be believed.

    A generator on hosts of its own keeps its schedule to 1 ms. The default allows for a broker and a JVM on the same
    cores; response latency, which counts from the schedule, contains the lateness in any case.
    """

    achieved_ratio_min: float = Field(default=0.995, gt=0, le=1, description="acknowledged over offered")
    send_delay_p99_ns: DurationNs = Field(
        default=5_000_000, alias="send_delay_p99", description="lateness of sends against their schedule"
    )
    generator_cpu_ratio_max: float = Field(default=0.85, gt=0, le=1, description="of one core, busiest task")
    host_cpu_ratio_max: float = Field(
        default=0.95, gt=0, le=1, description="all CPUs of the host, when the system under test runs on it"
    )
    drift_ratio_max: float = Field(
        default=2.0, gt=1, description="median latency, last third over first third of the measured phase, or inverse"
    )
    generator_ceiling_ratio_max: float = Field(
        default=0.9,
        gt=0,
        le=1,
        description="achieved over what these producers or consumers reach on their own (calibrate)",
    )
    canary_ratio_max: float = Field(
        default=2.0, gt=1, description="time of a canary at the start of a block over its median in the blocks before"
    )
    steal_ratio_max: float = Field(
        default=0.05, gt=0, le=1, description="CPU time that a hypervisor gave to others, of all CPUs of the host"
    )


class Workload(Part):
    schema_: Literal["bench.workload/1"] = Field(alias="schema")
    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$", max_length=64)
    purpose: str = Field(
        default="", pattern=r"^[^\x00-\x1f\x7f]*$", description="one line: the question this workload answers"
    )
    for_measurement: bool = Field(default=True, description="false for smoke runs, whose figures must not be quoted")
    topics: Topics = Topics()
    producers: Producers = Producers()
    consumers: Consumers = Consumers()
    records: Records
    load: Load
    phases: Phases = Field(default=Phases(), validate_default=True)
    trials: Trials = Trials()
    checks: Checks = Checks()
    slo: dict[str, SloBound] = Field(default={}, description="metric -> bound that every trial should meet")
    system: SystemUnderTest = SystemUnderTest()
    storage: Storage = Storage()
    host: Host = Host()
    faults: list[Fault] = Field(default=[], description="what is done to brokers while measured, one after the other")
    validity: Validity = Validity()
    variants: dict[str, dict[str, Any]] = Field(
        default={}, description="named cells: sections laid over this file's own; the factor is variant=NAME"
    )
    matrix: dict[str, list[Scalar]] = Field(
        default={}, description="dotted key -> values; the cells are all their combinations"
    )
    exclude: list[dict[str, Scalar]] = Field(default=[], description="combinations of axis values to leave out")

    @field_validator("slo")
    @classmethod
    def _known_metrics(cls, slo: dict[str, Bound]) -> dict[str, Bound]:
        known: dict[str, Bound] = {}
        for name, bound in slo.items():
            try:
                definition = metric(name)
                known[definition.name] = bound.for_unit(definition.unit)
            except (UsageError, ValueError) as error:
                raise KeyFaultError(name, text=str(error)) from None
        return known

    @field_validator("phases")
    @classmethod
    def _measure_of_schedule(cls, phases: Phases, info: ValidationInfo) -> Phases:
        load: Load | None = info.data.get("load")
        if load is None:
            return phases  # what is wrong with the load is said in its place
        scheduled_s = sum(step.duration_s for step in load.schedule or [])
        if isinstance(phases.warmup, SteadyWarmup) and len(load.steps) > 1:
            raise KeyFaultError(
                "warmup", text="until: steady needs one rate; give a duration before a schedule of several"
            )
        if not phases.measure_s and not scheduled_s:
            raise KeyFaultError("measure", text="is missing")
        if phases.measure_s and scheduled_s and phases.measure_s != scheduled_s:
            lasts = units.format_duration_s(scheduled_s)
            raise KeyFaultError("measure", text=f"is not what load.schedule lasts, {lasts}; leave measure out")
        return phases.model_copy(update={"measure_s": phases.measure_s or scheduled_s})

    @model_validator(mode="after")
    def _consistent(self) -> Workload:
        if self.system.kind != "external" and self.topics.replication > self.system.nodes:
            raise KeyFaultError(
                "topics",
                "replication",
                text=f"{self.topics.replication} copies need as many brokers; system.nodes is {self.system.nodes}",
            )
        check_external(self)
        check_at_once(self)
        check_consumers(self)
        check_figures(self)
        check_producers(self)
        check_faults(self)
        return self

    @property
    def tasks(self) -> int:
        """Load tasks that must run at the same time."""
        return self.producers.count + self.consumers.count

    def as_document(self) -> dict[str, Any]:
        """The workload as plain data that is again a valid workload file."""
        return self.model_dump(mode="json", by_alias=True, exclude_none=True)
