"""The workload file as models that refuse every unknown key.

The sections are in `bench.workload.sections` and in modules named after them, the types of values in
`bench.workload.values`. `bench.workload.specification` reads a file into these models, with its includes, variants and
matrix. A `Workload` can be dumped to a document that loads again.
"""

from __future__ import annotations

import math
from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, Field, ValidationInfo, field_validator, model_validator

from highwater.bench.workload.aims import Aim, check_aims
from highwater.bench.workload.clusters import host_and_port
from highwater.bench.workload.faults import Fault, check_faults
from highwater.bench.workload.host import Host
from highwater.bench.workload.metric_bounds import MetricBounds
from highwater.bench.workload.native import check_native_load, check_native_run, check_without_native
from highwater.bench.workload.question import Question
from highwater.bench.workload.rebalance import Rebalance, check_rebalance
from highwater.bench.workload.rules import (
    check_at_once,
    check_consumers,
    check_external,
    check_figures,
    check_processes,
    check_producers,
    check_restart,
    missing_prerequisites,
)
from highwater.bench.workload.sections import (
    Checks,
    Consumers,
    Load,
    Phases,
    Producers,
    Records,
    Storage,
    Topics,
    Trials,
    Validity,
)
from highwater.bench.workload.system import HighwaterUnderTest, SystemUnderTest
from highwater.bench.workload.values import (
    KeyFaultError,
    Part,
    Scalar,
    SteadyWarmup,
)
from highwater.common import quantities


def _addresses(text: str) -> str:
    for address in text.split(","):
        host_and_port(address.strip())
    return text


class Telemetry(Part):
    """It changes no figure, so it is no part of what makes two workloads the same."""

    control: Annotated[str, AfterValidator(_addresses)] = Field(
        description="HOST:PORT,… of a control broker that is not under test"
    )
    topic: str = Field(default="hw.telemetry", min_length=1, description="the topic for the messages of load tasks")
    config: str | None = Field(default=None, description="file with TLS and SASL properties for the control broker")


WORKLOAD_SCHEMA: Final = "bench.workload/1"
# The plan's estimate for a load of a given number of records, whose duration nobody knows.
_EXPECTED_S: Final = 10


def _measure_of_trace(phases: Phases, lasts_s: float) -> Phases:
    if isinstance(phases.warmup, SteadyWarmup):
        raise KeyFaultError("warmup", text="until: steady needs one rate; give a duration before a trace")
    whole_s = math.ceil(lasts_s)
    if phases.measure_s > whole_s:
        lasts = quantities.format_duration_s(whole_s)
        raise KeyFaultError("measure", text=f"is longer than the trace, which lasts {lasts} at this speed")
    return phases.model_copy(update={"measure_s": phases.measure_s or whole_s})


