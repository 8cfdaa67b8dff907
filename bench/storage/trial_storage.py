"""The storage of one trial: fresh directory, empty cache, limits, a look at the log."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from highwater.bench.storage import emulated_hdd, page_cache
from highwater.bench.storage.areas import StorageAreas
from highwater.bench.storage.cluster_storage import cluster_target
from highwater.bench.storage.control_groups import SystemGroup, hierarchies
from highwater.bench.storage.log_files import LogState, log_state
from highwater.bench.storage.targets import describe_target
from highwater.bench.workload.model import Workload
from highwater.bench.workload.system import ClusterUnderTest
from highwater.results.storage import CacheDrop
from highwater.tuning.facts.model import Facts


def log_directories(workload: Workload, areas: StorageAreas) -> tuple[str, ...]:
    """The system's log directories on this host; none for an external system."""
    return () if workload.system.kind == "external" else (str(areas.directories[workload.storage.target]),)


class TrialStorage:
    """The storage of one trial. Enter it before the system starts, leave it after the system has ended.

    target: of the log; the only attribute for an external system. directories: for the system's data. drop: whether the
    host's page cache was dropped. limit_bytes: limit of the system's page cache.
    """

    def __init__(self, workload: Workload, trial_id: str, areas: StorageAreas, facts: Facts) -> None:
        """Raises UsageError when an emulated disk has lost its limits."""
        self._areas = areas
        self.directories: list[Path] = []
        self.drop: CacheDrop = "kept"
        self.limit_bytes = workload.storage.cache_limit_bytes
        self._drop_wanted = workload.storage.drop_caches == "auto"
        self._group = SystemGroup(hierarchies(facts), None, {})
        if isinstance(workload.system, ClusterUnderTest):
            self.target = cluster_target(workload.system.cluster, workload.system.external)
        else:
            host = emulated_hdd.DiskHost(facts)
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
        """Apply the limits to the system's processes. Raises UsageError."""
        self._group.take(process_ids)

    def problem(self) -> str | None:
        """One line when a limit has killed the system."""
        return self._group.problem()

    def look(self, topics: Sequence[str]) -> LogState | None:
        """The state of the log after the load; also writes the log out. None when its files are not here."""
        return log_state(self.directories, topics, flush=self.target.medium != "memory")

    def _release(self) -> None:
        for directory in self.directories:
            self._areas.release(directory)
