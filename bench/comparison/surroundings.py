"""Where a comparison was made, in a few lines: figures of another host, kernel or version are other figures."""

from __future__ import annotations

import os
import platform
import re
import subprocess
from pathlib import Path
from typing import Final

from highwater.bench.environment import git_state
from highwater.bench.native import librdkafka
from highwater.bench.storage import describe_target
from highwater.bench.units import human_bytes
from highwater.tuning.facts import collect

_SYSCTLS: Final = ("vm.dirty_ratio", "vm.dirty_background_ratio", "net.core.rmem_max", "net.core.wmem_max")


def surroundings(storage: Path) -> dict[str, str]:
    facts = collect()
    target = describe_target("storage", storage, facts)
    git = git_state(Path(__file__).parent)
    return {
        "commit": f"{git.commit[:12]}{' and changes' if git.dirty else ''}" if git else "unknown",
        "kernel": facts.kernel_release or "unknown",
        "processors": f"{facts.cpu_count} × {facts.cpu_model}",
        "memory": human_bytes(facts.memory.total_bytes or 0),
        "machine": facts.virtual_machine or facts.container or "bare metal",
        "storage": f"{target.filesystem} on {target.device} ({target.medium}), {','.join(target.mount_options)}",
        "python": platform.python_version(),
        "java": _java_version(),
        "librdkafka": librdkafka.VERSION,
        "load before": " ".join(f"{load:.1f}" for load in os.getloadavg()),
    } | {name: _sysctl(name) for name in _SYSCTLS}


def _sysctl(name: str) -> str:
    try:
        return (Path("/proc/sys") / name.replace(".", "/")).read_text(encoding="ascii").strip()
    except OSError:
        return "unknown"


def _java_version() -> str:
    try:
        printed = subprocess.run(["java", "-version"], capture_output=True, text=True, check=False).stderr
    except OSError:
        return "none"
    match = re.search(r'version "([^"]+)"', printed)
    return match[1] if match else "unknown"
