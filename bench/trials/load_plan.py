"""The plan for the load generator from a cell's workload."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from highwater.bench.workload import values
from highwater.bench.workload.client_properties import to_librdkafka
from highwater.bench.workload.model import Workload
from highwater.bench.workload.replay import Traces
from highwater.bench.workload.sections import Load, Transactions
from highwater.spark_loadgen.model import LoadPlan, SteadyWarmup, TelemetryTarget, TransactionPlan
from highwater.spark_loadgen.records import (
    FilePayload,
    FixedSize,
    GeneratedPayload,
    Headers,
    Keys,
    RandomKeys,
    RoundRobinKeys,
    Sizes,
    UniformSizes,
    WeightedSizes,
    ZipfKeys,
)
from highwater.spark_loadgen.schedule import OpenSchedule, Step

NO_TRACES: Final = Traces()


def load_plan_of(
    workload: Workload,
    *,
    bootstrap_servers: str,
    topics: tuple[str, ...],
    payload_file: Path | None,
    seed: int,
    connection: Mapping[str, str] | None = None,
    telemetry: TelemetryTarget | None = None,
    traces: Traces = NO_TRACES,
) -> LoadPlan:
    """payload_file: absolute path of the workload's payload file, if it names one. connection: TLS and SASL.

    telemetry: where the tasks publish their figures; None: nowhere. traces: those that the workload names.
    """
    start, driver, records = workload.consumers.start, workload.producers.driver, traces.records
    if driver != "client" and driver != "wire":
        raise ValueError(f"{driver} is not a driver of load tasks")
    return LoadPlan(
        bootstrap_servers=bootstrap_servers,
        topics=topics,
        partitions=workload.topics.partitions,
        producers=workload.producers.count,
        groups=workload.consumers.groups,
        consumers_per_group=workload.consumers.per_group,
        schedule=traces.arrivals or _schedule(workload.load),
        warmup=_warmup(workload.phases.warmup),
        measure_s=workload.phases.measure_s,
        drain_max_s=workload.phases.drain_max_s,
        sizes=_sizes(workload.records.size) if records is None else records.sizes,
        keys=_keys(workload.records.keys) if records is None else records.keys,
        headers=Headers(workload.records.headers.count, workload.records.headers.value_bytes)
        if records is None
        else records.headers,
        payload=FilePayload(str(payload_file))
        if payload_file
        else GeneratedPayload(workload.records.compress_ratio or 0.0),
        seed=seed,
        producer_config=to_librdkafka("producer", workload.producers.client),
        consumer_config=to_librdkafka("consumer", workload.consumers.client),
        connection=connection or {},
        driver=driver,
        transactions=_transactions(workload.producers.transactions),
        start_after_backlog_bytes=start.backlog_bytes if isinstance(start, values.AfterBacklog) else None,
        start_after_load=start == "after_load",
        pairs=workload.consumers.pairing == "pairs",
        check_delivery=workload.checks.delivery != "none",
        telemetry=telemetry,
    )


def _warmup(warmup: int | values.SteadyWarmup) -> int | SteadyWarmup:
    if isinstance(warmup, int):
        return warmup
    return SteadyWarmup(slope_ratio=warmup.slope_ratio, window_s=warmup.window_s, max_s=warmup.max_s)


def _transactions(wanted: Transactions | None) -> TransactionPlan | None:
    if wanted is None:
        return None
    return TransactionPlan(records=wanted.records, every_ns=wanted.every_ns, abort_ratio=wanted.abort_ratio)


def _schedule(load: Load) -> OpenSchedule | None:
    if load.model == "closed":
        return None
    return OpenSchedule(tuple(Step(step.rate_per_s, step.duration_s) for step in load.steps), load.arrival)


def _sizes(sizes: values.FixedSize | values.WeightedSizes | values.UniformSizes | None) -> Sizes | None:
    match sizes:
        case values.FixedSize():
            return FixedSize(sizes.size_bytes)
        case values.WeightedSizes():
            return WeightedSizes(tuple(sizes.weights.items()))
        case values.UniformSizes():
            return UniformSizes(sizes.min_bytes, sizes.max_bytes)
    return None


def _keys(keys: values.NoKeys | values.RoundRobinKeys | values.RandomKeys | values.ZipfKeys) -> Keys | None:
    match keys:
        case values.RoundRobinKeys():
            return RoundRobinKeys(keys.n)
        case values.RandomKeys():
            return RandomKeys(keys.n)
        case values.ZipfKeys():
            return ZipfKeys(keys.n, keys.s)
    return None
