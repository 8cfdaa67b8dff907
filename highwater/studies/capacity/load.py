"""The load file of a plan (`capacity.load/1`): topics, hosts, what the cluster has to bear.

```yaml
schema: capacity.load/1
name: shop
topics:
  orders: {peak: 40MB/s, batch: 32KiB, retention: {time: 7d}}
hosts: {memory: 64GiB, network: 10Gbit/s, disks: {count: 4, size: 4TB, layout: jbod}}
```
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Annotated, Final, Literal

from pydantic import BeforeValidator, Field, ValidationError, WithJsonSchema, model_validator

from highwater.bench.workload.complaints import complaint
from highwater.bench.workload.values import KeyFaultError, Part
from highwater.common.errors import UsageError
from highwater.common.quantities import BYTE_RATE, DURATION, LINK_SPEED, PERCENT, SIZE, Quantity
from highwater.common.units import NANOSECONDS
from highwater.common.yaml_nodes import Document


def _per(parse: Callable[[object], Decimal], divisor: int = 1) -> BeforeValidator:
    return BeforeValidator(lambda value: float(parse(value) / divisor))


def _written(quantity: Quantity) -> WithJsonSchema:
    return WithJsonSchema({"type": "string", "pattern": quantity.pattern, "description": quantity.form})


BytesPerS = Annotated[float, _per(BYTE_RATE.above_zero), _written(BYTE_RATE)]
BytesPerSOrNone = Annotated[float, _per(BYTE_RATE.parse), _written(BYTE_RATE)]
NetworkBytesPerS = Annotated[float, _per(LINK_SPEED.above_zero, 8), _written(LINK_SPEED)]
SpanS = Annotated[float, _per(DURATION.above_zero, NANOSECONDS["s"]), _written(DURATION)]
SpanSOrNone = Annotated[float, _per(DURATION.parse, NANOSECONDS["s"]), _written(DURATION)]
SizeBytes = Annotated[int, BeforeValidator(SIZE.integer), Field(ge=1), _written(SIZE)]
Ratio = Annotated[float, _per(PERCENT.parse), _written(PERCENT)]
Share = Annotated[float, _per(PERCENT.above_zero), Field(le=1), _written(PERCENT)]


LOAD_SCHEMA: Final = "capacity.load/1"

Layout = Literal["jbod", "raid0", "raid10", "raid5", "raid6"]
LAYOUTS: Final[tuple[Layout, ...]] = ("jbod", "raid10", "raid5", "raid6", "raid0")
TopicName = Annotated[str, Field(pattern=r"^[A-Za-z0-9._-]{1,249}$")]
LEAST_DISKS: Final[dict[Layout, int]] = {"jbod": 1, "raid0": 2, "raid10": 2, "raid5": 3, "raid6": 4}


class Retention(Part):
    """How much of a topic is kept: the smaller one of the two."""

    time_s: SpanS | None = Field(default=None, alias="time")
    bytes_per_partition: SizeBytes | None = None

    @model_validator(mode="after")
    def _given(self) -> Retention:
        if self.time_s is None and self.bytes_per_partition is None:
            raise ValueError("says neither time nor bytes_per_partition, for example {time: 7d}")
        return self


class Topic(Part):
    """One topic, or several alike as one. Bytes are those of the log: after compression."""

    peak_bytes_per_s: BytesPerS = Field(alias="peak")
    mean_bytes_per_s: BytesPerS | None = Field(default=None, alias="mean")
    batch_bytes: SizeBytes = Field(alias="batch")
    replication: int = Field(default=3, ge=1)
    min_insync_replicas: int = Field(default=1, ge=1)
    retention: Retention
    segment_bytes: SizeBytes = Field(default=1 << 30, alias="segment")
    groups: int = Field(default=1, ge=0)
    lag_s: SpanSOrNone = Field(default=0.0, alias="lag")
    replay_bytes_per_s: BytesPerSOrNone = Field(default=0.0, alias="replay")
    partitions: int = Field(default=1, ge=1)
    consumers: int = Field(default=1, ge=1)
    consumer_bytes_per_s: BytesPerS | None = Field(default=None, alias="consumer_rate")
    fsync: bool = False
    hottest_key_ratio: Share = Field(default=0.0, alias="hottest_key")

    @model_validator(mode="after")
    def _possible(self) -> Topic:
        if self.min_insync_replicas > self.replication:
            raise KeyFaultError(
                "min_insync_replicas",
                text=f"{self.min_insync_replicas} is more than replication, {self.replication}: no client could write",
            )
        if self.mean_bytes_per_s is not None and self.mean_bytes_per_s > self.peak_bytes_per_s:
            raise KeyFaultError("mean", text="is more than peak")
        return self

    @property
    def kept_bytes_per_s(self) -> float:
        """The rate that fills the disks."""
        return self.peak_bytes_per_s if self.mean_bytes_per_s is None else self.mean_bytes_per_s


class Disks(Part):
    """The disks of one broker for its logs, all alike."""

    count: int = Field(ge=1)
    size_bytes: SizeBytes = Field(alias="size")
    layout: Layout = "jbod"
    target: str | None = None
    imbalance: float = Field(default=1.1, ge=1, le=100)

    @model_validator(mode="after")
    def _enough(self) -> Disks:
        if self.count < LEAST_DISKS[self.layout]:
            raise KeyFaultError("count", text=f"{self.count} is too few for {self.layout}")
        if self.layout == "raid10" and self.count % 2:
            raise KeyFaultError("count", text=f"{self.count} is odd, and raid10 needs pairs of disks")
        return self


class Hosts(Part):
    """One broker host. `cpus` and `cpu_model`, if given, are held to those that the ceilings were measured on."""

    memory_bytes: SizeBytes = Field(alias="memory")
    network_bytes_per_s: NetworkBytesPerS = Field(alias="network")
    disks: Disks
    cpus: int | None = Field(default=None, ge=1)
    cpu_model: str | None = None


class Cluster(Part):
    """What all brokers together must bear."""

    brokers_down: int = Field(default=1, ge=0)
    racks: int = Field(default=1, ge=1)
    imbalance: float = Field(default=1.1, ge=1, le=100)
    recovery_s: SpanS | None = Field(default=None, alias="recovery")


class Growth(Part):
    per_month_ratio: Share = Field(alias="per_month")
    months: int = Field(default=12, ge=1, le=120)


class Limits(Part):
    """The share of each ceiling that a plan may use."""

    cpu: Share = 0.7
    memory: Share = 0.9
    network: Share = 0.8
    disk_rate: Share = 0.7
    disk_space: Share = 0.8


class Load(Part):
    schema_: Literal["capacity.load/1"] = Field(alias="schema")
    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$", max_length=64)
    topics: dict[TopicName, Topic] = Field(min_length=1)
    hosts: Hosts
    cluster: Cluster = Cluster()
    growth: Growth | None = None
    range_ratio: Ratio = Field(default=0.1, alias="range", lt=1)
    limits: Limits = Limits()

    @model_validator(mode="after")
    def _bears_losses(self) -> Load:
        down = self.cluster.brokers_down
        for name, topic in self.topics.items():
            if down and topic.replication - down < topic.min_insync_replicas:
                raise KeyFaultError(
                    "topics",
                    name,
                    "replication",
                    text=f"{topic.replication} copies with {down} of their brokers down are fewer than "
                    f"min_insync_replicas, {topic.min_insync_replicas}: producers would stop. More copies, or "
                    f"cluster.brokers_down: {topic.replication - topic.min_insync_replicas}",
                )
        return self


def load_of(document: Document) -> Load:
    """The load of a file that was read. Raises UsageError with file and line."""
    try:
        return Load.model_validate(document.data)
    except ValidationError as error:
        location, text = complaint(error, Load)
        raise UsageError(f"{document.origin(location)}: {text}") from None
