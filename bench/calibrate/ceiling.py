"""The ceilings of the load generator: a workload's producers and consumers at full speed.

They are the same tasks as in a trial. Producers run in a closed loop against a broker that stores nothing. Consumers
read the records of such producers from the memory of a broker, after all of them have been sent. Both brokers share the
host with the tasks, as the system under test does in a run on one host; for tasks on their own hosts the ceiling is too
low.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import Final

import psutil

from highwater.bench.calibrate.keeping_broker import keeping_broker
from highwater.bench.calibrate.null_broker import null_broker
from highwater.bench.trials.given_calibration import consumer_shape_of, shape_of
from highwater.bench.trials.trial import Launcher
from highwater.results.calibration import ConsumerCeiling, GeneratorCeiling
from highwater.spark_loadgen.errors import LoadFailed
from highwater.spark_loadgen.model import LoadPlan, LoadResult
from highwater.spark_loadgen.schedule import OpenSchedule

WARMUP_S: Final = 1
MEASURE_S: Final = 2
TOPIC: Final = "calibration"
# Records for consumers: about a second of reading, and at most a quarter of the free memory.
KEPT_RECORDS_MAX: Final = 1_000_000
KEPT_BYTES_MAX: Final = 512 << 20


@dataclass(frozen=True, slots=True)
class ProducerTrial:
    """The result of one run of producers at full speed."""

    records_per_s: float
    bytes_per_s: float
    cpu_ratio_max: float
    cpu_ns_per_record: float


@dataclass(frozen=True, slots=True)
class ConsumerTrial:
    """The result of one run of consumers at full speed, summed over groups."""

    records_per_s: float
    bytes_per_s: float
    cpu_ns_per_record: float


def at_full_speed(plan: LoadPlan, launcher: Launcher) -> ProducerTrial:
    """Run the producers of `plan` once against a new null broker. Raises LoadSetupError and LoadFailed."""
    measured = slice(WARMUP_S, WARMUP_S + MEASURE_S)
    partitions = plan.partitions * len(plan.topics)
    with null_broker({TOPIC: partitions}) as broker:
        result = launcher.run(unbounded(plan, broker.address, partitions))
    _require_delivered(result)
    return ProducerTrial(
        records_per_s=sum(result.acked[measured]) / MEASURE_S,
        bytes_per_s=sum(result.acked_bytes[measured]) / MEASURE_S,
        cpu_ratio_max=result.generator.cpu_ratio_max,
        cpu_ns_per_record=result.generator.producer_cpu_ns_per_record,
    )


def reading_at_full_speed(plan: LoadPlan, producers: ProducerTrial, launcher: Launcher) -> ConsumerTrial:
    """Run the consumers of `plan` once on records that its producers have sent. Raises LoadSetupError and LoadFailed.

    producers: a trial of the producers, for the size of records and the rate of sending.
    """
    partitions = plan.partitions * len(plan.topics)
    with keeping_broker({TOPIC: partitions}) as broker:
        result = launcher.run(read_after_load(plan, producers, broker.address, partitions))
    _require_delivered(result)
    backlog = result.backlog
    if backlog is None or backlog.drain_records_per_s is None or backlog.drain_bytes_per_s is None:
        raise LoadFailed(f"consumers left {result.delivery.unread} records: {next(iter(result.errors), 'too slow')}")
    return ConsumerTrial(
        records_per_s=backlog.drain_records_per_s,
        bytes_per_s=backlog.drain_bytes_per_s,
        cpu_ns_per_record=result.generator.consumer_cpu_ns_per_record,
    )


def _require_delivered(result: LoadResult) -> None:
    if result.delivery.failed:
        raise LoadFailed(f"{result.delivery.failed} records failed: {next(iter(result.errors), 'no reason given')}")


def consumer_ceiling_of(plan: LoadPlan, trials: Sequence[ConsumerTrial]) -> ConsumerCeiling:
    """`trials`: at least one."""
    return ConsumerCeiling(
        shape=consumer_shape_of(plan),
        ceiling_per_s=median(trial.records_per_s for trial in trials),
        ceiling_bytes_per_s=median(trial.bytes_per_s for trial in trials),
        values_per_s=[trial.records_per_s for trial in trials],
        cpu_ns_per_record=median(trial.cpu_ns_per_record for trial in trials),
    )


def ceiling_of(plan: LoadPlan, trials: Sequence[ProducerTrial]) -> GeneratorCeiling:
    """`trials`: at least one."""
    return GeneratorCeiling(
        shape=shape_of(plan),
        ceiling_per_s=median(trial.records_per_s for trial in trials),
        ceiling_bytes_per_s=median(trial.bytes_per_s for trial in trials),
        values_per_s=[trial.records_per_s for trial in trials],
        generator_cpu_ratio_max=median(trial.cpu_ratio_max for trial in trials),
        cpu_ns_per_record=median(trial.cpu_ns_per_record for trial in trials),
    )


def unbounded(plan: LoadPlan, bootstrap_servers: str, partitions: int) -> LoadPlan:
    """The plan with producers only, in a closed loop."""
    return replace(
        plan,
        bootstrap_servers=bootstrap_servers,
        topics=(TOPIC,),
        partitions=partitions,
        groups=0,
        consumers_per_group=0,
        schedule=None,
        warmup=WARMUP_S,
        measure_s=MEASURE_S,
        drain_max_s=10,
        start_after_backlog_bytes=None,
        start_after_load=False,
        pairs=False,
    )


def read_after_load(plan: LoadPlan, producers: ProducerTrial, bootstrap_servers: str, partitions: int) -> LoadPlan:
    """A plan whose consumers read everything that the broker stores, after it has been sent."""
    value_bytes = max(1.0, producers.bytes_per_s / max(1.0, producers.records_per_s))
    kept_bytes = min(KEPT_BYTES_MAX, psutil.virtual_memory().available // 4)
    records = max(1, min(KEPT_RECORDS_MAX, int(kept_bytes / value_bytes)))
    measure_s = max(1, math.ceil(records / max(1.0, producers.records_per_s)))
    return replace(
        plan,
        bootstrap_servers=bootstrap_servers,
        topics=(TOPIC,),
        partitions=partitions,
        schedule=OpenSchedule.constant(records / measure_s),
        warmup=0,
        measure_s=measure_s,
        drain_max_s=60,
        start_after_backlog_bytes=None,
        start_after_load=True,
    )