class Workload(Part):
    schema_: Literal["bench.workload/1"] = Field(alias="schema")
    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$", max_length=64)
    purpose: str = Field(
        default="", pattern=r"^[^\x00-\x1f\x7f]*$", description="one line: the question this workload answers"
    )
    for_measurement: bool = Field(default=True, description="false for smoke tests, whose figures must not be quoted")
    topics: Topics = Topics()
    producers: Producers = Producers()
    consumers: Consumers = Consumers()
    records: Records
    load: Load
    phases: Phases = Field(default=Phases(), validate_default=True)
    trials: Trials = Trials()
    checks: Checks = Checks()
    answer: Question | None = Field(default=None, description="what the report answers first; see docs/workloads.md")
    slo: MetricBounds = Field(default={}, description="metric -> bound that every trial should satisfy")
    system: SystemUnderTest = HighwaterUnderTest()
    storage: Storage = Storage()
    host: Host = Host()
    faults: list[Fault] = Field(
        default=[], description="faults that are injected into brokers during the measurement, in order of time"
    )
    rebalance: Rebalance | None = Field(
        default=None, description="a consumer group whose members join, leave and die during the measurement"
    )
    restart: Literal["kill", "stop"] | None = Field(
        default=None,
        description="after the load, end the broker with SIGKILL or SIGTERM, start it again, and measure "
        "the time until all partitions are available",
    )
    validity: Validity = Validity()
    telemetry: Telemetry | None = Field(
        default=None, description="where load tasks publish live figures; see docs/telemetry.md"
    )
    aims: list[Aim] = Field(default=[], description="ratios that one variant should reach against others")
    variants: dict[str, dict[str, Any]] = Field(
        default={}, description="named cells, whose sections override those of this file; the factor is variant=NAME"
    )
    matrix: dict[str, list[Scalar]] = Field(
        default={}, description="dotted key -> values; the cells are all their combinations"
    )
    exclude: list[dict[str, Scalar]] = Field(default=[], description="combinations of axis values to leave out")

    @field_validator("phases")
    @classmethod
    def _measure_of_schedule(cls, phases: Phases, info: ValidationInfo) -> Phases:
        load: Load | None = info.data.get("load")
        if load is None:
            return phases  # the load has a fault, which is reported on its own
        scheduled_s = sum(step.duration_s for step in load.schedule or [])
        if load.trace is not None:
            return _measure_of_trace(phases, load.trace.lasts_s)
        if isinstance(phases.warmup, SteadyWarmup) and len(load.steps) > 1:
            raise KeyFaultError(
                "warmup", text="until: steady needs one rate; give a duration before a schedule of several"
            )
        if not phases.measure_s and load.records is not None:
            return phases.model_copy(update={"measure_s": _EXPECTED_S})
        if not phases.measure_s and not scheduled_s:
            raise KeyFaultError("measure", text="is missing")
        if phases.measure_s and scheduled_s and phases.measure_s != scheduled_s:
            lasts = quantities.format_duration_s(scheduled_s)
            raise KeyFaultError("measure", text=f"is not the duration of load.schedule, {lasts}; remove measure")
        return phases.model_copy(update={"measure_s": phases.measure_s or scheduled_s})

    @model_validator(mode="after")
    def _consistent(self) -> Workload:
        if self.system.kind != "external" and self.topics.replication > self.system.members:
            has = f"system.nodes is {self.system.nodes}"
            if self.system.members > self.system.nodes:
                has = f"system.processes is {self.system.members}"
            text = f"{self.topics.replication} copies need as many brokers, but {has}"
            raise KeyFaultError("topics", "replication", text=text)
        check_external(self.system, self.storage, self.producers, self.host)
        check_at_once(self.trials, self.system, self.host, self.faults)
        check_consumers(self.consumers, self.topics, self.producers, self.checks)
        missing = missing_prerequisites(
            self.consumers, self.producers, self.checks, self.faults, self.restart, self.rebalance
        )
        check_figures(self.slo, self.trials, self.aims, self.answer, missing)
        check_producers(self.producers, self.records, self.load, self.consumers)
        check_faults(self.faults, self.system, self.phases)
        check_rebalance(self.rebalance, self.phases, self.system, self.producers, self.trials, self.faults)
        check_aims(self.aims, self.variants)
        check_restart(self.restart, self.system, self.faults)
        check_processes(self.system, self.producers, self.restart, self.faults)
        if self.producers.native:
            check_native_load(self.producers, self.consumers, self.records, self.load, self.phases)
            check_native_run(self.topics, self.producers, self.system, self.trials, self.faults)
        else:
            check_without_native(self.producers, self.consumers, self.load, self.system)
        return self

    @property
    def tasks(self) -> int:
        """The number of load tasks that must run at the same time; native clients are not counted."""
        return 0 if self.producers.native else self.producers.count + self.consumers.count

    def as_document(self) -> dict[str, Any]:
        """Returns the workload as plain data, which is again a valid workload file."""
        return self.model_dump(mode="json", by_alias=True, exclude_none=True)
