"""The workload file: what is asked of the system under test, as models that refuse everything they do not know.

Reading a file into these models, with its matrix, is `bench.specification`. Dumping a `Workload` gives a document that
loads again.
"""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any, Final, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    WithJsonSchema,
    model_validator,
)

from bench import units
from bench.client_properties import PropertyError, Role, to_librdkafka

WORKLOAD_SCHEMA: Final = "bench.workload/1"
TEMPORARY_TARGET: Final = "temporary"
# librdkafka's default, and what it counts beside a value without key and headers (a batch's header and a record's).
DEFAULT_MESSAGE_MAX_BYTES: Final = 1_000_000
RECORD_OVERHEAD_BYTES: Final = 100

Scalar = str | int | float | bool


class KeyFaultError(ValueError):
    """A fault found in a part as a whole that is about one of its keys."""

    def __init__(self, *key: str, text: str) -> None:
        super().__init__(text)
        self.key = key


def _schema(pattern: str, form: str, example: str) -> WithJsonSchema:
    plain_pattern = pattern.replace("?P<number>", "?:").replace("?P<unit>", "?:")
    return WithJsonSchema({"type": "string", "pattern": plain_pattern, "description": form, "examples": [example]})


SizeBytes = Annotated[
    int,
    BeforeValidator(units.parse_size_bytes),
    PlainSerializer(units.format_size),
    _schema(units.SIZE_PATTERN, units.SIZE_FORM, "64KiB"),
]
RatePerS = Annotated[
    int,
    BeforeValidator(units.parse_rate_per_s),
    PlainSerializer(units.format_rate),
    _schema(units.RATE_PATTERN, units.RATE_FORM, "20k/s"),
]
DurationS = Annotated[
    int,
    BeforeValidator(units.parse_duration_s),
    PlainSerializer(units.format_duration_s),
    _schema(units.DURATION_PATTERN, units.DURATION_FORM + "; whole seconds", "15s"),
]
DurationNs = Annotated[
    int,
    BeforeValidator(units.parse_duration_ns),
    PlainSerializer(units.format_duration_ns),
    _schema(units.DURATION_PATTERN, units.DURATION_FORM, "1ms"),
]


def _scalars_only(value: object) -> object:
    if not isinstance(value, dict):
        raise ValueError(f"{value!r} is not a mapping of property names to values")
    for name, item in value.items():
        if isinstance(item, list):
            raise KeyFaultError(name, text="a list; to compare several values, list them under matrix:")
        if not isinstance(item, str | int | float | bool):
            raise KeyFaultError(name, text=f"{item!r} is not a text, a number or true/false")
    return value


def _known_to_librdkafka(role: Role, client: dict[str, Scalar]) -> dict[str, Scalar]:
    try:
        to_librdkafka(role, client)
    except PropertyError as problem:
        raise KeyFaultError(*filter(None, [problem.name]), text=problem.text) from None
    return client


Properties = Annotated[dict[str, Scalar], BeforeValidator(_scalars_only)]
ProducerProperties = Annotated[Properties, AfterValidator(partial(_known_to_librdkafka, "producer"))]
ConsumerProperties = Annotated[Properties, AfterValidator(partial(_known_to_librdkafka, "consumer"))]


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class Topics(_Part):
    """The topic that each trial makes for itself."""

    partitions: int = Field(default=1, ge=1, le=10_000)
    config: Properties = Field(default={}, description="topic configuration, by Kafka's names")


class Producers(_Part):
    count: int = Field(default=1, ge=1, le=10_000)
    client: ProducerProperties = Field(
        default={}, description="librdkafka properties; batch.size takes a unit, the others what librdkafka takes"
    )


class Consumers(_Part):
    count: int = Field(default=1, ge=0, le=10_000)
    client: ConsumerProperties = Field(default={}, description="librdkafka properties")


class Records(_Part):
    size_bytes: SizeBytes | None = Field(
        default=None, alias="size", description="size of a value, the 24 bytes of the stamp included"
    )
    compress_ratio: float | None = Field(
        default=None,
        ge=0,
        le=1,
        description="share of a generated value that is random text; the rest repeats itself. 0.5 when absent",
    )
    payload_file: str | None = Field(
        default=None, description="take the values from the lines of this text file (relative to the workload file)"
    )

    @model_validator(mode="before")
    @classmethod
    def _default_compress_ratio(cls, data: Any) -> Any:
        if isinstance(data, dict) and "payload_file" not in data:
            return {"compress_ratio": 0.5} | data
        return data

    @model_validator(mode="after")
    def _complete(self) -> Records:
        if self.size_bytes is None and self.payload_file is None:
            raise ValueError("needs size (for generated values) or payload_file (for the lines of a real file)")
        if self.size_bytes is not None and not 24 <= self.size_bytes <= 2**30:
            size = units.format_size(self.size_bytes)
            raise KeyFaultError("size", text=f"{size} is not between 24B (the stamp) and 1GiB")
        if self.payload_file is not None and self.compress_ratio is not None:
            raise KeyFaultError(
                "compress_ratio", text="is for generated values; payload_file sends its lines as they are"
            )
        return self


