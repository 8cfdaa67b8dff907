"""Records where a run took place: host, kernel, clocks, versions and the tuning check.

What cannot be read is left out or None; that never stops a run.
"""

from __future__ import annotations

import os
import platform
import re
import subprocess
from collections.abc import Iterable, Mapping
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from highwater.common import distribution
from highwater.results.models import Environment, GitState
from highwater.tuning import check
from highwater.tuning.facts.model import Facts
from highwater.tuning.fingerprint import fingerprint
from highwater.tuning.workload import Workload

_SYSCTLS: Final = (
    "fs.file-max",
    "fs.nr_open",
    "kernel.sched_autogroup_enabled",
    "net.core.busy_poll",
    "net.core.netdev_max_backlog",
    "net.core.rmem_default",
    "net.core.rmem_max",
    "net.core.somaxconn",
    "net.core.wmem_default",
    "net.core.wmem_max",
    "net.ipv4.tcp_congestion_control",
    "net.ipv4.tcp_mem",
    "net.ipv4.tcp_rmem",
    "net.ipv4.tcp_slow_start_after_idle",
    "net.ipv4.tcp_wmem",
    "vm.dirty_background_bytes",
    "vm.dirty_background_ratio",
    "vm.dirty_bytes",
    "vm.dirty_expire_centisecs",
    "vm.dirty_ratio",
    "vm.dirty_writeback_centisecs",
    "vm.max_map_count",
    "vm.overcommit_memory",
    "vm.swappiness",
)
_SYSFS: Final = {
    "cpu.governor": "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor",
    "cpu.scaling_driver": "/sys/devices/system/cpu/cpu0/cpufreq/scaling_driver",
    "cpu.no_turbo": "/sys/devices/system/cpu/intel_pstate/no_turbo",
    "cpu.smt": "/sys/devices/system/cpu/smt/control",
    "clock.source": "/sys/devices/system/clocksource/clocksource0/current_clocksource",
    "memory.transparent_hugepage": "/sys/kernel/mm/transparent_hugepage/enabled",
    "memory.numa_nodes": "/sys/devices/system/node/online",
    "cgroup.cpu_max": "/sys/fs/cgroup/cpu.max",
    "cgroup.memory_max": "/sys/fs/cgroup/memory.max",
}
# Left out: these are the same on every host, and most of the text of a knob's report.
_OF_THE_CATALOGUE: Final = ("authorities", "sources", "capability")
_DISTRIBUTIONS: Final = ("pyspark", "confluent-kafka", "hdrhistogram", "numpy")


def describe_environment(
    facts: Facts, launcher_versions: Mapping[str, str], storage_paths: Iterable[Path]
) -> Environment:
    """Describe this host. storage_paths: log directories of the systems, for the check of mount and disk knobs."""
    workload = Workload(data_dirs=tuple(sorted({str(path.resolve()) for path in storage_paths})))
    tuning_fingerprint, tuning_settings = fingerprint(facts, workload.data_dirs)
    return Environment(
        facts={
            **facts.as_json(),
            "machine": platform.machine(),
            "kernel_version": platform.version(),
            "load_average": list(os.getloadavg()),
            "cpus_allowed": len(os.sched_getaffinity(0)),
            "settings": _settings(facts),
            "tuning_fingerprint": tuning_fingerprint,
            "tuning_settings": tuning_settings,
            "sysctl": {name: _read(facts, "/proc/sys/" + name.replace(".", "/")) for name in _SYSCTLS},
            "versions": versions(launcher_versions),
        },
        tuning=[
            {name: value for name, value in report.as_json().items() if name not in _OF_THE_CATALOGUE}
            for report in check.evaluate(facts, workload)
        ],
    )


def versions(launcher_versions: Mapping[str, str]) -> dict[str, str]:
    """Versions of everything that can influence the figures."""
    import confluent_kafka

    # Without load tasks on Spark, nobody needs PySpark.
    found = {name: metadata.version(name) for name in _DISTRIBUTIONS if name != "pyspark" or find_spec(name)}
    found["highwater"] = distribution.version()
    found["python"] = platform.python_version()
    found["librdkafka"] = confluent_kafka.libversion()[0]
    return dict(sorted((found | dict(launcher_versions)).items()))


def git_state(directory: Path) -> GitState | None:
    """Commit and cleanliness of the work tree around `directory`; None outside of one, or without git."""
    try:
        commit = _git(directory, "rev-parse", "HEAD")
        status = _git(directory, "status", "--porcelain", "--untracked-files=no")
    except (OSError, subprocess.SubprocessError):
        return None
    return GitState(commit=commit.strip(), dirty=bool(status.strip()))


def _git(directory: Path, *arguments: str) -> str:
    # Git must not write here: another git command may be running in the same tree.
    command = ["git", "--no-optional-locks", "-C", str(directory), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=10).stdout


def _settings(facts: Facts) -> dict[str, str | None]:
    settings = {name: _read(facts, path) for name, path in _SYSFS.items()}
    if chosen := re.search(r"\[(\w+)\]", settings["memory.transparent_hugepage"] or ""):
        settings["memory.transparent_hugepage"] = chosen[1]
    return settings


def _read(facts: Facts, path: str) -> str | None:
    text = facts.files.read(path).text
    return " ".join(text.split()) if text is not None else None
