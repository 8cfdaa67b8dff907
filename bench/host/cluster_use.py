"""Means of a trial for each host of a cluster and for the system, from their samples."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from highwater.bench.host.use import host_use
from highwater.bench.storage.cluster_storage import target_of
from highwater.bench.workload.clusters import ClusterHost
from highwater.results.cluster import ClusterHostUse
from highwater.results.host import HostSample, HostUse
from highwater.results.models import Phase

# Share of a core that a Spark worker uses without a load task.
_GENERATES_CPU_RATIO = 0.05


def cluster_host_use(
    name: str, described: ClusterHost, samples: Sequence[HostSample], measure: Phase, problem: str | None
) -> ClusterHostUse:
    return ClusterHostUse(
        name=name,
        cpu_count=described.cpus,
        cpu_model=described.cpu_model,
        memory_bytes=described.memory_bytes,
        kernel=described.kernel,
        runs_in=described.runs_in,
        tuning_fingerprint=described.tuning_fingerprint,
        storage=target_of(name, described.storage) if described.storage else None,
        use=host_use(samples, measure.start_s, measure.end_s) if samples else None,
        problem=problem,
    )


def with_cluster(host: HostUse, cluster: Sequence[ClusterHostUse]) -> HostUse:
    """The use of the system over all its hosts; a sum is None when a host has not reported."""
    if not cluster:
        return host
    uses = [item.use for item in cluster]

    def total(read: Callable[[HostUse], float | None]) -> float | None:
        known = [value for use in uses if use is not None and (value := read(use)) is not None]
        return sum(known) if len(known) == len(uses) else None

    rss_bytes = total(lambda use: use.system_rss_bytes)
    return host.model_copy(
        update={
            "system_cpu_ratio": total(lambda use: use.system_cpu_ratio),
            "system_rss_bytes": None if rss_bytes is None else round(rss_bytes),
        }
    )


def shared_cpu_ratio(cluster: Sequence[ClusterHostUse]) -> float | None:
    """CPU use of the busiest host with both brokers and load tasks, over all its CPUs; None when no host has both."""
    shared = [
        item.use.cpu_ratio
        for item in cluster
        if item.use is not None and (item.use.generator_cpu_ratio or 0.0) > _GENERATES_CPU_RATIO
    ]
    return max(shared, default=None)


def steal_ratio(host: HostUse, cluster: Sequence[ClusterHostUse]) -> float | None:
    """The largest steal ratio of all hosts that report one."""
    uses = [host, *(item.use for item in cluster if item.use is not None)]
    return max((use.steal_ratio for use in uses if use.steal_ratio is not None), default=None)