class Load(_Part):
    """Open loop: records are due at this rate whether or not the system keeps up."""

    rate_per_s: RatePerS = Field(alias="rate", ge=1, description="of all producers together")


class Phases(_Part):
    warmup_s: DurationS = Field(default=5, alias="warmup", description="load that is not counted")
    measure_s: DurationS = Field(alias="measure", ge=1)
    drain_max_s: DurationS = Field(
        default=30, alias="drain", ge=1, description="how long consumers may take to read what is left"
    )


class Trials(_Part):
    n: int = Field(default=3, ge=1, le=1000, description="trials of each cell, one per random block")
    seed: int | None = Field(default=None, ge=0, le=2**63 - 1, description="of order and payload; drawn when absent")


class SystemUnderTest(_Part):
    kind: Literal["highwater", "external"] = "highwater"
    bootstrap_servers: str | None = Field(default=None, description="of an external cluster, host:port[,host:port…]")
    config: Properties = Field(default={}, description="broker configuration, by Kafka's names; not for external")

    @model_validator(mode="after")
    def _fits_kind(self) -> SystemUnderTest:
        if self.kind == "external" and not self.bootstrap_servers:
            raise KeyFaultError("kind", text="external needs bootstrap_servers (or --bootstrap-servers HOST:PORT)")
        if self.kind == "highwater" and self.bootstrap_servers is not None:
            raise KeyFaultError("bootstrap_servers", text="is for kind: external; this run starts its own broker")
        if self.kind == "external" and self.config:
            raise KeyFaultError("config", text="cannot be applied to an external cluster; leave it out")
        return self


class Target(_Part):
    path: str = Field(min_length=1, description="an existing directory on the storage to measure")


class Storage(_Part):
    target: str = Field(default=TEMPORARY_TARGET, description="name of the target that the system's log goes to")
    targets: dict[str, Target] = Field(default={}, description="'temporary' is always there: the temporary directory")

    @model_validator(mode="after")
    def _known_target(self) -> Storage:
        if self.target != TEMPORARY_TARGET and self.target not in self.targets:
            known = ", ".join([TEMPORARY_TARGET, *self.targets])
            raise KeyFaultError("target", text=f"{self.target!r} is not one of the targets ({known})")
        return self


class Validity(_Part):
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


class Workload(_Part):
    schema_: Literal["bench.workload/1"] = Field(alias="schema")
    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$", max_length=64)
    purpose: str = Field(default="", description="one line: the question this workload answers")
    for_measurement: bool = Field(default=True, description="false for smoke runs, whose figures must not be quoted")
    topics: Topics = Topics()
    producers: Producers = Producers()
    consumers: Consumers = Consumers()
    records: Records
    load: Load
    phases: Phases
    trials: Trials = Trials()
    system: SystemUnderTest = SystemUnderTest()
    storage: Storage = Storage()
    validity: Validity = Validity()
    matrix: dict[str, list[Scalar]] = Field(
        default={}, description="dotted key -> values; the cells are all their combinations"
    )
    exclude: list[dict[str, Scalar]] = Field(default=[], description="combinations of axis values to leave out")

    @model_validator(mode="after")
    def _consistent(self) -> Workload:
        if self.system.kind == "external" and (self.storage.targets or self.storage.target != TEMPORARY_TARGET):
            raise KeyFaultError(
                "storage", text="an external system writes where it writes; leave the storage targets out"
            )
        if self.consumers.count > self.topics.partitions:
            raise KeyFaultError(
                "consumers",
                "count",
                text=f"{self.consumers.count} consumers cannot share {self.topics.partitions} partitions",
            )
        largest = self.producers.client.get("message.max.bytes", DEFAULT_MESSAGE_MAX_BYTES)
        if self.records.size_bytes is not None and self.records.size_bytes + RECORD_OVERHEAD_BYTES > int(largest):
            raise KeyFaultError(
                "records",
                "size",
                text=f"{units.format_size(self.records.size_bytes)} is more than the producer sends "
                f"(message.max.bytes {largest}); raise producers.client.message.max.bytes and "
                "topics.config.max.message.bytes",
            )
        if self.load.rate_per_s < self.producers.count:
            rate = units.format_rate(self.load.rate_per_s)
            raise KeyFaultError("load", "rate", text=f"{rate} is less than one record a second per producer")
        return self

    @property
    def tasks(self) -> int:
        """Load tasks that must run at the same time."""
        return self.producers.count + self.consumers.count

    def as_document(self) -> dict[str, Any]:
        """The workload as plain data that is again a valid workload file."""
        return self.model_dump(mode="json", by_alias=True, exclude_none=True)


def json_schema() -> dict[str, Any]:
    """The JSON Schema of a workload file, for editors."""
    schema = Workload.model_json_schema(by_alias=True)
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": WORKLOAD_SCHEMA} | {
        key: value for key, value in schema.items() if key != "title"
    }
