"""The storage of one trial: fresh directory, empty cache, limits, a look at the log."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from highwater.bench.results import CacheDrop
from highwater.bench.storage import emulated_hdd, page_cache
from highwater.bench.storage.areas import StorageAreas
from highwater.bench.storage.cluster_storage import cluster_target
from highwater.bench.storage.control_groups import SystemGroup, hierarchies
from highwater.bench.storage.log_files import LogState, log_state
from highwater.bench.storage.targets import describe_target
from highwater.bench.workload.model import Workload
from highwater.tuning.facts import Facts


def log_directories(workload: Workload, areas: StorageAreas) -> tuple[str, ...]:
    """Where on this host the system keeps its log; nowhere when it is an external one."""
    return () if workload.system.kind == "external" else (str(areas.directories[workload.storage.target]),)


class TrialStorage:
    """Enter it before the system starts, leave it after the system ended. Of an external system it is only told.

    target: where the log goes. directories: for the system's data. drop: what became of the host's page cache.
    limit_bytes: of the page cache that the system may use.
    """

    def __init__(self, workload: Workload, trial_id: str, areas: StorageAreas, facts: Facts) -> None:
        """Raises UsageError when an emulated disk is not as slow as it is said to be."""
        self._areas = areas
        self.directories: list[Path] = []
        self.drop: CacheDrop = "kept"
        self.limit_bytes = workload.storage.cache_limit_bytes
        self._drop_wanted = workload.storage.drop_caches == "auto"
        self._group = SystemGroup(hierarchies(facts), None, {})
        if (cluster := workload.system.external) is not None:
            self.target = cluster_target(workload.system.cluster, cluster)
        else:
            host = emulated_hdd.Host(facts)
            path = areas.directories[workload.storage.target]
            emulated_hdd.require_ready(host, path)
            self.target = describe_target(workload.storage.target, path, facts)
            self._group = SystemGroup(hierarchies(facts), self.limit_bytes, emulated_hdd.limits_at(host, path))
            self.directories = [areas.trial_directory(workload.storage.target, trial_id)]

    def __enter__(self) -> TrialStorage:
        try:
            if self._drop_wanted and self.directories:
                self.drop = page_cache.drop_all(self.directories[0])
            self._group.__enter__()
        except BaseException:
            self._release()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._group.__exit__()
        self._release()

    def take(self, process_ids: Sequence[int]) -> None:
        """Hold the system's processes to the limits. Raises UsageError."""
        self._group.take(process_ids)

    def problem(self) -> str | None:
        """One line when a limit is what ended the system."""
        return self._group.problem()

    def look(self, topics: Sequence[str]) -> LogState | None:
        """The log as the load has left it, and then written out; None when there is nothing to look at."""
        return log_state(self.directories, topics, flush=self.target.medium != "memory")

    def _release(self) -> None:
        for directory in self.directories:
            self._areas.release(directory)
