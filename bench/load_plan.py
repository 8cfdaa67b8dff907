"""From a cell's workload to the plan that the load generator is given."""

from __future__ import annotations

from pathlib import Path

from bench.client_properties import to_librdkafka
from bench.errors import UsageError
from bench.workload import FixedSize, Workload
from spark_loadgen import FilePayload, GeneratedPayload, LoadPlan


def load_plan_of(
    workload: Workload, *, bootstrap_servers: str, topic: str, payload_file: Path | None, seed: int
) -> LoadPlan:
    """payload_file: absolute path of the workload's payload file, if it names one."""
    refuse_unready(workload)
    size = workload.records.size
    assert size is None or isinstance(size, FixedSize)
    assert isinstance(workload.phases.warmup, int)
    return LoadPlan(
        bootstrap_servers=bootstrap_servers,
        topic=topic,
        partitions=workload.topics.partitions,
        producers=workload.producers.count,
        consumers=workload.consumers.count,
        rate_per_s=workload.load.steps[0].rate_per_s,
        warmup_s=workload.phases.warmup,
        measure_s=workload.phases.measure_s,
        drain_max_s=workload.phases.drain_max_s,
        record_bytes=size.size_bytes if size else None,
        payload=FilePayload(str(payload_file))
        if payload_file
        else GeneratedPayload(workload.records.compress_ratio or 0.0),
        seed=seed,
        producer_config=to_librdkafka("producer", workload.producers.client),
        consumer_config=to_librdkafka("consumer", workload.consumers.client),
    )


def refuse_unready(workload: Workload) -> None:
    """Raises UsageError for keys that are part of the format and that nothing carries out yet."""
    unready = {
        "variants": bool(workload.variants),
        "topics.count": workload.topics.count != 1,
        "topics.replication": workload.topics.replication != 1,
        "producers.driver": workload.producers.driver != "client",
        "producers.transactions": workload.producers.transactions is not None,
        "consumers.groups": workload.consumers.groups > 1,
        "consumers.start": workload.consumers.start != "with_load",
        "consumers.pairing": workload.consumers.pairing != "shared",
        "records.size": not isinstance(workload.records.size, FixedSize | None),
        "records.keys": workload.records.keys != "none",
        "records.headers": workload.records.headers.count > 0,
        "load.model": workload.load.model != "open",
        "load.arrival": workload.load.arrival != "uniform",
        "load.schedule": workload.load.schedule is not None,
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
