"""The model of calibration.json: ceilings of the load generator, and noise."""

from __future__ import annotations

from typing import Final, Literal

from pydantic import Field

from highwater.results.analysis_file import Comparison, Noise
from highwater.results.base import Model
from highwater.results.storage import TargetProbe

CALIBRATION_SCHEMA: Final = "bench.calibration/1"
CALIBRATION_FILE: Final = "calibration.json"


class GeneratorShape(Model):
    """What a ceiling depends on; two loads of one shape have one ceiling on one host."""

    driver: Literal["client", "wire"]
    producers: int
    partitions: int = Field(description="of all topics")
    size: str
    payload: str
    keys: str
    headers: str
    transactions: str
    client: dict[str, str] = Field(description="the producers' properties")

    @property
    def text(self) -> str:
        client = " ".join(f"{name}={value}" for name, value in sorted(self.client.items()))
        producers = f"{self.producers} producer{'s' if self.producers > 1 else ''}"
        return f"{self.driver}, {producers}, {self.size}" + (f", {client}" if client else "")


class GeneratorCeiling(Model):
    """What producers of one shape reach when what they send is thrown away and acknowledged at once."""

    shape: GeneratorShape
    sink: Literal["null_broker", "librdkafka_mock"] = Field(
        default="null_broker", description="librdkafka_mock in files of older versions alone"
    )
    ceiling_per_s: float = Field(description="records acknowledged per second, median of the trials")
    ceiling_bytes_per_s: float = Field(description="value bytes of those records")
    values_per_s: list[float] = Field(description="of each trial")
    generator_cpu_ratio_max: float = Field(description="busiest producer, of a core; median of the trials")
    cpu_ns_per_record: float = Field(description="of the producers; median of the trials")


class ConsumerShape(Model):
    """What a ceiling of consumers depends on: who reads, and who made the batches that are read."""

    groups: int
    consumers_per_group: int
    client: dict[str, str] = Field(description="the consumers' properties")
    checked: bool = Field(description="every record is compared with what was sent (checks.delivery)")
    records: GeneratorShape

    @property
    def text(self) -> str:
        client = " ".join(f"{name}={value}" for name, value in sorted(self.client.items()))
        consumers = f"{self.consumers_per_group} consumer{'s' if self.consumers_per_group > 1 else ''}"
        groups = f" in each of {self.groups} groups" if self.groups > 1 else ""
        return f"{consumers}{groups}" + (f", {client}" if client else "") + f", of: {self.records.text}"


class ConsumerCeiling(Model):
    """What consumers of one shape reach when all that they read is there, in a broker's memory; all groups together."""

    shape: ConsumerShape
    ceiling_per_s: float = Field(description="records read per second, median of the trials")
    ceiling_bytes_per_s: float = Field(description="value bytes of those records")
    values_per_s: list[float] = Field(description="of each trial")
    cpu_ns_per_record: float = Field(description="of the consumers; median of the trials")


class Loopback(Model):
    """TCP over 127.0.0.1 between two processes."""

    bytes_per_s: float
    round_trip_p50_ns: int
    round_trip_p99_ns: int
    round_trip_bytes: int


class Calibration(Model):
    schema_: Literal["bench.calibration/1"] = Field(default=CALIBRATION_SCHEMA, alias="schema")
    created_utc: str
    workload: str | None = Field(description="name of the workload it is for; None: of none in particular")
    workload_sha256: str | None
    environment: dict[str, str | int | float | bool | None] = Field(
        description="the facts of the host that decide over figures; elsewhere this calibration holds for nothing"
    )
    ceilings: list[GeneratorCeiling]
    consumer_ceilings: list[ConsumerCeiling] = Field(default=[])
    loopback: Loopback
    storage: list[TargetProbe]
    noise: list[Noise] = Field(description="A/A pairs of the workload; empty when none were run")
    launchers: list[Comparison] = Field(description="Spark tasks against plain processes; empty when not compared")
    pairs: str | None = Field(description="the result directory of the pairs, beside this file")
    notes: list[str]

    def ceiling_of(self, shape: GeneratorShape) -> GeneratorCeiling | None:
        """What was measured for exactly this shape, against the null broker."""
        found = (ceiling for ceiling in self.ceilings if ceiling.sink == "null_broker" and ceiling.shape == shape)
        return next(found, None)

    def consumer_ceiling_of(self, shape: ConsumerShape) -> ConsumerCeiling | None:
        """What was measured for exactly this shape."""
        return next((ceiling for ceiling in self.consumer_ceilings if ceiling.shape == shape), None)
