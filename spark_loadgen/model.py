"""What a caller asks of the load generator and what it gets back: plan, progress, result, errors."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from spark_loadgen.delivery import Delivery
from spark_loadgen.histogram import Histogram
from spark_loadgen.schedule import Schedule
from spark_loadgen.stamp import STAMP_BYTES
from spark_loadgen.windows import SECOND_NS

Phase = Literal["start", "warmup", "measure", "drain"]
Role = Literal["producer", "consumer"]
EndToEndClock = Literal["same_host_monotonic", "wall_clock"]


class LoadSetupError(Exception):
    """The load cannot start as asked. The text is one line that names the offending thing and the way out."""


class LoadFailed(Exception):  # noqa: N818 - an outcome, not a mistake of the caller's
    """The load broke while it ran. The text is one line."""


@dataclass(frozen=True, slots=True)
class GeneratedPayload:
    """Seeded JSON log lines.

    compress_ratio: the share (0 to 1) of a value, stamp excluded, that is random text: letters drawn evenly from 64, in
    which lz4 and snappy find nothing and an entropy coder (gzip, zstd) saves a quarter. The rest is log wording that
    repeats itself from line to line and shrinks to about a tenth.
    """

    compress_ratio: float = 0.5

    def __post_init__(self) -> None:
        if not 0 <= self.compress_ratio <= 1:
            raise LoadSetupError(f"compress_ratio {self.compress_ratio:g} is not between 0 and 1")


@dataclass(frozen=True, slots=True)
class FilePayload:
    """Lines of a real text file, read where the driver runs."""

    path: str


@dataclass(frozen=True, slots=True)
class LoadPlan:
    """One trial's load. All tasks agree on a T0; the schedule runs for warm-up and measured phase from there.

    record_bytes: size of the value, its 24-byte stamp included; None (with FilePayload only) = one line per record as
    it is, after the stamp. Client configurations use librdkafka's property names.
    """

    bootstrap_servers: str
    topic: str
    partitions: int
    producers: int
    consumers: int
    rate_per_s: float
    warmup_s: int
    measure_s: int
    drain_max_s: int
    record_bytes: int | None
    payload: GeneratedPayload | FilePayload
    seed: int
    producer_config: Mapping[str, str] = field(default_factory=dict)
    consumer_config: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name, least in (("partitions", 1), ("producers", 1), ("consumers", 0), ("warmup_s", 0), ("measure_s", 1)):
            if getattr(self, name) < least:
                raise LoadSetupError(f"{name} is {getattr(self, name)}; it must be at least {least}")
        if self.drain_max_s < 1:
            raise LoadSetupError(f"drain_max_s is {self.drain_max_s}; it must be at least 1")
        if not (math.isfinite(self.rate_per_s) and self.rate_per_s > 0):
            raise LoadSetupError(f"a rate of {self.rate_per_s:g}/s offers no load; it must be above 0")
        if self.record_bytes is None:
            if isinstance(self.payload, GeneratedPayload):
                raise LoadSetupError("a generated payload needs record_bytes; only a payload file can do without")
        elif self.record_bytes < STAMP_BYTES:
            raise LoadSetupError(
                f"record_bytes is {self.record_bytes}; every value starts with a stamp of {STAMP_BYTES} bytes"
            )
        if self.consumers > self.partitions:
            raise LoadSetupError(
                f"{self.consumers} consumers cannot share {self.partitions} partitions: "
                "use at most as many consumers as partitions"
            )

    @property
    def tasks(self) -> int:
        return self.producers + self.consumers

    @property
    def schedule_s(self) -> int:
        return self.warmup_s + self.measure_s

    @property
    def schedule(self) -> Schedule:
        return Schedule(self.rate_per_s, self.producers, self.schedule_s * SECOND_NS)


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
class LoadResult:
    """What came back. Rows are per second since T0 (index = second), all of one length.

    histograms: metric (produce_response, produce_service, send_delay, e2e_response) -> second of the *intended* send
    time -> histogram. Counts are filed under the second in which the thing happened.
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
