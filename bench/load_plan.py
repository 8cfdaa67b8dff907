"""From a cell's workload to the plan that the load generator is given."""

from __future__ import annotations

from pathlib import Path

from bench import workload_values as values
from bench.client_properties import to_librdkafka
from bench.errors import UsageError
from bench.workload import Load, Workload
from spark_loadgen import (
    FilePayload,
    FixedSize,
    GeneratedPayload,
    Headers,
    Keys,
    LoadPlan,
    OpenSchedule,
    RandomKeys,
    RoundRobinKeys,
    Sizes,
    Step,
    UniformSizes,
    WeightedSizes,
    ZipfKeys,
)


def load_plan_of(
    workload: Workload, *, bootstrap_servers: str, topic: str, payload_file: Path | None, seed: int
) -> LoadPlan:
    """payload_file: absolute path of the workload's payload file, if it names one."""
    refuse_unready(workload)
    assert isinstance(workload.phases.warmup, int)
    return LoadPlan(
        bootstrap_servers=bootstrap_servers,
        topics=(topic,),
        partitions=workload.topics.partitions,
        producers=workload.producers.count,
        groups=workload.consumers.groups,
        consumers_per_group=workload.consumers.per_group,
        schedule=_schedule(workload.load),
        warmup=workload.phases.warmup,
        measure_s=workload.phases.measure_s,
        drain_max_s=workload.phases.drain_max_s,
        sizes=_sizes(workload.records.size),
        keys=_keys(workload.records.keys),
        headers=Headers(workload.records.headers.count, workload.records.headers.value_bytes),
        payload=FilePayload(str(payload_file))
        if payload_file
        else GeneratedPayload(workload.records.compress_ratio or 0.0),
        seed=seed,
        producer_config=to_librdkafka("producer", workload.producers.client),
        consumer_config=to_librdkafka("consumer", workload.consumers.client),
    )


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


def refuse_unready(workload: Workload) -> None:
    """Raises UsageError for keys that are part of the format and that nothing carries out yet."""
    unready = {
        "topics.count": workload.topics.count != 1,
        "topics.replication": workload.topics.replication != 1,
        "producers.driver": workload.producers.driver != "client",
        "producers.transactions": workload.producers.transactions is not None,
        "consumers.groups": workload.consumers.groups > 1,
        "consumers.start": workload.consumers.start != "with_load",
        "consumers.pairing": workload.consumers.pairing != "shared",
        "records.keys": workload.records.keys != "none",
        "records.headers": workload.records.headers.count > 0,
        "load.model": workload.load.model != "open",
        "phases.warmup": not isinstance(workload.phases.warmup, int),
        "trials.stop_when": workload.trials.stop_when is not None,
        "checks.delivery": workload.checks.delivery != "at_least_once",
        "checks.order": workload.checks.order != "per_partition",
        "slo": bool(workload.slo),
        "system.kind": workload.system.kind not in ("highwater", "external"),
        "system.nodes": workload.system.nodes != 1,
        "system.source": workload.system.source is not None,
        "storage.probe": workload.storage.probe,
        "host.profile": workload.host.profile != "none",
    }
    for key, used in unready.items():
        if used:
            raise UsageError(f"{key}: what this asks for is not built in yet; leave it at its default")
